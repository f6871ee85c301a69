//! Kubernetes objects cut down while they are read, so that a large cluster costs little memory: only the fields the network
//! depends on are ever kept.

mod cluster_policies;
mod policies;
mod services;

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use anyhow::{Context as _, Result};
pub use cluster_policies::{AdminNetworkPolicyObject, BaselineAdminNetworkPolicyObject, ClusterNetworkPolicyObject};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Resource};
use netloom_network::cluster::ClusterNetwork;
use netloom_network::port::{self, PortSpec, PortStatus};
use netloom_network::settings::ClusterNetworkSpec;
use netloom_network::{Cluster, ClusterPolicyKind, Namespaced, Node, Object, Pod, PodName, manifest};
pub use policies::{NamespaceObject, NetworkObject, NetworkPolicyObject, SecurityGroupObject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
pub use services::{EndpointSliceObject, ExternalPoolObject, ServiceObject};

use crate::watch::Kind;

/// Nodes with this label announce no external address.
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A pod, reduced.
#[derive(Clone, Debug, Deserialize)]
pub struct PodObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    host_network: bool,
    containers: Vec<policies::Container>,
    init_containers: Vec<policies::Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodIp>,
}

#[derive(Clone, Debug, Deserialize)]
struct PodIp {
    ip: String,
}

/// A machine's port, as in `deploy/chart/crds/ports.yaml`.
#[derive(Clone, Debug, Deserialize)]
pub struct PortObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PortSpec,
    #[serde(default)]
    status: PortStatus,
}

/// A node, reduced.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeObject {
    metadata: ObjectMeta,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    addresses: Vec<NodeAddress>,
    conditions: Vec<NodeCondition>,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeCondition {
    r#type: String,
    status: String,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeAddress {
    r#type: String,
    address: String,
}

/// The cluster's addressing, as in `deploy/chart/crds/clusternetworks.yaml`.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterNetworkObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ClusterNetworkSpec,
}

/// Lets the client read a reduced object where the whole one is served.
macro_rules! resource {
    ($object:ty, $scope:ty, $group:expr, $version:expr, $kind:expr, $plural:expr) => {
        impl kube::Resource for $object {
            type DynamicType = ();
            type Scope = $scope;

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
use resource;

resource!(PodObject, NamespaceResourceScope, "", "v1", "Pod", "pods");
resource!(PortObject, NamespaceResourceScope, "netloom.io", "v1alpha1", "Port", "ports");
resource!(NodeObject, ClusterResourceScope, "", "v1", "Node", "nodes");
resource!(
    ClusterNetworkObject,
    ClusterResourceScope,
    "netloom.io",
    "v1alpha1",
    "ClusterNetwork",
    "clusternetworks"
);

/// What the network sees of a Kubernetes object.
pub trait Reduce {
    /// Labels of the objects to read; all of them unless said otherwise.
    const SELECTOR: &str = "";
    /// Whether the API server may not know the kind: then there is no object of it.
    const OPTIONAL: bool = false;

    /// The object of the pure core; none for one it does not know (a `ClusterNetwork` that is not `default`).
    fn reduce(self) -> Option<Object>;
}

impl Reduce for PodObject {
    fn reduce(self) -> Option<Object> {
        let addresses: Vec<IpAddr> = self.status.pod_ips.iter().filter_map(|entry| entry.ip.parse().ok()).collect();
        let pod = Pod {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            node: self.spec.node_name.filter(|node| !node.is_empty()),
            host_network: self.spec.host_network,
            finished: matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            annotations: manifest::relevant(self.metadata.annotations.clone().unwrap_or_default()),
            labels: self.metadata.labels.clone().unwrap_or_default(),
            ports: policies::named_ports(self.spec.containers, self.spec.init_containers),
            addresses,
        };
        Some(Object::Pod(named(self.metadata), pod))
    }
}

impl Reduce for PortObject {
    fn reduce(self) -> Option<Object> {
        let (metadata, uid) = (&self.metadata, self.metadata.uid.clone().unwrap_or_default());
        let annotations = manifest::relevant(metadata.annotations.clone().unwrap_or_default());
        let labels = metadata.labels.clone().unwrap_or_default();
        let pod = port::as_pod(uid, annotations, labels, self.spec, &self.status);
        Some(Object::Pod(named(self.metadata).of_machine(), pod))
    }
}

impl Reduce for NodeObject {
    fn reduce(self) -> Option<Object> {
        let of_type = |internal: bool| {
            let addresses = self.status.addresses.iter().filter(move |a| (a.r#type == "InternalIP") == internal);
            addresses.filter_map(|a| a.address.parse().ok()).collect()
        };
        let labels = self.metadata.labels.unwrap_or_default();
        let node = Node {
            uid: self.metadata.uid.unwrap_or_default(),
            addresses: of_type(true),
            other_addresses: of_type(false),
            annotations: manifest::relevant(self.metadata.annotations.unwrap_or_default()),
            zone: labels.get(ZONE).filter(|zone| !zone.is_empty()).cloned(),
            ready: self.status.conditions.iter().any(|c| c.r#type == "Ready" && c.status == "True"),
            excluded: labels.contains_key(EXCLUDED),
            labels,
        };
        Some(Object::Node(self.metadata.name.unwrap_or_default(), node))
    }
}

impl Reduce for ClusterNetworkObject {
    fn reduce(self) -> Option<Object> {
        let network = ClusterNetwork {
            uid: self.metadata.uid.unwrap_or_default(),
            spec: self.spec,
        };
        (self.metadata.name.as_deref() == Some("default")).then_some(Object::ClusterNetwork(network))
    }
}

/// Namespace and name.
fn named(metadata: ObjectMeta) -> Namespaced {
    Namespaced {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
    }
}

/// Objects of a kind that a new list does not have any more; only their names are filled in.
pub fn absent(cluster: &Cluster, kind: Kind, present: &[Object]) -> Vec<Object> {
    let present: HashSet<(&str, &str)> = present.iter().map(name).collect();
    let known: Vec<Object> = match kind {
        Kind::ClusterNetwork => cluster.network().cloned().into_iter().map(Object::ClusterNetwork).collect(),
        Kind::Node => only_names(&cluster.nodes, Object::Node),
        Kind::Pod => only_pods(cluster.pods.keys().filter(|name| name.machine().is_none())),
        Kind::Port => only_pods(cluster.machines()),
        Kind::ExternalPool => only_names(&cluster.pools, Object::ExternalPool),
        Kind::Service => only_names(&cluster.services, Object::Service),
        Kind::EndpointSlice => only_names(&cluster.slices, Object::EndpointSlice),
        Kind::Namespace => only_names(&cluster.namespaces, Object::Namespace),
        Kind::NetworkPolicy => only_names(&cluster.policies, Object::NetworkPolicy),
        Kind::AdminNetworkPolicy => cluster_policies::known(cluster, ClusterPolicyKind::Admin),
        Kind::BaselineAdminNetworkPolicy => cluster_policies::known(cluster, ClusterPolicyKind::Baseline),
        Kind::ClusterNetworkPolicy => cluster_policies::known(cluster, ClusterPolicyKind::Cluster),
        Kind::SecurityGroup => only_names(&cluster.security_groups, Object::SecurityGroup),
        Kind::CustomNetwork => only_names(&cluster.custom_networks, Object::CustomNetwork),
    };
    known.into_iter().filter(|object| !present.contains(&name(object))).collect()
}

fn only_names<N: Clone, T: Default>(objects: &BTreeMap<N, T>, object: impl Fn(N, T) -> Object) -> Vec<Object> {
    objects.keys().map(|name| object(name.clone(), T::default())).collect()
}

fn only_pods<'a>(names: impl Iterator<Item = &'a PodName>) -> Vec<Object> {
    names.map(|name| Object::Pod(name.clone(), Pod::default())).collect()
}

fn name(object: &Object) -> (&str, &str) {
    match object {
        Object::ClusterNetwork(_) => ("", "default"),
        Object::Node(name, _) | Object::ExternalPool(name, _) | Object::Namespace(name, _) | Object::CustomNetwork(name, _) => ("", name),
        Object::Pod(name, _)
        | Object::Service(name, _)
        | Object::EndpointSlice(name, _)
        | Object::NetworkPolicy(name, _)
        | Object::SecurityGroup(name, _) => (&name.namespace, &name.name),
        Object::ClusterPolicy(name, _) => (name.kind.as_str(), &name.name),
    }
}

/// Lists everything the network depends on, once: for commands that look and go.
pub async fn read_cluster(client: &kube::Client) -> Result<Vec<Object>> {
    let mut objects = list::<ClusterNetworkObject>(client).await?;
    objects.extend(list::<NodeObject>(client).await?);
    objects.extend(list::<PodObject>(client).await?);
    objects.extend(list::<PortObject>(client).await?);
    objects.extend(list::<ExternalPoolObject>(client).await?);
    objects.extend(list::<ServiceObject>(client).await?);
    objects.extend(list::<EndpointSliceObject>(client).await?);
    objects.extend(list::<NamespaceObject>(client).await?);
    objects.extend(list::<NetworkPolicyObject>(client).await?);
    objects.extend(list::<AdminNetworkPolicyObject>(client).await?);
    objects.extend(list::<BaselineAdminNetworkPolicyObject>(client).await?);
    objects.extend(list::<ClusterNetworkPolicyObject>(client).await?);
    objects.extend(list::<SecurityGroupObject>(client).await?);
    objects.extend(list::<NetworkObject>(client).await?);
    Ok(objects)
}

async fn list<K>(client: &kube::Client) -> Result<Vec<Object>>
where
    K: Resource<DynamicType = ()> + Reduce + Clone + std::fmt::Debug + DeserializeOwned,
{
    let selected = ListParams::default().labels(K::SELECTOR);
    let list = Api::<K>::all(client.clone()).list(&selected).await;
    if K::OPTIONAL && matches!(&list, Err(error) if is_unknown(error)) {
        return Ok(Vec::new());
    }
    let list = list.with_context(|| format!("list {}", K::plural(&())))?;
    Ok(list.items.into_iter().filter_map(Reduce::reduce).collect())
}

/// Whether the API server does not know what was asked for.
pub fn is_unknown(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
