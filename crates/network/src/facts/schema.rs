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
use crate::facts::{Hashed, Ordered, Schema};
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
    ($( $(#[$doc:meta])* $name:ident: $store:ident<$key:ty, $value:ty> $(, $bound:ident -> $work:expr)? ; )+) => {
        #[allow(clippy::enum_variant_names)]
        enum Number { $($name),+ }
        $(
            $(#[$doc])*
            pub enum $name {}

            impl Schema for $name {
                const NUMBER: u8 = Number::$name as u8;
                type Key = $key;
                type Value = $value;
                type Store = $store<$key, $value>;

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
    ClusterNetworks: Ordered<(), ClusterNetwork>;
    /// Nodes.
    Nodes: Ordered<NodeName, Node>, name -> work![Decision::Node(name.clone()), Unit::Node(name.clone()), Unit::Gateway(name.clone())];
    /// Pods, and machines, which are pods to the network.
    Pods: Hashed<PodName, Pod>, name -> { let port = name.first_port(); work![Decision::Port(port.clone()), Unit::Port(port)] };
    /// Services.
    Services: Ordered<ServiceName, Service>, name -> work![Decision::External(name.clone()), Unit::Service(name.clone())];
    /// Endpoint slices.
    Slices: Ordered<SliceName, EndpointSlice>;
    /// Pools of external addresses.
    Pools: Ordered<String, ExternalPool>, name -> work![Unit::Pool(name.clone())];
    /// Namespaces.
    Namespaces: Ordered<String, Namespace>;
    /// Network policies.
    NetworkPolicies: Ordered<PolicyName, NetworkPolicy>, name -> work![Unit::Policy(name.clone())];
    /// Cluster-wide policies.
    ClusterPolicies: Ordered<ClusterPolicyName, ClusterPolicy>, name -> work![Unit::ClusterPolicy(name.clone())];
    /// Security groups.
    SecurityGroups: Ordered<SecurityGroupName, SecurityGroup>, name -> work![Unit::SecurityGroup(name.clone())];
    /// Networks that users define.
    CustomNetworks: Ordered<String, CustomNetwork>, name -> work![Decision::Network(name.clone()), Unit::CustomNetwork(name.clone())];

    // What follows from it.

    /// What services see of a node.
    Hosts: Ordered<NodeName, Host>;
    /// Nodes by their own addresses.
    NodeAddresses: Ordered<IpAddr, BTreeSet<NodeName>>;
    /// Sets of nodes a node is in.
    NodeSets: Ordered<NodeName, BTreeSet<Selector>>;
    /// Slices by service.
    SlicesOf: Ordered<ServiceName, BTreeSet<SliceName>>;
    /// Services by their addresses inside the cluster, with when they were created: the oldest first.
    ClusterIps: Ordered<IpAddr, BTreeSet<(String, ServiceName)>>;
    /// Services that another controller gave an external address, the oldest first.
    Claims: Ordered<IpAddr, BTreeSet<Claim>>;
    /// Pools as read; the error says why one cannot be used.
    ReadPools: Ordered<String, Result<Pool, String>>;
    /// Network policies as read.
    ReadPolicies: Ordered<PolicyName, Arc<Policy>>;
    /// Cluster-wide policies as read.
    RankedPolicies: Ordered<ClusterPolicyName, Arc<RankedPolicy>>;
    /// Selectors of nodes, and the policies that use them.
    NodeSelectors: Ordered<Selector, BTreeSet<ClusterPolicyName>>, labels -> work![Unit::Nodes(labels.clone())];
    /// Selections of pods by what they are used for, and the policies that use them so.
    Users: Ordered<(Selection, Role), BTreeSet<User>>, it -> work![Unit::Selection(Box::new(it.clone()))];
    /// What a selection is used for.
    Roles: Ordered<Selection, BTreeSet<Role>>;
    /// Selections that pods of a namespace with a label, or any, can be in.
    Anchored: Ordered<Anchor, BTreeSet<Selection>>;
    /// Numbers that pods of a namespace, or of any, give to a port's name.
    Numbers: Ordered<(OfferedPort, Option<String>), BTreeSet<u16>>;
    /// Labels of namespaces.
    NamespaceLabels: Ordered<String, BTreeMap<String, String>>;
    /// UIDs of namespaces.
    NamespaceUids: Ordered<String, String>;
    /// What namespaces ask to be logged.
    NamespaceLogs: Ordered<String, String>, name -> work![Unit::PolicyLog(name.clone())];
    /// Networks that namespaces name for their pods.
    NamespaceNetworks: Ordered<String, String>;
    /// Namespaces that are isolated.
    Isolated: Ordered<String, Isolation>, name -> work![Unit::VirtualNetwork(name.clone())];
    /// Apps that pods or services are labelled with.
    Apps: Ordered<App, ()>, app -> work![Unit::App(app.clone())];
    /// Services whose labels speak for the pods they select, by a label that all of those have; and all of a namespace.
    AppServices: Ordered<Anchor, Speakers>;
    /// Security groups as read.
    ReadGroups: Ordered<SecurityGroupName, Arc<Group>>;
    /// Networks as read; the error says what to change.
    ReadNetworks: Ordered<String, Result<Arc<custom_network::Read>, String>>;
    /// Features that are in use.
    Features: Ordered<Feature, ()>;

    // What was decided.

    /// The addressing in force.
    InForce: Ordered<(), Settings>;
    /// Numbers of nodes, from which their subnets follow.
    Slots: Ordered<NodeName, u64>, name -> work![Decision::Node(name.clone()), Unit::Node(name.clone()), Unit::Gateway(name.clone())];
    /// Nodes by their number.
    SlotHolders: Ordered<u64, NodeName>;
    /// Addresses of ports.
    Assignments: Hashed<PortName, Assignment>, name -> work![Decision::Port(name.clone())];
    /// Networks as the pods on them have them.
    NetworkRecords: Ordered<String, NetworkRecord>, name -> work![Decision::Network(name.clone()), Unit::CustomNetwork(name.clone())];
    /// Networks by the number their router has on the join switch.
    NetworkSlots: Ordered<u64, String>;
    /// External addresses of services.
    Externals: Ordered<ServiceName, External>, name -> work![Decision::External(name.clone())];
    /// Who has an address.
    Holders: Hashed<(Space, IpAddr), Holder>;
    /// Who has an Ethernet address.
    Macs: Hashed<(Segment, Mac), Holder>;
    /// How many ports a segment has.
    Populations: Ordered<Segment, usize>;
    /// Why a decision did not give all that was wanted.
    Refusals: Hashed<Decision, Vec<Problem>>, decision -> work![decision.clone()];
}
