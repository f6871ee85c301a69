//! Units: the pieces rows are made in. Each is a pure function of the cluster; together they are the whole Northbound.
//!
//! A unit writes whole rows and adds members to collections of rows that other units own (a pod's port to its node's switch).
//!
//! Names: a pod's first port is `namespace/pod`, a further one `namespace/pod/interface`, a machine's `namespace/port_name`. No other port has a
//! slash in its name. Names made of an object's name have a prefix and an underscore, which no Kubernetes name has, but for the switch of a
//! node, which has the node's own; what there is one of has a fixed name.

mod custom_network;
mod gateway;
mod network;
mod node;
mod policy;
pub(crate) mod port;
pub(crate) mod service;

use std::fmt;

use netloom_ovsdb::Row;

use crate::app::App;
use crate::cluster::{NodeName, View};
use crate::external::pool_problem;
use crate::ipam::PortName;
use crate::northbound::{Member, RowId};
use crate::policy::{ClusterPolicyName, PolicyName, Role, Selection, Selector};
use crate::problem::{ObjectRef, Problem};
use crate::security_group::SecurityGroupName;
use crate::service::ServiceName;
use crate::status::{Shows, Status};

/// Name of the distributed router all node switches hang on.
pub const CLUSTER_ROUTER: &str = "cluster-router";
/// Name of the switch between the cluster router and the gateways.
pub const JOIN_SWITCH: &str = "join";
/// Name of the switch external addresses are announced on.
pub const ANNOUNCE_SWITCH: &str = "announce";
/// Name of the port group with a port of every switch that clients of services are on, inside and outside, so that its ACLs apply to all of them.
pub const EDGE: &str = "edge";
/// Name of the port group with a port of every switch that pods are on, so that its ACLs apply to all of them.
pub const INSIDE: &str = "inside";
/// Name of the port group of the ports by which nodes and the outside are reached.
pub const HOSTS: &str = "hosts";
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
    Selection(Box<(Selection, Role)>),
    /// What a policy allows.
    Policy(PolicyName),
    /// How much is logged of what policies did in a namespace.
    PolicyLog(String),
    /// What a cluster-wide policy says.
    ClusterPolicy(ClusterPolicyName),
    /// A port of a pod or machine.
    Port(PortName),
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
    /// What the user has to change.
    pub problems: Vec<Problem>,
    /// What objects have to show.
    pub statuses: Vec<Status>,
}

impl Fragment {
    fn show(&mut self, object: ObjectRef, shows: Shows) {
        self.statuses.push(Status { object, shows });
    }
}

impl Unit {
    /// The rows, members and problems of this unit.
    pub(crate) fn compile(&self, view: &View<'_>) -> Fragment {
        let mut fragment = Fragment::default();
        match self {
            Self::Network => network::compile(view, &mut fragment),
            Self::Nodes(labels) => policy::nodes::compile(view, labels, &mut fragment),
            Self::Node(name) => node::compile(view, name, &mut fragment),
            Self::Gateway(name) => gateway::compile(view, name, &mut fragment),
            Self::CustomNetwork(name) => custom_network::compile(view, name, &mut fragment),
            Self::Isolation => policy::network::compile_shared(view, &mut fragment),
            Self::VirtualNetwork(namespace) => policy::network::compile(view, namespace, &mut fragment),
            Self::App(app) => policy::app::compile(view, app, &mut fragment),
            Self::SecurityGroups => policy::group::compile_shared(view, &mut fragment),
            Self::SecurityGroup(name) => policy::group::compile(view, name, &mut fragment),
            Self::Selection(it) => policy::selection::compile(view, &it.0, &it.1, &mut fragment),
            Self::Policy(name) => policy::compile(view, name, &mut fragment),
            Self::PolicyLog(namespace) => policy::log::compile(view, namespace, &mut fragment),
            Self::ClusterPolicy(name) => policy::cluster::compile(view, name, &mut fragment),
            Self::Port(name) => port::compile(view, name, &mut fragment),
            Self::Pool(name) => {
                fragment.problems.extend(pool_problem(view, name));
                fragment.show(view.pool_ref(name), Shows::InForce);
            }
            Self::Service(name) => service::compile(view, name, &mut fragment),
        }
        fragment.problems.sort();
        fragment.problems.dedup();
        fragment.members.sort_unstable();
        fragment.members.dedup();
        fragment
    }

    /// The object this unit is made for.
    pub fn object(&self, view: &View<'_>) -> ObjectRef {
        match self {
            Self::Network | Self::Nodes(_) | Self::Isolation | Self::SecurityGroups => view.network_ref(),
            Self::VirtualNetwork(namespace) => view.namespace_ref(namespace),
            Self::App(app) => view.namespace_ref(&app.namespace),
            Self::CustomNetwork(name) => view.custom_network_ref(name),
            Self::SecurityGroup(name) => view.security_group_ref(name),
            Self::Node(name) | Self::Gateway(name) => view.node_ref(name),
            Self::Selection(it) => policy::selection::owner(view, &it.0),
            Self::Policy(name) => view.policy_ref(name),
            Self::PolicyLog(namespace) => view.namespace_ref(namespace),
            Self::ClusterPolicy(name) => view.cluster_policy_ref(name),
            Self::Port(name) => view.pod_ref(&name.owner),
            Self::Pool(name) => view.pool_ref(name),
            Self::Service(name) => view.service_ref(name),
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
            Self::Selection(it) => match &**it {
                (pods, Role::Subject) => write!(f, "isolated pods {pods}"),
                (pods, Role::Denied(direction)) => write!(f, "denied {} of pods {pods}", direction.as_str()),
                (pods, Role::ClusterSubject) => write!(f, "pods of cluster-wide policies {pods}"),
                (pods, Role::Peers) => write!(f, "allowed pods {pods}"),
                (pods, Role::Port(port, protocol)) => write!(f, "port {port}/{protocol} of pods {pods}"),
            },
            Self::Policy(name) => write!(f, "policy {name}"),
            Self::PolicyLog(namespace) => write!(f, "log of policies of namespace {namespace}"),
            Self::ClusterPolicy(name) => write!(f, "cluster-wide policy {name}"),
            Self::Port(name) => write!(f, "port {name}"),
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Service(name) => write!(f, "service {name}"),
        }
    }
}

fn commas<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}
