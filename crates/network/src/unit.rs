//! Units: the pieces rows are made in. Each is a pure function of the cluster; together they are the whole Northbound.
//!
//! A unit writes whole rows and adds members to collections of rows that other units own (a pod's port to its node's switch).
//!
//! Names: a pod's port is `namespace/pod`, a machine's `namespace/port_name`. Names of everything else have an underscore and no slash, which
//! no Kubernetes name has, so that no pod and no node can be called into a clash.

mod custom_network;
mod gateway;
mod network;
mod node;
pub(crate) mod pod;
mod policy;
pub(crate) mod service;

use std::fmt;

use netloom_ovsdb::Row;
pub use node::{management_port, service_port};
pub use service::announcer_port;

use crate::app::App;
use crate::cluster::{Cluster, NodeName, PodName};
use crate::external::pool_problem;
use crate::isolation::Isolation;
use crate::northbound::{Member, RowId};
use crate::policy::{ClusterPolicyName, PolicyName, Role, Selection, Selector};
use crate::problem::{ObjectRef, Problem};
use crate::security_group::SecurityGroupName;
use crate::service::ServiceName;

/// Name of the distributed router all node switches hang on.
pub const CLUSTER_ROUTER: &str = "cluster-router";
/// Name of the switch between the cluster router and the gateways.
pub const JOIN_SWITCH: &str = "join";
/// Name of the switch external addresses are announced on.
pub const ANNOUNCE_SWITCH: &str = "announce";
/// Name of the port group through which everything from outside and from nodes passes.
pub const EDGE: &str = "edge";
/// Name of the group of load balancers on every node's switch.
pub const SERVICES_GROUP: &str = "services";
/// Name of the group of load balancers on the switches of networks that users define, in place of what nodes have each their own.
pub const NETWORKS_GROUP: &str = "networks";
/// Name of the group of load balancers on every gateway.
pub const GATEWAYS_GROUP: &str = "gateways";
/// Physical network name of the nodes' uplinks, as in `ovn-bridge-mappings`.
pub const EXTERNAL_NETWORK: &str = "external";

/// One producer of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// The cluster router, the join switch and what services and nodes meet in.
    Network,
    /// A set of nodes that policies speak of; before nodes, which are in it.
    Nodes(Selector),
    /// A node's switch, its router port, its management port and its service port.
    Node(NodeName),
    /// A node's gateway router and external switch.
    Gateway(NodeName),
    /// A `Network`: its switch and its router; before pods, which are on it.
    CustomNetwork(String),
    /// What all isolated namespaces have in common; before pods, which are in it.
    Isolation,
    /// The virtual network of an isolated namespace.
    VirtualNetwork(String),
    /// The network of an app.
    App(App),
    /// What all security groups have in common.
    SecurityGroups,
    /// A security group's pods, and what it allows them.
    SecurityGroup(SecurityGroupName),
    /// A set of pods that policies speak of; before policies and pods, which are in it.
    Selection(Selection, Role),
    /// What a policy allows.
    Policy(PolicyName),
    /// How much is logged of what policies did in a namespace.
    PolicyLog(String),
    /// What a cluster-wide policy says.
    ClusterPolicy(ClusterPolicyName),
    /// A pod's port.
    Pod(PodName),
    /// A pool of external addresses; it has problems only.
    Pool(String),
    /// A service's load balancers and announcer.
    Service(ServiceName),
}

/// What a unit produces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// Rows it owns.
    pub rows: Vec<(RowId, Row)>,
    /// What it adds to collections of rows, its own or others'.
    pub members: Vec<Member>,
    /// What the user has to mend.
    pub problems: Vec<Problem>,
}

impl Unit {
    /// All units of a cluster.
    pub fn all(cluster: &Cluster) -> Vec<Self> {
        let per_node = nodes(cluster)
            .into_iter()
            .flat_map(|node| [Self::Node(node.clone()), Self::Gateway(node)]);
        let isolated = || cluster.isolated(Isolation::Pods);
        std::iter::once(Self::Network)
            .chain(cluster.node_selectors().cloned().map(Self::Nodes))
            .chain(per_node)
            .chain(cluster.custom_network_names().into_iter().map(Self::CustomNetwork))
            .chain(cluster.isolates().then_some(Self::Isolation))
            .chain(isolated().cloned().map(Self::VirtualNetwork))
            .chain(cluster.apps().cloned().map(Self::App))
            .chain(cluster.has_grouped_pods().then_some(Self::SecurityGroups))
            .chain(cluster.security_groups.keys().cloned().map(Self::SecurityGroup))
            .chain(cluster.selections().map(|(pods, role)| Self::Selection(pods.clone(), role.clone())))
            .chain(cluster.policies.keys().cloned().map(Self::Policy))
            .chain(cluster.namespaces.keys().cloned().map(Self::PolicyLog))
            .chain(cluster.cluster_policies.keys().cloned().map(Self::ClusterPolicy))
            .chain(cluster.pods.keys().cloned().map(Self::Pod))
            .chain(cluster.pools.keys().cloned().map(Self::Pool))
            .chain(cluster.services.keys().cloned().map(Self::Service))
            .collect()
    }

    /// The rows, members and problems of this unit.
    pub fn compile(&self, cluster: &Cluster) -> Fragment {
        let mut fragment = Fragment::default();
        match self {
            Self::Network => network::compile(cluster, &mut fragment),
            Self::Nodes(labels) => policy::nodes::compile(cluster, labels, &mut fragment),
            Self::Node(name) => node::compile(cluster, name, &mut fragment),
            Self::Gateway(name) => gateway::compile(cluster, name, &mut fragment),
            Self::CustomNetwork(name) => custom_network::compile(cluster, name, &mut fragment),
            Self::Isolation => policy::network::compile_shared(cluster, &mut fragment),
            Self::VirtualNetwork(namespace) => policy::network::compile(cluster, namespace, &mut fragment),
            Self::App(app) => policy::app::compile(cluster, app, &mut fragment),
            Self::SecurityGroups => policy::group::compile_shared(cluster, &mut fragment),
            Self::SecurityGroup(name) => policy::group::compile(cluster, name, &mut fragment),
            Self::Selection(pods, role) => policy::selection::compile(cluster, pods, role, &mut fragment),
            Self::Policy(name) => policy::compile(cluster, name, &mut fragment),
            Self::PolicyLog(namespace) => policy::log::compile(cluster, namespace, &mut fragment),
            Self::ClusterPolicy(name) => policy::cluster::compile(cluster, name, &mut fragment),
            Self::Pod(name) => pod::compile(cluster, name, &mut fragment),
            Self::Pool(name) => fragment.problems.extend(pool_problem(cluster, name)),
            Self::Service(name) => service::compile(cluster, name, &mut fragment),
        }
        fragment.problems.sort();
        fragment.problems.dedup();
        fragment
    }

    /// The object this unit is made for.
    pub fn object(&self, cluster: &Cluster) -> ObjectRef {
        match self {
            Self::Network | Self::Nodes(_) | Self::Isolation | Self::SecurityGroups => cluster.network_ref(),
            Self::VirtualNetwork(namespace) => cluster.namespace_ref(namespace),
            Self::App(app) => cluster.namespace_ref(&app.namespace),
            Self::CustomNetwork(name) => cluster.custom_network_ref(name),
            Self::SecurityGroup(name) => cluster.security_group_ref(name),
            Self::Node(name) | Self::Gateway(name) => cluster.node_ref(name),
            Self::Selection(pods, _) => policy::selection::owner(cluster, pods),
            Self::Policy(name) => cluster.policy_ref(name),
            Self::PolicyLog(namespace) => cluster.namespace_ref(namespace),
            Self::ClusterPolicy(name) => cluster.cluster_policy_ref(name),
            Self::Pod(name) => cluster.pod_ref(name),
            Self::Pool(name) => cluster.pool_ref(name),
            Self::Service(name) => cluster.service_ref(name),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("network"),
            Self::Nodes(labels) => write!(f, "nodes {labels}"),
            Self::Node(name) => write!(f, "node {name}"),
            Self::Gateway(name) => write!(f, "gateway {name}"),
            Self::CustomNetwork(name) => write!(f, "network {name}"),
            Self::Isolation => f.write_str("isolation of namespaces"),
            Self::VirtualNetwork(namespace) => write!(f, "virtual network {namespace}-vn"),
            Self::App(app) => write!(f, "app {app}"),
            Self::SecurityGroups => f.write_str("security groups"),
            Self::SecurityGroup(name) => write!(f, "security group {name}"),
            Self::Selection(pods, Role::Subject) => write!(f, "isolated pods {pods}"),
            Self::Selection(pods, Role::ClusterSubject) => write!(f, "pods of cluster-wide policies {pods}"),
            Self::Selection(pods, Role::Peers) => write!(f, "allowed pods {pods}"),
            Self::Selection(pods, Role::Port(port, protocol)) => write!(f, "port {port}/{protocol} of pods {pods}"),
            Self::Policy(name) => write!(f, "policy {name}"),
            Self::PolicyLog(namespace) => write!(f, "log of policies of namespace {namespace}"),
            Self::ClusterPolicy(name) => write!(f, "cluster-wide policy {name}"),
            Self::Pod(name) => write!(f, "pod {name}"),
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Service(name) => write!(f, "service {name}"),
        }
    }
}

/// Nodes known by an object or by a slot they still hold.
fn nodes(cluster: &Cluster) -> std::collections::BTreeSet<NodeName> {
    cluster.nodes.keys().chain(cluster.records.nodes()).cloned().collect()
}

fn join<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}
