//! Services, endpoint slices and pools from manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::Deserialize;

use super::{Metadata, relevant};
use crate::app;
use crate::cluster::{Namespaced, Object};
use crate::service::{Endpoint, EndpointSlice, Family, Protocol, Service, ServiceKind, ServicePort, SlicePort};
use crate::settings::Settings;

/// Label that names a slice's service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Labels of services that somebody else serves: another proxy, or names alone.
pub const NOT_OURS: [&str; 2] = ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"];

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServiceSpec {
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
    load_balancer_ip: Option<String>,
    load_balancer_source_ranges: Vec<String>,
    health_check_node_port: Option<u16>,
    selector: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Port {
    name: Option<String>,
    protocol: Option<String>,
    port: Option<u16>,
    node_port: Option<u16>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServiceStatus {
    load_balancer: Ingresses,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Ingresses {
    ingress: Vec<Ingress>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Ingress {
    ip: Option<IpAddr>,
    ip_mode: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Slice {
    address_type: String,
    ports: Vec<Port>,
    endpoints: Vec<SliceEndpoint>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SliceEndpoint {
    addresses: Vec<IpAddr>,
    conditions: Conditions,
    node_name: Option<String>,
    hints: Hints,
    target_ref: Option<TargetRef>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Hints {
    for_zones: Vec<Named>,
    for_nodes: Vec<Named>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct TargetRef {
    #[serde(default)]
    kind: String,
}

/// A service; none for one that is a matter of names only or that another proxy serves.
pub(super) fn service(metadata: Metadata, spec: ServiceSpec, status: ServiceStatus) -> Option<Object> {
    let kind = ServiceKind::parse(&spec.r#type).filter(|_| !NOT_OURS.iter().any(|label| metadata.labels.contains_key(*label)))?;
    let all = if spec.cluster_ips.is_empty() {
        vec![spec.cluster_ip]
    } else {
        spec.cluster_ips
    };
    let headless = all.iter().any(|ip| ip == "None");
    let cluster_ips: Vec<IpAddr> = all.iter().filter_map(|ip| ip.parse().ok()).collect();
    let mut families: Vec<Family> = spec.ip_families.iter().filter_map(|name| Family::parse(name)).collect();
    if families.is_empty() && !headless {
        families = cluster_ips.iter().map(|ip| Family::of(*ip)).collect();
        families.extend(cluster_ips.is_empty().then_some(Family::Ipv4)); // what `number` gives an address of
    }
    if headless {
        families.clear();
    }
    let addresses = status.load_balancer.ingress.into_iter();
    let addresses = addresses.filter(|ingress| ingress.ip_mode.as_deref().is_none_or(|mode| mode == "VIP"));
    let service = Service {
        uid: metadata.uid.clone(),
        created: metadata.creation_timestamp.clone(),
        kind,
        cluster_ips,
        families,
        ports: spec.ports.into_iter().filter_map(service_port).collect(),
        affinity: spec.session_affinity == "ClientIP",
        internal_local: spec.internal_traffic_policy == "Local",
        external_local: spec.external_traffic_policy == "Local",
        external_ips: spec.external_ips.iter().filter_map(|ip| ip.parse().ok()).collect(),
        class: spec.load_balancer_class,
        requested: spec.load_balancer_ip,
        source_ranges: spec.load_balancer_source_ranges,
        health_check_port: spec.health_check_node_port.filter(|port| *port != 0),
        status_addresses: addresses.filter_map(|ingress| ingress.ip).collect(),
        annotations: relevant(metadata.annotations.clone()),
        labels: app::relevant(metadata.labels.clone()),
        selector: spec.selector.clone().unwrap_or_default(),
    };
    Some(Object::Service(metadata.namespaced(), service))
}

/// A slice; none for one of names or of no service.
pub(super) fn slice(metadata: Metadata, slice: Slice) -> Option<Object> {
    let service = metadata.labels.get(SERVICE_NAME).filter(|_| slice.address_type != "FQDN")?.clone();
    let name = metadata.namespaced();
    let ports = slice.ports.into_iter().filter_map(|port| {
        Some(SlicePort {
            name: port.name.unwrap_or_default(),
            protocol: Protocol::parse(port.protocol.as_deref().unwrap_or_default())?,
            port: port.port?,
        })
    });
    let value = EndpointSlice {
        service: Namespaced {
            namespace: name.namespace.clone(),
            name: service,
        },
        ports: ports.collect(),
        endpoints: slice.endpoints.into_iter().flat_map(endpoints).collect(),
    };
    Some(Object::EndpointSlice(name, value))
}

/// Gives services that have none the next free cluster address of each of their families.
pub(super) fn number(objects: &mut [Object]) {
    let written = objects.iter().find_map(|object| match object {
        Object::ClusterNetwork(network) => Settings::from_spec(&network.spec).ok(),
        _ => None,
    });
    let ranges = written.unwrap_or_default().services.cidrs;
    let mut taken: BTreeSet<IpAddr> = BTreeSet::new();
    for object in objects.iter() {
        if let Object::Service(_, service) = object {
            taken.extend(&service.cluster_ips);
        }
    }
    for object in objects.iter_mut() {
        let Object::Service(_, service) = object else { continue };
        if !service.cluster_ips.is_empty() {
            continue;
        }
        for family in service.families.clone() {
            let range = ranges.iter().find(|range| Family::of(range.addr()) == family);
            let free = range.and_then(|range| range.hosts().find(|ip| !taken.contains(ip)));
            taken.extend(free);
            service.cluster_ips.extend(free);
        }
    }
}

fn service_port(port: Port) -> Option<ServicePort> {
    Some(ServicePort {
        name: port.name.unwrap_or_default(),
        protocol: Protocol::parse(port.protocol.as_deref().unwrap_or_default())?,
        port: port.port?,
        node_port: port.node_port.filter(|port| *port != 0),
    })
}

fn endpoints(endpoint: SliceEndpoint) -> Vec<Endpoint> {
    let SliceEndpoint {
        addresses,
        conditions,
        node_name,
        hints,
        target_ref,
    } = endpoint;
    let ready = conditions.ready.unwrap_or(true);
    let names = |list: Vec<Named>| list.into_iter().map(|named| named.name).collect::<Vec<_>>();
    let (zones, nodes) = (names(hints.for_zones), names(hints.for_nodes));
    let one = |address| Endpoint {
        address,
        ready,
        serving: conditions.serving.unwrap_or(ready),
        terminating: conditions.terminating.unwrap_or(false),
        node: node_name.clone(),
        zones: zones.clone(),
        nodes: nodes.clone(),
        pod: target_ref.as_ref().is_some_and(|target| target.kind == "Pod"),
    };
    addresses.into_iter().map(one).collect()
}
