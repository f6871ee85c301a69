//! Services: their addresses, their ports and how far they reach.

use std::net::IpAddr;

use netloom_network::service::{Family, Protocol, ServiceKind, ServicePort};
use netloom_network::{Object, Service, app};

use crate::metadata::Written;
use crate::null::shape;
use crate::texts::Labels;

shape! {
    pub struct Spec {
        r#type: String,
        #[serde(rename = "clusterIP")]
        cluster_ip: String,
        #[serde(rename = "clusterIPs")]
        cluster_ips: Vec<String>,
        ip_families: Vec<String>,
        ports: Vec<Port>,
        session_affinity: String,
        internal_traffic_policy: String,
        external_traffic_policy: String,
        #[serde(rename = "externalIPs")]
        external_ips: Vec<String>,
        load_balancer_class: Option<String>,
        #[serde(rename = "loadBalancerIP")]
        load_balancer_ip: String,
        load_balancer_source_ranges: Vec<String>,
        health_check_node_port: i64,
        selector: Labels,
    }

    struct Port {
        name: String,
        protocol: String,
        port: i64,
        node_port: i64,
    }

    pub struct Status {
        load_balancer: LoadBalancer,
    }

    struct LoadBalancer {
        ingress: Vec<Ingress>,
    }

    struct Ingress {
        ip: String,
        ip_mode: Option<String>,
    }
}

/// A service. One that is only a name (`ExternalName`) is one without addresses and ports: it may have had some before.
pub fn read(written: Written<Spec, Status>) -> Option<Object> {
    let Written {
        mut metadata,
        spec,
        status,
    } = written;
    let shown = status.load_balancer.ingress.iter();
    let shown = shown.filter(|ingress| ingress.ip_mode.as_deref().is_none_or(|mode| mode == "VIP"));
    let name = metadata.namespaced();
    let mut service = Service {
        uid: metadata.uid,
        created: metadata.creation_timestamp,
        status_addresses: shown.filter_map(|ingress| ingress.ip.parse().ok()).collect(),
        annotations: metadata.annotations.0,
        labels: app::relevant(metadata.labels.0),
        selector: spec.selector.0,
        ..Service::default()
    };
    if let Some(kind) = ServiceKind::parse(&spec.r#type) {
        let cluster_ips = match spec.cluster_ips.as_slice() {
            [] => addresses(&[spec.cluster_ip]),
            several => addresses(several),
        };
        service = Service {
            kind,
            families: families(&spec.ip_families, &cluster_ips),
            cluster_ips,
            ports: spec.ports.into_iter().filter_map(port).collect(),
            affinity: spec.session_affinity == "ClientIP",
            internal_local: spec.internal_traffic_policy == "Local",
            external_local: spec.external_traffic_policy == "Local",
            external_ips: addresses(&spec.external_ips),
            class: spec.load_balancer_class,
            requested: Some(spec.load_balancer_ip).filter(|text| !text.is_empty()),
            source_ranges: spec.load_balancer_source_ranges,
            health_check_port: port_number(spec.health_check_node_port),
            ..service
        };
    }
    Some(Object::Service(name, service))
}

/// The families written, or those of the addresses it has.
fn families(written: &[String], cluster_ips: &[IpAddr]) -> Vec<Family> {
    if written.is_empty() {
        cluster_ips.iter().copied().map(Family::of).collect()
    } else {
        written.iter().filter_map(|text| Family::parse(text)).collect()
    }
}

fn port(port: Port) -> Option<ServicePort> {
    Some(ServicePort {
        protocol: Protocol::parse(&port.protocol)?,
        port: port_number(port.port)?,
        node_port: port_number(port.node_port),
        name: port.name,
    })
}

/// The addresses among the texts; `None`, as headless services have it, is none.
pub fn addresses(texts: &[String]) -> Vec<IpAddr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// A port's number; zero is none.
pub fn port_number(written: i64) -> Option<u16> {
    u16::try_from(written).ok().filter(|number| *number != 0)
}
