//! Pods: where they run, who may reach them by labels, and the ports that have names.

use netloom_network::cluster::NamedPort;
use netloom_network::service::Protocol;
use netloom_network::{Object, Pod};
use serde::Deserialize;

use crate::metadata::Written;
use crate::null;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    #[serde(deserialize_with = "null::as_default")]
    node_name: String,
    #[serde(deserialize_with = "null::as_default")]
    host_network: bool,
    #[serde(deserialize_with = "null::as_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "null::as_default")]
    init_containers: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    #[serde(deserialize_with = "null::as_default")]
    restart_policy: String,
    #[serde(deserialize_with = "null::as_default")]
    ports: Vec<ContainerPort>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerPort {
    #[serde(deserialize_with = "null::as_default")]
    name: String,
    #[serde(deserialize_with = "null::as_default")]
    protocol: String,
    #[serde(deserialize_with = "null::as_default")]
    container_port: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(deserialize_with = "null::as_default")]
    phase: String,
    #[serde(rename = "podIPs", deserialize_with = "null::as_default")]
    pod_ips: Vec<PodIp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodIp {
    #[serde(deserialize_with = "null::as_default")]
    ip: String,
}

/// A pod; one that is not bound names no node.
pub fn read(written: Written<Spec, Status>) -> Option<Object> {
    let Written {
        mut metadata,
        spec,
        status,
    } = written;
    let pod = Pod {
        uid: std::mem::take(&mut metadata.uid),
        node: Some(spec.node_name).filter(|node| !node.is_empty()),
        host_network: spec.host_network,
        finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
        annotations: std::mem::take(&mut metadata.annotations),
        labels: std::mem::take(&mut metadata.labels),
        ports: named_ports(spec.containers, spec.init_containers),
        addresses: status.pod_ips.iter().filter_map(|entry| entry.ip.parse().ok()).collect(),
    };
    Some(Object::Pod(metadata.namespaced(), pod))
}

/// Ports with a name, of the containers that run as long as the pod does.
fn named_ports(containers: Vec<Container>, init: Vec<Container>) -> Vec<NamedPort> {
    let sidecars = init.into_iter().filter(|container| container.restart_policy == "Always");
    let ports = containers.into_iter().chain(sidecars).flat_map(|container| container.ports);
    let named = ports.filter(|port| !port.name.is_empty()).filter_map(|port| {
        Some(NamedPort {
            name: port.name,
            protocol: Protocol::parse(&port.protocol)?,
            number: u16::try_from(port.container_port).ok()?,
        })
    });
    named.collect()
}
