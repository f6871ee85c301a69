//! A service's announcer: a router with nothing but the service's external addresses, on the switch all uplinks share, and the nodes
//! OVN may place it on. OVN elects one of them, answers ARP and ND there and moves it when the node dies. Its row records the
//! addresses, so it exists as long as the service has any.

use netloom_contract::external_id::{ADDRESSES, MAC, UID};
use netloom_contract::name::announcer_port;
use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::{NodeName, View};
use crate::ipam::{External, Mac};
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::problem::ObjectRef;
use crate::rows::{HaChassis, HaChassisGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use crate::service::{Family, Service, ServiceName};
use crate::unit::network::announce_switch;
use crate::unit::service::backends::{Endpoints, ServedPort};
use crate::unit::{Fragment, commas};

/// How many nodes may stand in for each other.
const MOST_CANDIDATES: usize = 5;
/// Priority of the node OVN takes first.
const FIRST_PRIORITY: i64 = 100;

pub(super) fn compile(view: &View<'_>, name: &ServiceName, service: &Service, ports: &[ServedPort<'_>], fragment: &mut Fragment) {
    let Some(External { addresses, mac, .. }) = view.external(name, &service.uid) else {
        return;
    };
    let Some(first) = addresses.first() else { return };
    let owner = view.service_ref(name);
    let both = format!("{}_{}", name.namespace, name.name);
    let port_name = announcer_port(&name.namespace, &name.name);

    let router = Key::new(format!("announcer/{name}"));
    let mut external_ids = ids(&router, &owner);
    external_ids.insert(UID.to_owned(), service.uid.clone());
    external_ids.insert(ADDRESSES.to_owned(), commas(addresses.iter().map(|ip| IpNet::from(*ip))));
    if Mac::announcers(*first).next() != Some(*mac) {
        // Another announcer has the one that follows from the address.
        external_ids.insert(MAC.to_owned(), mac.to_string());
    }
    let row = LogicalRouter {
        name: format!("announcer_{both}"),
        // It resolves no other router on the switch, and learns nothing from what the others announce: either would cost each of them flows
        // for each other.
        options: [("always_learn_from_arp_request", "false"), ("dynamic_neigh_routers", "true")]
            .map(|(option, value)| (option.to_owned(), value.to_owned()))
            .into(),
        external_ids,
        ..Default::default()
    };
    put(fragment, &router, row);

    // Without a node to be on, a port would answer on every node.
    let candidates = candidates(view, name, service, ports);
    if candidates.is_empty() {
        return;
    }
    let port = Key::new(format!("announcer-port/{name}"));
    let row = LogicalRouterPort {
        name: port_name.clone(),
        mac: mac.to_string(),
        networks: addresses.iter().map(|ip| network(*ip)).collect(),
        external_ids: ids(&port, &owner),
        ..Default::default()
    };
    put(fragment, &port, row).add_to::<LogicalRouter>(fragment, &router, "ports");
    let peer = Key::new(format!("announcer-peer/{name}"));
    let mut row = LogicalSwitchPort::router(format!("announce_{both}"), port_name, ids(&peer, &owner));
    row.options.insert("nat-addresses".to_owned(), "router".to_owned());
    put(fragment, &peer, row).add_to::<LogicalSwitch>(fragment, &announce_switch(), "ports");

    let group = Key::new(format!("ha/{name}"));
    let row = HaChassisGroup {
        name: format!("announcer_{both}"),
        external_ids: ids(&group, &owner),
        ..Default::default()
    };
    put(fragment, &group, row).add_to::<LogicalRouterPort>(fragment, &port, "ha_chassis_group");
    for (node, priority) in candidates.into_iter().zip((1..=FIRST_PRIORITY).rev()) {
        compile_candidate(name, &group, node, priority, &owner, fragment);
    }
}

fn compile_candidate(name: &ServiceName, group: &Key, node: &str, priority: i64, owner: &ObjectRef, fragment: &mut Fragment) {
    let key = Key::new(format!("ha/{name}/{node}"));
    let row = HaChassis {
        chassis_name: node.to_owned(),
        priority,
        external_ids: ids(&key, owner),
    };
    put(fragment, &key, row).add_to::<HaChassisGroup>(fragment, group, "ha_chassis");
}

/// Nodes that may announce, best first: ready ones before others, and among equals each service in an order of its own, so that
/// services spread and a node that comes or goes moves only its own.
fn candidates<'a>(view: &'a View<'a>, name: &ServiceName, service: &Service, ports: &[ServedPort<'_>]) -> Vec<&'a str> {
    let slotted: BTreeSet<&NodeName> = view.slotted_nodes().collect();
    let eligible = view
        .hosts()
        .filter(|(name, host)| !host.excluded && host.gateway().is_some() && slotted.contains(name));
    let mut nodes: Vec<(bool, u64, &str)> = eligible
        .map(|(node, facts)| (!facts.ready, rank(name, node), node.as_str()))
        .collect();
    if service.external_local {
        let endpoints = ports
            .iter()
            .flat_map(|port| [Family::Ipv4, Family::Ipv6].map(|family| port.endpoints(family)));
        let used = endpoints.flat_map(Endpoints::usable);
        let local: BTreeSet<&str> = used.filter_map(|backend| backend.endpoint.node.as_deref()).collect();
        if nodes.iter().any(|(_, _, node)| local.contains(node)) {
            nodes.retain(|(_, _, node)| local.contains(node));
        }
    }
    nodes.sort_unstable();
    nodes.truncate(MOST_CANDIDATES);
    nodes.into_iter().map(|(_, _, node)| node).collect()
}

/// A number that a service and a node always have in common, and nothing else does.
fn rank(service: &ServiceName, node: &str) -> u64 {
    let parts = [service.namespace.as_str(), "/", service.name.as_str(), "/", node];
    let bytes = parts.iter().flat_map(|part| part.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // Names differ in their last letters, which alone do not reach the upper half.
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// OVN answers ARP only to those inside the port's network, and whoever asks is to be answered. ND knows no such limit.
fn network(address: IpAddr) -> String {
    let prefix = if address.is_ipv4() { 0 } else { 128 };
    format!("{address}/{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_spread_over_nodes() {
        let nodes = ["node1", "node2", "node3", "node4"];
        let mut first = [0; 4];
        for number in 0..400 {
            let service = ServiceName {
                namespace: "default".to_owned(),
                name: format!("web-{number}"),
            };
            let best = (0..4).min_by_key(|i| rank(&service, nodes[*i])).unwrap();
            first[best] += 1;
        }
        assert!(first.iter().all(|count| (60..=140).contains(count)), "{first:?}");
    }
}
