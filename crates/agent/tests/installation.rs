//! An agent that owns the whole node: it sets the switch up, takes the uplink, installs the CNI plugin, declares the node
//! ready, and takes all of that away again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use world::World;

const CONFIGURATION: &str = "/opt/installed/net.d/10-netloom.conflist";

/// A node with nothing on it and an agent that has just set it up.
fn installed() -> (World, world::api::Api) {
    let world = World::bare();
    let api = world.start_api();
    world.register("{}");
    assert!(world.holds("ping -c 1 -W 1 172.30.0.1"), "the uplink works before");
    world.start_owner();
    world.wait_for_log("addresses moved to br-ex");
    world.wait_until(|| reaches_outside(&world));
    (world, api)
}

fn reaches_outside(world: &World) -> bool {
    world.holds("ip addr show br-ex | grep -q 172.30.0.2/24 && ping -c 1 -W 1 172.30.0.1 && ping -c 1 -W 1 fd30::1")
}

fn wait_ready(world: &World) {
    world.sh("ovs-vsctl --timeout=20 wait-until interface netloom0 external_ids:ovn-installed=true");
}

/// Everything an administrator would look at.
fn network(world: &World) -> String {
    world.sh("ip -o addr | sed 's/ *valid_lft.*//; s/^[0-9]*: //' | grep -v fe80 | sort; ip route; ip -6 route | grep -v fe80; ip route show table 77; \
              ip rule; ip -6 rule; nft list ruleset; ip -o link | sed 's/^[0-9]*: //; s/:.*mtu/ mtu/; s/ qdisc.*//' | sort")
}

#[test]
fn an_empty_switch_is_set_up_and_kept() {
    let (world, _api) = installed();
    let get = |what: &str| world.sh(&format!("ovs-vsctl get {what}")).trim().trim_matches('"').to_owned();
    assert_eq!(get("open_vswitch . external_ids:ovn-encap-ip"), "172.30.0.2");
    assert_eq!(get("open_vswitch . external_ids:ovn-bridge-mappings"), "external:br-ex");
    assert_eq!(get("open_vswitch . other_config:userspace-tso-enable"), "true");
    assert_eq!(get("bridge br-int fail_mode"), "secure");
    assert_eq!(get("bridge br-ex datapath_type"), "netdev");
    world.sh(
        "ovs-vsctl set open_vswitch . external_ids:ovn-encap-ip=192.0.2.1 external_ids:rack=7 \
              external_ids:ovn-bridge-mappings=storage:br-st -- set bridge br-int fail_mode=standalone",
    );
    world.wait_until(|| get("open_vswitch . external_ids:ovn-encap-ip") == "172.30.0.2" && get("bridge br-int fail_mode") == "secure");
    world.wait_until(|| get("open_vswitch . external_ids:ovn-bridge-mappings") == "external:br-ex,storage:br-st");
    assert_eq!(get("open_vswitch . external_ids:rack"), "7", "what is not ours stays");
    world.sh("ovs-vsctl del-br br-int");
    world.sh("ovs-vsctl --timeout=20 wait-until bridge br-int fail_mode=secure");
    assert_eq!(world.sh("cat /proc/sys/net/ipv4/ip_forward").trim(), "1");
}

#[test]
fn the_uplink_moves_with_everything_it_has() {
    let (world, _api) = installed();
    assert!(
        !world.holds("ip addr show uplink | grep -q 'inet .*global'"),
        "nothing is left on the device"
    );
    assert!(world.holds("ip route show default | grep -q 'via 172.30.0.1 dev br-ex proto dhcp src 172.30.0.2 metric 100'"));
    assert!(world.holds("ip route show table 77 | grep -q '203.0.113.0/24 via 172.30.0.1 dev br-ex'"));
    assert!(world.holds("ip -6 route show default | grep -q 'via fd30::1 dev br-ex'"));
    assert!(world.holds("ip link show br-ex | grep -q 'mtu 1490' && ip link show br-ex | grep -q 0a:00:00:00:00:02"));
    // A DHCP client that knows only the device.
    world.sh("ip addr add 172.30.0.2/24 dev uplink; ip addr add 172.30.0.22/24 dev uplink");
    world.wait_until(|| world.holds("ip addr show br-ex | grep -q 172.30.0.22/24 && ! ip addr show uplink | grep -q 'inet .*global'"));
    world.wait_until(|| reaches_outside(&world));
    // What people take away from br-ex stays away.
    world.sh("ip addr del 172.30.0.22/24 dev br-ex");
    world.wait_until(|| !world.holds("ovs-vsctl get bridge br-ex external_ids | grep -q 172.30.0.22"));
    assert!(world.holds("ip route show default | grep -q br-ex"));
    wait_ready(&world);
    let pod = world.pod("a", 10);
    world.add(&pod);
    world.wait_until(|| world.pings(&pod, "172.30.0.1"));
}

#[test]
fn a_new_bridge_gets_the_addresses_back() {
    let (world, _api) = installed();
    wait_ready(&world);
    let before = world.sh("ip -o addr show br-ex | sed 's/ *valid_lft.*//; s/^[0-9]*: //; /fe80/d'; ip route; ip route show table 77");
    world.restart_switch();
    let now = || {
        world.sh("ip -o addr show br-ex 2>/dev/null | sed 's/ *valid_lft.*//; s/^[0-9]*: //; /fe80/d'; ip route; ip route show table 77")
    };
    world.wait_until(|| now() == before);
    world.wait_until(|| reaches_outside(&world));
    // And while nobody was there to see it go.
    world.stop_agent("-KILL");
    world.restart_switch();
    world.start_agent_again();
    world.wait_until(|| now() == before);
    world.wait_until(|| reaches_outside(&world));
}

#[test]
fn without_a_switch_the_node_is_still_reached() {
    let (world, _api) = installed();
    let routes = || world.sh("ip route show default; ip route show table 77; ip -6 route show default");
    let before = routes();
    world.stop_switch();
    world.wait_until(|| world.holds("ping -c 1 -W 1 172.30.0.1 && ping -c 1 -W 1 fd30::1"));
    world.wait_until(|| routes() == before.replace("br-ex", "uplink"));
    world.start_switch();
    world.wait_until(|| reaches_outside(&world) && routes() == before);
    assert!(!world.holds("ip addr show uplink | grep -q 'inet .*global'"));
    assert!(
        world.holds("nft list table netdev netloom | grep -q 'chain uplink'"),
        "the stack hears the device again"
    );
}

#[test]
fn a_move_that_was_cut_off_is_completed() {
    let (world, _api) = installed();
    world.stop_agent("-KILL");
    // As if it had ended after one of two addresses: the device has one, br-ex the other, and some routes are lost.
    world.sh("ovs-vsctl set bridge br-ex external_ids:netloom.io/complete-on=$(cat /proc/sys/kernel/random/boot_id)/moving");
    world.sh("ip addr del 172.30.0.2/24 dev br-ex; ip addr add 172.30.0.2/24 dev uplink; ip -6 route del default");
    world.start_agent_again();
    world.wait_until(|| reaches_outside(&world));
    assert!(!world.holds("ip addr show uplink | grep -q 'inet .*global'"));
    world.wait_until(|| world.holds("ip -6 route show default | grep -q br-ex && ip route show default | grep -q 'proto dhcp'"));
}

#[test]
fn the_plugin_is_installed_when_pods_can_be_attached() {
    let world = World::bare();
    let _api = world.start_api();
    world.register("{taints: [{key: netloom.io/not-ready, effect: NoSchedule}, {key: mine, effect: NoSchedule}]}");
    world.start_owner();
    world.wait_until(|| world.holds(&format!("test -e {CONFIGURATION}")));
    wait_ready(&world);
    let text = world.sh(&format!("cat {CONFIGURATION}"));
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["cniVersion"], "1.0.0");
    assert_eq!(list["plugins"][0]["type"], "netloom-cni");
    assert!(world.holds("cmp /opt/cni/bin/netloom-cni /opt/installed/bin/netloom-cni && test -x /opt/installed/bin/netloom-cni"));
    world.wait_until(|| world.kubectl("get node node1 -o jsonpath='{.spec.taints[*].key}'") == "mine");
    // Put back when it is deleted, changed or made unusable.
    world.sh(&format!("rm {CONFIGURATION}"));
    world.wait_until(|| world.holds(&format!("test -e {CONFIGURATION}")));
    world.sh(&format!("echo nonsense >{CONFIGURATION}; rm /opt/installed/bin/netloom-cni"));
    world.wait_until(|| world.sh(&format!("cat {CONFIGURATION}")) == text && world.holds("test -x /opt/installed/bin/netloom-cni"));
    world.sh("touch /opt/installed/net.d/05-other.conflist");
    world.wait_for_log("05-other.conflist");
    assert!(world.holds("test -e /opt/installed/net.d/05-other.conflist && test $(ls -A /opt/installed/net.d | wc -l) = 2"));
    // A taint that comes back later goes as well.
    world.kubectl(
        "patch node node1 --type=merge -p '{\"spec\":{\"taints\":[{\"key\":\"netloom.io/not-ready\",\"effect\":\"NoExecute\"}]}}'",
    );
    world.wait_until(|| world.kubectl("get node node1 -o jsonpath='{.spec.taints}'").is_empty());
}

#[test]
fn removal_leaves_the_node_as_it_was() {
    let world = World::bare();
    let _api = world.start_api();
    world.register("{}");
    world.sh("mkdir -p /var/lib/netloom/some; touch /var/lib/netloom/some/file");
    let before = network(&world);
    world.start_owner();
    wait_ready(&world);
    let pod = world.pod("a", 10);
    world.add(&pod);
    world.wait_until(|| reaches_outside(&world));
    world.sh("ovs-vsctl set open_vswitch . external_ids:rack=7");
    world.kubectl("annotate node node1 netloom.io/remove=u1");
    world.wait_until(|| !world.annotation("removed").is_empty());
    assert_eq!(world.annotation("removed"), "true", "{}", world.agent_log());
    assert_eq!(world.annotation("gateway"), "");
    assert_eq!(network(&world), before);
    assert!(world.holds("ping -c 1 -W 1 172.30.0.1 && ping -c 1 -W 1 fd30::1"));
    assert_eq!(world.sh("ovs-vsctl list-br"), "");
    let ids = world.sh("ovs-vsctl get open_vswitch . external_ids");
    assert!(ids.contains("rack") && !ids.contains("ovn-") && !ids.contains("system-id"), "{ids}");
    assert!(!world.holds(&format!("test -e {CONFIGURATION}")) && !world.holds("test -e /opt/installed/bin/netloom-cni"));
    assert_eq!(world.sh("ls -A /var/lib/netloom"), "");
    assert!(world.holds("curl -sf http://127.0.0.1:9642/healthz && ! curl -sf http://127.0.0.1:9642/readyz"));
    // Somebody starts ovn-controller again, which makes br-int again.
    world.start_ovn_controller();
    world.wait_for_log("removed what a restarted ovn-controller had made");
    world.wait_until(|| network(&world) == before);
    // A restart does not bring it back.
    world.stop_agent("-TERM");
    world.start_agent_again();
    world.wait_for_log("was removed from this node");
    assert_eq!(network(&world), before);
    // Withdrawn: the agent ends, and the next one starts afresh.
    world.kubectl("annotate node node1 netloom.io/remove- netloom.io/removed-");
    world.wait_for_log("was withdrawn");
    world.start_owner();
    world.wait_until(|| reaches_outside(&world));
    wait_ready(&world);
}
