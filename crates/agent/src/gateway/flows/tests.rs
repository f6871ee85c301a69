//! The text of the flows.
#![allow(clippy::unwrap_used)]

use super::*;
use netloom_contract::Protocol;

fn base(patch: Option<u32>, announce: Option<u32>, gateway: Option<ServiceMode>) -> Base {
    Base {
        ports: Ports {
            uplink: 1,
            patch,
            announce,
        },
        mac: Some("0a:00:00:00:00:02".parse().unwrap()),
        addresses: vec!["172.30.0.2".parse().unwrap(), "fd30::2".parse().unwrap()],
        terms: gateway.map(|gateway| Terms {
            gateway,
            addresses: vec!["10.244.1.3".parse().unwrap()],
            gateways: vec!["10.244.1.1".parse().unwrap()],
            node_port_addresses: vec!["100.64.255.254".parse().unwrap(), "fd98::ffff".parse().unwrap()],
        }),
    }
}

fn vip(address: &str, protocol: Protocol, port: u16) -> Vip {
    Vip {
        address: address.parse().unwrap(),
        protocol,
        port,
    }
}

#[test]
fn without_a_patch_port_the_node_has_the_wire_to_itself() {
    assert_eq!(
        all(&base(None, None, None), &Entries::default()),
        "table=0,priority=50,in_port=1,actions=LOCAL\ntable=0,priority=50,in_port=LOCAL,actions=output:1\n"
    );
}

const SHARED: &str = "\
table=0,priority=200,in_port=1,udp,tp_dst=6081,actions=LOCAL
table=0,priority=200,in_port=1,udp6,tp_dst=6081,actions=LOCAL
table=0,priority=150,in_port=1,arp,actions=LOCAL,output:2
table=0,priority=150,in_port=2,arp,actions=output:1
table=0,priority=150,in_port=1,icmp6,icmp_type=133,actions=LOCAL,output:2
table=0,priority=150,in_port=2,icmp6,icmp_type=133,actions=output:1
table=0,priority=150,in_port=1,icmp6,icmp_type=134,actions=LOCAL,output:2
table=0,priority=150,in_port=2,icmp6,icmp_type=134,actions=output:1
table=0,priority=150,in_port=1,icmp6,icmp_type=135,actions=LOCAL,output:2
table=0,priority=150,in_port=2,icmp6,icmp_type=135,actions=output:1
table=0,priority=150,in_port=1,icmp6,icmp_type=136,actions=LOCAL,output:2
table=0,priority=150,in_port=2,icmp6,icmp_type=136,actions=output:1
table=0,priority=150,in_port=1,icmp6,icmp_type=137,actions=LOCAL,output:2
table=0,priority=150,in_port=2,icmp6,icmp_type=137,actions=output:1
table=0,priority=105,in_port=1,dl_dst=0a:6c:6f:00:00:00/ff:ff:ff:00:00:00,actions=drop
table=0,priority=100,in_port=2,ip,actions=ct(commit,zone=64000,exec(set_field:1->ct_mark)),output:1
table=0,priority=100,in_port=1,ip,actions=ct(zone=64000,table=1)
table=0,priority=100,in_port=2,ipv6,actions=ct(commit,zone=64000,exec(set_field:1->ct_mark)),output:1
table=0,priority=100,in_port=1,ipv6,actions=ct(zone=64000,table=1)
table=0,priority=50,in_port=LOCAL,actions=output:1
table=0,priority=10,in_port=1,actions=LOCAL
table=0,priority=0,actions=drop
table=1,priority=100,ip,ct_state=+trk+est,ct_mark=1,actions=set_field:0a:00:00:00:00:02->eth_dst,output:2
table=1,priority=100,ipv6,ct_state=+trk+est,ct_mark=1,actions=set_field:0a:00:00:00:00:02->eth_dst,output:2
table=1,priority=100,ip,ct_state=+trk+rel,ct_mark=1,actions=set_field:0a:00:00:00:00:02->eth_dst,output:2
table=1,priority=100,ipv6,ct_state=+trk+rel,ct_mark=1,actions=set_field:0a:00:00:00:00:02->eth_dst,output:2
table=1,priority=0,actions=LOCAL
";

#[test]
fn the_shared_address_is_told_apart_by_connection() {
    assert_eq!(all(&base(Some(2), None, None), &Entries::default()), SHARED);
}

/// The flows that are there and not among the shared ones.
fn further(base: &Base, entries: &Entries) -> Vec<String> {
    let shared: Vec<&str> = SHARED.lines().collect();
    let text = all(base, entries);
    text.lines().filter(|line| !shared.contains(line)).map(str::to_owned).collect()
}

#[test]
fn announcers_hear_address_resolution() {
    let flows = further(&base(Some(2), Some(3), None), &Entries::default());
    assert!(flows.contains(&"table=0,priority=150,in_port=3,actions=output:1".to_owned()));
    assert!(flows.contains(&"table=0,priority=150,in_port=1,arp,actions=LOCAL,output:2,output:3".to_owned()));
    assert!(flows.contains(&"table=0,priority=150,in_port=1,icmp6,icmp_type=135,actions=LOCAL,output:2,output:3".to_owned()));
}

#[test]
fn services_are_served_under_the_nodes_and_their_own_addresses() {
    let entries = Entries {
        vips: Vips {
            node_ports: [vip("100.64.255.254", Protocol::Tcp, 30080), vip("fd98::ffff", Protocol::Udp, 30053)].into(),
            external: [vip("172.30.0.200", Protocol::Sctp, 80), vip("fd30::200", Protocol::Tcp, 80)].into(),
            ..Vips::default()
        },
        claimed: ["0a:6c:6f:01:02:03".parse().unwrap()].into(),
    };
    let commit = "ct(commit,zone=64000,exec(set_field:2->ct_mark)),output:1";
    assert_eq!(
        further(&base(Some(2), None, Some(ServiceMode::Native)), &entries),
        [
            &format!("table=0,priority=120,in_port=2,ip,nw_src=100.64.255.254,actions=set_field:172.30.0.2->ip_src,{commit}"),
            &format!("table=0,priority=120,in_port=2,ipv6,ipv6_src=fd98::ffff,actions=set_field:fd30::2->ipv6_src,{commit}"),
            "table=1,priority=50,dl_dst=0a:00:00:00:00:02,actions=resubmit(,2)",
            "table=1,priority=50,dl_dst=0a:6c:6f:00:00:00/ff:ff:ff:00:00:00,actions=resubmit(,2)",
            "table=2,priority=50,dl_dst=0a:6c:6f:00:00:00/ff:ff:ff:00:00:00,actions=drop",
            "table=2,priority=0,actions=LOCAL",
            "table=0,priority=110,in_port=1,ip,dl_dst=0a:6c:6f:01:02:03,actions=ct(zone=64000,table=1)",
            "table=0,priority=110,in_port=1,ipv6,dl_dst=0a:6c:6f:01:02:03,actions=ct(zone=64000,table=1)",
            "table=2,priority=100,tcp,nw_dst=172.30.0.2,tp_dst=30080,actions=set_field:100.64.255.254->ip_dst,output:2",
            "table=2,priority=100,udp6,ipv6_dst=fd30::2,tp_dst=30053,actions=set_field:fd98::ffff->ipv6_dst,output:2",
            "table=2,priority=100,sctp,nw_dst=172.30.0.200,tp_dst=80,actions=set_field:0a:00:00:00:00:02->eth_dst,output:2",
            "table=2,priority=100,tcp6,ipv6_dst=fd30::200,tp_dst=80,actions=set_field:0a:00:00:00:00:02->eth_dst,output:2",
        ]
    );
}

#[test]
fn with_kube_proxy_announced_addresses_are_the_nodes() {
    let flows = further(&base(Some(2), None, Some(ServiceMode::KubeProxy)), &Entries::default());
    assert!(!flows.iter().any(|flow| flow.contains("100.64.255.254")), "{flows:#?}");
    let expected = "table=2,priority=50,dl_dst=0a:6c:6f:00:00:00/ff:ff:ff:00:00:00,actions=set_field:0a:00:00:00:00:02->eth_dst,LOCAL";
    assert!(flows.contains(&expected.to_owned()), "{flows:#?}");
}

#[test]
fn a_change_is_only_its_own_flows() {
    let ports = |range: std::ops::Range<u16>| Entries {
        vips: Vips {
            node_ports: range.map(|port| vip("100.64.255.254", Protocol::Tcp, port)).collect(),
            ..Vips::default()
        },
        claimed: BTreeSet::new(),
    };
    let (old, new) = (ports(30000..31000), ports(30001..31001));
    assert_eq!(
        change(
            &base(Some(2), None, Some(ServiceMode::Native)),
            &old.without(&new),
            &new.without(&old)
        ),
        "delete_strict table=2,priority=100,tcp,nw_dst=172.30.0.2,tp_dst=30000\n\
         add table=2,priority=100,tcp,nw_dst=172.30.0.2,tp_dst=31000,actions=set_field:100.64.255.254->ip_dst,output:2\n"
    );
}
