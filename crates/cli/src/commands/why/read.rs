//! What the verdict is computed from: manifests, or one list of each kind from the Kubernetes API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, Resource};
use netloom_policy::{Cluster, ClusterKind};
use serde_json::Value;

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
    let (namespaces, nodes, pods, services, slices, policies) =
        tokio::try_join!(list(client), list(client), list(client), list(client), list(client), list(client))?;
    let (cluster_wide, admin, baseline, groups, networks, ports, settings) = tokio::try_join!(
        list_if_served(
            client,
            ClusterKind::ClusterNetworkPolicy.name(),
            "policy.networking.k8s.io",
            "v1alpha2"
        ),
        list_if_served(
            client,
            ClusterKind::AdminNetworkPolicy.name(),
            "policy.networking.k8s.io",
            "v1alpha1"
        ),
        list_if_served(
            client,
            ClusterKind::BaselineAdminNetworkPolicy.name(),
            "policy.networking.k8s.io",
            "v1alpha1"
        ),
        list_if_served(client, "SecurityGroup", "netloom.io", "v1alpha1"),
        list_if_served(client, "Network", "netloom.io", "v1alpha1"),
        list_if_served(client, "Port", "netloom.io", "v1alpha1"),
        list_if_served(client, "ClusterNetwork", "netloom.io", "v1alpha1"),
    )?;
    let mut cluster = Cluster::default();
    namespaces.iter().for_each(|object| cluster.add_namespace(object));
    nodes.iter().for_each(|object| cluster.add_node(object));
    pods.iter().for_each(|object| cluster.add_pod(object));
    services.iter().for_each(|object| cluster.add_service(object));
    slices.iter().for_each(|object| cluster.add_slice(object));
    policies.iter().for_each(|object| cluster.add_policy(object));
    for object in [cluster_wide, admin, baseline, groups, networks, ports].concat() {
        cluster.add_manifest(&object).map_err(|why| anyhow!(why))?;
    }
    let mode = |settings: &Value| settings.pointer("/spec/services/mode").is_some_and(|mode| mode == "kube-proxy");
    let kube_proxy = settings.iter().any(mode);
    Ok(Living { cluster, kube_proxy })
}

async fn list<K>(client: &Client) -> Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let found = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    let found = found.with_context(|| format!("list {}: the verdict needs all of them", K::plural(&())))?;
    Ok(found.items)
}

/// Objects of a kind that the cluster need not have; then there are none.
async fn list_if_served(client: &Client, kind: &str, group: &str, version: &str) -> Result<Vec<Value>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let found = match api.list(&ListParams::default()).await {
        Ok(found) => found.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error).with_context(|| format!("list {}: the verdict needs all of them", resource.plural)),
    };
    let with_kind = |object: DynamicObject| {
        let mut value = serde_json::to_value(object).with_context(|| format!("read {kind}"))?;
        // Items of a list do not say what they are.
        value["kind"] = kind.into();
        Ok(value)
    };
    found.into_iter().map(with_kind).collect()
}
