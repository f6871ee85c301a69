//! Pods and machines: more than their nodes have room for, some of them asking for what others have.

use std::net::IpAddr;

use netloom_network::annotations::{ADDRESSES, MAC, NETWORK_ADDRESSES};
use netloom_network::cluster::NamedPort;
use netloom_network::security_group::SECURITY_GROUPS;
use netloom_network::service::Protocol;
use netloom_network::{Object, Pod, PodName};
use proptest::prelude::*;

use super::{maybe, policies, text};

/// Addresses of the first nodes; those of routers and nodes among them, and one that differs from a router's in nothing an Ethernet address is
/// made of.
const ASKED: &[&str] = &[
    "10.244.0.5",
    "10.244.0.6",
    "10.244.0.13",
    "10.244.0.14",
    "10.244.0.1",
    "fd00::5",
    "fd00::1:0:1",
    "fd00::1:0:5",
    "10.244.0.5,fd00::6",
    "192.0.2.1",
    "nonsense",
];

pub fn pod() -> BoxedStrategy<Object> {
    let flags = (
        prop::bool::weighted(0.08),
        prop::bool::weighted(0.05),
        prop::option::weighted(0.95, 0..4u8),
    );
    let asks = prop_oneof![
        6 => Just(None),
        2 => text(ASKED).prop_map(|asked| Some((ADDRESSES.to_owned(), asked))),
        1 => text(&["52:54:00:00:00:01", "52:54:00:00:00:02", "0a:4e:0a:f4:00:05"]).prop_map(|mac| Some((MAC.to_owned(), mac))),
        1 => text(&["192.168.0.2", "192.168.0.1", "fd01::2"]).prop_map(|asked| Some((NETWORK_ADDRESSES.to_owned(), asked))),
    ];
    let groups = maybe(0.1, &["v0", "v1,v0", "nonsense"]);
    let shows = prop::option::weighted(0.1, prop::sample::select(vec!["10.244.0.5", "10.244.0.13", "fd00::5", "10.9.0.5"]));
    (
        0..6u8,
        0..2u8,
        flags,
        asks,
        groups,
        shows,
        policies::labels(),
        ports(),
        policies::network_named(),
    )
        .prop_map(
            |(number, generation, (finished, host_network, node), asks, groups, shows, labels, ports, network)| {
                let groups = groups.map(|groups| (SECURITY_GROUPS.to_owned(), groups));
                let on = node.map_or_else(|| "no-node".to_owned(), |node| format!("node{node}"));
                let pod = Pod {
                    uid: format!("pod-{number}-{generation}-on-{on}"), // a pod never changes its node
                    node: node.map(|_| on),
                    host_network,
                    finished,
                    annotations: asks.into_iter().chain(groups).chain(network).collect(),
                    labels,
                    ports,
                    addresses: shows.map(|ip| ip.parse::<IpAddr>().unwrap()).into_iter().collect(),
                };
                Object::Pod(name(number), pod)
            },
        )
        .boxed()
}

/// Some are machines.
fn name(number: u8) -> PodName {
    let pod = PodName {
        namespace: policies::NAMESPACES[usize::from(number % 2)].to_owned(),
        name: format!("pod{number}"),
    };
    if number % 3 == 2 { pod.of_machine() } else { pod }
}

fn ports() -> impl Strategy<Value = Vec<NamedPort>> {
    let port = (0..2u16, any::<bool>()).prop_map(|(number, udp)| NamedPort {
        name: "http".to_owned(),
        protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
        number: 80 + number,
    });
    prop::collection::vec(port, 0..2)
}
