//! The node's own part: the way out through the shared address, and both ports after a restart of the switch.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use world::World;

#[test]
fn the_gateway_is_published_and_kept() {
    let world = World::new();
    let _api = world.start_api();
    let published = || world.annotation("gateway");
    let expected = r#"{"mac":"0a:00:00:00:00:02","addresses":["172.30.0.2/24","fd30::2/64"],"nextHops":["172.30.0.1","fd30::1"]}"#;

    world.start_agent_with_kubeconfig("/root/kubeconfig");
    world.register("{}");
    world.wait_until(|| published() == expected);
    world.sh("ip addr add 172.30.0.9/24 dev br-ex");
    world.wait_until(|| published().contains("172.30.0.9/24"));
    world.sh("ip addr del 172.30.0.9/24 dev br-ex");
    world.wait_until(|| published() == expected);
    // A node that is registered anew has lost its annotations.
    world.kubectl("delete node node1");
    world.register("{}");
    world.wait_until(|| published() == expected);
}

#[test]
fn a_pod_reaches_the_outside_with_the_nodes_address() {
    let world = World::ready();
    world.wait_for_log("patch=");
    let pod = world.pod("a", 10);
    world.add(&pod);
    assert!(world.pings(&pod, "172.30.0.1"), "{}", world.agent_log());
    assert!(world.pings(&pod, "fd30::1"));
    assert!(world.holds("ping -c 1 -W 1 172.30.0.1"), "the host still reaches the outside");
    assert!(world.holds("ping -c 1 -W 1 fd30::1"));
    assert!(world.holds("ip netns exec outside ping -c 1 -W 1 172.30.0.2"), "and is reached");
    let seen = world.tcp_peer_seen_outside(&pod, "172.30.0.1");
    assert!(seen.contains("172.30.0.2"), "the outside sees {seen:?}");
}

#[test]
fn the_management_port_is_put_back() {
    let world = World::ready();
    // Its flows may be there before its addresses and routes are.
    world.wait_until(|| world.holds("ip addr show netloom0 | grep -q 10.244.1.2/24 && ip route show 10.244.0.0/16 | grep -q netloom0"));
    world.sh("ip addr del 10.244.1.2/24 dev netloom0");
    world.wait_until(|| world.holds("ip addr show netloom0 | grep -q 10.244.1.2/24 && ip route show 10.244.0.0/16 | grep -q netloom0"));
    world.sh("ip route del 10.244.0.0/16");
    world.wait_until(|| world.holds("ip route show 10.244.0.0/16 | grep -q 'via 10.244.1.1 dev netloom0'"));
    world.sh("ovs-vsctl del-port netloom0");
    world.wait_until(|| world.holds("ip addr show netloom0 | grep -q fd00:10:244:1::2/64"));
    world.wait_until(|| world.holds("ip -6 route show fd00:10:244::/48 | grep -q netloom0"));
}

#[test]
fn a_restarted_switch_gets_its_flows_and_addresses_back() {
    let world = World::ready();
    world.wait_for_log("patch=");
    let pod = world.pod("a", 10);
    world.add(&pod);
    assert!(world.pings(&pod, "172.30.0.1"));
    world.restart_switch();
    world.wait_until(|| world.holds("ovs-ofctl dump-flows br-ex | grep -q 'zone=64000'"));
    world.wait_until(|| world.holds("ip addr show netloom0 | grep -q 10.244.1.2/24"));
    world.wait_until(|| world.pings(&pod, "10.244.1.1"));
    world.wait_until(|| world.pings(&pod, "172.30.0.1"));
    assert!(
        world.holds(&format!("ping -c 1 -W 1 {}", pod.ip4())),
        "the host reaches the pod again"
    );
    world.check(&pod);
}
