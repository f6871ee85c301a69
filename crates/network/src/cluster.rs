//! What Kubernetes says, cut down to what the network depends on: the input of `compile`.
//!
//! [`Cluster`] is an index with synchronous changes; two clusters built from the same objects in any order are equal. It also holds
//! the recorded choices ([`Records`]), because compile reads addresses and never invents them.

mod apps;
mod groups;
mod index;
mod isolation;
mod networks;
mod policies;
mod refs;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

pub(crate) use apps::Labelled;
pub use index::Vip;

use crate::annotations::Gateway;
use crate::custom_network::CustomNetwork;
use crate::external::{self, Pool};
use crate::ipam::Records;
use crate::policy::{ClusterPolicy, ClusterPolicyName, Namespace, NetworkPolicy, PolicyName};
use crate::security_group::{SecurityGroup, SecurityGroupName};
use crate::service::{EndpointSlice, ExternalPool, Protocol, Service, ServiceName, SliceName};
use crate::settings::ClusterNetworkSpec;

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

/// Between namespace and name in a pod's port name; no Kubernetes name has it.
const PORT_SEPARATOR: char = '/';

impl Namespaced {
    /// Name of the first logical port of the pod with this name.
    pub fn port(&self) -> String {
        format!("{}{PORT_SEPARATOR}{}", self.namespace, self.name)
    }

    /// The pod whose port has this name.
    pub fn of_port(port: &str) -> Option<Self> {
        let (namespace, name) = port.split_once(PORT_SEPARATOR)?;
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
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

impl Node {
    /// Whether nothing differs but what only policies look at.
    pub(crate) fn differs_for_policies_only(&self, other: &Self) -> bool {
        let other_addresses = self.other_addresses.clone();
        let labels = self.labels.clone();
        *self
            == Self {
                other_addresses,
                labels,
                ..other.clone()
            }
    }
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

/// Everything `compile` reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Addressing as the user wants it; defaults apply without it.
    pub network: Option<ClusterNetwork>,
    /// Nodes by name.
    pub nodes: BTreeMap<NodeName, Node>,
    /// Pods by name.
    pub pods: BTreeMap<PodName, Pod>,
    /// Services by name.
    pub services: BTreeMap<ServiceName, Service>,
    /// Endpoint slices by name.
    pub slices: BTreeMap<SliceName, EndpointSlice>,
    /// Pools of external addresses by name.
    pub pools: BTreeMap<String, ExternalPool>,
    /// Namespaces by name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Network policies by name.
    pub policies: BTreeMap<PolicyName, NetworkPolicy>,
    /// Cluster-wide policies by kind and name.
    pub cluster_policies: BTreeMap<ClusterPolicyName, ClusterPolicy>,
    /// Security groups by name.
    pub security_groups: BTreeMap<SecurityGroupName, SecurityGroup>,
    /// Networks that users define, by name.
    pub custom_networks: BTreeMap<String, CustomNetwork>,
    /// Addresses decided so far.
    pub records: Records,
    placed: BTreeMap<NodeName, BTreeSet<PodName>>,
    machines: BTreeSet<PodName>,
    index: index::Index,
    policy_index: policies::Policies,
    isolated: isolation::Isolated,
    app_index: apps::Apps,
    group_index: groups::Groups,
    network_index: networks::Networks,
}

impl Cluster {
    /// Adds or replaces an object, without deciding anything.
    pub fn insert(&mut self, object: Object) {
        match object {
            Object::ClusterNetwork(network) => self.network = Some(network),
            Object::Node(name, node) => {
                self.index.report(&name, Some(&node.annotations));
                self.nodes.insert(name, node);
            }
            Object::Pod(name, pod) => {
                self.unplace(&name);
                if let Some(node) = pod.node.clone() {
                    self.placed.entry(node).or_default().insert(name.clone());
                }
                if name.machine().is_some() {
                    self.machines.insert(name.clone());
                }
                self.policy_index.count(&name, &pod, true);
                self.app_index.set_pod(&name, &pod, true);
                self.group_index.set_pod(&name, &pod, true);
                self.network_index.set_pod(&name, &pod, true);
                self.pods.insert(name, pod);
            }
            Object::Service(name, service) => {
                if let Some(old) = self.services.remove(&name) {
                    self.index.unclaim(&name, &old);
                    self.app_index.set_service(&name, &old, false);
                }
                self.index.claim(&name, &service);
                self.app_index.set_service(&name, &service, true);
                self.services.insert(name.clone(), service);
                self.index_service(&name);
            }
            Object::EndpointSlice(name, slice) => {
                let service = slice.service.clone();
                self.detach(&name);
                self.index.attach(&name, &service);
                self.slices.insert(name, slice);
                self.index_service(&service);
            }
            Object::ExternalPool(name, pool) => {
                self.pools.insert(name, pool);
                self.index.pools = external::pools(&self.pools);
            }
            Object::Namespace(name, namespace) => self.set_namespace(&name, Some(namespace)),
            Object::NetworkPolicy(name, policy) => self.set_policy(&name, Some(policy)),
            Object::ClusterPolicy(name, policy) => self.set_cluster_policy(&name, Some(policy)),
            Object::SecurityGroup(name, group) => self.set_security_group(&name, Some(group)),
            Object::CustomNetwork(name, network) => self.set_custom_network(&name, Some(network)),
        }
    }

    /// Takes an object away; only its kind and name matter.
    pub fn remove(&mut self, object: &Object) {
        match object {
            Object::ClusterNetwork(_) => self.network = None,
            Object::Node(name, _) => {
                self.index.report(name, None);
                self.nodes.remove(name);
            }
            Object::Pod(name, _) => {
                self.unplace(name);
                self.machines.remove(name);
                self.pods.remove(name);
            }
            Object::Service(name, _) => {
                if let Some(old) = self.services.remove(name) {
                    self.index.unclaim(name, &old);
                    self.app_index.set_service(name, &old, false);
                    self.index_service(name);
                }
            }
            Object::EndpointSlice(name, _) => self.detach(name),
            Object::ExternalPool(name, _) => {
                self.pools.remove(name);
                self.index.pools = external::pools(&self.pools);
            }
            Object::Namespace(name, _) => self.set_namespace(name, None),
            Object::NetworkPolicy(name, _) => self.set_policy(name, None),
            Object::ClusterPolicy(name, _) => self.set_cluster_policy(name, None),
            Object::SecurityGroup(name, _) => self.set_security_group(name, None),
            Object::CustomNetwork(name, _) => self.set_custom_network(name, None),
        }
    }

    /// Adds or replaces a policy, or takes it away.
    pub(crate) fn set_policy(&mut self, name: &PolicyName, policy: Option<NetworkPolicy>) {
        match policy {
            Some(policy) => {
                self.policy_index.insert(name, &policy);
                self.policies.insert(name.clone(), policy);
            }
            None => {
                self.policy_index.remove(name);
                self.policies.remove(name);
            }
        }
    }

    /// Adds or replaces a cluster-wide policy, or takes it away.
    pub(crate) fn set_cluster_policy(&mut self, name: &ClusterPolicyName, policy: Option<ClusterPolicy>) {
        match policy {
            Some(policy) => {
                self.policy_index.insert_ranked(name, &policy);
                self.cluster_policies.insert(name.clone(), policy);
            }
            None => {
                self.policy_index.remove_ranked(name);
                self.cluster_policies.remove(name);
            }
        }
    }

    /// Pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &PodName> {
        self.placed.get(node).into_iter().flatten()
    }

    /// Those of the pods that are `Port`s of machines.
    pub fn machines(&self) -> impl Iterator<Item = &PodName> {
        self.machines.iter()
    }

    /// Slices of a service.
    pub fn slices_of(&self, service: &ServiceName) -> impl Iterator<Item = &EndpointSlice> {
        let names = self.index.slices.get(service).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name))
    }

    /// Services whose rows depend on nodes.
    pub fn services_on_nodes(&self) -> impl Iterator<Item = &ServiceName> {
        self.index.on_nodes.iter()
    }

    /// Services whose rows depend on who has `address`.
    pub fn services_on_address(&self, address: IpAddr) -> impl Iterator<Item = &ServiceName> {
        self.index.on_address.get(&address).into_iter().flatten()
    }

    /// Services that ask for this external address and port by spec or status, the oldest first.
    pub fn claimants(&self, vip: Vip) -> impl Iterator<Item = &ServiceName> {
        self.index.claims.get(&vip).into_iter().flatten().map(|(_, name)| name)
    }

    /// Services that ask for this external address on any port by spec or status.
    pub fn claimants_of(&self, address: IpAddr) -> impl Iterator<Item = &ServiceName> {
        let first = (address, crate::service::Protocol::Tcp, 0);
        let of_address = self.index.claims.range(first..).take_while(move |((ip, ..), _)| *ip == address);
        of_address.flat_map(|(_, claimants)| claimants.iter().map(|(_, name)| name))
    }

    /// The gateway of a node: what its agent reports, once the node has subnets.
    pub fn gateway(&self, node: &str) -> Option<&Gateway> {
        self.index.gateways.get(node).filter(|_| self.records.slot(node).is_some())
    }

    /// Pools that can be used: they were read, and the cluster network does not use their addresses for itself.
    pub fn usable_pools(&self) -> impl Iterator<Item = (&String, &Pool)> {
        let free = |pool: &&Pool| {
            self.records
                .settings
                .as_ref()
                .is_none_or(|settings| pool.conflict(settings).is_none())
        };
        let read = self.index.pools.iter().filter_map(|(name, pool)| Some((name, pool.as_ref().ok()?)));
        read.filter(move |(_, pool)| free(pool))
    }

    /// A pool, if it could be read.
    pub fn read_pool(&self, name: &str) -> Option<&Pool> {
        self.index.pools.get(name)?.as_ref().ok()
    }

    /// Why a pool could not be read.
    pub fn pool_error(&self, name: &str) -> Option<&str> {
        self.index.pools.get(name)?.as_ref().err().map(String::as_str)
    }

    fn detach(&mut self, name: &SliceName) {
        if let Some(old) = self.slices.remove(name) {
            self.index.detach(name, &old.service);
            self.index_service(&old.service);
        }
    }

    fn unplace(&mut self, name: &PodName) {
        let Some(pod) = self.pods.get(name) else { return };
        self.policy_index.count(name, pod, false);
        self.app_index.set_pod(name, pod, false);
        self.group_index.set_pod(name, pod, false);
        self.network_index.set_pod(name, pod, false);
        let Some(node) = pod.node.clone() else { return };
        if let Some(pods) = self.placed.get_mut(&node) {
            pods.remove(name);
            if pods.is_empty() {
                self.placed.remove(&node);
            }
        }
    }
}
