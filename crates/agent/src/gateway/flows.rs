//! The OpenFlow rules of br-ex as a pure function of what they depend on. The node and the gateway router share one MAC
//! and one address per family; what tells their traffic apart on the way back is connection tracking: everything a pod
//! sends out is committed with mark 1 in a zone of its own, and replies of marked connections go to OVN. What is left is
//! looked up among the services, and the rest is the node's.
//!
//! Table 0 sorts frames by port, 1 by connection, 2 by service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::services::offer::{Terms, Vips, of_family};
use crate::southbound::balancer::Vip;
use netloom_contract::{Mac, ServiceMode};

/// The connection tracking zone of the shared address; OVN allocates its own zones from below.
const ZONE: u16 = 64000;
/// Mark of connections whose packets from the wire go to OVN as they are.
const MARK: u8 = 1;
/// Mark of connections to node ports: their packets from the wire have to be translated again.
const NODE_PORT_MARK: u8 = 2;
/// ICMPv6 types of router and neighbour discovery: both sides must hear them.
const NEIGHBOUR_DISCOVERY: [u8; 5] = [133, 134, 135, 136, 137];

/// The OpenFlow ports of br-ex that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The port towards the wire.
    pub uplink: u32,
    /// The patch port to br-int; ovn-controller makes it once the gateway's external switch exists.
    pub patch: Option<u32>,
    /// The patch port of the announcers' switch, once there is one.
    pub announce: Option<u32>,
}

/// What most of the flows depend on; changes rarely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The ports.
    pub ports: Ports,
    /// The MAC that the node and its gateway router share.
    pub mac: Option<Mac>,
    /// The node's addresses on br-ex.
    pub addresses: Vec<IpAddr>,
    /// How the node serves services, if it does.
    pub terms: Option<Terms>,
}

/// What comes and goes one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Where services are served.
    pub vips: Vips,
    /// The announced MACs that are this node's now.
    pub claimed: BTreeSet<Mac>,
}

impl Entries {
    /// What is here and not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        Self {
            vips: self.vips.without(&other.vips),
            claimed: self.claimed.difference(&other.claimed).copied().collect(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.vips.is_empty() && self.claimed.is_empty()
    }
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Table, priority and match: what identifies it.
    pub rule: String,
    /// What it does.
    pub actions: String,
}

impl Flow {
    fn new(table: u8, priority: u16, rule: &str, actions: impl Into<String>) -> Self {
        let separator = if rule.is_empty() { "" } else { "," };
        Self {
            rule: format!("table={table},priority={priority}{separator}{rule}"),
            actions: actions.into(),
        }
    }

    fn line(&self) -> String {
        format!("{},actions={}\n", self.rule, self.actions)
    }
}

/// The complete flow table, in the syntax of `ovs-ofctl replace-flows`.
pub fn all(base: &Base, entries: &Entries) -> String {
    base_flows(base).iter().chain(&entry_flows(base, entries)).map(Flow::line).collect()
}

/// Only the difference between two sets of entries, in the syntax of `ovs-ofctl --bundle add-flows`.
pub fn change(base: &Base, removed: &Entries, added: &Entries) -> String {
    let removed = entry_flows(base, removed)
        .into_iter()
        .map(|flow| format!("delete_strict {}\n", flow.rule));
    let added = entry_flows(base, added).into_iter().map(|flow| format!("add {}", flow.line()));
    removed.chain(added).collect()
}

fn base_flows(base: &Base) -> Vec<Flow> {
    let n = base.ports.uplink;
    let out = format!("output:{n}");
    let Some(p) = base.ports.patch else {
        return vec![
            Flow::new(0, 50, &format!("in_port={n}"), "LOCAL"),
            Flow::new(0, 50, "in_port=LOCAL", out),
        ];
    };
    let mut flows = Vec::new();
    let mut flow = |table, priority, rule: &str, actions: &str| flows.push(Flow::new(table, priority, rule, actions));
    let mut all = format!("LOCAL,output:{p}");
    if let Some(q) = base.ports.announce {
        all += &format!(",output:{q}");
        flow(0, 150, &format!("in_port={q}"), &out);
    }

    // Tunnels end at the node, before anything looks at connections.
    for family in ["udp", "udp6"] {
        flow(0, 200, &format!("in_port={n},{family},tp_dst=6081"), "LOCAL");
    }
    // Address resolution: node and gateway router answer with the same MAC and both must learn.
    flow(0, 150, &format!("in_port={n},arp"), &all);
    flow(0, 150, &format!("in_port={p},arp"), &out);
    for kind in NEIGHBOUR_DISCOVERY {
        flow(0, 150, &format!("in_port={n},icmp6,icmp_type={kind}"), &all);
        flow(0, 150, &format!("in_port={p},icmp6,icmp_type={kind}"), &out);
    }
    for (address, node) in node_port_addresses(base) {
        let (family, field) = if address.is_ipv4() {
            ("ip,nw_src", "ip_src")
        } else {
            ("ipv6,ipv6_src", "ipv6_src")
        };
        let actions = format!("set_field:{node}->{field},{}", commit(NODE_PORT_MARK, n));
        flow(0, 120, &format!("in_port={p},{family}={address}"), &actions);
    }
    let announced = announced();
    // Announced MACs are unknown to the wire's switches most of the time, so every node sees frames for all of them.
    flow(0, 105, &format!("in_port={n},{announced}"), "drop");
    for family in ["ip", "ipv6"] {
        flow(0, 100, &format!("in_port={p},{family}"), &commit(MARK, n));
        flow(0, 100, &format!("in_port={n},{family}"), &track());
    }
    flow(0, 50, "in_port=LOCAL", &out);
    // What is neither IP nor address resolution (LLDP, spanning tree) concerns the node only.
    flow(0, 10, &format!("in_port={n}"), "LOCAL");
    flow(0, 0, "", "drop");

    for state in ["+est", "+rel"] {
        for family in ["ip", "ipv6"] {
            flow(
                1,
                100,
                &format!("{family},ct_state=+trk{state},ct_mark={MARK}"),
                &to_router(base, p),
            );
        }
    }
    if let (Some(mac), Some(terms)) = (base.mac, &base.terms) {
        // Not what is flooded for the MACs of others.
        flow(1, 50, &format!("dl_dst={mac}"), "resubmit(,2)");
        flow(1, 50, &announced, "resubmit(,2)");
        let unserved = match terms.gateway {
            ServiceMode::Native => "drop".to_owned(),
            ServiceMode::KubeProxy => format!("set_field:{mac}->eth_dst,LOCAL"),
        };
        flow(2, 50, &announced, &unserved);
        flow(2, 0, "", "LOCAL");
    }
    flow(1, 0, "", "LOCAL");
    flows
}

fn entry_flows(base: &Base, entries: &Entries) -> Vec<Flow> {
    let (n, Some(p)) = (base.ports.uplink, base.ports.patch) else {
        return Vec::new();
    };
    let claimed = entries
        .claimed
        .iter()
        .flat_map(|mac| ["ip", "ipv6"].map(|family| Flow::new(0, 110, &format!("in_port={n},{family},dl_dst={mac}"), track())));
    let external = entries.vips.external.iter();
    let external = external.map(|vip| Flow::new(2, 100, &served(vip, vip.address), to_router(base, p)));
    let node_port = |vip: &Vip| {
        let (_, node) = node_port_addresses(base).find(|(address, _)| *address == vip.address)?;
        let field = if node.is_ipv4() { "ip_dst" } else { "ipv6_dst" };
        let actions = format!("set_field:{}->{field},output:{p}", vip.address);
        Some(Flow::new(2, 100, &served(vip, node), actions))
    };
    let node_ports = entries.vips.node_ports.iter().filter_map(node_port);
    // An external address may be the node's own and its port a node port: the former is the more particular.
    claimed.chain(node_ports).chain(external).collect()
}

/// The node-port addresses, each with the node's address it stands for. A node that has several addresses of a family is
/// reached by the first here; for the others the host translates.
fn node_port_addresses(base: &Base) -> impl Iterator<Item = (IpAddr, IpAddr)> {
    let terms = base.terms.iter().filter(|terms| terms.gateway == ServiceMode::Native);
    terms
        .flat_map(|terms| &terms.node_port_addresses)
        .filter_map(|address| Some((*address, of_family(&base.addresses, address.is_ipv4())?)))
}

fn served(vip: &Vip, address: IpAddr) -> String {
    let (protocol, port) = (vip.protocol, vip.port);
    if address.is_ipv4() {
        format!("{protocol},nw_dst={address},tp_dst={port}")
    } else {
        format!("{protocol}6,ipv6_dst={address},tp_dst={port}")
    }
}

fn to_router(base: &Base, patch: u32) -> String {
    // Frames for an announced MAC: the gateway router knows only its own.
    let mac = base.mac.map(|mac| format!("set_field:{mac}->eth_dst,"));
    format!("{}output:{patch}", mac.unwrap_or_default())
}

fn commit(mark: u8, uplink: u32) -> String {
    format!("ct(commit,zone={ZONE},exec(set_field:{mark}->ct_mark)),output:{uplink}")
}

fn track() -> String {
    format!("ct(zone={ZONE},table=1)")
}

/// Matches frames to the MACs under which external addresses are announced.
fn announced() -> String {
    let [a, b, c] = Mac::ANNOUNCER;
    format!("dl_dst={}/{}", Mac([a, b, c, 0, 0, 0]), Mac([0xff, 0xff, 0xff, 0, 0, 0]))
}

#[cfg(test)]
mod tests;
