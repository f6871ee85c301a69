//! Endpoint slices: who serves a service, where and in which state.

use netloom_network::service::{Endpoint, Protocol, SlicePort};
use netloom_network::{EndpointSlice, Namespaced, Object};

use crate::metadata::{HasMetadata, Metadata};
use crate::null::shape;
use crate::service::{addresses, port_number};

/// The label that names a slice's service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

shape! {
    /// A slice as it is written: it has no spec.
    pub struct Slice {
        metadata: Metadata,
        address_type: String,
        ports: Vec<Port>,
        endpoints: Vec<Written>,
    }

    struct Port {
        name: String,
        protocol: String,
        port: i64,
    }

    struct Written {
        addresses: Vec<String>,
        conditions: Conditions,
        node_name: String,
        hints: Hints,
        target_ref: Target,
    }

    /// An endpoint is ready unless it says otherwise, and serving if it is ready.
    struct Conditions {
        ready: Option<bool>,
        serving: Option<bool>,
        terminating: Option<bool>,
    }

    struct Hints {
        for_zones: Vec<Hint>,
        for_nodes: Vec<Hint>,
    }

    struct Hint {
        name: String,
    }

    struct Target {
        kind: String,
    }
}

impl HasMetadata for Slice {
    fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }
}

/// A slice; none for one of names or of no service.
pub fn read(written: Slice) -> Option<Object> {
    let Slice {
        mut metadata,
        address_type,
        ports,
        endpoints,
    } = written;
    if address_type == "FQDN" {
        return None;
    }
    let service = Namespaced {
        namespace: metadata.namespace.clone(),
        name: metadata.labels.0.remove(SERVICE_NAME)?,
    };
    let slice = EndpointSlice {
        service,
        ports: ports.into_iter().filter_map(port).collect(),
        endpoints: endpoints.into_iter().flat_map(each_address).collect(),
    };
    Some(Object::EndpointSlice(metadata.namespaced(), slice))
}

/// A port without a number stands for all ports: there is none to translate to.
fn port(port: Port) -> Option<SlicePort> {
    Some(SlicePort {
        protocol: Protocol::parse(&port.protocol)?,
        port: port_number(port.port)?,
        name: port.name,
    })
}

fn each_address(written: Written) -> Vec<Endpoint> {
    let ready = written.conditions.ready.unwrap_or(true);
    let names = |hints: Vec<Hint>| -> Vec<String> { hints.into_iter().map(|hint| hint.name).collect() };
    let (zones, nodes) = (names(written.hints.for_zones), names(written.hints.for_nodes));
    let node = Some(written.node_name).filter(|node| !node.is_empty());
    let one = |address| Endpoint {
        address,
        ready,
        serving: written.conditions.serving.unwrap_or(ready),
        terminating: written.conditions.terminating.unwrap_or(false),
        node: node.clone(),
        zones: zones.clone(),
        nodes: nodes.clone(),
        pod: written.target_ref.kind == "Pod",
    };
    addresses(&written.addresses).into_iter().map(one).collect()
}
