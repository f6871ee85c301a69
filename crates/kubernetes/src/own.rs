//! Kinds of Netloom's own, as in `deploy/chart/crds`. What their specs mean is for the core to say.

use netloom_network::cluster::ClusterNetwork;
use netloom_network::port::{self, PortSpec, PortStatus};
use netloom_network::security_group::SecurityGroupSpec;
use netloom_network::service::ExternalPoolSpec;
use netloom_network::settings::ClusterNetworkSpec;
use netloom_network::{CustomNetwork, ExternalPool, Object, SecurityGroup};
use serde_json::Value;

use crate::metadata::Written;
use crate::null::Given;

/// The name of the `ClusterNetwork`; there is one.
pub const DEFAULT: &str = "default";

/// The `ClusterNetwork` that is called `default`; others count for nothing.
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
    let uid = std::mem::take(&mut metadata.uid);
    Some(Object::SecurityGroup(metadata.namespaced(), SecurityGroup { uid, spec }))
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
    let (uid, annotations) = (std::mem::take(&mut metadata.uid), std::mem::take(&mut metadata.annotations));
    let pod = port::as_pod(uid, annotations, std::mem::take(&mut metadata.labels), spec.0, &status.0);
    Some(Object::Pod(metadata.namespaced().of_machine(), pod))
}
