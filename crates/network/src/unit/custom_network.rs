//! A `Network`: a switch that spans the cluster, and a router of its own, so that its subnets are nobody else's business and may be those
//! of other networks too. A pod on it has an address there and one in its node's subnet like any pod, by which all others know it: the
//! network's router hands over what is addressed to the latter, and the cluster router what comes from it.

use netloom_contract::external_id::{SLOT, SPEC, SUBNETS};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::View;
use crate::custom_network::{Read, Route};
use crate::decide::Decision;
use crate::ipam::{Assignment, Attachment, Mac};
use crate::key::Key;
use crate::northbound::{Placed, group_key, ids, put};
use crate::problem::ObjectRef;
use crate::rows::{
    LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort,
    PortGroup,
};
use crate::settings::is_ipv4;
use crate::status::Shows;
use crate::unit::network::{edge, inside, join_switch, router as cluster_router};
use crate::unit::policy::network as isolation;
use crate::unit::{Fragment, JOIN_SWITCH, NETWORKS_GROUP, SERVICES_GROUP, commas};

/// Of the first rule about what may leave the network; the others follow below.
const FENCE_PRIORITY: i64 = 1000;

pub(super) fn switch(network: &str) -> Key {
    Key::new(format!("switch/network/{network}"))
}

fn router(network: &str) -> Key {
    Key::new(format!("router/network/{network}"))
}

fn router_port(network: &str) -> String {
    format!("network_{network}_to_switch")
}

pub(super) fn compile(view: &View<'_>, name: &str, fragment: &mut Fragment) {
    fragment
        .problems
        .extend(view.refusals(&Decision::Network(name.to_owned())).iter().cloned());
    if view.has_custom_network(name) {
        fragment.show(view.custom_network_ref(name), Shows::InForce);
    }
    let (Some(settings), Some(record)) = (view.settings(), view.network(name)) else {
        return;
    };
    let (owner, read) = (view.custom_network_ref(name), &record.read);
    let mut external_ids = ids(&router(name), &owner);
    external_ids.insert(SLOT.to_owned(), record.slot.to_string());
    external_ids.insert(SPEC.to_owned(), record.spec.to_string());
    let row = LogicalRouter {
        name: format!("router_{name}"),
        external_ids,
        ..Default::default()
    };
    put(fragment, &router(name), row);
    compile_switch(name, &owner, read, fragment);

    let joined = settings.network_join_addresses(record.slot);
    compile_port(name, &join_port(name), &joined, &join_switch(), &owner, fragment);
    for hub in settings.join_addresses(0) {
        let prefix = if is_ipv4(&hub) { "0.0.0.0/0" } else { "::/0" };
        let key = format!("route/network/{name}/{prefix}");
        route(&router(name), key, prefix.to_owned(), hub.addr(), &owner, fragment);
    }
    let gateways = read.subnets.iter().zip(&read.gateways);
    let gateways: Vec<IpNet> = gateways
        .filter_map(|(subnet, ip)| IpNet::new(*ip, subnet.prefix_len()).ok())
        .collect();
    if let Some(peer) = compile_port(name, &router_port(name), &gateways, &switch(name), &owner, fragment) {
        for group in [edge(), inside()] {
            peer.add_to::<PortGroup>(fragment, &group, "ports");
        }
    }
    for Route { to, via } in &read.routes {
        let key = format!("route/network/{name}/{to}");
        route(&router(name), key, to.to_string(), *via, &owner, fragment);
    }
    compile_fence(name, read, !joined.is_empty(), &owner, fragment);
    isolation::compile_custom(view, name, fragment);
}

fn compile_switch(name: &str, owner: &ObjectRef, read: &Read, fragment: &mut Fragment) {
    let mut external_ids = ids(&switch(name), owner);
    external_ids.insert(SUBNETS.to_owned(), commas(&read.subnets));
    let row = LogicalSwitch {
        name: format!("network_{name}"),
        external_ids,
        ..Default::default()
    };
    put(fragment, &switch(name), row);
    for group in [SERVICES_GROUP, NETWORKS_GROUP] {
        let group = Placed::of::<LoadBalancerGroup>(&group_key(group));
        group.add_to::<LogicalSwitch>(fragment, &switch(name), "load_balancer_group");
    }
}

/// The router's port on the join switch.
fn join_port(name: &str) -> String {
    format!("network_{name}_to_{JOIN_SWITCH}")
}

/// A port of the network's router and its peer on a switch; the latter is returned.
fn compile_port(name: &str, port: &str, networks: &[IpNet], on: &Key, owner: &ObjectRef, fragment: &mut Fragment) -> Option<Placed> {
    let first = networks.first()?;
    let key = Key::new(format!("router-port/{port}"));
    let row = LogicalRouterPort {
        name: port.to_owned(),
        mac: Mac::of(first.addr()).to_string(),
        networks: networks.iter().map(ToString::to_string).collect(),
        external_ids: ids(&key, owner),
        ..Default::default()
    };
    put(fragment, &key, row).add_to::<LogicalRouter>(fragment, &router(name), "ports");
    let peer = Key::new(format!("router-peer/{port}"));
    let row = LogicalSwitchPort::router(format!("{port}_peer"), port.to_owned(), ids(&peer, owner));
    let peer = put(fragment, &peer, row);
    peer.add_to::<LogicalSwitch>(fragment, on, "ports");
    Some(peer)
}

/// A pod's address in the network is for the network itself. Anywhere else it would be taken for another's, and who sends by the router
/// to a neighbour would not be known by the port it came from. The same holds for addresses behind a pod of the network. What may pass is said first: of "all but this" OVN makes a flow for each bit.
fn compile_fence(name: &str, read: &Read, joined: bool, owner: &ObjectRef, fragment: &mut Fragment) {
    for (subnet, gateway) in read.subnets.iter().zip(&read.gateways) {
        let ip = if is_ipv4(subnet) { "ip4" } else { "ip6" };
        let behind = read.routes.iter().filter(|route| is_ipv4(&route.to) == is_ipv4(subnet));
        let behind: Vec<String> = behind.map(|route| route.to.to_string()).collect();
        // Answers go back to pods of the network; whoever sends with such an address to the rest of the cluster wants to be taken for another.
        let from_behind = (joined && !behind.is_empty()).then(|| {
            let condition = format!("{ip}.src == {{{}}} && outport == \"{}\"", behind.join(", "), join_port(name));
            ("from-behind", "drop", condition)
        });
        let rules = [
            // The router's own answers.
            Some(("router", "allow", format!("{ip}.src == {gateway}"))),
            // Whatever it says where it comes from, who sends to a neighbour needs no router.
            Some(("neighbours", "drop", format!("{ip}.dst == {subnet}"))),
            (!behind.is_empty()).then(|| {
                let condition = format!("{ip}.src == {subnet} && {ip}.dst == {{{}}}", behind.join(", "));
                ("behind", "allow", condition)
            }),
            Some(("elsewhere", "drop", format!("{ip}.src == {subnet}"))),
            from_behind,
        ];
        for ((what, action, condition), priority) in rules.into_iter().flatten().zip((0..=FENCE_PRIORITY).rev()) {
            let key = Key::new(format!("fence/network/{name}/{subnet}/{what}"));
            let row = LogicalRouterPolicy {
                action: action.to_owned(),
                priority,
                match_: format!("inport == \"{}\" && {condition}", router_port(name)),
                external_ids: ids(&key, owner),
                ..Default::default()
            };
            put(fragment, &key, row).add_to::<LogicalRouter>(fragment, &router(name), "policies");
        }
    }
}

/// Leads a pod's own addresses to its port: in the cluster router to that of the network, there to the pod.
pub(super) fn lead(view: &View<'_>, pod: &ObjectRef, assignment: &Assignment, attachment: &Attachment, fragment: &mut Fragment) {
    let Attachment { network, addresses } = attachment;
    let (Some(settings), Some(record)) = (view.settings(), view.network(network)) else {
        return;
    };
    let joined = settings.network_join_addresses(record.slot);
    for own in &assignment.addresses {
        let of_family = |ip: &&IpNet| is_ipv4(ip) == own.is_ipv4();
        let hops = [
            (cluster_router(), joined.iter().find(of_family)),
            (router(network), addresses.iter().find(of_family)),
        ];
        for (on, via) in hops {
            let Some(via) = via else { continue };
            let key = format!("route/pod/{own}/{on}");
            route(&on, key, IpNet::from(*own).to_string(), via.addr(), pod, fragment);
        }
    }
}

fn route(on: &Key, key: String, prefix: String, via: IpAddr, owner: &ObjectRef, fragment: &mut Fragment) {
    let key = Key::new(key);
    let row = LogicalRouterStaticRoute {
        ip_prefix: prefix,
        nexthop: via.to_string(),
        external_ids: ids(&key, owner),
        ..Default::default()
    };
    put(fragment, &key, row).add_to::<LogicalRouter>(fragment, on, "static_routes");
}
