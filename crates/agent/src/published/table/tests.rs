//! What pods publish, and the script that comes of it.
#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};

use super::super::mapping::parse;
use super::*;

fn publisher(pod: &str, number: u8, mappings: Value) -> Publisher {
    Publisher {
        pod: pod.to_owned(),
        addresses: vec![
            format!("10.244.1.{number}").parse().unwrap(),
            format!("fd00:10:244:1::{number}").parse().unwrap(),
        ],
        mappings: parse(&mappings).unwrap(),
    }
}

fn plan(publishers: &[Publisher]) -> Table {
    let (table, conflicts) = Table::plan(publishers, &management());
    assert_eq!(conflicts, []);
    table
}

fn management() -> [IpAddr; 2] {
    ["10.244.1.2".parse().unwrap(), "fd00:10:244:1::2".parse().unwrap()]
}

fn one(protocol: &str, host_ip: &str) -> Value {
    json!([{ "hostPort": 54323, "containerPort": 8080, "protocol": protocol, "hostIP": host_ip }])
}

#[test]
fn one_port_leads_to_different_pods_by_address_and_protocol() {
    let table = plan(&[
        publisher("default/pod1", 11, one("tcp", "127.0.0.1")),
        publisher("default/pod2", 12, one("tcp", "172.30.0.2")),
        publisher("default/pod3", 13, one("udp", "172.30.0.2")),
        publisher(
            "default/pod4",
            14,
            json!([{ "hostPort": 80, "containerPort": 80, "protocol": "sctp" }]),
        ),
    ]);
    let expected = r#"  map one-address4 {
    type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service
    elements = { 127.0.0.1 . tcp . 54323 : 10.244.1.11 . 8080, 172.30.0.2 . tcp . 54323 : 10.244.1.12 . 8080, 172.30.0.2 . udp . 54323 : 10.244.1.13 . 8080 }
  }
  map all-addresses4 {
    type inet_proto . inet_service : ipv4_addr . inet_service
    elements = { sctp . 80 : 10.244.1.14 . 80 }
  }
  set published4 {
    type inet_proto . inet_service . ipv4_addr . inet_service
    elements = { sctp . 80 . 10.244.1.14 . 80, tcp . 54323 . 10.244.1.11 . 8080, tcp . 54323 . 10.244.1.12 . 8080, udp . 54323 . 10.244.1.13 . 8080 }
  }
  map one-address6 {
    type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service
  }
  map all-addresses6 {
    type inet_proto . inet_service : ipv6_addr . inet_service
    elements = { sctp . 80 : fd00:10:244:1::14 . 80 }
  }
  set published6 {
    type inet_proto . inet_service . ipv6_addr . inet_service
    elements = { sctp . 80 . fd00:10:244:1::14 . 80 }
  }
  chain guard {
    type filter hook prerouting priority raw; policy accept;
    iifname "netloom0" ip saddr 127.0.0.0/8 drop
    iifname "netloom0" ip daddr 127.0.0.0/8 drop
  }
  chain publish {
    dnat ip to ip daddr . meta l4proto . th dport map @one-address4
    dnat ip to meta l4proto . th dport map @all-addresses4
    dnat ip6 to ip6 daddr . meta l4proto . th dport map @one-address6
    dnat ip6 to meta l4proto . th dport map @all-addresses6
  }
  chain prerouting {
    type nat hook prerouting priority dstnat + 1; policy accept;
    ip daddr != 127.0.0.0/8 fib daddr type local goto publish
    ip6 daddr != { ::1, fe80::/10 } fib daddr type local goto publish
  }
  chain output {
    type nat hook output priority dstnat + 1; policy accept;
    meta nfproto ipv4 fib daddr type local goto publish
    ip6 daddr != { ::1, fe80::/10 } fib daddr type local goto publish
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    oifname "netloom0" ct status dnat meta l4proto . ct original proto-dst . ip daddr . th dport @published4 snat ip to 10.244.1.2
    oifname "netloom0" ct status dnat meta l4proto . ct original proto-dst . ip6 daddr . th dport @published6 snat ip6 to fd00:10:244:1::2
  }
"#;
    assert_eq!(table.body(), expected);
    let head = format!(
        "add table inet netloom-ports\ndelete table inet netloom-ports\ntable inet netloom-ports {{\n  comment \"{}\"\n",
        table.fingerprint()
    );
    assert_eq!(table.script(), format!("{head}{expected}}}\n"));
    assert!(table.has_loopback());
}

#[test]
fn without_ports_there_is_no_table() {
    let table = plan(&[]);
    assert_eq!(table, Table::default());
    assert_eq!(table.script(), "add table inet netloom-ports\ndelete table inet netloom-ports\n");
    assert!(!table.has_loopback());
}

#[test]
fn the_order_of_pods_changes_nothing() {
    let (a, b) = (
        publisher("default/a", 11, one("tcp", "")),
        publisher("default/b", 12, one("udp", "")),
    );
    let (first, second) = (plan(&[a.clone(), b.clone()]), plan(&[b, a.clone()]));
    assert_eq!(first.script(), second.script());
    assert_ne!(first.fingerprint(), plan(&[a]).fingerprint());
}

#[test]
fn loopback_is_left_alone_unless_somebody_publishes_there() {
    assert!(!plan(&[publisher("default/a", 11, one("tcp", "172.30.0.2"))]).has_loopback());
    assert!(plan(&[publisher("default/a", 11, one("tcp", ""))]).has_loopback());
    // ::1 cannot be translated; nothing is written for it.
    assert!(plan(&[publisher("default/a", 11, one("tcp", "::1"))]).is_empty());
}

#[test]
fn a_family_without_a_way_back_is_left_out() {
    let pods = [publisher("default/a", 11, one("tcp", ""))];
    let (table, _) = Table::plan(&pods, &management()[1..]);
    assert!(table.has_family(false) && !table.has_family(true));
    assert!(!table.script().contains("10.244"), "{}", table.script());
    assert!(Table::plan(&pods, &[]).0.is_empty());
}

#[test]
fn the_second_pod_on_a_port_is_told_of() {
    let pods = [
        publisher("default/b", 12, one("tcp", "172.30.0.2")),
        publisher("default/a", 11, one("tcp", "172.30.0.2")),
    ];
    let (table, conflicts) = Table::plan(&pods, &management());
    assert_eq!(table.places.values().collect::<Vec<_>>(), [&(pods[1].addresses[0], 8080)]);
    assert_eq!(
        (conflicts[0].owner.as_str(), conflicts[0].other.as_str()),
        ("default/a", "default/b")
    );
}

#[test]
fn a_conflict_of_both_families_is_told_once() {
    let pods = ["default/a", "default/b"].map(|pod| publisher(pod, 11, one("tcp", "")));
    let (_, conflicts) = Table::plan(&pods, &management());
    assert_eq!(conflicts.len(), 1);
    let said = conflicts[0].to_string();
    assert!(
        said.starts_with("pod default/a has tcp port 54323 on all addresses, so pod default/b does not"),
        "{said}"
    );
}

#[test]
fn only_udp_ports_that_lead_elsewhere_have_moved() {
    let old = plan(&[
        publisher("default/a", 11, one("udp", "")),
        publisher("default/b", 12, json!([{ "hostPort": 53, "containerPort": 53, "protocol": "udp" }])),
    ]);
    let new = plan(&[
        publisher("default/a", 21, one("udp", "")),
        publisher("default/b", 12, json!([{ "hostPort": 53, "containerPort": 53, "protocol": "udp" }])),
        publisher("default/c", 13, json!([{ "hostPort": 80, "containerPort": 80, "protocol": "tcp" }])),
    ]);
    assert_eq!(new.moved_udp_ports(&old), [54323]);
    assert_eq!(new.moved_udp_ports(&Table::default()), [53, 54323]);
}
