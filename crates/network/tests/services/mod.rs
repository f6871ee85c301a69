//! Random services, endpoint slices and pools, small enough to get in each other's way.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_network::app::APP;
use netloom_network::service::{Endpoint, ExternalPoolSpec, Family, Protocol, ServiceKind, ServicePort, SlicePort};
use netloom_network::{EndpointSlice, ExternalPool, Object, Service, ServiceName, SliceName};
use proptest::prelude::*;

/// The services, slices and pools of an API server.
#[derive(Default)]
pub struct Objects {
    services: BTreeMap<ServiceName, Service>,
    slices: BTreeMap<SliceName, EndpointSlice>,
    pools: BTreeMap<String, ExternalPool>,
}

impl Objects {
    pub fn insert(&mut self, object: Object) {
        match object {
            Object::Service(name, service) => drop(self.services.insert(name, service)),
            Object::EndpointSlice(name, slice) => drop(self.slices.insert(name, slice)),
            Object::ExternalPool(name, pool) => drop(self.pools.insert(name, pool)),
            other => unreachable!("{other:?} is none of these"),
        }
    }

    pub fn remove(&mut self, object: &Object) {
        match object {
            Object::Service(name, _) => drop(self.services.remove(name)),
            Object::EndpointSlice(name, _) => drop(self.slices.remove(name)),
            Object::ExternalPool(name, _) => drop(self.pools.remove(name)),
            other => unreachable!("{other:?} is none of these"),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = Object> {
        let services = self
            .services
            .clone()
            .into_iter()
            .map(|(name, service)| Object::Service(name, service));
        let slices = self
            .slices
            .clone()
            .into_iter()
            .map(|(name, slice)| Object::EndpointSlice(name, slice));
        let pools = self.pools.clone().into_iter().map(|(name, pool)| Object::ExternalPool(name, pool));
        services.chain(slices).chain(pools)
    }
}

/// The object as it is once the controller has written the status.
pub fn with_status(object: Object, given: &BTreeMap<ServiceName, Vec<IpAddr>>) -> Object {
    match object {
        Object::Service(name, mut service) if service.is_ours() => {
            service.status_addresses = given.get(&name).cloned().unwrap_or_default();
            Object::Service(name, service)
        }
        other => other,
    }
}

/// No two services have an address inside the cluster in common; the API server sees to it.
fn numbered(number: u8, mut service: Service) -> Service {
    for ip in &mut service.cluster_ips {
        *ip = match ip {
            IpAddr::V4(_) => IpAddr::from([10, 96, 0, number + 1]),
            IpAddr::V6(_) => format!("fd00:10:96::{number}").parse().unwrap(),
        };
    }
    service
}

pub fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        6 => (0..8u8, service()).prop_map(|(number, service)| Object::Service(name("web", number), numbered(number, service))),
        8 => (0..8u8, slice()).prop_map(|(number, slice)| Object::EndpointSlice(name("slice", number), slice)),
        2 => (0..3u8, pool()).prop_map(|(number, pool)| Object::ExternalPool(format!("pool{number}"), pool)),
    ]
}

fn name(stem: &str, number: u8) -> ServiceName {
    ServiceName {
        namespace: if number == 0 { "guarded" } else { "default" }.to_owned(),
        name: format!("{stem}{number}"),
    }
}

fn service() -> impl Strategy<Value = Service> {
    let kind = prop_oneof![
        Just(ServiceKind::ClusterIp),
        Just(ServiceKind::NodePort),
        Just(ServiceKind::LoadBalancer),
        Just(ServiceKind::LoadBalancer),
    ];
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.1),
    );
    let asks = (
        prop::option::weighted(0.2, 0..8u8),
        prop::option::weighted(0.2, 0..8u8),
        prop::option::weighted(0.2, 0..8u8),
    );
    let written = (
        prop::option::weighted(0.2, prop_oneof![Just("192.0.2.0/24"), Just("0.0.0.0/0"), Just("nobody")]),
        prop::option::weighted(0.2, prop_oneof![Just("true"), Just("interval=2,failures=1"), Just("often")]),
        prop::option::weighted(0.1, prop_oneof![Just("netloom.io/external"), Just("example.com/other")]),
    );
    (
        0..8u8,
        0..2u8,
        kind,
        flags,
        asks,
        written,
        prop::collection::vec((0..3u8, 80..83u16), 1..3),
        1..4u8,
    )
        .prop_map(
            |(number, generation, kind, (affinity, internal_local, external_local, headless), asks, written, ports, families)| {
                let (external_ip, requested, annotated) = asks;
                let (range, health, class) = written;
                let both = [
                    (IpAddr::from([10, 96, 0, number + 1]), Family::Ipv4),
                    (format!("fd00:10:96::{number}").parse().unwrap(), Family::Ipv6),
                ];
                let in_use = || {
                    both.iter()
                        .enumerate()
                        .filter(|(bit, _)| families & (1 << bit) != 0)
                        .map(|(_, one)| *one)
                };
                let annotations = [
                    ("netloom.io/health-check", health.map(str::to_owned)),
                    ("netloom.io/external-addresses", annotated.map(|host| format!("192.0.2.{host}"))),
                ];
                Service {
                    uid: format!("service-{number}-{generation}"),
                    created: format!("2026-01-0{}T00:00:00Z", 1 + number % 3),
                    kind,
                    cluster_ips: in_use().filter(|_| !headless).map(|(ip, _)| ip).collect(),
                    families: in_use().map(|(_, family)| family).collect(),
                    ports: ports.into_iter().map(|(protocol, port)| service_port(protocol, port)).collect(),
                    affinity,
                    internal_local,
                    external_local,
                    external_ips: external_ip.map(|host| IpAddr::from([192, 0, 2, host])).into_iter().collect(),
                    class: class.map(str::to_owned),
                    requested: requested.map(|host| format!("192.0.2.{host}")),
                    source_ranges: range.map(str::to_owned).into_iter().collect(),
                    health_check_port: external_local.then_some(32000),
                    status_addresses: class
                        .filter(|class| class.starts_with("example"))
                        .map(|_| IpAddr::from([192, 0, 2, number]))
                        .into_iter()
                        .collect(),
                    annotations: annotations
                        .into_iter()
                        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                        .collect(),
                    labels: (generation == 1)
                        .then(|| (APP.to_owned(), format!("v{}", number % 2)))
                        .into_iter()
                        .collect(),
                    selector: affinity
                        .then(|| ("app".to_owned(), format!("v{}", number % 2)))
                        .into_iter()
                        .collect(),
                }
            },
        )
}

fn service_port(protocol: u8, port: u16) -> ServicePort {
    ServicePort {
        name: format!("{}-{port}", Protocol::ALL[usize::from(protocol)]),
        protocol: Protocol::ALL[usize::from(protocol)],
        port,
        node_port: Some(30000 + port),
    }
}

fn slice() -> impl Strategy<Value = EndpointSlice> {
    let endpoint = (
        0..24u8,
        0..4u8,
        0..6u8,
        prop::option::of(0..2u8),
        prop::bool::weighted(0.3),
        any::<bool>(),
    );
    let ports = prop::collection::vec((0..3u8, 80..83u16), 1..3);
    (0..8u8, ports, prop::collection::vec(endpoint, 0..6)).prop_map(|(service, ports, endpoints)| EndpointSlice {
        service: name("web", service),
        ports: ports
            .into_iter()
            .map(|(protocol, port)| SlicePort {
                name: service_port(protocol, port).name,
                protocol: Protocol::ALL[usize::from(protocol)],
                port: port + 8000,
            })
            .collect(),
        endpoints: endpoints
            .into_iter()
            .map(|(host, state, node, zone, hinted, pod)| Endpoint {
                address: if host < 20 {
                    IpAddr::from([10, 244, 0, host])
                } else {
                    IpAddr::from([172, 30, 0, host - 20])
                },
                ready: state < 2,
                serving: state != 3,
                terminating: state >= 2,
                node: Some(format!("node{node}")),
                zones: zone.map(|zone| format!("zone{zone}")).into_iter().collect(),
                nodes: hinted.then(|| format!("node{node}")).into_iter().collect(),
                pod,
            })
            .collect(),
    })
}

fn pool() -> impl Strategy<Value = ExternalPool> {
    let addresses = prop_oneof![
        Just((vec!["192.0.2.0/30"], vec![])),
        Just((vec![], vec!["192.0.2.4-192.0.2.7"])),
        Just((vec!["192.0.2.2/31", "fd01::/126"], vec![])),
        Just((vec![], vec!["backwards"])),
        Just((vec!["10.244.0.0/30"], vec![])),
    ];
    (addresses, any::<bool>(), prop::bool::weighted(0.3)).prop_map(|((cidrs, ranges), auto_assign, guarded)| ExternalPool {
        uid: "pool".to_owned(),
        spec: ExternalPoolSpec {
            cidrs: cidrs.into_iter().map(str::to_owned).collect(),
            ranges: ranges.into_iter().map(str::to_owned).collect(),
            namespaces: guarded.then(|| "guarded".to_owned()).into_iter().collect(),
            auto_assign,
        },
    })
}
