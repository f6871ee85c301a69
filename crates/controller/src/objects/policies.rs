//! Namespaces, networks, network policies, security groups and the names of containers' ports, as they are read.

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::ObjectMeta;
use netloom_network::cluster::NamedPort;
use netloom_network::policy::NetworkPolicySpec;
use netloom_network::security_group::SecurityGroupSpec;
use netloom_network::service::Protocol;
use netloom_network::{CustomNetwork, Namespace, NetworkPolicy, Object, SecurityGroup, manifest};
use serde::Deserialize;
use serde_json::Value;

use super::{Reduce, named, resource};

/// A namespace, reduced to its labels and annotations.
#[derive(Clone, Debug, Deserialize)]
pub struct NamespaceObject {
    metadata: ObjectMeta,
}

/// A network policy.
#[derive(Clone, Debug, Deserialize)]
pub struct NetworkPolicyObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: NetworkPolicySpec,
}

/// A security group, as in `deploy/chart/crds/securitygroups.yaml`.
#[derive(Clone, Debug, Deserialize)]
pub struct SecurityGroupObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: SecurityGroupSpec,
}

/// A network that users define, as in `deploy/chart/crds/networks.yaml`.
#[derive(Clone, Debug, Deserialize)]
pub struct NetworkObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

/// A container, reduced to its ports.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    restart_policy: Option<String>,
    ports: Vec<ContainerPort>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerPort {
    name: Option<String>,
    protocol: Option<String>,
    container_port: i64,
}

resource!(NamespaceObject, ClusterResourceScope, "", "v1", "Namespace", "namespaces");
resource!(
    NetworkPolicyObject,
    NamespaceResourceScope,
    "networking.k8s.io",
    "v1",
    "NetworkPolicy",
    "networkpolicies"
);

resource!(
    SecurityGroupObject,
    NamespaceResourceScope,
    "netloom.io",
    "v1alpha1",
    "SecurityGroup",
    "securitygroups"
);

resource!(NetworkObject, ClusterResourceScope, "netloom.io", "v1alpha1", "Network", "networks");

impl Reduce for NetworkObject {
    fn reduce(self) -> Option<Object> {
        let network = CustomNetwork {
            uid: self.metadata.uid.unwrap_or_default(),
            spec: self.spec,
        };
        Some(Object::CustomNetwork(self.metadata.name.unwrap_or_default(), network))
    }
}

impl Reduce for SecurityGroupObject {
    fn reduce(self) -> Option<Object> {
        let group = SecurityGroup {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            spec: self.spec,
        };
        Some(Object::SecurityGroup(named(self.metadata), group))
    }
}

impl Reduce for NamespaceObject {
    fn reduce(self) -> Option<Object> {
        let metadata = self.metadata;
        let name = metadata.name.unwrap_or_default();
        let namespace = Namespace::new(&name, metadata.uid.unwrap_or_default(), metadata.labels.unwrap_or_default());
        let annotations = manifest::relevant(metadata.annotations.unwrap_or_default());
        Some(Object::Namespace(name, namespace.annotated(annotations)))
    }
}

impl Reduce for NetworkPolicyObject {
    fn reduce(self) -> Option<Object> {
        let policy = NetworkPolicy {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            spec: self.spec,
        };
        Some(Object::NetworkPolicy(named(self.metadata), policy))
    }
}

/// Ports with a name, of the containers that run as long as the pod does.
pub(super) fn named_ports(containers: Vec<Container>, init: Vec<Container>) -> Vec<NamedPort> {
    let sidecars = init
        .into_iter()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let ports = containers.into_iter().chain(sidecars).flat_map(|container| container.ports);
    let named = ports.filter_map(|port| {
        Some(NamedPort {
            name: port.name.filter(|name| !name.is_empty())?,
            protocol: Protocol::parse(port.protocol.as_deref().unwrap_or_default())?,
            number: u16::try_from(port.container_port).ok()?,
        })
    });
    named.collect()
}
