//! Nodes: their addresses, and what their labels and conditions say of them.

use netloom_network::{Node, Object};
use serde::de::IgnoredAny;

use crate::metadata::Written;
use crate::null::shape;

/// Label with a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of nodes that announce no external address.
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

shape! {
    pub struct Status {
        addresses: Vec<Address>,
        conditions: Vec<Condition>,
    }

    struct Address {
        r#type: String,
        address: String,
    }

    struct Condition {
        r#type: String,
        status: String,
    }
}

/// A node. It is ready if its kubelet says so, and in a zone if that has a name.
pub fn read(written: Written<IgnoredAny, Status>) -> Option<Object> {
    let Written { metadata, status, .. } = written;
    let of_type = |internal: bool| {
        let addresses = status.addresses.iter().filter(move |a| (a.r#type == "InternalIP") == internal);
        addresses.filter_map(|a| a.address.parse().ok()).collect()
    };
    let labels = metadata.labels.0;
    let node = Node {
        uid: metadata.uid,
        addresses: of_type(true),
        other_addresses: of_type(false),
        annotations: metadata.annotations.0,
        zone: labels.get(ZONE).filter(|zone| !zone.is_empty()).cloned(),
        ready: status.conditions.iter().any(|c| c.r#type == "Ready" && c.status == "True"),
        excluded: labels.contains_key(EXCLUDED),
        labels,
    };
    Some(Object::Node(metadata.name, node))
}
