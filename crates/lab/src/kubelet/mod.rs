//! A node's kubelet, as far as a network needs one: pods become network namespaces attached by the real CNI plugin, their containers processes.
//!
//! ```text
//! pod watch ──► one worker per pod ──► sandbox (namespace + CNI) ──► containers (in init) ──► status
//! ```
//!
//! It may be killed at any time: containers live in the node's init, sandboxes are recorded in `/run`, and a new kubelet carries on from there.

mod cni;
mod container;
mod events;
mod exec;
mod files;
mod node;
mod plan;
mod pod;
mod probe;
mod runtime;
mod sandbox;
mod server;
mod status;
mod stop;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use netloom_retry::Backoff;
use tokio::sync::watch;

use self::container::Node;
use self::events::Events;
use self::pod::{Desired, Worker};
use self::runtime::Runtime;
use crate::pods::{RECORDS, records};
use crate::root::SOCKETS;

/// How to run a kubelet.
#[derive(Debug)]
pub struct Options {
    /// Name of the node.
    pub node: String,
    /// Its addresses, first family first.
    pub addresses: Vec<IpAddr>,
    /// How to reach the API server.
    pub kubeconfig: PathBuf,
}

/// What all workers share.
struct Shared {
    client: Client,
    node: Node,
    runtime: Runtime,
    events: Events,
}

/// Runs until something it cannot do without ends; init then starts it again.
pub async fn run(options: Options) -> anyhow::Result<()> {
    std::fs::create_dir_all(RECORDS).with_context(|| format!("creating {RECORDS}"))?;
    let client = crate::cluster::client(&options.kubeconfig).await?;
    let node = Node {
        name: options.node,
        addresses: options.addresses,
    };
    let (runtime, init_ended) = Runtime::connect(Path::new(SOCKETS).join(format!("{}.sock", node.name))).await?;
    let shared = Arc::new(Shared {
        events: Events::new(client.clone(), &node.name),
        client: client.clone(),
        node: node.clone(),
        runtime: runtime.clone(),
    });
    tokio::select! {
        error = init_ended => Err(error).context("watching the node's containers"),
        ended = tokio::spawn(node::run(client, node.clone())) => ended?.context("reporting the node"),
        ended = tokio::spawn(server::run(node.name, runtime)) => ended?.context("serving exec and logs"),
        ended = follow_pods(shared) => ended.context("watching pods"),
    }
}

/// Keeps one worker per pod of this node and tells it what it should be.
async fn follow_pods(shared: Arc<Shared>) -> anyhow::Result<()> {
    let mine = watcher::Config::default().fields(&format!("spec.nodeName={}", shared.node.name));
    let mut events = Box::pin(watcher(Api::<Pod>::all(shared.client.clone()), mine).default_backoff());
    let mut workers: BTreeMap<String, watch::Sender<Desired>> = BTreeMap::new();
    let mut listed = BTreeSet::new();
    loop {
        let event = match events.try_next().await {
            Ok(event) => event.ok_or_else(|| anyhow!("the watch ended"))?,
            Err(error) => {
                // The watcher carries on by itself, after its own back-off.
                tracing::warn!(%error, "watching pods");
                continue;
            }
        };
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(pod) => {
                listed.insert(pod.uid().unwrap_or_default());
                tell(&mut workers, &shared, pod);
            }
            watcher::Event::InitDone => {
                // Pods that went away while nobody watched, under this kubelet or the one before it.
                for record in records(Path::new(RECORDS)) {
                    workers
                        .entry(record.uid.clone())
                        .or_insert_with(|| Worker::spawn(shared.clone(), record.uid, Desired::Gone));
                }
                for (uid, worker) in workers.iter().filter(|(uid, _)| !listed.contains(*uid)) {
                    tracing::info!(uid, "pod is gone");
                    let _ = worker.send(Desired::Gone);
                }
            }
            watcher::Event::Apply(pod) => tell(&mut workers, &shared, pod),
            watcher::Event::Delete(pod) => {
                if let Some(worker) = workers.get(&pod.uid().unwrap_or_default()) {
                    let _ = worker.send(Desired::Gone);
                }
            }
        }
        workers.retain(|_, worker| !worker.is_closed());
    }
}

fn tell(workers: &mut BTreeMap<String, watch::Sender<Desired>>, shared: &Arc<Shared>, pod: Pod) {
    let uid = pod.uid().unwrap_or_default();
    let desired = Desired::Pod(Arc::new(pod));
    match workers.get(&uid) {
        Some(worker) if worker.send(desired.clone()).is_ok() => {}
        _ => drop(workers.insert(uid.clone(), Worker::spawn(shared.clone(), uid, desired))),
    }
}

/// The kubelet's one back-off: for CNI calls that fail and for a node that is not ready.
fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(50), Duration::from_secs(2))
}
