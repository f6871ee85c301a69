//! The OpenFlow rules of br-ex as a pure function of its ports. The node and the gateway router share one MAC and one
//! address per family; what tells their traffic apart on the way back is connection tracking: everything a pod sends
//! out is committed with mark 1 in a zone of its own, and replies of marked connections go to OVN, the rest to the node.

use std::fmt::Write;

/// The connection tracking zone of the shared address; OVN allocates its own zones from below.
const ZONE: u16 = 64000;
/// ICMPv6 types of router and neighbour discovery: both sides must hear them.
const NEIGHBOUR_DISCOVERY: [u8; 5] = [133, 134, 135, 136, 137];

/// The OpenFlow ports of br-ex that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The port towards the wire.
    pub uplink: u32,
    /// The patch port to br-int; ovn-controller makes it once the gateway's external switch exists.
    pub patch: Option<u32>,
}

/// The complete flow table, in the syntax of `ovs-ofctl replace-flows`.
pub fn flows(ports: Ports) -> String {
    let n = ports.uplink;
    let mut text = String::new();
    let mut flow = |table: u8, priority: u16, rule: &str, actions: &str| {
        let separator = if rule.is_empty() { "" } else { "," };
        let _ = writeln!(text, "table={table},priority={priority}{separator}{rule},actions={actions}");
    };
    let out = format!("output:{n}");
    let Some(p) = ports.patch else {
        flow(0, 50, &format!("in_port={n}"), "LOCAL");
        flow(0, 50, "in_port=LOCAL", &out);
        return text;
    };
    let both = format!("LOCAL,output:{p}");
    let pod = format!("output:{p}");

    // Tunnels end at the node, before anything looks at connections.
    for family in ["udp", "udp6"] {
        flow(0, 200, &format!("in_port={n},{family},tp_dst=6081"), "LOCAL");
    }
    // Address resolution: node and gateway router answer with the same MAC and both must learn.
    flow(0, 150, &format!("in_port={n},arp"), &both);
    flow(0, 150, &format!("in_port={p},arp"), &out);
    for kind in NEIGHBOUR_DISCOVERY {
        flow(0, 150, &format!("in_port={n},icmp6,icmp_type={kind}"), &both);
        flow(0, 150, &format!("in_port={p},icmp6,icmp_type={kind}"), &out);
    }
    for family in ["ip", "ipv6"] {
        let commit = format!("ct(commit,zone={ZONE},exec(set_field:1->ct_mark)),{out}");
        flow(0, 100, &format!("in_port={p},{family}"), &commit);
        flow(0, 100, &format!("in_port={n},{family}"), &format!("ct(zone={ZONE},table=1)"));
    }
    flow(0, 50, "in_port=LOCAL", &out);
    // What is neither IP nor address resolution (LLDP, spanning tree) concerns the node only.
    flow(0, 10, &format!("in_port={n}"), "LOCAL");
    flow(0, 0, "", "drop");

    for state in ["+est", "+rel"] {
        for family in ["ip", "ipv6"] {
            flow(1, 100, &format!("{family},ct_state=+trk{state},ct_mark=1"), &pod);
        }
    }
    flow(1, 0, "", "LOCAL");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_patch_port_the_node_has_the_wire_to_itself() {
        assert_eq!(
            flows(Ports { uplink: 1, patch: None }),
            "table=0,priority=50,in_port=1,actions=LOCAL\ntable=0,priority=50,in_port=LOCAL,actions=output:1\n"
        );
    }

    #[test]
    fn the_shared_address_is_told_apart_by_connection() {
        let expected = "\
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
table=0,priority=100,in_port=2,ip,actions=ct(commit,zone=64000,exec(set_field:1->ct_mark)),output:1
table=0,priority=100,in_port=1,ip,actions=ct(zone=64000,table=1)
table=0,priority=100,in_port=2,ipv6,actions=ct(commit,zone=64000,exec(set_field:1->ct_mark)),output:1
table=0,priority=100,in_port=1,ipv6,actions=ct(zone=64000,table=1)
table=0,priority=50,in_port=LOCAL,actions=output:1
table=0,priority=10,in_port=1,actions=LOCAL
table=0,priority=0,actions=drop
table=1,priority=100,ip,ct_state=+trk+est,ct_mark=1,actions=output:2
table=1,priority=100,ipv6,ct_state=+trk+est,ct_mark=1,actions=output:2
table=1,priority=100,ip,ct_state=+trk+rel,ct_mark=1,actions=output:2
table=1,priority=100,ipv6,ct_state=+trk+rel,ct_mark=1,actions=output:2
table=1,priority=0,actions=LOCAL
";
        assert_eq!(flows(Ports { uplink: 1, patch: Some(2) }), expected);
    }
}
