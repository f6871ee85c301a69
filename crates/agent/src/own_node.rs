//! This node in the Kubernetes API: one watch on its own Node object, shared by all who read or change it (the gateway's
//! annotation, readiness, removal). They see only what concerns them, so a kubelet's heartbeats wake nobody.

use std::path::Path;

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node as KubernetesNode, Taint};
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use netloom_contract::annotation::{GATEWAY, REMOVE, REMOVED};
use tokio::sync::watch;
use tracing::warn;

/// What the Node object says, as far as it is known.
#[derive(Clone, Debug, Default)]
pub enum Observed {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// The Node does not exist.
    Absent,
    /// It exists.
    Present(Box<OwnNode>),
}

/// The parts of the Node object that concern the agent.
#[derive(Clone, Debug, Default)]
pub struct OwnNode {
    /// The annotation [`GATEWAY`].
    pub gateway: Option<String>,
    /// The annotation [`REMOVE`].
    pub remove: Option<String>,
    /// The annotation [`REMOVED`].
    pub removed: Option<String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// The version this was read from; not part of any comparison.
    pub version: Option<String>,
}

impl PartialEq for OwnNode {
    fn eq(&self, other: &Self) -> bool {
        (&self.gateway, &self.remove, &self.removed, &self.taints) == (&other.gateway, &other.remove, &other.removed, &other.taints)
    }
}

/// Reads and changes this node's object.
#[derive(Clone)]
pub struct OwnNodeApi {
    /// A client for everything else.
    pub client: kube::Client,
    /// The Node's name.
    pub name: String,
    observed: watch::Receiver<Observed>,
}

/// A client for the API server: by kubeconfig, or as a pod; none if the agent is neither given one nor in a pod.
pub async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Option<kube::Client>> {
    let mut config = match kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("read kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("use kubeconfig {}", path.display()))?
        }
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
            kube::Config::incluster().context("use the pod's service account")?
        }
        None => return Ok(None),
    };
    // A server without TLS (the lab's) must not depend on the certificates that happen to be installed on the node.
    if config.cluster_url.scheme_str() == Some("http") {
        config.root_cert.get_or_insert_default();
    }
    Ok(Some(kube::Client::try_from(config).context("make a Kubernetes client")?))
}

impl OwnNodeApi {
    /// The node, and the future that watches it.
    pub fn new(client: kube::Client, name: String) -> (Self, impl Future<Output = ()> + use<>) {
        let (sender, observed) = watch::channel(Observed::default());
        let watching = observe(Api::all(client.clone()), name.clone(), sender);
        let node = Self { client, name, observed };
        (node, watching)
    }

    /// What it says now.
    pub fn read(&self) -> Observed {
        self.observed.borrow().clone()
    }

    /// Waits until it says something else. Safe to cancel.
    pub async fn changed(&mut self) {
        // The watch ends only with the process.
        if self.observed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Changes it by a merge patch.
    pub async fn patch(&self, patch: serde_json::Value) -> kube::Result<()> {
        let nodes: Api<KubernetesNode> = Api::all(self.client.clone());
        nodes
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(drop)
    }

    /// Sets annotations, or removes those without a value.
    pub async fn annotate(&self, annotations: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
        let annotations: serde_json::Map<String, serde_json::Value> = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).into()))
            .collect();
        self.patch(serde_json::json!({ "metadata": { "annotations": annotations } }))
            .await
            .with_context(|| format!("annotate node {}", self.name))
    }
}

async fn observe(nodes: Api<KubernetesNode>, name: String, sender: watch::Sender<Observed>) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher(nodes, config).default_backoff().boxed();
    let mut listed = false;
    while let Some(event) = events.next().await {
        let observed = match event {
            Ok(watcher::Event::Apply(node)) => Observed::Present(Box::new(own(node))),
            Ok(watcher::Event::InitApply(node)) => {
                listed = true;
                Observed::Present(Box::new(own(node)))
            }
            Ok(watcher::Event::Init) => {
                listed = false;
                continue;
            }
            Ok(watcher::Event::InitDone) if listed => continue,
            Ok(watcher::Event::Delete(_) | watcher::Event::InitDone) => Observed::Absent,
            Err(error) => {
                warn!(%error, "cannot watch this node in the Kubernetes API");
                continue;
            }
        };
        sender.send_if_modified(|current| {
            let changed = match (&*current, &observed) {
                (Observed::Present(old), Observed::Present(new)) => old != new,
                (Observed::Unknown, Observed::Unknown) | (Observed::Absent, Observed::Absent) => false,
                _ => true,
            };
            *current = observed;
            changed
        });
    }
}

fn own(node: KubernetesNode) -> OwnNode {
    let mut annotations = node.metadata.annotations.unwrap_or_default();
    OwnNode {
        gateway: annotations.remove(GATEWAY),
        remove: annotations.remove(REMOVE),
        removed: annotations.remove(REMOVED),
        taints: node.spec.and_then(|spec| spec.taints).unwrap_or_default(),
        version: node.metadata.resource_version,
    }
}
