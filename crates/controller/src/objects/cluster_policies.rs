//! Cluster-wide policies, as they are read: the spec stays as it is, because what of it is understood is for the core to say. Whoever
//! upgraded without the definitions has none of them.

use k8s_openapi::ClusterResourceScope;
use kube::api::ObjectMeta;
use netloom_network::policy::cluster::GROUP;
use netloom_network::{Cluster, ClusterPolicy, ClusterPolicyKind, ClusterPolicyName, Object, manifest};
use serde::Deserialize;
use serde_json::Value;

use super::{Reduce, resource};

/// Reads one kind.
macro_rules! cluster_policy {
    ($(#[$doc:meta])* $object:ident, $kind:expr, $version:expr, $plural:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        pub struct $object {
            metadata: ObjectMeta,
            #[serde(default)]
            spec: Value,
        }

        resource!($object, ClusterResourceScope, GROUP, $version, $kind.as_str(), $plural);

        impl Reduce for $object {
            const OPTIONAL: bool = true;

            fn reduce(self) -> Option<Object> {
                Some(reduce($kind, self.metadata, self.spec))
            }
        }
    };
}

cluster_policy!(
    /// An `AdminNetworkPolicy`.
    AdminNetworkPolicyObject,
    ClusterPolicyKind::Admin,
    "v1alpha1",
    "adminnetworkpolicies"
);
cluster_policy!(
    /// The `BaselineAdminNetworkPolicy`.
    BaselineAdminNetworkPolicyObject,
    ClusterPolicyKind::Baseline,
    "v1alpha1",
    "baselineadminnetworkpolicies"
);
cluster_policy!(
    /// A `ClusterNetworkPolicy`.
    ClusterNetworkPolicyObject,
    ClusterPolicyKind::Cluster,
    "v1alpha2",
    "clusternetworkpolicies"
);

fn reduce(kind: ClusterPolicyKind, metadata: ObjectMeta, spec: Value) -> Object {
    let name = ClusterPolicyName {
        kind,
        name: metadata.name.unwrap_or_default(),
    };
    let policy = ClusterPolicy {
        uid: metadata.uid.unwrap_or_default(),
        annotations: manifest::relevant(metadata.annotations.unwrap_or_default()),
        spec,
    };
    Object::ClusterPolicy(name, policy)
}

/// The policies of a kind that a cluster has; only their names are filled in.
pub(super) fn known(cluster: &Cluster, kind: ClusterPolicyKind) -> Vec<Object> {
    let names = cluster.cluster_policies.keys().filter(|name| name.kind == kind);
    names
        .map(|name| Object::ClusterPolicy(name.clone(), ClusterPolicy::default()))
        .collect()
}
