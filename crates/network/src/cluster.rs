//! What Kubernetes says, cut down to what the network depends on: the input of `compile`.
//!
//! [`Cluster`] is an index with synchronous changes; two clusters built from the same objects in any order are equal. It also holds
//! the recorded choices ([`Records`]), because compile reads addresses and never invents them.

mod apps;
mod groups;
mod namespaces;
mod networks;
mod nodes;
mod pods;
mod policies;
mod recorded;
mod refs;
mod services;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

pub use apps::Speakers;
pub use nodes::Host;
pub use pods::OfferedPort;
pub use policies::Anchor;
pub(crate) use refs::pod_ref;
pub use services::Claim;
pub use view::View;

use crate::custom_network::CustomNetwork;
use crate::decide::Decision;
use crate::facts::{self, Changes, Schema, Table};
use crate::ipam::{PortName, Records};
use crate::isolation::Isolation;
use crate::plan::Work;
use crate::policy::{ClusterPolicy, ClusterPolicyName, Namespace, NetworkPolicy, PolicyName};
use crate::security_group::{SecurityGroup, SecurityGroupName};
use crate::service::{EndpointSlice, ExternalPool, Protocol, Service, ServiceName, SliceName};
use crate::settings::ClusterNetworkSpec;
use crate::unit::Unit;

/// Name of a node; also its OVN chassis name.
pub type NodeName = String;

/// Namespace and name of a namespaced object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespaced {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Namespace and name of a pod.
pub type PodName = Namespaced;

impl Namespaced {
    /// The first port of the pod with this name.
    pub fn first_port(&self) -> PortName {
        PortName::first(self.clone())
    }

    /// Name of the first logical port of the pod with this name.
    pub fn port(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Namespaced {
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
    /// Labels, by which policies select it.
    pub labels: BTreeMap<String, String>,
    /// Ports of its containers that have a name.
    pub ports: Vec<NamedPort>,
    /// Addresses its status shows; they rebuild the records when the database was lost.
    pub addresses: Vec<IpAddr>,
}

/// A container's port that has a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedPort {
    /// Name.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Number.
    pub number: u16,
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
    /// Zone, by the label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Its condition Ready is true.
    pub ready: bool,
    /// Has the label `node.kubernetes.io/exclude-from-external-load-balancers`.
    pub excluded: bool,
    /// Further addresses its status shows, which are not internal; policies that speak of nodes mean them as well.
    pub other_addresses: Vec<IpAddr>,
    /// Labels, by which policies select it.
    pub labels: BTreeMap<String, String>,
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
    /// A pod, or the `Port` of a machine, which is one to the network.
    Pod(PodName, Pod),
    /// A service.
    Service(ServiceName, Service),
    /// A part of a service's endpoints.
    EndpointSlice(SliceName, EndpointSlice),
    /// A pool of external addresses.
    ExternalPool(String, ExternalPool),
    /// A namespace.
    Namespace(String, Namespace),
    /// A network policy.
    NetworkPolicy(PolicyName, NetworkPolicy),
    /// A cluster-wide policy.
    ClusterPolicy(ClusterPolicyName, ClusterPolicy),
    /// A security group.
    SecurityGroup(SecurityGroupName, SecurityGroup),
    /// A `Network`.
    CustomNetwork(String, CustomNetwork),
}

/// What costs every pod, and is left out of its rows while nobody uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// There is a network besides the cluster's.
    Networks,
    /// Something is isolated from pods that are not in it.
    Isolates,
    /// The services of a namespace are closed to others.
    Closes,
    /// A pod names a security group.
    Groups,
}

/// Everything `compile` reads: what Kubernetes says, what follows from it, and what was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    network: Table<facts::ClusterNetworks>,
    /// Nodes by name.
    pub nodes: Table<facts::Nodes>,
    /// Pods by name.
    pub pods: Table<facts::Pods>,
    /// Services by name.
    pub services: Table<facts::Services>,
    /// Endpoint slices by name.
    pub slices: Table<facts::Slices>,
    /// Pools of external addresses by name.
    pub pools: Table<facts::Pools>,
    /// Namespaces by name.
    pub namespaces: Table<facts::Namespaces>,
    /// Network policies by name.
    pub policies: Table<facts::NetworkPolicies>,
    /// Cluster-wide policies by kind and name.
    pub cluster_policies: Table<facts::ClusterPolicies>,
    /// Security groups by name.
    pub security_groups: Table<facts::SecurityGroups>,
    /// Networks that users define, by name.
    pub custom_networks: Table<facts::CustomNetworks>,
    /// What was decided so far.
    pub records: Records,
    features: Table<facts::Features>,
    of_nodes: nodes::Index,
    of_pods: pods::Index,
    of_services: services::Index,
    of_namespaces: namespaces::Index,
    of_policies: policies::Index,
    of_apps: apps::Index,
    read_groups: Table<facts::ReadGroups>,
    read_networks: Table<facts::ReadNetworks>,
}

impl Cluster {
    /// Adds or replaces an object, without deciding anything.
    pub fn insert(&mut self, object: Object) {
        self.change(object, true, &mut Changes::default());
    }

    /// Takes an object away; only its kind and name matter.
    pub fn remove(&mut self, object: &Object) {
        self.change(object.clone(), false, &mut Changes::default());
    }

    /// Adds or replaces an object (`there`), or takes it away, and notes what that changes.
    pub(crate) fn change(&mut self, object: Object, there: bool, changes: &mut Changes) {
        self.set(object, there, changes);
        self.set_features(changes);
    }

    /// Changes what was decided, and notes what that changes.
    pub(crate) fn record(&mut self, record: impl FnOnce(&mut Records, &mut Changes), changes: &mut Changes) {
        record(&mut self.records, changes);
        self.set_features(changes);
    }

    fn set(&mut self, object: Object, there: bool, changes: &mut Changes) {
        match object {
            Object::ClusterNetwork(network) => self.network.set(&(), there.then_some(network), changes),
            Object::Node(name, node) => self.set_node(&name, there.then_some(node), changes),
            Object::Pod(name, pod) => self.set_pod(&name, there.then_some(pod), changes),
            Object::Service(name, service) => self.set_service(&name, there.then_some(service), changes),
            Object::EndpointSlice(name, slice) => self.set_slice(&name, there.then_some(slice), changes),
            Object::ExternalPool(name, pool) => self.set_pool(&name, there.then_some(pool), changes),
            Object::Namespace(name, namespace) => self.set_namespace(&name, there.then_some(namespace), changes),
            Object::NetworkPolicy(name, policy) => self.set_policy(&name, there.then_some(policy), changes),
            Object::ClusterPolicy(name, policy) => self.set_cluster_policy(&name, there.then_some(policy), changes),
            Object::SecurityGroup(name, group) => self.set_security_group(&name, there.then_some(group), changes),
            Object::CustomNetwork(name, network) => self.set_custom_network(&name, there.then_some(network), changes),
        }
    }

    /// Addressing as the user wants it; defaults apply without it.
    pub fn network(&self) -> Option<&ClusterNetwork> {
        self.network.get(&())
    }

    /// Brings up to date which features are in use.
    fn set_features(&mut self, changes: &mut Changes) {
        let closes = self.of_namespaces.isolates(Isolation::Services);
        let on = [
            (
                Feature::Networks,
                !(self.custom_networks.is_empty() && self.records.networks.is_empty()),
            ),
            (
                Feature::Isolates,
                self.of_namespaces.isolates(Isolation::Pods) || self.records.isolates(),
            ),
            (Feature::Closes, closes),
            (Feature::Groups, self.of_pods.names_groups()),
        ];
        for (feature, on) in on {
            self.features.set(&feature, on.then_some(()), changes);
        }
    }
}

impl Cluster {
    /// All units and decisions there are.
    pub(crate) fn work(&self) -> BTreeSet<Work> {
        fn of<S: Schema>(table: &Table<S>) -> impl Iterator<Item = Work> {
            table.entries().flat_map(|(key, _)| S::work(key))
        }
        let always = [Unit::Network, Unit::Isolation, Unit::SecurityGroups].map(Work::from);
        always
            .into_iter()
            .chain([Work::from(Decision::Settings)])
            .chain(of(&self.nodes))
            .chain(of(&self.pods))
            .chain(of(&self.services))
            .chain(of(&self.pools))
            .chain(of(&self.policies))
            .chain(of(&self.cluster_policies))
            .chain(of(&self.security_groups))
            .chain(of(&self.custom_networks))
            .chain(of(&self.of_namespaces.isolated))
            .chain(of(&self.of_namespaces.logs))
            .chain(of(&self.of_policies.node_selectors))
            .chain(of(&self.of_policies.users))
            .chain(of(&self.of_apps.apps))
            .chain(of(&self.records.slots))
            .chain(of(&self.records.assignments))
            .chain(of(&self.records.networks))
            .chain(of(&self.records.externals))
            .chain(of(&self.records.refusals))
            .collect()
    }
}

impl<'a> View<'a> {
    /// Addressing as the user wants it.
    pub(crate) fn cluster_network(&self) -> Option<&'a ClusterNetwork> {
        self.get(&self.cluster.network, &())
    }

    /// Whether a feature is in use.
    pub(crate) fn uses(&self, feature: Feature) -> bool {
        self.has(&self.cluster.features, &feature)
    }
}

/// How many there are of each; those there are none of are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counts<K: Ord>(BTreeMap<K, usize>);

impl<K: Ord> Default for Counts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Counts<K> {
    /// Counts one more; says whether it is the first.
    fn add(&mut self, key: &K) -> bool {
        let count = self.0.entry(key.clone()).or_default();
        *count += 1;
        *count == 1
    }

    /// Counts one less; says whether it was the last.
    fn subtract(&mut self, key: &K) -> bool {
        let Some(count) = self.0.get_mut(key) else { return false };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.0.remove(key);
        }
        last
    }
}
