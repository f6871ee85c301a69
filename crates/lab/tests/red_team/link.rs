//! A pod with `NET_RAW` and `NET_ADMIN` on its own link: it is no router, no server of addresses, no querier, and only itself. The switch
//! drops such frames, so that it does not matter how the victim is configured: it may be a machine, or a pod with settings of its own.

use std::collections::BTreeSet;

use crate::place::{Link, Place};
use crate::{lab_with, namespace, network, pod};

/// Frames no pod may send.
const FORBIDDEN: &[&str] = &[
    "router_advertisement",
    "router_advertisement_to_one",
    "router_advertisement_behind_options",
    "router_advertisement_as_the_router",
    "redirect",
    "dhcp_server",
    "dhcp_server_to_one",
    "dhcp_v6_server",
    "dhcp_v6_server_to_all",
    "gratuitous_arp_for_the_router",
    "arp_reply_for_the_router",
    "gratuitous_arp_for_a_neighbour",
    "arp_with_a_foreign_hardware_address",
    "advertisement_for_the_router",
    "advertisement_for_the_routers_link_address",
    "advertisement_for_a_neighbour",
    "advertisement_with_a_foreign_hardware_address",
    "solicitation_as_a_neighbour",
    "igmp_query",
    "igmp_query_of_a_group",
    "mld_query",
    "source_of_a_neighbour",
    "source_of_a_neighbour_v6",
    "source_of_the_router",
    "source_of_the_router_v6",
    "source_of_the_routers_link_address",
    "source_outside",
    "source_of_a_service",
    "source_none",
    "foreign_ethernet_address",
    "tag_of_a_vlan",
];
/// Frames of the same making that it may, so that silence means something.
const HONEST: &[&str] = &["honest_datagram", "honest_datagram_v6", "honest_multicast"];

fn pods(namespace: &str) -> String {
    let on = |name: &str, node: &str| pod(namespace, name, node);
    on("attacker", "node1") + &on("victim", "node1") + &on("neighbour", "node1") + &on("far", "node2")
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn try_all(link: &Link<'_>, far: &[&str]) {
    let seen = link.attack(&[FORBIDDEN, HONEST].concat(), &["victim", "far"]);
    assert_eq!(seen[0], set(HONEST), "what a neighbour on the same node received");
    assert_eq!(seen[1], set(far), "what a pod on another node received");
}

#[test]
fn a_pod_is_only_itself_on_its_nodes_switch() {
    let lab = lab_with(&(namespace("red-switch", "") + &pods("red-switch")));
    let link = Link {
        lab: &lab,
        namespace: "red-switch",
        router: Place::of_router(&lab, "cluster-router_to_switch_node1"),
    };
    try_all(&link, &[]);
}

#[test]
fn a_pod_is_only_itself_on_a_network() {
    let objects = network("red", "192.168.66.0/24, \"fd01:66::/64\"") + &namespace("red-network", "netloom.io/network: red");
    let lab = lab_with(&(objects + &pods("red-network")));
    let link = Link {
        lab: &lab,
        namespace: "red-network",
        router: Place::of_router(&lab, "network_red_to_switch"),
    };
    try_all(&link, &["honest_multicast"]);
}

/// Packets for all of a link, each in a frame for the victim alone.
const FOR_ONE: &[&str] = &[
    "broadcast_in_a_frame_for_one",
    "multicast_in_a_frame_for_one",
    "multicast_in_a_frame_for_one_v6",
];

#[test]
fn a_frame_for_one_pod_brings_no_packet_for_all_into_an_isolated_namespace() {
    let closed = namespace("red-closed", "netloom.io/isolation: services") + &pod("red-closed", "victim", "node1");
    let objects = closed + &pod("red-closed", "friend", "node1") + &namespace("red-open", "") + &pods("red-open");
    let lab = lab_with(&objects);
    let router = Place::of_router(&lab, "cluster-router_to_switch_node1");
    let open = Link {
        lab: &lab,
        namespace: "red-open",
        router,
    };
    assert_eq!(
        open.attack(FOR_ONE, &["victim"])[0],
        set(FOR_ONE),
        "such frames arrive where they may"
    );
    let seen = open.attack_other(FOR_ONE, ("red-closed", "victim", "friend"));
    assert_eq!(seen, set(&[]), "what a pod of an isolated namespace received");
}
