//! Publishes the gateway's facts as annotation `netloom.io/gateway` of this Node. The Node is watched, so that an
//! annotation that was lost (the Node was registered anew) is written again, and nothing is written that is there.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node as KubernetesNode;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;
use tracing::{info, warn};

use super::EXTERNAL_BRIDGE;
use super::facts::Facts;
use crate::converge::Converge;
use crate::node::Node;

const ANNOTATION: &str = "netloom.io/gateway";

/// What the Node object says, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Observed {
    /// The Node does not exist, or nothing is known yet.
    #[default]
    Absent,
    /// It exists, with or without the annotation.
    Present(Option<String>),
}

/// Keeps the annotation as it should be.
pub struct Annotation {
    node: Arc<Node>,
    nodes: Api<KubernetesNode>,
    observed: watch::Receiver<Observed>,
    kernel: watch::Receiver<u64>,
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

impl Annotation {
    /// The publisher, and the future that watches the Node.
    pub fn new(node: Arc<Node>, client: kube::Client, kernel: watch::Receiver<u64>) -> (Self, impl Future<Output = ()>) {
        let nodes: Api<KubernetesNode> = Api::all(client);
        let (sender, observed) = watch::channel(Observed::default());
        let watching = observe(nodes.clone(), node.name.clone(), sender);
        (
            Self {
                node,
                nodes,
                observed,
                kernel,
            },
            watching,
        )
    }
}

async fn observe(nodes: Api<KubernetesNode>, name: String, sender: watch::Sender<Observed>) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher(nodes, config).default_backoff().boxed();
    while let Some(event) = events.next().await {
        let observed = match event {
            Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) => {
                Observed::Present(node.metadata.annotations.and_then(|mut all| all.remove(ANNOTATION)))
            }
            Ok(watcher::Event::Delete(_)) => Observed::Absent,
            Ok(watcher::Event::Init | watcher::Event::InitDone) => continue,
            Err(error) => {
                warn!(%error, "cannot watch this node in the Kubernetes API");
                continue;
            }
        };
        sender.send_if_modified(|current| {
            let changed = *current != observed;
            *current = observed;
            changed
        });
    }
}

impl Converge for Annotation {
    const NAME: &'static str = "gateway annotation";

    async fn woken(&mut self) {
        let changed = tokio::select! {
            changed = self.observed.changed() => changed,
            changed = self.kernel.changed() => changed,
        };
        if changed.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let Observed::Present(published) = self.observed.borrow().clone() else {
            return Ok(());
        };
        let Some(facts) = Facts::read(&self.node.netlink, EXTERNAL_BRIDGE).await? else {
            return Ok(());
        };
        let wanted = serde_json::to_string(&facts)?;
        if published.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let patch = serde_json::json!({ "metadata": { "annotations": { ANNOTATION: wanted } } });
        self.nodes
            .patch(&self.node.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("annotate node {}", self.node.name))?;
        info!(gateway = wanted, "gateway published");
        Ok(())
    }
}
