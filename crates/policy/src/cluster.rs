//! A cluster as policies see it. Filled by [`crate::read`] from Kubernetes objects, asked by [`crate::judge`]. Everything is kept by
//! name, so that the order in which objects come leaves no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use crate::app::{self, App};
use crate::cluster_policy::{ClusterPolicy, ClusterPolicyName};
use crate::group::{self, SecurityGroup};
use crate::isolation::{self, Isolation};
use crate::network::Network;
use crate::policy::Policy;
use crate::problem::Problem;
use crate::service::{Service, Slice};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Label the API server gives every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Before the name of a machine's `Port`; no pod's has an underscore.
const MACHINE: &str = "port_";

/// Name of an object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Name {
    /// The namespace.
    pub namespace: String,
    /// The name within it.
    pub name: String,
}

impl Name {
    /// From its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Of the `Port` of a machine, which is judged as a pod is. No pod can have this name.
    pub fn of_machine(namespace: impl Into<String>, port: &str) -> Self {
        Self::new(namespace, format!("{MACHINE}{port}"))
    }

    /// The name of the `Port`, if this is that of a machine.
    pub fn machine(&self) -> Option<&str> {
        self.name.strip_prefix(MACHINE)
    }

    /// What kind of thing has this name among the pods, and its own name.
    pub fn titled(&self) -> String {
        match self.machine() {
            Some(port) => format!("port {}/{port}", self.namespace),
            None => format!("pod {self}"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP
    Tcp,
    /// UDP
    Udp,
    /// SCTP
    Sctp,
}

impl Protocol {
    /// As Kubernetes writes it.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Its labels.
    pub labels: Labels,
    /// How far it is shut to others.
    pub isolation: Isolation,
    /// Name of the Network its pods are on, unless they name one themselves.
    pub network: Option<String>,
    /// Mistakes in what it says about that.
    pub problems: Vec<Problem>,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its labels.
    pub labels: Labels,
    /// The node it is bound to.
    pub node: Option<String>,
    /// Its addresses; none while it has not started.
    pub addresses: Vec<IpAddr>,
    /// Shares its node's network: to policies it is the node, not a pod.
    pub host_network: bool,
    /// Has ended, so that its address may be another's.
    pub finished: bool,
    /// Ports its containers declare.
    pub ports: Vec<ContainerPort>,
    /// What its labels say about app networks.
    pub app: App,
    /// Names of the SecurityGroups it is in.
    pub groups: BTreeSet<String>,
    /// Name of the Network it asks to be on.
    pub network: Option<String>,
}

impl Pod {
    /// Whether it calls this port so.
    pub fn calls(&self, name: &str, protocol: Protocol, port: u16) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|own| own.name == name && own.protocol == protocol && own.port == port)
    }
}

/// A port a container declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPort {
    /// Its name; may be empty.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its labels.
    pub labels: Labels,
    /// Its own addresses.
    pub addresses: Vec<IpAddr>,
    /// Addresses of its ports in the pods' network, from which it talks to pods and to services.
    pub inside: Vec<IpAddr>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Namespaces. One that is only named by other objects has no labels and is not isolated.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Pods.
    pub pods: BTreeMap<Name, Pod>,
    /// Nodes.
    pub nodes: BTreeMap<String, Node>,
    /// Services.
    pub services: BTreeMap<Name, Service>,
    /// Endpoint slices.
    pub slices: BTreeMap<Name, Slice>,
    /// NetworkPolicies.
    pub policies: BTreeMap<Name, Policy>,
    /// Policies of the whole cluster.
    pub cluster_policies: BTreeMap<ClusterPolicyName, ClusterPolicy>,
    /// SecurityGroups.
    pub groups: BTreeMap<Name, SecurityGroup>,
    /// Networks that users define.
    pub networks: BTreeMap<String, Network>,
}

impl Cluster {
    /// Labels of a namespace. The one with its name is always there, as the API server sees to.
    pub fn namespace_labels(&self, namespace: &str) -> Labels {
        let found = self.namespaces.get(namespace);
        let mut labels = found.map(|found| found.labels.clone()).unwrap_or_default();
        labels.insert(NAMESPACE_NAME.to_owned(), namespace.to_owned());
        labels
    }

    /// How far a namespace is shut to others.
    pub fn isolation(&self, namespace: &str) -> Isolation {
        self.namespaces.get(namespace).map(|found| found.isolation).unwrap_or_default()
    }

    /// The living pod, with a network of its own, that has this address.
    pub fn pod_at(&self, address: IpAddr) -> Option<&Name> {
        let mut pods = self.pods.iter();
        pods.find(|(_, pod)| !pod.host_network && !pod.finished && pod.addresses.contains(&address))
            .map(|(name, _)| name)
    }

    /// The node that has this address.
    pub fn node_at(&self, address: IpAddr) -> Option<&str> {
        let mut nodes = self.nodes.iter();
        nodes
            .find(|(_, node)| node.addresses.contains(&address) || node.inside.contains(&address))
            .map(|(name, _)| name.as_str())
    }

    /// The service that answers at this address.
    pub fn service_at(&self, address: IpAddr) -> Option<&Name> {
        let mut services = self.services.iter();
        services
            .find(|(_, service)| service.cluster_ips.contains(&address) || service.external_ips.contains(&address))
            .map(|(name, _)| name)
    }

    /// All mistakes.
    pub fn problems(&self) -> Vec<Problem> {
        let pods = self.pods.keys();
        let of_pods = pods.flat_map(|name| {
            let on_network = self.network_of(name).err().map(|problem| *problem);
            (app::problems(self, name).into_iter())
                .chain(group::problems(self, name))
                .chain(on_network)
        });
        let services = self.services.keys();
        let of_services = services.flat_map(|name| isolation::unpublished(self, name).into_iter().chain(app::of_service(self, name)));
        let read = (self.policies.values().map(|policy| &policy.problems))
            .chain(self.cluster_policies.values().map(|policy| &policy.problems))
            .chain(self.groups.values().map(|group| &group.problems))
            .chain(self.networks.values().map(|network| &network.problems))
            .chain(self.namespaces.values().map(|namespace| &namespace.problems));
        let mut all: Vec<Problem> = read.flatten().cloned().chain(of_pods).chain(of_services).collect();
        all.sort();
        all.dedup();
        all
    }
}
