//! The life of a pod's attachment on a real node: attached, checked, detached, in every version of the specification.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use serde_json::{Value, json};
use world::World;

#[test]
fn pods_are_attached_and_reach_each_other() {
    let world = World::ready();
    let (a, b) = (world.pod("a", 10), world.pod("b", 11));
    let result = world.add(&a);
    world.add(&b);
    assert_eq!(result["ips"][0]["address"], "10.244.1.10/24");
    assert_eq!(result["interfaces"][1]["mac"], a.mac());
    assert!(world.pings(&a, &b.ip4()), "{}", world.agent_log());
    assert!(world.pings(&b, &a.ip6()));
    assert!(world.pings(&a, "10.244.1.1"), "the gateway answers");
    assert!(world.pings(&a, "10.244.1.2"), "the pod reaches the node's management port");
    assert!(world.holds(&format!("ping -c 1 -W 1 {}", a.ip4())), "the host reaches the pod");
    assert!(world.holds(&format!("ping -c 1 -W 1 {}", a.ip6())), "over IPv6 too");
    let accepts = "grep -x 0 /proc/sys/net/ipv6/conf/eth0/accept_ra";
    assert!(world.in_pod(&a, accepts), "a neighbour can become the pod's router");
    // TCP needs correct checksums and a kernel that stays out of the pods' traffic.
    world.serve_tcp(&a, 8080);
    assert!(world.in_pod(&b, &format!("nc -z -w 2 {} 8080", a.ip4())), "pod to pod");
    assert!(world.holds(&format!("nc -z -w 2 {} 8080", a.ip4())), "host to pod");
    assert!(world.holds(&format!("nc -z -w 2 {} 8080", a.ip6())), "host to pod over IPv6");
    world.check(&a);
    world.check(&b);
    world.del(&a);
    world.del(&b);
    assert!(world.veths().is_empty());
    assert!(world.interfaces_of(&a.port()).is_empty());
    assert!(!world.sh("nft list ruleset").contains("chain nl"), "no fence and no guard is left");
}

/// What it drops is tried with packets in the lab.
#[test]
fn every_pod_has_a_guard_also_after_a_firewall_was_set_up_anew() {
    let world = World::ready();
    let (a, b) = (world.pod("a", 10), world.pod("b", 11));
    world.add(&a);
    world.add(&b);
    let guards = || {
        world
            .sh("nft list ruleset | grep -c 'hook egress device \"nl' || true")
            .trim()
            .to_owned()
    };
    assert_eq!(guards(), "2");
    world.sh("nft delete table netdev netloom-guard");
    world.wait_until(|| guards() == "2");
    world.del(&a);
    assert_eq!(guards(), "1");
}

#[test]
fn a_forged_source_address_is_dropped() {
    let world = World::ready();
    let (a, b) = (world.pod("a", 10), world.pod("b", 11));
    world.add(&a);
    world.add(&b);
    assert!(world.pings(&a, &b.ip4()));
    world.sh("ip -n a-1 addr add 10.244.1.99/24 dev eth0 && ip -n b-1 neigh add 10.244.1.99 lladdr 0a:58:0a:f4:01:0a dev eth0");
    assert!(!world.in_pod(&a, &format!("ping -c 1 -W 1 -I 10.244.1.99 {}", b.ip4())));
    assert!(world.pings(&a, &b.ip4()), "the pod's own address still works");
    // Without port security the same packet passes: it was OVN that dropped it.
    world.sh(&format!("ovn-nbctl --wait=hv --timeout=10 lsp-set-port-security {} ''", a.port()));
    assert!(world.in_pod(&a, &format!("ping -c 1 -W 1 -I 10.244.1.99 {}", b.ip4())));
}

#[test]
fn every_version_is_spoken_and_del_can_be_repeated() {
    let world = World::ready();
    for (number, version) in [(10, "0.3.1"), (11, "0.4.0"), (12, "1.0.0"), (13, "1.1.0")] {
        let pod = world.pod(["a", "b", "c", "d"][usize::from(number - 10)], number);
        let result = world.cni("ADD", &pod, version, json!({ "mtu": 1300 })).unwrap();
        assert_eq!(result["cniVersion"], version);
        let inside = &result["interfaces"][1];
        assert_eq!(inside["sandbox"], pod.netns);
        assert_eq!(
            result["ips"][1]["version"],
            if version < "1.0.0" { json!("6") } else { Value::Null }
        );
        assert_eq!(inside["mtu"], if version == "1.1.0" { json!(1300) } else { Value::Null });
        assert!(world.in_pod(&pod, "ip link show eth0 | grep -q 'mtu 1300'"));
        if version != "0.3.1" {
            world
                .cni("CHECK", &pod, version, json!({ "mtu": 1300, "prevResult": result }))
                .unwrap();
        }
        for _ in 0..2 {
            assert_eq!(world.cni("DEL", &pod, version, json!({ "prevResult": result })), Ok(Value::Null));
        }
        // The namespace is gone, and the runtime may even forget where it was.
        world.sh(&format!("ip netns del {}-1", pod.name));
        world.cni("DEL", &pod, version, Value::Null).unwrap();
        world
            .cni(
                "DEL",
                &world::Pod {
                    netns: String::new(),
                    ..pod
                },
                version,
                Value::Null,
            )
            .unwrap();
    }
    assert!(world.veths().is_empty());
    // A runtime may delete the namespace, and the veth with it, before it says DEL.
    let pod = world.pod("e", 14);
    world.add(&pod);
    world.sh("ip netns del e-1");
    world.wait_until(|| world.veths().is_empty());
    world.del(&pod);
    assert!(world.interfaces_of(&pod.port()).is_empty());
    assert!(!world.sh("nft list ruleset").contains("chain nl"), "no fence is left");
}

#[test]
fn offloads_stay_on_where_the_switch_can_segment() {
    for (setting, offload) in [("", "off"), ("TSO=1", "on")] {
        let world = World::ready_with(setting);
        let (a, b) = (world.pod("a", 10), world.pod("b", 11));
        world.add(&a);
        world.add(&b);
        assert!(
            world.in_pod(&a, &format!("ethtool -k eth0 | grep -q '^tx-checksumming: {offload}'")),
            "{setting}"
        );
        world.serve_tcp(&a, 8080);
        let send = format!("sh -c 'head -c 300000 /dev/zero | nc -N -w 5 {} 8080'", a.ip4());
        assert!(world.in_pod(&b, &send), "{setting}: a transfer of many segments");
        world.wait_received(&a, 300_000);
    }
}

#[test]
fn check_names_what_is_wrong() {
    let world = World::ready();
    let pod = world.pod("a", 10);
    let result = world.add(&pod);
    let broken = |world: &World, breakage: &str, code: u64, words: &str| {
        world.sh(breakage);
        let error = world.cni("CHECK", &pod, "1.0.0", Value::Null).expect_err(breakage);
        assert_eq!(error["code"], code, "{breakage}: {error}");
        assert!(error["msg"].as_str().unwrap().contains(words), "{breakage}: {error}");
        world.add(&pod);
        world.check(&pod);
    };
    broken(&world, "ip -n a-1 addr del 10.244.1.10/24 dev eth0", 101, "10.244.1.10/24");
    broken(
        &world,
        "ip -n a-1 addr del fd00:10:244:1::10/64 dev eth0",
        101,
        "fd00:10:244:1::10/64",
    );
    broken(
        &world,
        "ip -n a-1 link set eth0 address 0a:00:00:00:00:77",
        100,
        "0a:00:00:00:00:77",
    );
    broken(&world, "ip -n a-1 link set eth0 mtu 1400", 100, "1400");
    broken(&world, "ip -n a-1 link set eth0 down", 100, "down");
    broken(&world, "ip -n a-1 route del default", 102, "0.0.0.0/0");
    broken(&world, "ip -n a-1 link del eth0", 100, "missing");
    let device = world.veths()[0].clone();
    broken(
        &world,
        &format!("ovs-vsctl del-port {device}"),
        103,
        "Open vSwitch has no interface",
    );
    let mut forged = result;
    forged["ips"][0]["address"] = json!("10.244.1.77/24");
    let error = world.cni("CHECK", &pod, "1.0.0", json!({ "prevResult": forged })).unwrap_err();
    assert_eq!(error["code"], 105, "{error}");
}

#[test]
fn gc_removes_what_is_not_listed_and_nothing_else() {
    let world = World::ready();
    let (a, b) = (world.pod("a", 10), world.pod("b", 11));
    world.add(&a);
    world.add(&b);
    world.sh("ip link add nl0123456789ab type veth peer name other && ip link add innocent type veth peer name other2");
    let listed = json!([{ "containerID": b.container, "ifname": "eth0" }]);
    world
        .cni("GC", &a, "1.1.0", json!({ "cni.dev/valid-attachments": listed }))
        .unwrap();
    assert!(world.interfaces_of(&a.port()).is_empty());
    assert_eq!(world.veths(), world.interfaces_of(&b.port()));
    assert!(world.holds("ip link show innocent"));
    world.check(&b);
    // Without a list nothing is known to be stale.
    world.cni("GC", &a, "1.1.0", Value::Null).unwrap();
    world.check(&b);
}

#[test]
fn status_says_what_is_missing() {
    let world = World::ready();
    let nobody = world.sandbox("x", 99, "1");
    world.cni("STATUS", &nobody, "1.1.0", Value::Null).unwrap();
    assert_eq!(world.sh("curl -s http://127.0.0.1:9642/readyz").trim(), "ok");
    // A regular end of ovn-controller takes the chassis away.
    world.sh("ovn-appctl -t ovn-controller exit");
    world.wait_until(|| world.cni("STATUS", &nobody, "1.1.0", Value::Null).is_err());
    let error = world.cni("STATUS", &nobody, "1.1.0", Value::Null).unwrap_err();
    assert_eq!(error["code"], 50, "{error}");
    assert!(error["msg"].as_str().unwrap().contains("chassis node1"), "{error}");
    assert!(world.sh("curl -s http://127.0.0.1:9642/readyz").contains("chassis node1"));
    assert_eq!(world.sh("curl -s http://127.0.0.1:9642/healthz").trim(), "ok");
    assert_eq!(world.stop_agent("-TERM"), Some(0));
    let error = world.cni("STATUS", &nobody, "1.1.0", Value::Null).unwrap_err();
    assert_eq!(error["code"], 50, "{error}");
    let error = world.cni("DEL", &nobody, "1.1.0", Value::Null).unwrap_err();
    assert_eq!(error["code"], 11, "{error}");
}
