//! The table of kinds, and the functions that read Netloom's own. What their specs mean is for the core to say.

use netloom_network::ClusterPolicyKind::{Admin, Baseline};
use netloom_network::cluster::ClusterNetwork;
use netloom_network::policy::cluster::GROUP as POLICIES;
use netloom_network::port::{self, PortSpec, PortStatus};
use netloom_network::security_group::SecurityGroupSpec;
use netloom_network::service::ExternalPoolSpec;
use netloom_network::settings::ClusterNetworkSpec;
use netloom_network::{Cluster, ClusterPolicyKind, ClusterPolicyName, CustomNetwork, ExternalPool, Object, SecurityGroup};
use serde::Deserializer;
use serde_json::Value;

use super::{Read, Resource, Row, Visit, kinds, read};
use crate::absent::{self, absent};
use crate::metadata::Written;
use crate::null::Given;
use crate::{endpoint_slice, namespace, node, pod, policy, service};

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

/// Cluster-wide policies. A cluster that was upgraded without their definitions has none.
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
        Some(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../deploy/chart/crds/",
            $plural,
            ".yaml"
        )))
    };
}

kinds! {
    /// `ClusterNetwork`.
    ClusterNetwork: cluster_network, absent::cluster_network, Resource {
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
    Port: port, absent!(Pod, cluster => cluster.machines()), Resource {
        plural: "ports",
        definition: definition!("ports"),
        ..OWN
    };
    /// `ExternalPool`.
    ExternalPool: external_pool, absent!(ExternalPool, cluster => cluster.pools.keys()), Resource {
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
    SecurityGroup: security_group, absent!(SecurityGroup, cluster => cluster.security_groups.keys()), Resource {
        plural: "securitygroups",
        in_force: Some("its rules are in force"),
        definition: definition!("securitygroups"),
        ..OWN
    };
    /// `Network`.
    Network: network, absent!(CustomNetwork, cluster => cluster.custom_networks.keys()), Resource {
        plural: "networks",
        namespaced: false,
        in_force: Some("pods get addresses from these ranges"),
        definition: definition!("networks"),
        ..OWN
    };
}

/// The name of the `ClusterNetwork`; there is one.
pub const DEFAULT: &str = "default";

/// The `ClusterNetwork` that is called `default`; others are ignored.
pub fn cluster_network(written: Written<Given<ClusterNetworkSpec>>) -> Option<Object> {
    let Written { metadata, spec, .. } = written;
    let network = ClusterNetwork {
        uid: metadata.uid,
        spec: spec.0,
    };
    (metadata.name == DEFAULT).then_some(Object::ClusterNetwork(network))
}

/// An `ExternalPool`.
pub fn external_pool(written: Written<Given<ExternalPoolSpec>>) -> Option<Object> {
    let Written { metadata, spec, .. } = written;
    let pool = ExternalPool {
        uid: metadata.uid,
        spec: spec.0,
    };
    Some(Object::ExternalPool(metadata.name, pool))
}

/// A `SecurityGroup`.
pub fn security_group(written: Written<SecurityGroupSpec>) -> Option<Object> {
    let Written { mut metadata, spec, .. } = written;
    let (name, uid) = (metadata.namespaced(), metadata.uid);
    Some(Object::SecurityGroup(name, SecurityGroup { uid, spec }))
}

/// A `Network`. Its fields that are null were not written; what is in them stays as it is.
pub fn network(written: Written<Value>) -> Option<Object> {
    let Written { metadata, mut spec, .. } = written;
    if let Value::Object(fields) = &mut spec {
        fields.retain(|_, value| !value.is_null());
    }
    let uid = metadata.uid;
    Some(Object::CustomNetwork(metadata.name, CustomNetwork { uid, spec }))
}

/// The `Port` of a machine, which is a pod to the network.
pub fn port(written: Written<Given<PortSpec>, Given<PortStatus>>) -> Option<Object> {
    let Written {
        mut metadata,
        spec,
        status,
    } = written;
    let name = metadata.namespaced().of_machine();
    let pod = port::as_pod(metadata.uid, metadata.annotations.0, metadata.labels.0, spec.0, &status.0);
    Some(Object::Pod(name, pod))
}

fn policies(cluster: &Cluster, kind: ClusterPolicyKind) -> impl Iterator<Item = &ClusterPolicyName> {
    cluster.cluster_policies.keys().filter(move |name| name.kind == kind)
}
