//! The node agent: it serves CNI, plugs pods into Open vSwitch, and runs the node's own ports, its gateway and
//! the node's side of services.
//!
//! ```text
//! netloom-cni ──► cni (attach, detach, check, status) ──► net     links, addresses, routes, fence
//!                   │ waits on                       └──► switch  local OVS database
//!                   └──► southbound  ports of this chassis
//! host_port, gateway, services ── converge ──► the same, whenever something they depend on changes
//! ```
//!
//! It keeps no files: the `external_ids` of OVS interfaces are the record of what is attached, so stopping, killing or
//! upgrading the agent changes nothing for pods that run. Every wait is on an event of a database or of the kernel.

pub mod assignment;
pub mod cni;
mod converge;
pub mod gateway;
mod health;
mod host_port;
pub mod metrics;
pub mod mirror;
pub mod net;
mod node;
mod services;
mod southbound;
pub mod switch;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use netloom_ovsdb::{Remotes, Tls};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::gateway::annotation::{self, Annotation};
use crate::host_port::{HostPort, Role};
use crate::node::{Busy, Node, Underlay};
use crate::services::Services;
use crate::services::health_check::HealthChecks;

/// What the agent must be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name in Kubernetes, which is also its OVN chassis name (`external_ids:system-id`).
    pub node: String,
    /// Remotes of the local Open vSwitch database, as `unix:/run/openvswitch/db.sock`.
    pub ovs: String,
    /// Remotes of the OVN Southbound database, comma separated.
    pub southbound: String,
    /// Certificates for `ssl:` remotes.
    pub tls: Option<Tls>,
    /// Kubeconfig for the API server; without one the agent uses its pod's service account, if it runs in a pod.
    pub kubeconfig: Option<PathBuf>,
    /// Where `netloom-cni` finds the agent.
    pub socket: PathBuf,
    /// Where to serve `/healthz`, `/readyz` and `/metrics`.
    pub health: Option<SocketAddr>,
    /// MTU of pods, instead of the one derived from the underlay.
    pub mtu: Option<u32>,
    /// How long an ADD waits for its logical port, and again for OVN to install it.
    pub deadline: Duration,
    /// Where vswitchd has its management sockets; by default the directory of a `unix:` remote in `ovs`.
    pub ovs_run_directory: Option<PathBuf>,
}

impl Options {
    /// The usual options for this node and Southbound database.
    pub fn new(node: impl Into<String>, southbound: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            ovs: "unix:/run/openvswitch/db.sock".to_owned(),
            southbound: southbound.into(),
            tls: None,
            kubeconfig: None,
            socket: PathBuf::from("/run/netloom/cni.sock"),
            health: None,
            mtu: None,
            deadline: Duration::from_secs(60),
            ovs_run_directory: None,
        }
    }

    fn run_directory(&self) -> PathBuf {
        self.ovs_run_directory.clone().unwrap_or_else(|| {
            let socket = self.ovs.split(',').find_map(|remote| remote.trim().strip_prefix("unix:"));
            let directory = socket.and_then(|socket| Path::new(socket).parent());
            directory.unwrap_or(Path::new("/run/openvswitch")).to_owned()
        })
    }
}

/// Runs the agent until it is told to stop (SIGTERM, SIGINT) or one of its parts fails.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let ovs: Remotes = options.ovs.parse().context("read the remotes of the local switch")?;
    let southbound: Remotes = options.southbound.parse().context("read the remotes of the southbound database")?;
    // Opened first: a mistake in an address should end the start, not the first request.
    let listener = cni::server::listen(&options.socket)?;
    let health = match options.health {
        Some(address) => Some(health::listen(address).await?),
        None => None,
    };

    let (kernel, notifications) = net::watch::start()?;
    let (deletions, nftables) = net::nft::watch_deletions()?;
    let (switch, switch_events) = switch::Switch::start(ovs);
    let (southbound, southbound_events) = southbound::Southbound::start(&options.node, southbound, options.tls.clone());
    let node = Arc::new(Node {
        name: options.node.clone(),
        switch,
        southbound,
        netlink: net::netlink::Netlink::here()?,
        metrics: metrics::Metrics::default(),
        deadline: options.deadline,
        mtu: options.mtu,
        underlay: Underlay::new(kernel.clone()),
        busy: Busy::default(),
    });
    info!(node = options.node, socket = %options.socket.display(), "agent started");

    let stop = CancellationToken::new();
    let serving = cni::server::serve(node.clone(), listener, stop.clone());
    let health = async {
        if let Some(listener) = health {
            health::serve(node.clone(), listener, stop.clone()).await?;
        }
        // It ends because of `stop`; the end of the agent is up to the requests at hand.
        std::future::pending::<anyhow::Result<()>>().await
    };
    let converging = async {
        tokio::join!(
            sweep(&node),
            converge::converge(HostPort::new(node.clone(), Role::Management, kernel.clone())),
            converge::converge(HostPort::new(node.clone(), Role::Service, kernel.clone())),
            converge::converge(gateway::Gateway::new(node.clone(), options.run_directory(), kernel.clone())),
            converge::converge(Services::new(node.clone(), kernel.clone(), deletions)),
            converge::converge(HealthChecks::new(node.clone())),
            publish(&options, node.clone(), kernel.clone()),
        );
    };
    let stopping = async {
        wait_for_signal().await?;
        info!("stopping");
        stop.cancel();
        // From here `serving` ends by itself, once the requests at hand are answered.
        std::future::pending::<anyhow::Result<()>>().await
    };
    tokio::select! {
        () = serving => Ok(()),
        () = converging => Err(anyhow::anyhow!("the agent's loops ended")),
        outcome = health => outcome,
        outcome = stopping => outcome,
        error = switch_events => Err(error),
        error = southbound_events => Err(error),
        error = notifications => Err(error),
        error = nftables => Err(error),
    }
}

/// Once, as soon as the switch is there: from then on every removal has its own DEL or GC.
async fn sweep(node: &Node) {
    node.switch.until(|state| state.connected.then_some(())).await;
    if let Err(error) = cni::detach::sweep(node).await {
        warn!(%error, "cannot remove the ports of pods that are gone");
    }
}

/// Publishes the gateway's facts, if there is an API server to publish them to.
async fn publish(options: &Options, node: Arc<Node>, kernel: tokio::sync::watch::Receiver<u64>) {
    match annotation::connect(options.kubeconfig.as_deref()).await {
        Ok(Some(client)) => {
            let (annotation, watching) = Annotation::new(node, client, kernel);
            tokio::join!(converge::converge(annotation), watching);
        }
        Ok(None) => {
            warn!("no kubeconfig and not in a pod: the gateway is not published, pods will not reach the outside");
        }
        Err(error) => warn!(
            error = format!("{error:#}"),
            "cannot use the Kubernetes API: the gateway is not published"
        ),
    }
    std::future::pending().await
}

async fn wait_for_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
