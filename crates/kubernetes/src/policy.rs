//! Network policies and cluster-wide policies. The specs of the latter stay as they are written: what of them is understood is for the
//! core to say.

use netloom_network::policy::NetworkPolicySpec;
use netloom_network::{ClusterPolicy, ClusterPolicyKind, ClusterPolicyName, NetworkPolicy, Object};
use serde_json::Value;

use crate::metadata::Written;

/// A `NetworkPolicy`.
pub fn read(written: Written<NetworkPolicySpec>) -> Option<Object> {
    let Written { mut metadata, spec, .. } = written;
    let (name, uid) = (metadata.namespaced(), metadata.uid);
    Some(Object::NetworkPolicy(name, NetworkPolicy { uid, spec }))
}

/// An `AdminNetworkPolicy`.
pub fn admin(written: Written<Value>) -> Option<Object> {
    cluster_wide(ClusterPolicyKind::Admin, written)
}

/// The `BaselineAdminNetworkPolicy`.
pub fn baseline(written: Written<Value>) -> Option<Object> {
    cluster_wide(ClusterPolicyKind::Baseline, written)
}

/// A `ClusterNetworkPolicy`.
pub fn cluster(written: Written<Value>) -> Option<Object> {
    cluster_wide(ClusterPolicyKind::Cluster, written)
}

fn cluster_wide(kind: ClusterPolicyKind, written: Written<Value>) -> Option<Object> {
    let Written { metadata, spec, .. } = written;
    let name = ClusterPolicyName { kind, name: metadata.name };
    let policy = ClusterPolicy {
        uid: metadata.uid,
        annotations: metadata.annotations.0,
        spec,
    };
    Some(Object::ClusterPolicy(name, policy))
}
