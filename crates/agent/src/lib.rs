//! The node agent: it serves CNI, plugs pods into Open vSwitch, and runs the node's own ports, its gateway and
//! the node's side of services.
//!
//! ```text
//! netloom-cni ──► cni (attach, detach, check, status) ──► net     links, addresses, routes, fence, guard
//!                   │ waits on                       └──► switch  local OVS database
//!                   └──► southbound  ports of this chassis
//! host_port, gateway, services, published, machines, guards ── converge ──► the same, whenever something they depend on changes
//! set_up, uplink, install, readiness ── converge, if asked for ──► the node itself, from an empty switch to pods
//! removal ── takes all of it away again
//! ```
//!
//! It keeps no files: the `external_ids` of OVS interfaces are the record of what is attached, so stopping, killing or
//! upgrading the agent changes nothing for pods that run. Every wait is on an event of a database or of the kernel.

pub mod assignment;
pub mod certificate;
pub mod cni;
pub mod databases;
mod directory;
pub mod gateway;
mod guards;
mod health;
mod host_port;
pub mod install;
mod machines;
pub mod metrics;
pub mod mirror;
pub mod net;
mod node;
mod own_node;
pub mod policy_log;
mod published;
mod readiness;
mod removal;
mod services;
pub mod set_up;
mod southbound;
pub mod switch;
pub mod uplink;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use netloom_ovsdb::{Remotes, Tls};
use netloom_retry::converge;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::certificate::NodeCertificate;
use crate::databases::Southbound;
use crate::gateway::annotation::Annotation;
use crate::guards::Guards;
use crate::host_port::{HostPort, Role};
use crate::install::{Files, Install};
use crate::machines::Machines;
use crate::node::{Busy, Node, Underlay};
use crate::own_node::OwnNodeApi;
use crate::published::Published;
use crate::readiness::Readiness;
use crate::removal::Removal;
use crate::removal::clean::Scope;
use crate::services::Services;
use crate::services::health_check::HealthChecks;
use crate::set_up::{Datapath, SetUp};
use crate::uplink::{Choice, Uplink};

pub use own_node::connect as connect_to_kubernetes;

/// What the agent must be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name in Kubernetes, which is also its OVN chassis name (`external_ids:system-id`).
    pub node: String,
    /// Remotes of the local Open vSwitch database, as `unix:/run/openvswitch/db.sock`.
    pub ovs: String,
    /// The servers of the OVN Southbound database.
    pub southbound: Southbound,
    /// Certificates for `ssl:` remotes.
    pub tls: Option<Tls>,
    /// Where this node's own certificate is kept, if the agent is to ask for one.
    pub certificate: Option<certificate::Directories>,
    /// Kubeconfig for the API server; without one the agent uses its pod's service account, if it runs in a pod.
    pub kubeconfig: Option<PathBuf>,
    /// Where `netloom-cni` finds the agent.
    pub socket: PathBuf,
    /// Where to serve `/healthz`, `/readyz` and `/metrics`.
    pub health: Option<SocketAddr>,
    /// Where ovn-controller tells verdicts of policies that are to be logged.
    pub policy_log: Option<SocketAddr>,
    /// MTU of pods, instead of the one derived from the underlay.
    pub mtu: Option<u32>,
    /// How long an ADD waits for its logical port, and again for OVN to install it.
    pub deadline: Duration,
    /// Where vswitchd has its management sockets; by default the directory of a `unix:` remote in `ovs`.
    pub ovs_run_directory: Option<PathBuf>,
    /// Where ovn-controller has its management socket.
    pub ovn_run_directory: PathBuf,
    /// The node's own address: where tunnels end, and by which the uplink is found.
    pub node_ip: Option<IpAddr>,
    /// Whether the agent sets the switch up for OVN; otherwise somebody else has.
    pub set_up_switch: bool,
    /// The device that is given to br-ex.
    pub uplink: Choice,
    /// Where packets are switched.
    pub datapath: Datapath,
    /// The CNI files to install, if the agent is to do that.
    pub cni_files: Option<Files>,
    /// A directory whose contents are deleted when Netloom is removed from the node.
    pub state_directory: Option<PathBuf>,
}

impl Options {
    /// The usual options for this node and Southbound database.
    pub fn new(node: impl Into<String>, southbound: Southbound) -> Self {
        Self {
            node: node.into(),
            ovs: "unix:/run/openvswitch/db.sock".to_owned(),
            southbound,
            tls: None,
            certificate: None,
            kubeconfig: None,
            socket: PathBuf::from(netloom_contract::cni::SOCKET),
            health: None,
            policy_log: None,
            mtu: None,
            deadline: Duration::from_secs(60),
            ovs_run_directory: None,
            ovn_run_directory: PathBuf::from("/run/ovn"),
            node_ip: None,
            set_up_switch: false,
            uplink: Choice::None,
            datapath: Datapath::Auto,
            cni_files: None,
            state_directory: None,
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
    // Opened first: a mistake in an address should end the start, not the first request.
    let listener = cni::server::listen(&options.socket)?;
    let health = match options.health {
        Some(address) => Some(health::listen(address).await?),
        None => None,
    };
    let policy_log = match options.policy_log {
        Some(address) => Some(policy_log::listen(address).await?),
        None => None,
    };

    let (kernel, notifications) = net::watch::start()?;
    let (deletions, nftables) = net::nft::watch_deletions()?;
    let (switch, switch_events) = switch::Switch::start(ovs);
    let (southbound, southbound_events) = southbound::Southbound::start(&options.node, options.southbound.clone(), options.tls.clone());
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
        removing: AtomicBool::new(false),
        published: Default::default(),
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
    let logging = async {
        match policy_log {
            Some(socket) => policy_log::run(socket, options.southbound.clone(), options.tls.clone()).await,
            None => std::future::pending().await,
        }
    };
    let client = connect(&options).await;
    let certificate = match (&options.certificate, &client) {
        (Some(directories), Some(client)) => Some(NodeCertificate::new(client.clone(), options.node.clone(), directories.clone())?),
        (Some(_), None) => anyhow::bail!("a certificate of this node cannot be asked for without the Kubernetes API"),
        (None, _) => None,
    };
    let certified = async {
        match certificate {
            Some(certificate) => converge(certificate).await,
            None => std::future::pending().await,
        }
    };
    let (own, watching) = match client {
        Some(client) => {
            let (own, watching) = OwnNodeApi::new(client, options.node.clone());
            (Some(own), futures::future::Either::Left(watching))
        }
        None => (None, futures::future::Either::Right(std::future::pending())),
    };
    let converging = async {
        match own {
            Some(own) => {
                let removal = Removal::new(node.clone(), own.clone(), scope(&options), kernel.clone());
                keep_until_removed(&options, &node, &own, &kernel, &deletions, removal).await;
            }
            None => keep(&options, &node, None, &kernel, &deletions).await,
        }
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
        () = converging => Ok(()),
        () = certified => Err(anyhow::anyhow!("the watch on this node's certificate ended")),
        () = watching => Err(anyhow::anyhow!("the watch on this node ended")),
        outcome = health => outcome,
        outcome = stopping => outcome,
        error = switch_events => Err(error),
        error = southbound_events => Err(error),
        error = notifications => Err(error),
        error = nftables => Err(error),
        error = logging => Err(error),
    }
}

/// Once, as soon as the switch is there: from then on every removal has its own DEL or GC.
async fn sweep(node: &Node) {
    node.switch.until(|state| state.connected.then_some(())).await;
    if let Err(error) = cni::detach::sweep(node).await {
        warn!(%error, "cannot remove the ports of pods that are gone");
    }
}

/// Keeps everything as it should be until Netloom is to be removed from the node, then removes it. Returns when the
/// request to do so is withdrawn.
async fn keep_until_removed(
    options: &Options,
    node: &Arc<Node>,
    own: &OwnNodeApi,
    kernel: &watch::Receiver<u64>,
    deletions: &watch::Receiver<u64>,
    mut removal: Removal,
) {
    // An agent that was restarted on a node it has cleaned must not set it up again: the switch's database remembers.
    node.switch.until(|state| state.connected.then_some(())).await;
    if removal.is_marked() {
        info!("netloom was removed from this node: the agent does nothing");
    } else {
        let keeping = async {
            if let Err(error) = removal::forget(node).await {
                warn!(%error, "cannot forget the removal of an earlier installation");
            }
            keep(options, node, Some(own), kernel, deletions).await;
        };
        tokio::select! {
            () = keeping => {}
            () = removal.requested() => {}
        }
    }
    removal.carry_out().await;
}

/// Keeps everything as it should be, for ever.
async fn keep(
    options: &Options,
    node: &Arc<Node>,
    own: Option<&OwnNodeApi>,
    kernel: &watch::Receiver<u64>,
    deletions: &watch::Receiver<u64>,
) {
    let set_up = async {
        if options.set_up_switch {
            let external_bridge = options.uplink == Choice::None;
            let (encap, southbound) = (options.node_ip, options.southbound.clone());
            let set_up = SetUp::new(node.clone(), encap, options.datapath, external_bridge, southbound, kernel.clone());
            converge(set_up).await;
        }
    };
    let uplink = async {
        if options.uplink != Choice::None {
            let (choice, address) = (options.uplink.clone(), options.node_ip);
            let uplink = Uplink::new(
                node.clone(),
                choice,
                address,
                options.datapath,
                options.set_up_switch,
                kernel.clone(),
                deletions.clone(),
            );
            converge(uplink).await;
        }
    };
    let install = async {
        if let Some(files) = &options.cni_files {
            converge(Install::new(node.clone(), files.clone())).await;
        }
    };
    let publish = async {
        if let Some(own) = own {
            tokio::join!(
                converge(Annotation::new(node.clone(), own.clone(), kernel.clone())),
                converge(Readiness::new(node.clone(), own.clone())),
            );
        }
    };
    tokio::join!(
        sweep(node),
        set_up,
        uplink,
        install,
        publish,
        converge(HostPort::new(node.clone(), Role::Management, kernel.clone())),
        converge(HostPort::new(node.clone(), Role::Service, kernel.clone())),
        converge(gateway::Gateway::new(node.clone(), options.run_directory(), kernel.clone())),
        converge(Services::new(node.clone(), kernel.clone(), deletions.clone())),
        converge(Published::new(node.clone(), kernel.clone(), deletions.clone())),
        converge(HealthChecks::new(node.clone())),
        converge(Machines::new(node.clone())),
        converge(Guards::new(node.clone(), deletions.clone())),
    );
}

fn scope(options: &Options) -> Scope {
    Scope {
        files: options.cni_files.clone(),
        set_up: options.set_up_switch,
        ovn_run_directory: options.ovn_run_directory.clone(),
        state_directory: options.state_directory.clone(),
    }
}

/// A client for the API server, if there is one: to publish the gateway and readiness, and to hear of a removal.
async fn connect(options: &Options) -> Option<kube::Client> {
    match own_node::connect(options.kubeconfig.as_deref()).await {
        Ok(None) => {
            warn!("no kubeconfig and not in a pod: the gateway is not published, pods will not reach the outside");
            None
        }
        Ok(client) => client,
        Err(error) => {
            warn!(
                error = format!("{error:#}"),
                "cannot use the Kubernetes API: the gateway is not published"
            );
            None
        }
    }
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
