//! The table of kinds the network depends on. Reading, watching, listing, naming, rights and definitions are derived from its rows, or
//! tested against them (`tests/chart.rs`): a new kind is a new row.

use netloom_network::ClusterPolicyKind::{Admin, Baseline};
use netloom_network::policy::cluster::GROUP as POLICIES;
use netloom_network::{Cluster, ClusterPolicyKind, ClusterPolicyName, Object, ObjectRef};
use serde::{Deserialize, Deserializer};

use crate::absent::{self, absent};
use crate::metadata::HasMetadata;
use crate::{endpoint_slice, namespace, node, own, pod, policy, service};

/// What Kubernetes has to know of a kind, and people of its objects.
#[derive(Debug)]
pub struct Resource {
    /// Group; empty for Kubernetes' first one.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// The name in paths, e.g. `pods`.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether the API server may not know the kind: then there is no object of it.
    pub optional: bool,
    /// Labels of the objects that matter, as a label selector of names only; all do if it is empty.
    pub selector: &'static str,
    /// The condition that shows whether something is wrong with an object. Kinds whose status belongs to others have none.
    pub condition: Option<&'static str>,
    /// What the condition says from the first, on objects that say it before anything is wrong with them.
    pub in_force: Option<&'static str>,
    /// The definition to install, of kinds that Kubernetes does not bring along.
    pub definition: Option<&'static str>,
}

/// Kubernetes' own kinds.
const NATIVE: Resource = Resource {
    group: "",
    version: "v1",
    plural: "",
    namespaced: true,
    optional: false,
    selector: "",
    condition: None,
    in_force: None,
    definition: None,
};

/// Those of them whose status may have a condition of ours.
const SHOWN: Resource = Resource {
    condition: Some("netloom.io/NetworkReady"),
    ..NATIVE
};

/// Kinds of Netloom's own.
const OWN: Resource = Resource {
    group: "netloom.io",
    version: "v1alpha1",
    condition: Some("Ready"),
    ..NATIVE
};

/// Cluster-wide policies. Whoever upgraded without their definitions has none.
const CLUSTER_POLICY: Resource = Resource {
    group: POLICIES,
    version: "v1alpha1",
    namespaced: false,
    optional: true,
    condition: Some("Accepted"),
    in_force: Some("its rules are in force"),
    ..NATIVE
};

/// The definition of a kind, by its plural.
macro_rules! definition {
    ($plural:literal) => {
        Some(include_str!(concat!("../../../deploy/chart/crds/", $plural, ".yaml")))
    };
}

/// A row of the table.
struct Row {
    name: &'static str,
    resource: Resource,
    /// Objects that a new list does not have any more.
    absent: fn(&Cluster, &[Object]) -> Vec<Object>,
}

/// An object that was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Which version of it.
    pub resource_version: String,
    /// What the network sees of it; nothing of one that it does not depend on.
    pub object: Option<Object>,
}

/// What is done with a kind that has to be known when the program is built: types that are deserialized by others have no other way to
/// tell which they are.
pub trait Visit {
    /// What comes of it.
    type Output;

    /// Does it for [`Kind::ALL`]`[KIND]`.
    fn visit<const KIND: usize>(self) -> Self::Output;
}

/// Makes the table: each kind with the function that reads it, what is absent from a list of it, and its resource.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $read:expr, $absent:expr, $resource:expr;)*) => {
        /// A kind of objects that the network depends on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            fn row(self) -> &'static Row {
                match self {
                    $(Self::$kind => &const { Row { name: stringify!($kind), resource: $resource, absent: $absent } },)*
                }
            }

            /// Reads an object of this kind.
            pub fn deserialize<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<Read, D::Error> {
                match self {
                    $(Self::$kind => read(deserializer, $read),)*
                }
            }

            /// Does something that has to know the kind when the program is built.
            pub fn visit<V: Visit>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$kind => visitor.visit::<{ Self::$kind as usize }>(),)*
                }
            }
        }
    };
}

kinds! {
    /// `ClusterNetwork`.
    ClusterNetwork: own::cluster_network, absent::cluster_network, Resource {
        plural: "clusternetworks",
        namespaced: false,
        in_force: Some("pods get addresses from these ranges"),
        definition: definition!("clusternetworks"),
        ..OWN
    };
    /// Node.
    Node: node::read, absent!(Node, cluster => cluster.nodes.keys()), Resource {
        plural: "nodes",
        namespaced: false,
        ..SHOWN
    };
    /// Pod.
    Pod: pod::read, absent!(Pod, cluster => cluster.pods.keys().filter(|name| name.machine().is_none())), Resource {
        plural: "pods",
        ..SHOWN
    };
    /// `Port`.
    Port: own::port, absent!(Pod, cluster => cluster.machines()), Resource {
        plural: "ports",
        definition: definition!("ports"),
        ..OWN
    };
    /// `ExternalPool`.
    ExternalPool: own::external_pool, absent!(ExternalPool, cluster => cluster.pools.keys()), Resource {
        plural: "externalpools",
        namespaced: false,
        in_force: Some("services get external addresses from these ranges"),
        definition: definition!("externalpools"),
        ..OWN
    };
    /// Service. Those that another proxy serves, or that are names alone, are left out.
    Service: service::read, absent!(Service, cluster => cluster.services.keys()), Resource {
        plural: "services",
        selector: "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name",
        ..SHOWN
    };
    /// `EndpointSlice`, of those services.
    EndpointSlice: endpoint_slice::read, absent!(EndpointSlice, cluster => cluster.slices.keys()), Resource {
        group: "discovery.k8s.io",
        plural: "endpointslices",
        selector: "kubernetes.io/service-name,!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name",
        ..NATIVE
    };
    /// Namespace.
    Namespace: namespace::read, absent!(Namespace, cluster => cluster.namespaces.keys()), Resource {
        plural: "namespaces",
        namespaced: false,
        ..NATIVE
    };
    /// `NetworkPolicy`.
    NetworkPolicy: policy::read, absent!(NetworkPolicy, cluster => cluster.policies.keys()), Resource {
        group: "networking.k8s.io",
        plural: "networkpolicies",
        ..NATIVE
    };
    /// `AdminNetworkPolicy`.
    AdminNetworkPolicy: policy::admin, absent!(ClusterPolicy, cluster => policies(cluster, Admin)), Resource {
        plural: "adminnetworkpolicies",
        definition: definition!("adminnetworkpolicies"),
        ..CLUSTER_POLICY
    };
    /// `BaselineAdminNetworkPolicy`.
    BaselineAdminNetworkPolicy: policy::baseline, absent!(ClusterPolicy, cluster => policies(cluster, Baseline)), Resource {
        plural: "baselineadminnetworkpolicies",
        definition: definition!("baselineadminnetworkpolicies"),
        ..CLUSTER_POLICY
    };
    /// `ClusterNetworkPolicy`.
    ClusterNetworkPolicy: policy::cluster, absent!(ClusterPolicy, cluster => policies(cluster, ClusterPolicyKind::Cluster)), Resource {
        version: "v1alpha2",
        plural: "clusternetworkpolicies",
        definition: definition!("clusternetworkpolicies"),
        ..CLUSTER_POLICY
    };
    /// `SecurityGroup`.
    SecurityGroup: own::security_group, absent!(SecurityGroup, cluster => cluster.security_groups.keys()), Resource {
        plural: "securitygroups",
        in_force: Some("its rules are in force"),
        definition: definition!("securitygroups"),
        ..OWN
    };
    /// `Network`.
    Network: own::network, absent!(CustomNetwork, cluster => cluster.custom_networks.keys()), Resource {
        plural: "networks",
        namespaced: false,
        in_force: Some("pods get addresses from these ranges"),
        definition: definition!("networks"),
        ..OWN
    };
}

impl Kind {
    /// Its name, e.g. `Pod`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Where it is served, and what people see of it.
    pub fn resource(self) -> &'static Resource {
        &self.row().resource
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The kind that a manifest means. Others have kinds of the same names, so the group counts, if there is one.
    pub fn of(api_version: Option<&str>, name: &str) -> Option<Self> {
        let group = api_version.map(|version| version.rsplit_once('/').map_or("", |(group, _)| group));
        Self::named(name).filter(|kind| group.is_none_or(|group| group == kind.resource().group))
    }

    /// Where it is served, e.g. `networking.k8s.io/v1`.
    pub fn api_version(self) -> String {
        let Resource { group, version, .. } = self.resource();
        match *group {
            "" => (*version).to_owned(),
            group => format!("{group}/{version}"),
        }
    }

    /// A reference to an object of this kind.
    pub fn reference(self, namespace: &str, name: &str, uid: &str) -> ObjectRef {
        ObjectRef::namespaced(self.name(), namespace, name, uid)
    }

    /// Objects of this kind that the cluster knows and a new list of them does not have; only their names are filled in.
    pub fn absent(self, cluster: &Cluster, present: &[Object]) -> Vec<Object> {
        (self.row().absent)(cluster, present)
    }

    /// Whether the labels of an object are those of the objects that matter.
    pub fn selects<'a>(self, has: impl Fn(&'a str) -> bool) -> bool {
        let mut terms = self.resource().selector.split(',').filter(|term| !term.is_empty());
        terms.all(|term| term.strip_prefix('!').map_or_else(|| has(term), |name| !has(name)))
    }
}

fn policies(cluster: &Cluster, kind: ClusterPolicyKind) -> impl Iterator<Item = &ClusterPolicyName> {
    cluster.cluster_policies.keys().filter(move |name| name.kind == kind)
}

fn read<'de, D, W>(deserializer: D, read: fn(W) -> Option<Object>) -> Result<Read, D::Error>
where
    D: Deserializer<'de>,
    W: Deserialize<'de> + HasMetadata,
{
    let written = W::deserialize(deserializer)?;
    Ok(Read {
        resource_version: written.metadata().resource_version.clone(),
        object: read(written),
    })
}
