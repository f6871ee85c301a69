//! Other people's hands in the database: what is theirs stays, what is ours is put right.

use netloom_ovsdb::{Datum, Operation};

use crate::world::{PORT, SWITCH, World, holds, port_name, row};

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_our_mark_are_never_touched() {
    let mut world = World::two_nodes().await;
    world.database.foreign_switch("theirs", "theirs-1").await;
    let controller = world.controller();
    world.kubernetes.pod("a", "node1").await;
    world.database.port("a").await;
    // A port of theirs in a switch of ours.
    world.database.foreign_port("node1", "theirs-2").await;
    let theirs = ["theirs-1", "theirs-2"].map(|name| world.database.named(PORT, name).unwrap());

    // By event, by a comparison of everything, and by the port's neighbours coming and going.
    world.kubernetes.pod("b", "node1").await;
    world.database.port("b").await;
    controller.stop().await;
    world.kubernetes.delete_pod("a").await;
    let _controller = world.controller();
    world.database.no_port("a").await;
    assert_eq!(
        ["theirs-1", "theirs-2"].map(|name| world.database.named(PORT, name).unwrap()),
        theirs
    );
    let switch = |name| world.database.named(SWITCH, name).unwrap().1;
    assert!(holds(&switch("theirs"), theirs[0].0) && holds(&switch("node1"), theirs[1].0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_ours_is_put_right_at_once() {
    let mut world = World::two_nodes().await;
    let _controller = world.controller();
    for (pod, node) in [("a", "node1"), ("b", "node2")] {
        world.kubernetes.pod(pod, node).await;
        world.database.port(pod).await;
    }
    world.database.foreign_switch("theirs", "theirs-1").await;
    let right = world.database.contents();
    let (port, _) = world.database.named(PORT, &port_name("a")).unwrap();
    let (switch, _) = world.database.named(SWITCH, "node1").unwrap();
    let (router, _) = world.database.named("Logical_Router", "cluster-router").unwrap();

    let no_marks = || row([("external_ids", Datum::empty_map())]);
    let wrong = row([("addresses", Datum::string("unknown")), ("enabled", Datum::boolean(false))]);
    world.database.changes();
    for (what, operation) in [
        ("a port's columns", Operation::update(PORT, port, wrong)),
        (
            "a switch's name",
            Operation::update(SWITCH, switch, row([("name", Datum::string("other"))])),
        ),
        (
            "all ports of a switch",
            Operation::update(SWITCH, switch, row([("ports", Datum::empty_set())])),
        ),
        ("a switch and all its ports", Operation::delete(SWITCH, switch)),
        ("the router and all its ports", Operation::delete("Logical_Router", router)),
        ("a port's mark", Operation::update(PORT, port, no_marks())),
        ("a switch's mark", Operation::update(SWITCH, switch, no_marks())),
    ] {
        eprintln!("by hand: {what}");
        world.database.by_hand(operation).await;
        world.database.becomes(&right).await;
        assert!(!world.database.changes().is_empty(), "nothing happened to {what}");
    }
    world.database.remove_port("node1", port).await;
    world.database.becomes(&right).await;
    assert_eq!(
        world.database.changes(),
        [
            "delete Logical_Switch_Port port/default/a/eth0",
            "insert Logical_Switch_Port port/default/a/eth0",
            "update Logical_Switch switch/node/node1",
            "update Logical_Switch switch/node/node1"
        ]
    );
}
