//! Kubernetes objects cut down while they are read, so that a large cluster costs little memory: only the fields the network
//! depends on are ever kept.

use std::borrow::Cow;
use std::net::IpAddr;

use anyhow::{Context as _, Result};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Resource};
use netloom_network::cluster::ClusterNetwork;
use netloom_network::settings::ClusterNetworkSpec;
use netloom_network::{Node, Object, Pod, PodName, manifest};
use serde::Deserialize;
use serde::de::DeserializeOwned;

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
}

#[derive(Clone, Debug, Deserialize)]
struct NodeAddress {
    r#type: String,
    address: String,
}

/// The cluster's addressing, as in `deploy/crds/clusternetworks.yaml`.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterNetworkObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ClusterNetworkSpec,
}

/// Lets the client read a reduced object where the whole one is served.
macro_rules! resource {
    ($object:ty, $scope:ty, $group:expr, $version:expr, $kind:expr, $plural:expr) => {
        impl Resource for $object {
            type DynamicType = ();
            type Scope = $scope;

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
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

resource!(PodObject, NamespaceResourceScope, "", "v1", "Pod", "pods");
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
    /// The object of the pure core; none for one it does not know (a `ClusterNetwork` that is not `default`).
    fn reduce(self) -> Option<Object>;
}

impl Reduce for PodObject {
    fn reduce(self) -> Option<Object> {
        let name = PodName {
            namespace: self.metadata.namespace.unwrap_or_default(),
            name: self.metadata.name.unwrap_or_default(),
        };
        let addresses: Vec<IpAddr> = self.status.pod_ips.iter().filter_map(|entry| entry.ip.parse().ok()).collect();
        let pod = Pod {
            uid: self.metadata.uid.unwrap_or_default(),
            node: self.spec.node_name.filter(|node| !node.is_empty()),
            host_network: self.spec.host_network,
            finished: matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            annotations: manifest::relevant(self.metadata.annotations.unwrap_or_default()),
            addresses,
        };
        Some(Object::Pod(name, pod))
    }
}

impl Reduce for NodeObject {
    fn reduce(self) -> Option<Object> {
        let internal = self.status.addresses.iter().filter(|a| a.r#type == "InternalIP");
        let node = Node {
            uid: self.metadata.uid.unwrap_or_default(),
            addresses: internal.filter_map(|a| a.address.parse().ok()).collect(),
            annotations: manifest::relevant(self.metadata.annotations.unwrap_or_default()),
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

/// Lists everything the network depends on, once: for commands that look and go.
pub async fn read_cluster(client: &kube::Client) -> Result<Vec<Object>> {
    let mut objects = list::<ClusterNetworkObject>(client).await.context("list clusternetworks")?;
    objects.extend(list::<NodeObject>(client).await.context("list nodes")?);
    objects.extend(list::<PodObject>(client).await.context("list pods")?);
    Ok(objects)
}

async fn list<K>(client: &kube::Client) -> Result<Vec<Object>, kube::Error>
where
    K: Resource<DynamicType = ()> + Reduce + Clone + std::fmt::Debug + DeserializeOwned,
{
    let list = Api::<K>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(list.items.into_iter().filter_map(Reduce::reduce).collect())
}
