//! Endpoint slices: who serves a service, where and in which state.

use netloom_network::service::{Endpoint, Protocol, SlicePort};
use netloom_network::{EndpointSlice, Namespaced, Object};
use serde::Deserialize;

use crate::metadata::{HasMetadata, Metadata};
use crate::null;
use crate::service::{addresses, port_number};

/// The label that names a slice's service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A slice as it is written: it has no spec.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Slice {
    #[serde(deserialize_with = "null::as_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "null::as_default")]
    address_type: String,
    #[serde(deserialize_with = "null::as_default")]
    ports: Vec<Port>,
    #[serde(deserialize_with = "null::as_default")]
    endpoints: Vec<Written>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Port {
    #[serde(deserialize_with = "null::as_default")]
    name: String,
    #[serde(deserialize_with = "null::as_default")]
    protocol: String,
    #[serde(deserialize_with = "null::as_default")]
    port: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    #[serde(deserialize_with = "null::as_default")]
    addresses: Vec<String>,
    #[serde(deserialize_with = "null::as_default")]
    conditions: Conditions,
    #[serde(deserialize_with = "null::as_default")]
    node_name: String,
    #[serde(deserialize_with = "null::as_default")]
    hints: Hints,
    #[serde(deserialize_with = "null::as_default")]
    target_ref: Target,
}

/// An endpoint is ready unless it says otherwise, and serving if it is ready.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Hints {
    #[serde(deserialize_with = "null::as_default")]
    for_zones: Vec<Hint>,
    #[serde(deserialize_with = "null::as_default")]
    for_nodes: Vec<Hint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Hint {
    #[serde(deserialize_with = "null::as_default")]
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Target {
    #[serde(deserialize_with = "null::as_default")]
    kind: String,
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
        name: metadata.labels.remove(SERVICE_NAME)?,
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
