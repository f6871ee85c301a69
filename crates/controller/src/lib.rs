//! The controller: watches Kubernetes, plans the network, commits it to the OVN Northbound database.
//!
//! ```text
//! watch ──changes──► sync ──transaction──► OVN Northbound
//!                     │ ▲──────updates─────────┘
//!                     └──findings──► report ──► Events, conditions, annotations, addresses of services
//! certificates ──► Secrets, and the files the connection is made with
//! ```
//!
//! `sync` is the only writer and holds all state; everything else feeds it or tells about it. Of several controllers one is active:
//! the one that holds the database's lock, which every transaction asserts.

mod api;
pub mod certificates;
mod findings;
mod health;
mod metrics;
mod report;
mod sync;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use netloom_discovery::{Database, Service};
use netloom_ovsdb::client::{Client, Options as OvsdbOptions, Tls};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use api::{is_unknown, list, read_cluster, resource};
pub use sync::{LOCK, monitored_tables};

/// What a controller needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Kubeconfig file; without one the in-cluster configuration is used.
    pub kubeconfig: Option<PathBuf>,
    /// Northbound remotes, e.g. `tcp:172.30.0.1:6641`.
    pub northbound: String,
    /// The Service whose endpoints are the database's members, instead of `northbound`.
    pub databases: Option<Service>,
    /// After this long without a sign of life the database is probed; after as long again it is given up.
    pub probe: Duration,
    /// How many operations a transaction may have; what differs by more is committed in several.
    pub largest_commit: usize,
    /// Where to serve `/metrics`, `/healthz` and `/readyz`.
    pub http: Option<SocketAddr>,
    /// Certificates for `ssl:` remotes.
    pub tls: Option<Tls>,
    /// Whether and how to issue the certificates of all parts.
    pub certificates: Option<certificates::Options>,
}

/// Runs until `stop`; returns an error when a part that must not die has died.
pub async fn run(options: Options, stop: CancellationToken) -> Result<()> {
    let client = kubernetes(options.kubeconfig.as_deref()).await?;
    let metrics = Arc::new(metrics::Metrics::default());
    let (issued, ready) = tokio::sync::watch::channel(options.certificates.is_none());
    let issuing = async {
        match &options.certificates {
            Some(certificates) => certificates::run(client.clone(), certificates.clone(), issued).await,
            None => std::future::pending().await,
        }
    };
    let health = async {
        match options.http {
            Some(address) => health::serve(address, Arc::clone(&metrics)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = issuing => ended.context("issue certificates"),
        ended = control(&client, &options, &metrics, ready) => ended,
        ended = health => ended.context("serve health and metrics"),
    }
}

/// Watches, plans and commits, as soon as there are certificates to connect with.
async fn control(
    client: &kube::Client,
    options: &Options,
    metrics: &Arc<metrics::Metrics>,
    mut certificates: tokio::sync::watch::Receiver<bool>,
) -> Result<()> {
    certificates.wait_for(|issued| *issued).await.context("wait for certificates")?;
    let mut members = options
        .databases
        .clone()
        .map(|service| netloom_discovery::watch(client.clone(), service));
    let remotes = match &mut members {
        None => options.northbound.parse().context("read the northbound remotes")?,
        Some(members) => {
            let members = netloom_discovery::known(members).await;
            let remotes = members.remotes(Database::Northbound, options.tls.is_some());
            remotes.context("find the Northbound database's members")?
        }
    };
    let mut ovsdb = OvsdbOptions::new(remotes, Database::Northbound.name());
    ovsdb.monitor = monitored_tables();
    ovsdb.lock = Some(LOCK.to_owned());
    ovsdb.leader_only = true;
    ovsdb.tls = options.tls.clone();
    ovsdb.probe = options.probe;
    let (northbound, events) = Client::start(ovsdb);
    let follow = async {
        match members {
            Some(members) => netloom_discovery::follow(members, Database::Northbound, options.tls.is_some(), &northbound).await,
            None => std::future::pending().await,
        }
    };

    let (changes, incoming) = mpsc::channel(4096);
    let (findings, reported) = tokio::sync::watch::channel(findings::Findings::default());
    let sync = sync::Sync::new(northbound.clone(), options.largest_commit, Arc::clone(metrics), findings);
    tokio::select! {
        () = follow => bail!("the watch of the databases' members ended"),
        ended = watch::run(client.clone(), changes) => ended.context("watch Kubernetes"),
        ended = sync.run(events, incoming) => ended.context("sync with the Northbound database"),
        () = report::run(client.clone(), reported) => bail!("the report of problems ended"),
    }
}

/// A Kubernetes client from a kubeconfig file, or from the pod's own service account.
pub async fn kubernetes(kubeconfig: Option<&std::path::Path>) -> Result<kube::Client> {
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("read kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .context("use the kubeconfig")?
        }
        None => kube::Config::infer()
            .await
            .context("find a kubeconfig (set KUBECONFIG or pass --kubeconfig)")?,
    };
    kube::Client::try_from(config).context("make a Kubernetes client")
}
