//! The node's side of services: the service port, node ports, external addresses, health check ports.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use world::World;
use world::services::{ANNOUNCED_MAC, NODE_PORT_ADDRESSES};

const NODE: [&str; 2] = ["172.30.0.2", "fd30::2"];
const CLUSTER: [&str; 2] = ["10.96.0.50", "fd00:10:96::50"];
const EXTERNAL: [&str; 2] = ["172.30.0.200", "fd30::200"];

/// Waits until the service is reached from the host outside and from the node.
fn wait_served(world: &World) {
    for family in 0..2 {
        world.wait_until(|| world.outside_connects(NODE[family], 30080));
        world.wait_until(|| world.node_connects(NODE[family], 30080));
        world.wait_until(|| world.node_connects(CLUSTER[family], 80));
        world.wait_until(|| world.node_connects(EXTERNAL[family], 80));
    }
}

#[test]
fn a_service_is_reached_from_everywhere() {
    let world = World::with_services();
    world.wait_for_log("patch=");
    let service = world.service();
    world.announce();
    world.wait_for_log("announced");
    let client = world.pod("client", 21);
    world.add(&client);
    wait_served(&world);
    for family in 0..2 {
        world.wait_until(|| world.outside_connects(EXTERNAL[family], 80));
        let node_port = format!("nc -z -w 1 {} 30080", NODE[family]);
        world.wait_until(|| world.in_pod(&client, &node_port));
        assert!(!world.outside_connects(EXTERNAL[family], 81), "what nobody serves is not served");
    }
    // What the node sends elsewhere on an external address is not led astray.
    assert!(!world.sh("ip route get 172.30.0.200").contains("netloom1"));
    assert!(world.holds(&format!("ping -c 1 -W 1 {}", service.pod.ip4())));
}

#[test]
fn a_port_more_leaves_the_others_alone() {
    let world = World::with_services();
    world.service();
    world.wait_until(|| world.outside_connects(NODE[0], 30080));
    world.wait_until(|| counted(&world));
    world.balance(
        "service_default_other_tcp_gateway",
        "",
        &format!("\"{}:30081\"=\"10.244.1.20:8080\"", NODE_PORT_ADDRESSES[0]),
    );
    world.wait_until(|| world.outside_connects(NODE[0], 30081));
    assert!(counted(&world), "the flow of the other port was replaced");
    world.wait_until(|| world.holds("nft list set inet netloom node-ports4 | grep -q 30081"));
    world.sh("ovn-nbctl lb-del service_default_other_tcp_gateway");
    world.wait_until(|| !world.holds("ovs-ofctl dump-flows br-ex | grep -q 30081 || nft list table inet netloom | grep -q 30081"));
    assert!(counted(&world), "the flow of the other port was replaced");
}

/// Whether the flow of node port 30080 is the one that has served packets already. The switch counts packets into flows
/// some time after they passed, so this is waited for before it is asserted.
fn counted(world: &World) -> bool {
    world.holds("ovs-ofctl dump-flows br-ex table=2 | grep tp_dst=30080 | grep 'tcp,' | grep -qv n_packets=0")
}

#[test]
fn the_wire_is_told_where_addresses_are() {
    let world = World::with_services();
    let listen = |name: &str, filter: &str| {
        world.sh(&format!(
            "ip netns exec outside sh -c 'tcpdump -nn -c 1 -i wire \"ether src {ANNOUNCED_MAC} and {filter}\" >/tmp/{name} 2>/tmp/{name}.log &'"
        ));
        world.wait_until(|| world.holds(&format!("grep -q 'listening on' /tmp/{name}.log")));
    };
    listen("arp", "arp[6:2] == 1");
    listen("na", "icmp6 and ip6[40] == 136 and ip6 dst ff02::1");
    world.announce();
    world.wait_until(|| {
        world.holds("grep -q 'who-has 172.30.0.200 tell 172.30.0.200' /tmp/arp || grep -q 'Announcement 172.30.0.200' /tmp/arp")
    });
    world.wait_until(|| world.holds("grep -q 'fd30::200 > ff02::1: ICMP6, neighbor advertisement, tgt is fd30::200' /tmp/na"));
    let claimed = || {
        world.holds(&format!(
            "ovs-ofctl dump-flows br-ex | grep -q 'priority=110,.*dl_dst={ANNOUNCED_MAC}'"
        ))
    };
    assert!(claimed());
    world.sh("ovn-nbctl clear logical_router_port announcer_default_web_port ha_chassis_group");
    world.wait_until(|| !claimed());
}

#[test]
fn health_check_ports_tell_of_local_endpoints() {
    let world = World::with_services();
    let answer = |port: u16| world.try_sh(&format!("curl -sm 2 -w '%{{http_code}}' http://127.0.0.1:{port}/healthz"));
    let says = |port: u16, words: &[&str]| {
        let text = String::from_utf8(answer(port).stdout).unwrap();
        words.iter().all(|word| text.contains(word))
    };
    let own = "service_default_web_tcp_gateway_node_node1";
    let port = "'options:\"netloom.io/health-check-port\"=\"32000\"'";
    let ready = format!("{port} 'options:\"netloom.io/ready-endpoints\"=\"2\"'");
    world.balance(
        own,
        &ready,
        "\"172.30.0.200:80\"=\"10.244.1.20:8080,10.244.1.21:8080,10.244.1.22:8080\"",
    );
    world.wait_until(|| {
        says(
            32000,
            &["200", "\"localEndpoints\":2", "\"namespace\":\"default\"", "\"name\":\"web\""],
        )
    });
    world.balance("service_default_web_tcp_gateway_elsewhere", port, "\"172.30.0.200:80\"=\"\"");
    world.sh(&format!("ovn-nbctl lb-del {own}"));
    world.wait_until(|| says(32000, &["503", "\"localEndpoints\":0"]));
    world.sh("ovn-nbctl lb-del service_default_web_tcp_gateway_elsewhere");
    world.wait_until(|| answer(32000).status.code() == Some(7));

    // A port that is taken is said to be, and opened when something changes after it was freed.
    world.sh("nc -6 -lk 32001 >/dev/null 2>&1 & echo $! >/tmp/taken");
    world.wait_until(|| world.holds("ss -ltn | grep -q :32001"));
    world.balance(
        own,
        "'options:\"netloom.io/health-check-port\"=\"32001\"' 'options:\"netloom.io/ready-endpoints\"=\"1\"'",
        "\"172.30.0.200:80\"=\"10.244.1.20:8080\"",
    );
    world.wait_for_log("cannot open the health check port");
    world.sh("kill $(cat /tmp/taken)");
    world.wait_until(|| !world.holds("ss -ltn | grep -q :32001"));
    world.balance("service_default_other_tcp_gateway", "", "\"172.30.0.201:80\"=\"10.244.1.20:8080\"");
    world.wait_until(|| says(32001, &["200"]));
}

#[test]
fn another_mode_leaves_nothing_of_the_first() {
    let world = World::with_services();
    world.service();
    wait_served(&world);
    let native = world.service_state();
    world.serve_with_kube_proxy();
    let traces = [
        "30080",
        "172.30.0.200",
        "fd30::200",
        "10.96.0.0/16",
        "100.64.255.254",
        "27759",
        "27760",
        "0x1000",
        "0x2000",
        "hook output",
    ];
    world.wait_until(|| {
        let state = world.service_state();
        !traces.iter().any(|trace| state.contains(trace))
    });
    let state = world.service_state();
    assert!(
        state.contains("iifname \"netloom1\" oifname \"netloom0\" snat ip to 10.244.1.3"),
        "{state}"
    );
    assert!(state.contains("actions=mod_dl_dst:0a:00:00:00:00:02,LOCAL"), "{state}");
    world.serve_natively();
    world.wait_until(|| world.service_state() == native);
    assert!(world.outside_connects(NODE[0], 30080));
}

#[test]
fn a_new_agent_changes_nothing() {
    let world = World::with_services();
    world.service();
    wait_served(&world);
    world.wait_until(|| counted(&world));
    let state = world.service_state();
    world.stop_agent("-KILL");
    world.wait_until(|| world.outside_connects(NODE[0], 30080));
    world.start_agent();
    world.wait_for_log("gateway flows replaced");
    world.wait_for_log("services set up on the host");
    assert_eq!(world.service_state(), state);
    assert!(counted(&world), "the flow was replaced");
}

#[test]
fn a_restarted_switch_serves_again() {
    let world = World::with_services();
    world.service();
    wait_served(&world);
    world.restart_switch();
    wait_served(&world);
}

#[test]
fn the_service_port_is_put_back() {
    let world = World::with_services();
    let routed = || {
        world.holds(
            "ip route show 10.96.0.0/16 | grep -q 'via 10.244.1.1 dev netloom1' && ip -6 route show fd00:10:96::/112 | grep -q netloom1",
        )
    };
    world.wait_until(routed);
    world.sh("ip route del 10.96.0.0/16");
    world.wait_until(routed);
    world.wait_for_log("services set up on the host");
    world.sh("nft delete table inet netloom");
    world.wait_until(|| world.holds("nft list table inet netloom | grep -q 'snat ip to 10.244.1.3'"));
    world.sh("ip rule del priority 1000; ip rule del priority 1001");
    world.wait_until(|| world.holds("ip rule | grep -q 'fwmark 0x1000/0x1000 lookup 27759'"));
    world.wait_until(|| world.holds("ip rule | grep -q 'fwmark 0x2000/0x2000 lookup 27760'"));
    world.wait_until(|| world.holds("ip route show table 27760 | grep -q 'via 10.244.1.1 dev netloom0'"));
    world.sh("ovs-vsctl del-port netloom1");
    world.wait_until(routed);
    world.wait_until(|| world.holds("ip route show table 27759 | grep -q 'dev netloom1'"));
    let address = world.sh("ip addr show netloom1");
    assert!(!address.contains("10.244.1.3") && !address.contains("fd00:"), "{address}");
}
