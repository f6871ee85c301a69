//! What the database server refuses concerns the object it was refused for, and nobody else.

use netloom_network::annotations::SUBNETS;
use netloom_ovsdb::{Datum, Operation};

use crate::world::{PORT, SWITCH, World, holds, port_name, row};

#[tokio::test(flavor = "multi_thread")]
async fn a_name_taken_by_somebody_else_keeps_no_other_pod_waiting() {
    let mut world = World::two_nodes().await;
    world.database.foreign_switch("theirs", &port_name("b")).await;
    for pod in ["a", "b", "c"] {
        world.kubernetes.pod(pod, "node1").await;
    }
    let controller = world.controller();
    world.database.port("a").await;
    world.database.port("c").await;
    let message = world.kubernetes.pod_condition("b", "False", "RefusedByDatabase").await;
    let in_the_way = format!("(\"{}\") for index on column \"name\"", port_name("b"));
    assert!(message.contains(&in_the_way), "{message}");

    // Neither do later ones, nor those that go; and what is refused is not asked for again and again.
    let failed = controller.metric("commits_failed_total").await;
    world.kubernetes.pod("d", "node2").await;
    world.database.port("d").await;
    world.kubernetes.delete_pod("c").await;
    world.database.no_port("c").await;
    assert_eq!(controller.metric("commits_failed_total").await, failed);

    let (switch, _) = world.database.named(SWITCH, "theirs").unwrap();
    world.database.by_hand(Operation::delete(SWITCH, switch)).await;
    world.database.port("b").await;
    world.kubernetes.pod_condition("b", "True", "Resolved").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_refused_keeps_only_its_own_pods_waiting() {
    let mut world = World::two_nodes().await;
    world.database.foreign_switch("theirs", "management_node1").await;
    for (pod, node) in [("a", "node1"), ("b", "node2")] {
        world.kubernetes.pod(pod, node).await;
    }
    let _controller = world.controller();
    world.database.port("b").await;
    world.kubernetes.node_condition("node1", "False", "RefusedByDatabase").await;
    assert!(world.database.named(SWITCH, "node1").is_none());
    // Subnets that are not recorded may be given to another node, so it does not show them.
    assert_eq!(world.kubernetes.annotations_of_node("node1").await.get(SUBNETS), None);

    let (switch, _) = world.database.named(SWITCH, "theirs").unwrap();
    world.database.by_hand(Operation::delete(SWITCH, switch)).await;
    assert_eq!(world.database.port("a").await, ["10.244.0.5", "fd00:10:244::5"]);
    world.kubernetes.node_condition("node1", "True", "Resolved").await;
    let subnets = world.kubernetes.node_annotation("node1", SUBNETS).await;
    assert!(subnets.contains("10.244.0.0/24"), "{subnets}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_is_refused_keeps_no_other_from_going() {
    let mut world = World::two_nodes().await;
    let _controller = world.controller();
    for pod in ["a", "b"] {
        world.kubernetes.pod(pod, "node1").await;
        world.database.port(pod).await;
    }
    // Somebody holds on to a port of ours.
    let (port, _) = world.database.named(PORT, &port_name("a")).unwrap();
    let theirs = row([("name", Datum::string("theirs")), ("ports", Datum::uuid(port))]);
    world.database.by_hand(Operation::insert_named(SWITCH, "theirs", theirs)).await;

    world.kubernetes.delete_pod("a").await;
    world.kubernetes.delete_pod("b").await;
    world.database.no_port("b").await;
    world.kubernetes.pod("c", "node1").await;
    world.database.port("c").await;

    let (switch, theirs) = world.database.named(SWITCH, "theirs").unwrap();
    assert!(holds(&theirs, port));
    world.database.by_hand(Operation::delete(SWITCH, switch)).await;
    world.database.no_port("a").await;
}
