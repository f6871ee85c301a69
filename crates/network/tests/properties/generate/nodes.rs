//! The cluster's own addressing, and nodes: with addresses that other nodes have, and annotations that remember what others have by now.

use std::net::IpAddr;

use netloom_contract::annotation::GATEWAY;
use netloom_network::annotations::SUBNETS;
use netloom_network::cluster::ClusterNetwork;
use netloom_network::settings::{ClusterCidrSpec, ClusterNetworkSpec, ServicesSpec};
use netloom_network::{Node, Object};
use proptest::prelude::*;

use super::{maybe, policies};

/// IPv4, IPv6, both; more, other and fewer ranges; and what cannot be read.
pub fn cluster_network() -> BoxedStrategy<Object> {
    let cidrs = prop_oneof![
        2 => Just(vec!["10.244.0.0/27"]),
        3 => Just(vec!["10.244.0.0/27", "fd00::/60"]),
        2 => Just(vec!["fd00::/60"]),
        1 => Just(vec!["10.244.0.0/27", "10.9.0.0/28"]),
        1 => Just(vec!["10.9.0.0/28"]),
        1 => Just(vec!["broken"]),
        1 => Just(vec![]),
    ];
    let join = maybe(0.2, &["100.64.0.0/29", "192.168.0.0/24", "10.244.0.0/24"]);
    (cidrs, join, prop::bool::weighted(0.2), 0..2u8)
        .prop_map(|(cidrs, join, kube_proxy, generation)| {
            let cluster_cidrs = cidrs.iter().map(|cidr| ClusterCidrSpec {
                cidr: (*cidr).to_owned(),
                node_prefix: cidr.starts_with("10.").then_some(29),
            });
            Object::ClusterNetwork(ClusterNetwork {
                uid: format!("network-{generation}"),
                spec: ClusterNetworkSpec {
                    cluster_cidrs: cluster_cidrs.collect(),
                    join_cidrs: join.into_iter().collect(),
                    services: ServicesSpec {
                        mode: kube_proxy.then(|| "kube-proxy".to_owned()),
                        cidrs: vec![],
                    },
                },
            })
        })
        .boxed()
}

/// Four nodes that have three addresses between them.
pub fn node() -> BoxedStrategy<Object> {
    let addresses = (
        prop::option::weighted(0.8, 0..3u8),
        prop::option::weighted(0.4, 0..2u8),
        prop::option::weighted(0.2, 0..3u8),
    );
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.1));
    let remembers = maybe(
        0.2,
        &[
            "10.244.0.0/29",
            "10.244.0.8/29",
            "10.244.0.8/29,fd00:0:0:1::/64",
            "fd00:0:0:2::/64",
            "nonsense",
        ],
    );
    let zone = maybe(0.4, &["zone0", "zone1"]);
    (0..4u8, 0..2u8, addresses, flags, remembers, zone, policies::labels())
        .prop_map(
            |(number, generation, (v4, v6, other), (gateway, ready, excluded), remembers, zone, labels)| {
                let own: Vec<IpAddr> = v4.map(ipv4).into_iter().chain(v6.map(ipv6)).collect();
                let networks: Vec<String> = own
                    .iter()
                    .map(|ip| format!("\"{ip}/{}\"", if ip.is_ipv4() { 24 } else { 64 }))
                    .collect();
                let report = format!(r#"{{"mac":"02:00:00:00:00:{number:02x}","addresses":[{}]}}"#, networks.join(","));
                let annotations = gateway.then(|| (GATEWAY.to_owned(), report)).into_iter();
                let node = Node {
                    uid: format!("node-{number}-{generation}"),
                    addresses: own,
                    annotations: annotations.chain(remembers.map(|subnets| (SUBNETS.to_owned(), subnets))).collect(),
                    ready,
                    excluded,
                    zone,
                    other_addresses: other.map(ipv4).into_iter().collect(),
                    labels,
                };
                Object::Node(format!("node{number}"), node)
            },
        )
        .boxed()
}

/// What most sequences begin with, so that pods have somewhere to be.
pub fn two_nodes() -> BoxedStrategy<Vec<Object>> {
    let node = |number: u8| {
        let ip = ipv4(number);
        let report = format!(r#"{{"mac":"02:00:00:00:00:{number:02x}","addresses":["{ip}/24"]}}"#);
        let node = Node {
            uid: format!("node-{number}-0"),
            addresses: vec![ip],
            annotations: [(GATEWAY.to_owned(), report)].into(),
            ready: true,
            ..Node::default()
        };
        Object::Node(format!("node{number}"), node)
    };
    cluster_network().prop_map(move |network| vec![network, node(0), node(1)]).boxed()
}

fn ipv4(number: u8) -> IpAddr {
    IpAddr::from([172, 30, 0, number])
}

fn ipv6(number: u8) -> IpAddr {
    format!("fd30::{number}").parse().unwrap()
}
