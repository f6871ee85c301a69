//! A node's gateway: a router bound to the node, between the join switch and the node's uplink, that translates what pods send
//! outside to the node's own address and serves the external addresses of services. It exists once the node's agent has reported its
//! uplink.

use ipnet::IpNet;

use crate::cluster::View;
use crate::ipam::Mac;
use crate::key::Key;
use crate::northbound::{Placed, group_key, ids, put};
use crate::problem::{ObjectRef, Problem};
use crate::rows::{
    LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort,
    Nat, PortGroup,
};
use crate::settings::is_ipv4;
use crate::unit::network::{edge, hosts, join_switch, router as cluster_router};
use crate::unit::{EXTERNAL_NETWORK, Fragment, GATEWAYS_GROUP, JOIN_SWITCH, commas};
use netloom_contract::Gateway;

/// Above every route.
const GUARD_PRIORITY: i64 = 1000;

pub(super) fn router(node: &str) -> Key {
    Key::new(format!("router/gateway/{node}"))
}

pub(super) fn compile(view: &View<'_>, name: &str, fragment: &mut Fragment) {
    let report = match view.host(name).and_then(|host| host.report.as_ref()) {
        None => return,
        Some(Ok(report)) => report,
        Some(Err(why)) => {
            let problem = Problem::new(view.node_ref(name), "InvalidAnnotation", why.as_str());
            return fragment.problems.push(problem);
        }
    };
    let (Some(settings), Some(slot)) = (view.settings(), view.slot(name)) else {
        return;
    };
    let joined = settings.join_addresses(slot + 1);
    let (Some(first), owner) = (joined.first(), view.node_ref(name)) else {
        return;
    };

    let router = router(name);
    let row = LogicalRouter {
        name: format!("gateway_{name}"),
        options: [
            ("chassis".to_owned(), name.to_owned()),
            ("always_learn_from_arp_request".to_owned(), "false".to_owned()),
            ("lb_force_snat_ip".to_owned(), "router_ip".to_owned()), // replies of backends on other nodes come back here
        ]
        .into(),
        external_ids: ids(&router, &owner),
        ..Default::default()
    };
    put(fragment, &router, row);
    let group = Placed::of::<LoadBalancerGroup>(&group_key(GATEWAYS_GROUP));
    group.add_to::<LogicalRouter>(fragment, &router, "load_balancer_group");

    let inside = RouterPort {
        node: name,
        side: JOIN_SWITCH,
        switch: &join_switch(),
        mac: Mac::of(first.addr()),
        networks: &joined,
    };
    inside.compile(&router, &owner, fragment);

    let external = Key::new(format!("switch/external/{name}"));
    let row = LogicalSwitch {
        name: format!("{EXTERNAL_NETWORK}_{name}"),
        external_ids: ids(&external, &owner),
        ..Default::default()
    };
    put(fragment, &external, row);
    let outside = RouterPort {
        node: name,
        side: EXTERNAL_NETWORK,
        switch: &external,
        mac: report.mac,
        networks: &report.addresses,
    };
    outside.compile(&router, &owner, fragment);
    let localnet = Key::new(format!("uplink/{name}"));
    let row = LogicalSwitchPort::uplink(format!("uplink_{name}"), ids(&localnet, &owner));
    let localnet = put(fragment, &localnet, row);
    localnet.add_to::<LogicalSwitch>(fragment, &external, "ports");
    for group in [edge(), hosts()] {
        localnet.add_to::<PortGroup>(fragment, &group, "ports");
    }

    let hub = settings.join_addresses(0);
    for range in &settings.cluster_cidrs {
        if let Some(via) = same_family(&hub, &range.cidr) {
            route(
                fragment,
                &router,
                format!("route/gateway/{name}/{}", range.cidr),
                &range.cidr.to_string(),
                via,
                None,
                &owner,
            );
        }
        if let Some(address) = same_family(&report.addresses, &range.cidr) {
            translate(fragment, &router, name, &range.cidr, address, &owner);
        }
    }
    default_routes(fragment, &router, name, report, &owner);
    let inside = settings.cluster_cidrs.iter().map(|range| &range.cidr).chain(&settings.join_cidrs);
    guard(fragment, &router, name, inside, &owner);
    for address in &report.addresses {
        // A backend that is the node itself is reached through its management port.
        if let Some(via) = same_family(&hub, address) {
            let (key, host) = (format!("route/gateway/{name}/{}", address.addr()), IpNet::from(address.addr()));
            route(fragment, &router, key, &host.to_string(), via, None, &owner);
        }
    }
    for address in &joined {
        // Replies to this gateway come back to it, whatever node's subnet they come from.
        let (key, host) = (format!("route/join/{name}/{}", address.addr()), IpNet::from(address.addr()));
        route(fragment, &cluster_router(), key, &host.to_string(), *address, None, &owner);
    }
    for subnet in view.subnets(name) {
        if let Some(via) = same_family(&joined, &subnet) {
            let key = format!("route/egress/{name}/{subnet}");
            route(fragment, &cluster_router(), key, &subnet.to_string(), via, Some("src-ip"), &owner);
        }
    }
}

/// A router port and its peer on a switch.
struct RouterPort<'a> {
    node: &'a str,
    side: &'a str,
    switch: &'a Key,
    mac: Mac,
    networks: &'a [IpNet],
}

impl RouterPort<'_> {
    fn compile(&self, router: &Key, owner: &ObjectRef, fragment: &mut Fragment) {
        let Self {
            node,
            side,
            switch,
            mac,
            networks,
        } = self;
        let key = Key::new(format!("router-port/gateway/{node}/{side}"));
        let name = format!("gateway_{node}_to_{side}");
        let row = LogicalRouterPort {
            name: name.clone(),
            mac: mac.to_string(),
            networks: networks.iter().map(ToString::to_string).collect(),
            external_ids: ids(&key, owner),
            ..Default::default()
        };
        put(fragment, &key, row).add_to::<LogicalRouter>(fragment, router, "ports");
        let peer = Key::new(format!("gateway-peer/{side}/{node}"));
        let row = LogicalSwitchPort::router(format!("{side}_to_gateway_{node}"), name, ids(&peer, owner));
        put(fragment, &peer, row).add_to::<LogicalSwitch>(fragment, switch, "ports");
    }
}

/// Drops what comes from outside with a source inside: the address of a pod, or the one by which policies know a pod's own node.
fn guard<'a>(fragment: &mut Fragment, router: &Key, name: &str, inside: impl Iterator<Item = &'a IpNet> + Clone, owner: &ObjectRef) {
    for (family, of_family) in [("4", true), ("6", false)] {
        let ranges = commas(inside.clone().filter(|range| is_ipv4(range) == of_family));
        if ranges.is_empty() {
            continue;
        }
        let key = Key::new(format!("guard/gateway/{name}/{family}"));
        let row = LogicalRouterPolicy {
            action: "drop".to_owned(),
            priority: GUARD_PRIORITY,
            match_: format!("inport == \"gateway_{name}_to_{EXTERNAL_NETWORK}\" && ip{family}.src == {{{ranges}}}"),
            external_ids: ids(&key, owner),
            ..Default::default()
        };
        put(fragment, &key, row).add_to::<LogicalRouter>(fragment, router, "policies");
    }
}

fn default_routes(fragment: &mut Fragment, router: &Key, name: &str, report: &Gateway, owner: &ObjectRef) {
    for hop in &report.next_hops {
        let prefix = if hop.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let via = IpNet::from(*hop);
        route(fragment, router, format!("route/gateway/{name}/{prefix}"), prefix, via, None, owner);
    }
}

fn route(fragment: &mut Fragment, router: &Key, key: String, prefix: &str, via: IpNet, policy: Option<&str>, owner: &ObjectRef) {
    let key = Key::new(key);
    let row = LogicalRouterStaticRoute {
        ip_prefix: prefix.to_owned(),
        nexthop: via.addr().to_string(),
        policy: policy.map(str::to_owned),
        external_ids: ids(&key, owner),
        ..Default::default()
    };
    put(fragment, &key, row).add_to::<LogicalRouter>(fragment, router, "static_routes");
}

fn translate(fragment: &mut Fragment, router: &Key, name: &str, inside: &IpNet, address: IpNet, owner: &ObjectRef) {
    let key = Key::new(format!("nat/gateway/{name}/{inside}"));
    let row = Nat {
        type_: "snat".to_owned(),
        external_ip: address.addr().to_string(),
        logical_ip: inside.to_string(),
        external_ids: ids(&key, owner),
        ..Default::default()
    };
    put(fragment, &key, row).add_to::<LogicalRouter>(fragment, router, "nat");
}

fn same_family(addresses: &[IpNet], like: &IpNet) -> Option<IpNet> {
    addresses.iter().find(|address| is_ipv4(address) == is_ipv4(like)).copied()
}
