//! The nftables table `inet netloom` as text. It keeps out what comes from outside by the cluster's own addresses. In
//! native mode it leads what the host sends to services, and what reaches the host for a node port, out of the service
//! port; with kube-proxy it makes answers to what pods send to services come back to the host. Pure: terms and addresses
//! in, a script of one transaction out.

use std::fmt::Write;
use std::net::SocketAddr;

use ipnet::IpNet;

use super::offer::{Terms, Vips};
use super::{BY_MANAGEMENT_PORT, BY_SERVICE_PORT};
use crate::gateway::EXTERNAL_BRIDGE;
use crate::host_port::Role;
use crate::net::route::MarkRule;
use crate::southbound::balancer::Vip;
use netloom_contract::ServiceMode;
use netloom_contract::source_port::{OF_NODE, OF_OTHERS};

const FAMILIES: [bool; 2] = [true, false];

/// Replaces the table, whatever it was. `inside` are the ranges of the cluster's own addresses.
pub fn replace(terms: &Terms, inside: &[IpNet], vips: &Vips) -> String {
    let mut script = String::from("add table inet netloom\ndelete table inet netloom\ntable inet netloom {\n");
    guard(&mut script, inside);
    match terms.gateway {
        ServiceMode::Native => native(&mut script, terms),
        ServiceMode::KubeProxy => kube_proxy(&mut script, terms),
    }
    script.push_str("}\n");
    script + &elements("add", vips)
}

/// Changes the elements of a table that [`replace`] made.
pub fn change(removed: &Vips, added: &Vips) -> String {
    elements("delete", removed) + &elements("add", added)
}

/// What has a source of the cluster's own ranges comes in by one of the node's ports, or where answers to it go out. Whoever sends so from
/// elsewhere would be taken for a pod, or for a pod's own node, by the policies of those the host forwards to. And what is addressed to these
/// ranges does not come in by the uplink: pods and services are reached from outside by addresses that are published.
fn guard(script: &mut String, inside: &[IpNet]) {
    let (service, management) = (Role::Service.device(), Role::Management.device());
    script.push_str("  chain guard {\n    type filter hook prerouting priority raw; policy accept;\n");
    for ipv4 in FAMILIES {
        let (_, family) = names(ipv4);
        let inside = inside.iter().filter(|range| range.addr().is_ipv4() == ipv4);
        let inside: Vec<String> = inside.map(ToString::to_string).collect();
        if !inside.is_empty() {
            let inside = inside.join(", ");
            let _ = writeln!(
                script,
                "    iifname != {{ \"lo\", \"{management}\", \"{service}\" }} {family} saddr {{ {inside} }} fib saddr . iif oif missing drop"
            );
            let _ = writeln!(script, "    iifname \"{EXTERNAL_BRIDGE}\" {family} daddr {{ {inside} }} drop");
        }
    }
    script.push_str("  }\n");
}

fn native(script: &mut String, terms: &Terms) {
    let (service, management) = (Role::Service.device(), Role::Management.device());
    let mut rules = Rules::default();
    for ipv4 in FAMILIES {
        let (number, family) = names(ipv4);
        let kind = if ipv4 { "ipv4_addr" } else { "ipv6_addr" };
        let _ = writeln!(script, "  set node-ports{number} {{ type inet_proto . inet_service; }}");
        let _ = writeln!(script, "  set local-node-ports{number} {{ type inet_proto . inet_service; }}");
        let _ = writeln!(script, "  set own-by-management-port{number} {{ type inet_proto . inet_service; }}");
        let _ = writeln!(
            script,
            "  set by-service-port{number} {{ type {kind} . inet_proto . inet_service; }}"
        );
        let _ = writeln!(
            script,
            "  set by-management-port{number} {{ type {kind} . inet_proto . inet_service; }}"
        );
        if let Some(address) = terms.node_port_address(ipv4) {
            // Loopback traffic cannot leave the host.
            let own = if ipv4 { "127.0.0.0/8" } else { "::1" };
            let to_node = format!("{family} daddr != {own} fib daddr type local meta l4proto . th dport");
            rules.translate += &format!("    {to_node} @node-ports{number} dnat {family} to {address}\n");
            // A node with backends of its own for pods is not asked: their switch leads past it.
            rules.mark += &format!("    {to_node} @own-by-management-port{number} {}\n", set_mark(BY_MANAGEMENT_PORT));
            rules.refuse += &format!("    iifname \"{management}\" {to_node} @local-node-ports{number} drop\n");
        }
        if let Some(address) = terms.address(ipv4) {
            for (set, rule) in [("by-service-port", BY_SERVICE_PORT), ("by-management-port", BY_MANAGEMENT_PORT)] {
                rules.mark += &format!("    {family} daddr . meta l4proto . th dport @{set}{number} {}\n", set_mark(rule));
            }
            let ours = [("fib saddr type local ", OF_NODE), ("", OF_OTHERS)];
            for (whose, ports) in ours {
                let address = SocketAddr::new(address, *ports.start());
                rules.source += &format!(
                    "    oifname \"{service}\" meta l4proto {{ tcp, udp, sctp }} {whose}snat {family} to {address}-{}\n",
                    ports.end()
                );
            }
            rules.source += &format!("    oifname \"{service}\" snat {family} to {address}\n");
        }
    }
    let Rules {
        refuse,
        translate,
        mark,
        source,
    } = rules;
    let _ = write!(
        script,
        "  chain prerouting {{\n    type nat hook prerouting priority dstnat; policy accept;\n{refuse}{translate}  }}\n\
         \x20 chain output {{\n    type nat hook output priority dstnat; policy accept;\n{translate}  }}\n\
         \x20 chain past-routes {{\n    type route hook output priority mangle; policy accept;\n{mark}  }}\n\
         \x20 chain unmark {{\n    type filter hook postrouting priority mangle; policy accept;\n\
         \x20   oifname {{ \"{management}\", \"{service}\" }} meta mark set meta mark and {:#x}\n  }}\n\
         \x20 chain postrouting {{\n    type nat hook postrouting priority srcnat - 1; policy accept;\n{source}  }}\n",
        !(BY_SERVICE_PORT.mark | BY_MANAGEMENT_PORT.mark)
    );
}

#[derive(Default)]
struct Rules {
    refuse: String,
    translate: String,
    mark: String,
    source: String,
}

fn set_mark(rule: MarkRule) -> String {
    format!("meta mark set meta mark or {:#x}", rule.mark)
}

fn kube_proxy(script: &mut String, terms: &Terms) {
    let (service, management) = (Role::Service.device(), Role::Management.device());
    script.push_str("  chain postrouting {\n    type nat hook postrouting priority srcnat - 1; policy accept;\n");
    for ipv4 in FAMILIES {
        if let Some(address) = terms.address(ipv4) {
            let (_, family) = names(ipv4);
            let _ = writeln!(
                script,
                "    iifname \"{service}\" oifname \"{management}\" snat {family} to {address}"
            );
        }
    }
    let _ = writeln!(script, "    iifname \"{service}\" oifname != \"{management}\" masquerade");
    // An endpoint would answer an outside client through OVN's gateway, which knows nothing of the connection.
    let _ = writeln!(
        script,
        "    iifname \"{EXTERNAL_BRIDGE}\" oifname \"{management}\" ct status dnat masquerade\n  }}"
    );
}

fn names(ipv4: bool) -> (u8, &'static str) {
    if ipv4 { (4, "ip") } else { (6, "ip6") }
}

fn elements(verb: &str, vips: &Vips) -> String {
    let mut script = String::new();
    let mut write = |set: &str, ipv4: bool, elements: Vec<String>| {
        if !elements.is_empty() {
            let (number, _) = names(ipv4);
            let _ = writeln!(script, "{verb} element inet netloom {set}{number} {{ {} }}", elements.join(", "));
        }
    };
    for ipv4 in FAMILIES {
        let of = |vip: &&Vip| vip.address.is_ipv4() == ipv4;
        let port = |vip: &Vip| format!("{} . {}", vip.protocol, vip.port);
        let full = |vip: &Vip| format!("{} . {}", vip.address, port(vip));
        write("node-ports", ipv4, vips.node_ports.iter().filter(of).map(port).collect());
        write(
            "local-node-ports",
            ipv4,
            vips.local_node_ports.iter().filter(of).map(port).collect(),
        );
        write(
            "own-by-management-port",
            ipv4,
            vips.own_by_management_port.iter().filter(of).map(port).collect(),
        );
        write("by-service-port", ipv4, vips.by_service_port.iter().filter(of).map(full).collect());
        write(
            "by-management-port",
            ipv4,
            vips.by_management_port.iter().filter(of).map(full).collect(),
        );
    }
    script
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use netloom_contract::Protocol;

    fn terms(gateway: ServiceMode) -> Terms {
        Terms {
            gateway,
            addresses: vec!["10.244.1.3".parse().unwrap(), "fd00:10:244:1::3".parse().unwrap()],
            gateways: vec!["10.244.1.1".parse().unwrap(), "fe80::1".parse().unwrap()],
            node_port_addresses: vec!["100.64.255.254".parse().unwrap()],
        }
    }

    fn inside() -> Vec<IpNet> {
        vec!["10.244.0.0/16".parse().unwrap(), "fd00:10:244::/48".parse().unwrap()]
    }

    fn vip(address: &str, protocol: Protocol, port: u16) -> Vip {
        Vip {
            address: address.parse().unwrap(),
            protocol,
            port,
        }
    }

    #[test]
    fn native_leads_into_the_service_port() {
        let vips = Vips {
            node_ports: [
                vip("100.64.255.254", Protocol::Tcp, 30080),
                vip("100.64.255.254", Protocol::Udp, 30053),
            ]
            .into(),
            local_node_ports: [vip("100.64.255.254", Protocol::Udp, 30053)].into(),
            own_by_management_port: [vip("100.64.255.254", Protocol::Udp, 30053)].into(),
            external: [].into(),
            by_service_port: [vip("fd30::200", Protocol::Sctp, 80)].into(),
            by_management_port: [vip("172.30.0.12", Protocol::Udp, 30053)].into(),
        };
        let expected = r#"add table inet netloom
delete table inet netloom
table inet netloom {
  chain guard {
    type filter hook prerouting priority raw; policy accept;
    iifname != { "lo", "netloom0", "netloom1" } ip saddr { 10.244.0.0/16 } fib saddr . iif oif missing drop
    iifname "br-ex" ip daddr { 10.244.0.0/16 } drop
    iifname != { "lo", "netloom0", "netloom1" } ip6 saddr { fd00:10:244::/48 } fib saddr . iif oif missing drop
    iifname "br-ex" ip6 daddr { fd00:10:244::/48 } drop
  }
  set node-ports4 { type inet_proto . inet_service; }
  set local-node-ports4 { type inet_proto . inet_service; }
  set own-by-management-port4 { type inet_proto . inet_service; }
  set by-service-port4 { type ipv4_addr . inet_proto . inet_service; }
  set by-management-port4 { type ipv4_addr . inet_proto . inet_service; }
  set node-ports6 { type inet_proto . inet_service; }
  set local-node-ports6 { type inet_proto . inet_service; }
  set own-by-management-port6 { type inet_proto . inet_service; }
  set by-service-port6 { type ipv6_addr . inet_proto . inet_service; }
  set by-management-port6 { type ipv6_addr . inet_proto . inet_service; }
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    iifname "netloom0" ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport @local-node-ports4 drop
    ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport @node-ports4 dnat ip to 100.64.255.254
  }
  chain output {
    type nat hook output priority dstnat; policy accept;
    ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport @node-ports4 dnat ip to 100.64.255.254
  }
  chain past-routes {
    type route hook output priority mangle; policy accept;
    ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport @own-by-management-port4 meta mark set meta mark or 0x2000
    ip daddr . meta l4proto . th dport @by-service-port4 meta mark set meta mark or 0x1000
    ip daddr . meta l4proto . th dport @by-management-port4 meta mark set meta mark or 0x2000
    ip6 daddr . meta l4proto . th dport @by-service-port6 meta mark set meta mark or 0x1000
    ip6 daddr . meta l4proto . th dport @by-management-port6 meta mark set meta mark or 0x2000
  }
  chain unmark {
    type filter hook postrouting priority mangle; policy accept;
    oifname { "netloom0", "netloom1" } meta mark set meta mark and 0xffffcfff
  }
  chain postrouting {
    type nat hook postrouting priority srcnat - 1; policy accept;
    oifname "netloom1" meta l4proto { tcp, udp, sctp } fib saddr type local snat ip to 10.244.1.3:1024-16383
    oifname "netloom1" meta l4proto { tcp, udp, sctp } snat ip to 10.244.1.3:16384-65535
    oifname "netloom1" snat ip to 10.244.1.3
    oifname "netloom1" meta l4proto { tcp, udp, sctp } fib saddr type local snat ip6 to [fd00:10:244:1::3]:1024-16383
    oifname "netloom1" meta l4proto { tcp, udp, sctp } snat ip6 to [fd00:10:244:1::3]:16384-65535
    oifname "netloom1" snat ip6 to fd00:10:244:1::3
  }
}
add element inet netloom node-ports4 { tcp . 30080, udp . 30053 }
add element inet netloom local-node-ports4 { udp . 30053 }
add element inet netloom own-by-management-port4 { udp . 30053 }
add element inet netloom by-management-port4 { 172.30.0.12 . udp . 30053 }
add element inet netloom by-service-port6 { fd30::200 . sctp . 80 }
"#;
        assert_eq!(replace(&terms(ServiceMode::Native), &inside(), &vips), expected);
    }

    #[test]
    fn with_kube_proxy_answers_come_back_to_the_host() {
        let expected = r#"add table inet netloom
delete table inet netloom
table inet netloom {
  chain guard {
    type filter hook prerouting priority raw; policy accept;
    iifname != { "lo", "netloom0", "netloom1" } ip saddr { 10.244.0.0/16 } fib saddr . iif oif missing drop
    iifname "br-ex" ip daddr { 10.244.0.0/16 } drop
    iifname != { "lo", "netloom0", "netloom1" } ip6 saddr { fd00:10:244::/48 } fib saddr . iif oif missing drop
    iifname "br-ex" ip6 daddr { fd00:10:244::/48 } drop
  }
  chain postrouting {
    type nat hook postrouting priority srcnat - 1; policy accept;
    iifname "netloom1" oifname "netloom0" snat ip to 10.244.1.3
    iifname "netloom1" oifname "netloom0" snat ip6 to fd00:10:244:1::3
    iifname "netloom1" oifname != "netloom0" masquerade
    iifname "br-ex" oifname "netloom0" ct status dnat masquerade
  }
}
"#;
        assert_eq!(replace(&terms(ServiceMode::KubeProxy), &inside(), &Vips::default()), expected);
    }

    #[test]
    fn one_port_more_is_one_element() {
        let old = Vips {
            node_ports: (0..1000).map(|port| vip("100.64.255.254", Protocol::Tcp, 30000 + port)).collect(),
            ..Default::default()
        };
        let mut new = old.clone();
        new.node_ports.insert(vip("100.64.255.254", Protocol::Tcp, 32000));
        new.node_ports.remove(&vip("100.64.255.254", Protocol::Tcp, 30000));
        assert_eq!(
            change(&old.without(&new), &new.without(&old)),
            "delete element inet netloom node-ports4 { tcp . 30000 }\nadd element inet netloom node-ports4 { tcp . 32000 }\n"
        );
    }
}
