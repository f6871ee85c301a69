//! What the verdict is computed from: manifests, or one list of each kind from the Kubernetes API. What the
//! objects say is read by `netloom-policy` alone, which owes nothing to the reader of the controller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use kube::Client;
use netloom_controller::is_unknown;
use netloom_kubernetes::Kind;
use netloom_policy::Cluster;

use super::super::manifests;

/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads manifests.
pub fn of_manifests(paths: &[PathBuf]) -> Result<Cluster> {
    let mut cluster = Cluster::default();
    for (file, document) in manifests::read(paths)? {
        cluster
            .add_manifest(&document)
            .map_err(|why| anyhow!("{}: {why}", file.display()))?;
    }
    if cluster.pods.is_empty() {
        bail!("there is no pod and no workload in the manifests that were given");
    }
    Ok(cluster)
}

/// A living cluster.
pub struct Living {
    /// What policies see of it.
    pub cluster: Cluster,
    /// kube-proxy translates services, so OVN does not.
    pub kube_proxy: bool,
}

/// Reads a living cluster.
pub async fn of_api(kubeconfig: Option<&Path>) -> Result<Living> {
    let client = netloom_controller::kubernetes(kubeconfig).await?;
    let reading = tokio::time::timeout(PATIENCE, read(&client)).await;
    reading.with_context(|| format!("no answer from the Kubernetes API in {} s", PATIENCE.as_secs()))?
}

async fn read(client: &Client) -> Result<Living> {
    let mut found = Living {
        cluster: Cluster::default(),
        kube_proxy: false,
    };
    // No verdict depends on pools.
    for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::ExternalPool) {
        let mut malformed = Ok(());
        let listed = netloom_controller::list(client, *kind, |object| {
            let mode = object.pointer("/spec/services/mode");
            found.kube_proxy |= *kind == Kind::ClusterNetwork && mode.is_some_and(|mode| mode == "kube-proxy");
            if malformed.is_ok() {
                malformed = found.cluster.add_manifest(&object);
            }
        });
        match listed.await {
            // A cluster need not have the kinds that Kubernetes does not bring along; then there is no object of them.
            Err(error) if kind.resource().definition.is_some() && is_unknown(&error) => {}
            listed => listed.with_context(|| format!("list {}: the verdict needs all of them", kind.resource().plural))?,
        }
        malformed.map_err(|why| anyhow!(why))?;
    }
    Ok(found)
}
