//! The tables of a cluster: what Kubernetes says, what follows from it, and what was decided. Each is stated once, with the units and
//! decisions there are for its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::app::App;
use crate::cluster::{Anchor, Claim, ClusterNetwork, Feature, Host, Node, NodeName, OfferedPort, Pod, PodName, Speakers};
use crate::custom_network::{self, CustomNetwork};
use crate::decide::Decision;
use crate::external::Pool;
use crate::facts::Schema;
use crate::ipam::{Assignment, External, Holder, Mac, NetworkRecord, PortName, Segment, Space};
use crate::isolation::Isolation;
use crate::plan::Work;
use crate::policy::cluster::RankedPolicy;
use crate::policy::{ClusterPolicy, ClusterPolicyName, Namespace, NetworkPolicy, Policy, PolicyName, Role, Selection, Selector, User};
use crate::problem::Problem;
use crate::security_group::{Group, SecurityGroup, SecurityGroupName};
use crate::service::{EndpointSlice, ExternalPool, Service, ServiceName, SliceName};
use crate::settings::Settings;
use crate::unit::Unit;

macro_rules! work {
    ($($work:expr),+) => { vec![$(Work::from($work)),+] };
}

macro_rules! tables {
    ($( $(#[$doc:meta])* $name:ident: $key:ty => $value:ty $(, $bound:ident -> $work:expr)? ; )+) => {
        #[allow(clippy::enum_variant_names)]
        enum Number { $($name),+ }
        $(
            $(#[$doc])*
            pub enum $name {}

            impl Schema for $name {
                const NUMBER: u8 = Number::$name as u8;
                type Key = $key;
                type Value = $value;

                $( fn work($bound: &Self::Key) -> Vec<Work> {
                    $work
                } )?
            }
        )+
    };
}

tables! {
    // What Kubernetes says.

    /// The `ClusterNetwork` named `default`.
    ClusterNetworks: () => ClusterNetwork;
    /// Nodes.
    Nodes: NodeName => Node, name -> work![Decision::Node(name.clone()), Unit::Node(name.clone()), Unit::Gateway(name.clone())];
    /// Pods, and machines, which are pods to the network.
    Pods: PodName => Pod, name -> { let port = name.first_port(); work![Decision::Port(port.clone()), Unit::Port(port)] };
    /// Services.
    Services: ServiceName => Service, name -> work![Decision::External(name.clone()), Unit::Service(name.clone())];
    /// Endpoint slices.
    Slices: SliceName => EndpointSlice;
    /// Pools of external addresses.
    Pools: String => ExternalPool, name -> work![Unit::Pool(name.clone())];
    /// Namespaces.
    Namespaces: String => Namespace;
    /// Network policies.
    NetworkPolicies: PolicyName => NetworkPolicy, name -> work![Unit::Policy(name.clone())];
    /// Cluster-wide policies.
    ClusterPolicies: ClusterPolicyName => ClusterPolicy, name -> work![Unit::ClusterPolicy(name.clone())];
    /// Security groups.
    SecurityGroups: SecurityGroupName => SecurityGroup, name -> work![Unit::SecurityGroup(name.clone())];
    /// Networks that users define.
    CustomNetworks: String => CustomNetwork, name -> work![Decision::Network(name.clone()), Unit::CustomNetwork(name.clone())];

    // What follows from it.

    /// What services see of a node.
    Hosts: NodeName => Host;
    /// Nodes by their own addresses.
    NodeAddresses: IpAddr => BTreeSet<NodeName>;
    /// Sets of nodes a node is in.
    NodeSets: NodeName => BTreeSet<Selector>;
    /// Slices by service.
    SlicesOf: ServiceName => BTreeSet<SliceName>;
    /// Services that ask for an external address by spec or status, the oldest first.
    Claims: IpAddr => BTreeSet<Claim>;
    /// Pools as read; the error says why one cannot be used.
    ReadPools: String => Result<Pool, String>;
    /// Network policies as read.
    ReadPolicies: PolicyName => Arc<Policy>;
    /// Cluster-wide policies as read.
    RankedPolicies: ClusterPolicyName => Arc<RankedPolicy>;
    /// Selectors of nodes, and the policies that use them.
    NodeSelectors: Selector => BTreeSet<ClusterPolicyName>, labels -> work![Unit::Nodes(labels.clone())];
    /// Selections of pods by what they are used for, and the policies that use them so.
    Users: (Selection, Role) => BTreeSet<User>, it -> work![Unit::Selection(Box::new(it.clone()))];
    /// What a selection is used for.
    Roles: Selection => BTreeSet<Role>;
    /// Selections that pods of a namespace with a label, or any, can be in.
    Anchored: Anchor => BTreeSet<Selection>;
    /// Numbers that pods of a namespace, or of any, give to a port's name.
    Numbers: (OfferedPort, Option<String>) => BTreeSet<u16>;
    /// Labels of namespaces.
    NamespaceLabels: String => BTreeMap<String, String>;
    /// UIDs of namespaces.
    NamespaceUids: String => String;
    /// What namespaces ask to be logged.
    NamespaceLogs: String => String, name -> work![Unit::PolicyLog(name.clone())];
    /// Networks that namespaces name for their pods.
    NamespaceNetworks: String => String;
    /// Namespaces that are isolated.
    Isolated: String => Isolation, name -> work![Unit::VirtualNetwork(name.clone())];
    /// Apps that pods or services are labelled with.
    Apps: App => (), app -> work![Unit::App(app.clone())];
    /// Services whose labels speak for the pods they select, by a label that all of those have; and all of a namespace.
    AppServices: Anchor => Speakers;
    /// Security groups as read.
    ReadGroups: SecurityGroupName => Arc<Group>;
    /// Networks as read; the error says what to change.
    ReadNetworks: String => Result<Arc<custom_network::Read>, String>;
    /// Features that are in use.
    Features: Feature => ();

    // What was decided.

    /// The addressing in force.
    InForce: () => Settings;
    /// Numbers of nodes, from which their subnets follow.
    Slots: NodeName => u64, name -> work![Decision::Node(name.clone()), Unit::Node(name.clone()), Unit::Gateway(name.clone())];
    /// Nodes by their number.
    SlotHolders: u64 => NodeName;
    /// Addresses of ports.
    Assignments: PortName => Assignment, name -> work![Decision::Port(name.clone())];
    /// Networks as the pods on them have them.
    NetworkRecords: String => NetworkRecord, name -> work![Decision::Network(name.clone()), Unit::CustomNetwork(name.clone())];
    /// Networks by the number their router has on the join switch.
    NetworkSlots: u64 => String;
    /// External addresses of services.
    Externals: ServiceName => External, name -> work![Decision::External(name.clone())];
    /// Who has an address.
    Holders: (Space, IpAddr) => Holder;
    /// Who has an Ethernet address.
    Macs: (Segment, Mac) => Holder;
    /// How many ports a segment has.
    Populations: Segment => usize;
    /// Why a decision did not give all that was wanted.
    Refusals: Decision => Vec<Problem>, decision -> work![decision.clone()];
}
