//! What Kubernetes says, cut down to what the network depends on: the input of `compile`.
//!
//! [`Cluster`] is an index with synchronous changes; two clusters built from the same objects in any order are equal. It also holds
//! the recorded choices ([`Records`]), because compile reads addresses and never invents them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use crate::ipam::Records;
use crate::problem::ObjectRef;
use crate::settings::ClusterNetworkSpec;

/// Name of a node; also its OVN chassis name.
pub type NodeName = String;

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl PodName {
    /// Name of the pod's first logical port.
    pub fn port(&self) -> String {
        format!("{}:{}", self.namespace, self.name)
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod, as far as its network is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// UID; addresses belong to it, not to the name.
    pub uid: String,
    /// Node it is bound to.
    pub node: Option<NodeName>,
    /// Shares its node's network, so has no port.
    pub host_network: bool,
    /// Succeeded or Failed: its port and addresses are given back.
    pub finished: bool,
    /// Annotations that concern us.
    pub annotations: BTreeMap<String, String>,
    /// Addresses its status shows; they rebuild the records when the database was lost.
    pub addresses: Vec<IpAddr>,
}

impl Pod {
    /// Whether it needs a logical port now.
    pub fn wants_port(&self) -> bool {
        self.node.is_some() && !self.host_network && !self.finished
    }
}

/// A node, as far as the network is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// UID.
    pub uid: String,
    /// Internal addresses, at most one of each family matters.
    pub addresses: Vec<IpAddr>,
    /// Annotations that concern us.
    pub annotations: BTreeMap<String, String>,
}

/// The `ClusterNetwork` object named `default`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNetwork {
    /// UID.
    pub uid: String,
    /// What the user wrote.
    pub spec: ClusterNetworkSpec,
}

/// An object the network depends on, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// `ClusterNetwork default`.
    ClusterNetwork(ClusterNetwork),
    /// A node.
    Node(NodeName, Node),
    /// A pod.
    Pod(PodName, Pod),
}

/// Everything `compile` reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Addressing as the user wants it; defaults apply without it.
    pub network: Option<ClusterNetwork>,
    /// Nodes by name.
    pub nodes: BTreeMap<NodeName, Node>,
    /// Pods by name.
    pub pods: BTreeMap<PodName, Pod>,
    /// Addresses decided so far.
    pub records: Records,
    placed: BTreeMap<NodeName, BTreeSet<PodName>>,
}

impl Cluster {
    /// Adds or replaces an object, without deciding anything.
    pub fn insert(&mut self, object: Object) {
        match object {
            Object::ClusterNetwork(network) => self.network = Some(network),
            Object::Node(name, node) => {
                self.nodes.insert(name, node);
            }
            Object::Pod(name, pod) => {
                self.unplace(&name);
                if let Some(node) = pod.node.clone() {
                    self.placed.entry(node).or_default().insert(name.clone());
                }
                self.pods.insert(name, pod);
            }
        }
    }

    /// Takes a pod away.
    pub fn remove_pod(&mut self, name: &PodName) {
        self.unplace(name);
        self.pods.remove(name);
    }

    /// Pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &PodName> {
        self.placed.get(node).into_iter().flatten()
    }

    /// Reference to a pod for owners and problems.
    pub fn pod_ref(&self, name: &PodName) -> ObjectRef {
        let uid = self.pods.get(name).map_or("", |pod| pod.uid.as_str());
        ObjectRef::namespaced("Pod", &name.namespace, &name.name, uid)
    }

    /// Reference to a node for owners and problems.
    pub fn node_ref(&self, name: &str) -> ObjectRef {
        ObjectRef::cluster("Node", name, self.nodes.get(name).map_or("", |node| node.uid.as_str()))
    }

    /// Reference to the `ClusterNetwork` for owners and problems.
    pub fn network_ref(&self) -> ObjectRef {
        ObjectRef::cluster(
            "ClusterNetwork",
            "default",
            self.network.as_ref().map_or("", |network| network.uid.as_str()),
        )
    }

    fn unplace(&mut self, name: &PodName) {
        let Some(node) = self.pods.get(name).and_then(|pod| pod.node.clone()) else {
            return;
        };
        if let Some(pods) = self.placed.get_mut(&node) {
            pods.remove(name);
            if pods.is_empty() {
                self.placed.remove(&node);
            }
        }
    }
}
