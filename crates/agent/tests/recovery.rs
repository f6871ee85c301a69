//! What happens to attachments when something dies, waits or comes twice.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::thread;

use serde_json::Value;
use world::World;

#[test]
fn a_killed_agent_changes_nothing_for_pods() {
    let world = World::ready();
    let (a, b) = (world.pod("a", 10), world.pod("b", 11));
    world.add(&a);
    world.add(&b);
    world.stop_agent("-KILL");
    assert!(world.pings(&a, &b.ip4()));
    let error = world.cni("DEL", &a, "1.0.0", Value::Null).unwrap_err();
    assert_eq!(error["code"], 11, "without an agent DEL must not pretend: {error}");
    world.start_agent();
    assert!(world.pings(&a, &b.ip4()));
    world.check(&a);
    world.del(&a);
    assert_eq!(world.veths(), world.interfaces_of(&b.port()));
}

#[test]
fn an_add_that_was_cut_off_can_be_repeated() {
    let world = World::ready();
    let pod = world.sandbox("a", 10, "1");
    thread::scope(|scope| {
        let cut_off = scope.spawn(|| world.cni("ADD", &pod, "1.0.0", Value::Null));
        // Its veth is there, its port is not: it waits.
        world.wait_until(|| !world.veths().is_empty());
        world.stop_agent("-KILL");
        assert_eq!(cut_off.join().unwrap().unwrap_err()["code"], 11);
    });
    world.assign(&pod);
    world.start_agent();
    world.add(&pod);
    world.check(&pod);
    // And once more, although it is complete.
    world.add(&pod);
    world.check(&pod);
    assert!(world.pings(&pod, "10.244.1.1"));
    assert_eq!(world.interfaces_of(&pod.port()).len(), 1);
    world.del(&pod);
    assert!(world.veths().is_empty());
}

#[test]
fn add_waits_for_its_port_and_not_longer() {
    let world = World::ready();
    let pod = world.sandbox("a", 10, "1");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| world.cni("ADD", &pod, "1.0.0", Value::Null));
        world.wait_until(|| !world.veths().is_empty());
        assert!(!waiting.is_finished());
        world.assign(&pod);
        waiting.join().unwrap().unwrap();
    });
    assert!(world.pings(&pod, "10.244.1.1"));
}

#[test]
fn a_port_that_never_comes_is_named_and_nothing_is_left() {
    let world = World::new();
    world.start_agent_with_deadline(1);
    world.wait_for_log("watching the ports of this chassis");
    let pod = world.sandbox("a", 10, "1");
    let error = world.cni("ADD", &pod, "1.0.0", Value::Null).unwrap_err();
    assert_eq!(error["code"], 11, "{error}");
    assert!(error["msg"].as_str().unwrap().contains("default/a"), "{error}");
    assert!(
        error["details"].as_str().unwrap().contains("kubectl -n default describe pod a"),
        "{error}"
    );
    assert!(world.veths().is_empty());
    assert!(!world.in_pod(&pod, "ip link show eth0"));
}

#[test]
fn a_further_interface_has_a_port_of_its_own() {
    let world = World::new();
    world.start_agent_with_deadline(3);
    world.wait_for_log("watching the ports of this chassis");
    let pod = world.pod("a", 10);
    world.add(&pod);
    // What Multus asks for when a pod names a second network.
    let further = world::Pod {
        ifname: "net1",
        ..pod.clone()
    };
    let error = world.cni("ADD", &further, "1.0.0", Value::Null).unwrap_err();
    assert!(error["msg"].as_str().unwrap().contains("no logical port default/a/net1"), "{error}");
    world.del(&further);
    assert_eq!(world.interfaces_of(&pod.port()), world.veths(), "the first interface stays");
    world.check(&pod);
    assert!(world.pings(&pod, "10.244.1.1"));
}

#[test]
fn del_cancels_an_add_that_still_waits() {
    let world = World::ready();
    let pod = world.sandbox("a", 10, "1");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| world.cni("ADD", &pod, "1.0.0", Value::Null));
        world.wait_until(|| !world.veths().is_empty());
        world.del(&pod);
        let error = waiting.join().unwrap().unwrap_err();
        assert!(error["msg"].as_str().unwrap().contains("DEL"), "{error}");
    });
    assert!(world.veths().is_empty());
}

#[test]
fn a_new_pod_of_the_same_name_replaces_the_old_one() {
    let world = World::ready();
    let old = world.pod("a", 10);
    world.add(&old);
    let new = world.sandbox("a", 10, "2");
    thread::scope(|scope| {
        // The binding still is the old pod's: the new one must not take its configuration from it.
        let waiting = scope.spawn(|| world.cni("ADD", &new, "1.0.0", Value::Null));
        world.wait_until(|| world.veths().len() == 2);
        assert!(!waiting.is_finished());
        world.assign(&new);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(world.interfaces_of(&new.port()).len(), 1);
    assert_eq!(world.veths(), world.interfaces_of(&new.port()));
    assert!(world.pings(&new, "10.244.1.1"));
    // The late DEL of the old sandbox does not touch the new one.
    world.del(&old);
    world.check(&new);
    assert!(world.pings(&new, "10.244.1.1"));
}

#[test]
fn ports_of_a_rebooted_node_are_swept() {
    let world = World::ready();
    let (a, b) = (world.pod("a", 10), world.pod("b", 11));
    world.add(&a);
    world.add(&b);
    world.stop_agent("-KILL");
    let device = world.interfaces_of(&a.port()).remove(0);
    world.sh(&format!("ip link del {device}"));
    world.start_agent();
    world.wait_for_log("removed ports of pods that are gone");
    assert!(world.interfaces_of(&a.port()).is_empty());
    world.check(&b);
}

#[test]
fn many_pods_at_once() {
    let world = World::ready();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let pods: Vec<_> = names.iter().zip(10..).map(|(name, number)| world.pod(name, number)).collect();
    thread::scope(|scope| {
        for pod in &pods {
            scope.spawn(|| world.add(pod));
        }
    });
    for pod in &pods {
        world.check(pod);
        assert!(world.pings(pod, &pods[0].ip4()) || pod.name == "a");
    }
    println!("{}", world.agent_log());
    thread::scope(|scope| {
        for pod in &pods {
            scope.spawn(|| world.del(pod));
        }
    });
    assert!(world.veths().is_empty());
}

#[test]
fn a_port_that_becomes_this_nodes_later_is_seen() {
    let world = World::ready();
    let pod = world.pod("a", 10);
    // The row exists before it matches what the agent watches, as when northd learns of the chassis late.
    world.sh("ovn-nbctl --wait=sb --timeout=10 remove logical_switch_port default/a options requested-chassis");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| world.cni("ADD", &pod, "1.0.0", Value::Null));
        world.wait_until(|| !world.veths().is_empty());
        assert!(!waiting.is_finished());
        world.sh("ovn-nbctl set logical_switch_port default/a options:requested-chassis=node1");
        waiting.join().unwrap().unwrap();
    });
    assert!(world.pings(&pod, "10.244.1.1"));
}

#[test]
fn a_chassis_that_registers_anew_keeps_its_ports() {
    let world = World::ready();
    world.sh("ovn-appctl -t ovn-controller exit");
    world.start_ovn_controller();
    let pod = world.pod("a", 10);
    world.add(&pod);
    assert!(world.pings(&pod, "10.244.1.1"));
}
