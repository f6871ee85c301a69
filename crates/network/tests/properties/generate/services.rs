//! Services of every kind, endpoint slices that move between them, and pools, small enough to get in each other's way.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netloom_network::annotations::{EXTERNAL_ADDRESSES, HEALTH_CHECK};
use netloom_network::app::APP;
use netloom_network::service::{Endpoint, ExternalPoolSpec, Family, Protocol, ServiceKind, ServicePort, SlicePort};
use netloom_network::{EndpointSlice, ExternalPool, Object, Service, ServiceName};
use proptest::prelude::*;

use super::{maybe, text};

/// Addresses of pools, of a node, and of none.
const EXTERNAL: &[&str] = &[
    "192.0.2.0",
    "192.0.2.1",
    "192.0.2.4",
    "10.0.2.1",
    "fd01::1",
    "172.30.0.1",
    "198.51.100.1",
];

fn name(stem: &str, number: u8) -> ServiceName {
    ServiceName {
        namespace: if number == 0 { "guarded" } else { "default" }.to_owned(),
        name: format!("{stem}{number}"),
    }
}

pub fn service() -> BoxedStrategy<Object> {
    let kind = prop_oneof![
        1 => Just(ServiceKind::ClusterIp),
        1 => Just(ServiceKind::NodePort),
        3 => Just(ServiceKind::LoadBalancer),
    ];
    let rarely = || prop::bool::weighted(0.3);
    let flags = (any::<bool>(), rarely(), rarely(), prop::bool::weighted(0.1), rarely());
    let asks = (
        maybe(0.25, EXTERNAL),
        maybe(0.2, EXTERNAL),
        maybe(0.2, EXTERNAL),
        maybe(0.1, EXTERNAL),
    );
    let written = (
        maybe(0.2, &["192.0.2.0/24", "0.0.0.0/0", "172.30.0.0/24", "fd30::/64", "nonsense"]),
        maybe(0.25, &["true", "interval=2,failures=1", "often"]),
        maybe(0.1, &["netloom.io/external", "example.com/other"]),
    );
    let ports = prop::collection::btree_set((0..3u8, 80..83u16), 1..3);
    (0..4u8, 0..2u8, kind, flags, asks, written, ports, 1..4u8)
        .prop_map(|(number, generation, kind, flags, asks, written, ports, families)| {
            let (affinity, internal_local, external_local, headless, labelled) = flags;
            let (external_ip, requested, annotated, shown) = asks;
            let (range, health, class) = written;
            // No two services have an address inside the cluster, or a node port, in common; the API server sees to it.
            let both = [
                (IpAddr::from([10, 96, 0, number + 1]), Family::Ipv4),
                (format!("fd00:10:96::{}", number + 1).parse().unwrap(), Family::Ipv6),
            ];
            let in_use = || {
                both.into_iter()
                    .enumerate()
                    .filter(|(bit, _)| families & (1 << bit) != 0)
                    .map(|(_, one)| one)
            };
            let external = |text: Option<String>| text.map(|text| text.parse::<IpAddr>().unwrap());
            let annotations = [(HEALTH_CHECK, health), (EXTERNAL_ADDRESSES, annotated)];
            let app = format!("v{}", number % 2);
            let service = Service {
                uid: format!("service-{number}-{generation}"),
                created: format!("2026-01-0{}T00:00:00Z", 1 + number % 3),
                kind,
                cluster_ips: in_use().filter(|_| !headless).map(|(ip, _)| ip).collect(),
                families: in_use().map(|(_, family)| family).collect(),
                ports: ports
                    .into_iter()
                    .map(|(protocol, port)| service_port(number, protocol, port))
                    .collect(),
                affinity,
                internal_local,
                external_local,
                external_ips: external(external_ip).into_iter().collect(),
                class,
                requested,
                source_ranges: range.into_iter().collect(),
                health_check_port: external_local.then_some(32000),
                status_addresses: external(shown).into_iter().collect(),
                annotations: annotations
                    .into_iter()
                    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                    .collect(),
                labels: labelled.then(|| (APP.to_owned(), app.clone())).into_iter().collect(),
                selector: affinity.then(|| ("app".to_owned(), app)).into_iter().collect(),
            };
            Object::Service(name("web", number), service)
        })
        .boxed()
}

fn service_port(number: u8, protocol: u8, port: u16) -> ServicePort {
    ServicePort {
        name: port_name(protocol, port),
        protocol: Protocol::ALL[usize::from(protocol)],
        port,
        node_port: Some(29_920 + u16::from(number) * 10 + port),
    }
}

fn port_name(protocol: u8, port: u16) -> String {
    format!("{}-{port}", Protocol::ALL[usize::from(protocol)])
}

pub fn slice() -> BoxedStrategy<Object> {
    let address = text(&[
        "10.244.0.5",
        "10.244.0.6",
        "10.244.0.13",
        "172.30.0.0",
        "172.30.0.1",
        "fd00::5",
        "fd30::1",
    ]);
    let hints = (maybe(0.3, &["zone0", "zone1"]), prop::bool::weighted(0.3));
    let endpoint = (address, 0..4u8, 0..4u8, hints, any::<bool>());
    let ports = prop::collection::btree_set((0..3u8, 80..83u16), 1..3);
    (0..4u8, 0..4u8, ports, prop::collection::vec(endpoint, 0..4))
        .prop_map(|(number, service, ports, endpoints)| {
            let slice_port = |(protocol, port): (u8, u16)| SlicePort {
                name: port_name(protocol, port),
                protocol: Protocol::ALL[usize::from(protocol)],
                port: port + 8000,
            };
            let ports: BTreeSet<(u8, u16)> = ports;
            let endpoint = |(address, state, node, (zone, hinted), pod): (String, u8, u8, (Option<String>, bool), bool)| Endpoint {
                address: address.parse().unwrap(),
                ready: state < 2,
                serving: state != 3,
                terminating: state >= 2,
                node: Some(format!("node{node}")),
                zones: zone.into_iter().collect(),
                nodes: hinted.then(|| format!("node{node}")).into_iter().collect(),
                pod,
            };
            let slice = EndpointSlice {
                service: ServiceName {
                    namespace: name("slice", number).namespace,
                    name: format!("web{service}"),
                },
                ports: ports.into_iter().map(slice_port).collect(),
                endpoints: endpoints.into_iter().map(endpoint).collect(),
            };
            Object::EndpointSlice(name("slice", number), slice)
        })
        .boxed()
}

/// Pools that overlap, one with addresses that end like those of another, and one with addresses of the cluster itself.
pub fn pool() -> BoxedStrategy<Object> {
    let addresses = prop_oneof![
        3 => Just((vec!["192.0.2.0/30"], vec![])),
        2 => Just((vec!["10.0.2.0/30"], vec![])),
        2 => Just((vec![], vec!["192.0.2.4-192.0.2.7"])),
        2 => Just((vec!["192.0.2.2/31", "fd01::/126"], vec![])),
        1 => Just((vec!["172.30.0.0/30"], vec![])),
        1 => Just((vec![], vec!["backwards"])),
        1 => Just((vec!["10.244.0.0/30"], vec![])),
    ];
    (0..3u8, 0..2u8, addresses, prop::bool::weighted(0.8), prop::bool::weighted(0.2))
        .prop_map(|(number, generation, (cidrs, ranges), auto_assign, guarded)| {
            let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
            let spec = ExternalPoolSpec {
                cidrs: owned(cidrs),
                ranges: owned(ranges),
                namespaces: guarded.then(|| "guarded".to_owned()).into_iter().collect(),
                auto_assign,
            };
            Object::ExternalPool(
                format!("pool{number}"),
                ExternalPool {
                    uid: format!("pool-{generation}"),
                    spec,
                },
            )
        })
        .boxed()
}
