//! Pods: where they run, who may reach them by labels, and the ports that have names.

use netloom_network::cluster::NamedPort;
use netloom_network::service::Protocol;
use netloom_network::{Object, Pod};

use crate::metadata::Written;
use crate::null::shape;

shape! {
    pub struct Spec {
        node_name: String,
        host_network: bool,
        containers: Vec<Container>,
        init_containers: Vec<Container>,
    }

    struct Container {
        restart_policy: String,
        ports: Vec<ContainerPort>,
    }

    struct ContainerPort {
        name: String,
        protocol: String,
        container_port: i64,
    }

    pub struct Status {
        phase: String,
        #[serde(rename = "podIPs")]
        pod_ips: Vec<PodIp>,
    }

    struct PodIp {
        ip: String,
    }
}

/// A pod; one that is not bound names no node.
pub fn read(written: Written<Spec, Status>) -> Option<Object> {
    let Written {
        mut metadata,
        spec,
        status,
    } = written;
    let name = metadata.namespaced();
    let pod = Pod {
        uid: metadata.uid,
        node: Some(spec.node_name).filter(|node| !node.is_empty()),
        host_network: spec.host_network,
        finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
        annotations: metadata.annotations.0,
        labels: metadata.labels.0,
        ports: named_ports(spec.containers, spec.init_containers),
        addresses: status.pod_ips.iter().filter_map(|entry| entry.ip.parse().ok()).collect(),
    };
    Some(Object::Pod(name, pod))
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
