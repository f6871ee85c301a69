//! A node's switch: its subnets, the router port that is its pods' gateway, the management port that is the node itself, the service
//! port where node and services meet, and the routes by which pods reach the node's own addresses without translation.

use netloom_contract::external_id::{ADDRESSES, GATEWAYS, ROUTES, SERVICE_GATEWAY, SLOT, SUBNETS};
use netloom_contract::name::{management_port, service_port};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::{Feature, View};
use crate::decide::Decision;
use crate::ipam::{GATEWAY_HOST, MANAGEMENT_HOST, Mac, SERVICE_HOST};
use crate::key::Key;
use crate::northbound::{Placed, group_key, ids, put};
use crate::problem::{ObjectRef, Problem};
use crate::rows::{
    HaChassis, HaChassisGroup, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalSwitch, LogicalSwitchPort, PortGroup,
};
use crate::settings::{ServiceMode, Settings, is_ipv4, nth_host};
use crate::status::Shows;
use crate::unit::network::{edge, hosts, inside, router};
use crate::unit::policy::{isolation, nodes};
use crate::unit::{CLUSTER_ROUTER, Fragment, JOIN_SWITCH, SERVICES_GROUP, commas};

/// Above the routes, below nothing of ours.
const SERVICE_ROUTE_PRIORITY: i64 = 1000;

pub(super) fn switch(node: &str) -> Key {
    Key::new(format!("switch/node/{node}"))
}

/// What the parts of a node's rows have in common.
struct Switch<'a> {
    name: &'a str,
    settings: &'a Settings,
    subnets: Vec<IpNet>,
    gateways: Vec<IpNet>,
    owner: ObjectRef,
    /// Whether pods of the node may be on another switch.
    elsewhere: bool,
}

pub(super) fn compile(view: &View<'_>, name: &str, fragment: &mut Fragment) {
    fragment.problems.extend(problems(view, name));
    nodes::join(view, name, fragment);
    let (Some(settings), Some(slot)) = (view.settings(), view.slot(name)) else {
        return;
    };
    let mut it = Switch {
        name,
        settings,
        subnets: view.subnets(name),
        gateways: Vec::new(),
        owner: view.node_ref(name),
        elsewhere: view.uses(Feature::Networks),
    };
    let (subnets, node) = (commas(&it.subnets), view.node(name));
    if node.is_some_and(|node| node.annotations.get(SUBNETS) != Some(&subnets)) {
        fragment.show(it.owner.clone(), Shows::Subnets(subnets));
    }
    it.gateways = it.hosts(GATEWAY_HOST);
    if it.gateways.is_empty() {
        return;
    }
    it.compile_switch(slot, fragment);
    let management = it.hosts(MANAGEMENT_HOST);
    let gateways = commas(it.gateways.iter().map(IpNet::addr));
    let facts = vec![(GATEWAYS, gateways), (ROUTES, commas(settings.ranges()))];
    let management_port = it.compile_port("management", &management_port(name), &management, facts, fragment);
    let service_port = it.compile_service_port(fragment);
    for group in [edge(), inside()] {
        management_port.add_to::<PortGroup>(fragment, &group, "ports");
    }
    for port in [management_port, service_port] {
        port.add_to::<PortGroup>(fragment, &hosts(), "ports");
    }
    isolation::compile(view, name, &it.subnets, fragment);

    for address in view.node(name).into_iter().flat_map(|node| &node.addresses) {
        if settings
            .range_of(*address)
            .or_else(|| settings.service_range_of(*address))
            .is_some()
        {
            continue;
        }
        let via = management.iter().find(|ip| ip.addr().is_ipv4() == address.is_ipv4());
        let Some(via) = via.filter(|_| view.node_at(*address) == Some(&it.name.to_owned())) else {
            continue;
        };
        let route = Key::new(format!("route/node/{name}/{address}"));
        let row = LogicalRouterStaticRoute {
            ip_prefix: address.to_string(),
            nexthop: via.addr().to_string(),
            external_ids: ids(&route, &it.owner),
            ..Default::default()
        };
        put(fragment, &route, row).add_to::<LogicalRouter>(fragment, &router(), "static_routes");
    }
}

impl Switch<'_> {
    /// Address number `number` of each subnet.
    fn hosts(&self, number: u64) -> Vec<IpNet> {
        self.subnets.iter().filter_map(|subnet| nth_host(subnet, number)).collect()
    }

    /// The gateway addresses as seen from a second interface of the node: Linux takes no IPv6 gateway that is on another interface's
    /// subnet, so that family's is the link-local one.
    fn link_gateways(&self) -> Vec<IpAddr> {
        let mac = self.gateways.first().map(|first| Mac::of(first.addr()));
        let link = |gateway: &IpNet| match (gateway.addr(), mac) {
            (IpAddr::V6(_), Some(mac)) => IpAddr::V6(mac.link_local()),
            (address, _) => address,
        };
        self.gateways.iter().map(link).collect()
    }

    fn router_port(&self) -> String {
        format!("{CLUSTER_ROUTER}_to_switch_{}", self.name)
    }

    fn compile_switch(&self, slot: u64, fragment: &mut Fragment) {
        let Self { name, owner, .. } = self;
        let Some(gateway) = self.gateways.first() else { return };
        let mut external_ids = ids(&switch(name), owner);
        external_ids.insert(SLOT.to_owned(), slot.to_string());
        external_ids.insert(SUBNETS.to_owned(), commas(&self.subnets));
        let row = LogicalSwitch {
            name: (*name).to_owned(),
            external_ids,
            ..Default::default()
        };
        put(fragment, &switch(name), row);
        let group = Placed::of::<LoadBalancerGroup>(&group_key(SERVICES_GROUP));
        group.add_to::<LogicalSwitch>(fragment, &switch(name), "load_balancer_group");

        let port = Key::new(format!("router-port/cluster/node/{name}"));
        let row = LogicalRouterPort {
            name: self.router_port(),
            mac: Mac::of(gateway.addr()).to_string(),
            networks: self.gateways.iter().map(ToString::to_string).collect(),
            external_ids: ids(&port, owner),
            ..Default::default()
        };
        put(fragment, &port, row).add_to::<LogicalRouter>(fragment, &router(), "ports");
        self.bind(&port, fragment);

        let peer = Key::new(format!("router-peer/node/{name}"));
        let mut row = LogicalSwitchPort::router(format!("switch_{name}_to_{CLUSTER_ROUTER}"), self.router_port(), ids(&peer, owner));
        if self.elsewhere {
            // Addresses of this subnet whose port is not on this switch are reached through the router.
            let subnets: Vec<String> = self.subnets.iter().map(ToString::to_string).collect();
            row.options.insert("arp_proxy".to_owned(), subnets.join(" "));
        }
        put(fragment, &peer, row).add_to::<LogicalSwitch>(fragment, &switch(name), "ports");
    }

    /// Binds the router's port on the switch to the node: what is routed to the node's pods is sent there before it enters their switch, so
    /// that no other node has to know the switch.
    fn bind(&self, port: &Key, fragment: &mut Fragment) {
        let Self { name, owner, .. } = self;
        let (group, chassis) = (
            Key::new(format!("switch-node/{name}")),
            Key::new(format!("switch-node/{name}/chassis")),
        );
        let row = HaChassisGroup {
            name: format!("switch_{name}"),
            external_ids: ids(&group, owner),
            ..Default::default()
        };
        put(fragment, &group, row).add_to::<LogicalRouterPort>(fragment, port, "ha_chassis_group");
        let row = HaChassis {
            chassis_name: (*name).to_owned(),
            priority: 1,
            external_ids: ids(&chassis, owner),
        };
        put(fragment, &chassis, row).add_to::<HaChassisGroup>(fragment, &group, "ha_chassis");
    }

    /// A port of the node itself, bound to it.
    fn compile_port(&self, kind: &str, port: &str, hosts: &[IpNet], facts: Vec<(&str, String)>, fragment: &mut Fragment) -> Placed {
        let key = Key::new(format!("{kind}/{}", self.name));
        let mut external_ids = ids(&key, &self.owner);
        external_ids.insert(ADDRESSES.to_owned(), commas(hosts));
        external_ids.extend(facts.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let mac = hosts.first().map(|first| Mac::of(first.addr()).to_string());
        let addresses: Vec<String> = mac.into_iter().chain(hosts.iter().map(|ip| ip.addr().to_string())).collect();
        let row = LogicalSwitchPort {
            name: port.to_owned(),
            addresses: [addresses.join(" ")].into(),
            options: [("requested-chassis".to_owned(), self.name.to_owned())].into(),
            external_ids,
            ..Default::default()
        };
        let placed = put(fragment, &key, row);
        placed.add_to::<LogicalSwitch>(fragment, &switch(self.name), "ports");
        placed
    }

    /// The port by which the node reaches services and, with kube-proxy, by which pods reach the node that translates for them.
    fn compile_service_port(&self, fragment: &mut Fragment) -> Placed {
        let (hosts, services) = (self.hosts(SERVICE_HOST), &self.settings.services);
        let reachable = |range: &IpNet| self.subnets.iter().any(|subnet| is_ipv4(subnet) == is_ipv4(range));
        let mut facts = vec![
            (GATEWAYS, commas(self.link_gateways())),
            (SERVICE_GATEWAY, services.mode.as_str().to_owned()),
        ];
        if services.mode == ServiceMode::Native {
            let node_ports = self.settings.node_port_addresses().into_iter().map(IpNet::from);
            let routes = services.cidrs.iter().copied().chain(node_ports).filter(reachable);
            facts.push((ROUTES, commas(routes)));
        }
        let placed = self.compile_port("service-port", &service_port(self.name), &hosts, facts, fragment);
        if services.mode == ServiceMode::KubeProxy {
            services
                .cidrs
                .iter()
                .for_each(|range| self.compile_service_route(range, &hosts, fragment));
        }
        placed
    }

    fn compile_service_route(&self, range: &IpNet, hosts: &[IpNet], fragment: &mut Fragment) {
        let Some(host) = hosts.iter().find(|host| is_ipv4(host) == is_ipv4(range)) else {
            return;
        };
        let (ip, subnet, host) = (if is_ipv4(range) { "ip4" } else { "ip6" }, host.trunc(), host.addr());
        let mut put_policy = |key: String, priority, from: String, nexthop: Option<IpAddr>| {
            let key = Key::new(key);
            let row = LogicalRouterPolicy {
                action: nexthop.map_or("allow", |_| "reroute").to_owned(),
                priority,
                match_: format!("{from} && {ip}.dst == {range}"),
                nexthops: nexthop.into_iter().map(|hop| hop.to_string()).collect(),
                external_ids: ids(&key, &self.owner),
                ..Default::default()
            };
            put(fragment, &key, row).add_to::<LogicalRouter>(fragment, &router(), "policies");
        };
        let key = format!("service-route/{}/{range}", self.name);
        if self.elsewhere {
            let from = format!("inport == \"{CLUSTER_ROUTER}_to_{JOIN_SWITCH}\" && {ip}.src == {subnet}");
            put_policy(format!("{key}/networks"), SERVICE_ROUTE_PRIORITY, from, Some(host));
        }
        let inport = format!("inport == \"{}\"", self.router_port());
        // What the node itself sends there would come back to it.
        put_policy(
            format!("{key}/node"),
            SERVICE_ROUTE_PRIORITY + 1,
            format!("{inport} && {ip}.src == {host}"),
            None,
        );
        put_policy(key, SERVICE_ROUTE_PRIORITY, inport, Some(host));
    }
}

fn problems(view: &View<'_>, name: &str) -> Vec<Problem> {
    let mut problems = view.refusals(&Decision::Node(name.to_owned())).to_vec();
    let Some(node) = view.node(name) else { return problems };
    let problem = |reason, why| Problem::new(view.node_ref(name), reason, why);
    if node.addresses.is_empty() {
        problems.push(problem(
            "NodeWithoutAddress",
            "status.addresses has no InternalIP, so pods cannot reach this node; give kubelet an address (--node-ip)".to_owned(),
        ));
    }
    for address in &node.addresses {
        if let Some(other) = view.node_at(*address).filter(|other| *other != name) {
            problems.push(problem(
                "AddressInUse",
                format!("its address {address} is also that of Node/{other}, which pods reach by it; give each node an address of its own"),
            ));
        }
        let settings = view.settings();
        if let Some(range) = settings.and_then(|it| it.range_of(*address).or_else(|| it.service_range_of(*address))) {
            problems.push(problem(
                "AddressOverlap",
                format!(
                    "its address {address} lies in {range} of the cluster network; change the node's address or ClusterNetwork/default"
                ),
            ));
        }
    }
    problems
}
