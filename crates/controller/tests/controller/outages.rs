//! The database or the Kubernetes API goes away and comes back, with or without its contents.

use crate::world::{World, port_name};

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_database_is_rebuilt_with_the_addresses_in_use() {
    let mut world = World::empty().await;
    let _controller = world.controller();
    // In an order that nobody would come to who counts them anew.
    for (node, subnets) in [
        ("node2", "10.244.0.0/24,fd00:10:244::/64"),
        ("node1", "10.244.1.0/24,fd00:10:244:1::/64"),
    ] {
        world.kubernetes.node(node).await;
        assert_eq!(world.database.subnets(node).await, subnets);
        assert_eq!(world.kubernetes.node_annotation(node, "netloom.io/subnets").await, subnets);
    }
    for pod in ["d", "c", "b"] {
        world.kubernetes.pod(pod, "node1").await;
        world.database.port(pod).await;
    }
    let (c, d) = (world.database.port("c").await, world.database.port("d").await);
    for (pod, addresses) in [("c", &c), ("d", &d)] {
        world.kubernetes.show_addresses(pod, addresses).await;
    }
    // The controller has seen all of this when it has seen what came after it.
    world.kubernetes.node("node3").await;
    world.database.subnets("node3").await;
    world.kubernetes.pod("e", "node3").await;
    world.database.port("e").await;

    world.database.lose_everything().await;
    assert_eq!(world.database.subnets("node1").await, "10.244.1.0/24,fd00:10:244:1::/64");
    assert_eq!(world.database.subnets("node2").await, "10.244.0.0/24,fd00:10:244::/64");
    assert_eq!(world.database.port("c").await, c);
    assert_eq!(world.database.port("d").await, d);
    // The port of b was never plugged, so it has no address to keep, only one to get.
    assert_eq!(world.database.port("b").await.len(), 2);
    world.database.port("e").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_get_their_subnets_back_before_new_nodes_get_theirs() {
    let mut world = World::two_nodes().await;
    let controller = world.controller();
    let before = world.database.subnets("node2").await;
    for node in ["node1", "node2"] {
        world.kubernetes.node_annotation(node, "netloom.io/subnets").await;
    }
    controller.stop().await;

    world.database.lose_everything().await;
    world.kubernetes.node("alpha3").await;
    let _controller = world.controller();
    assert_eq!(world.database.subnets("alpha3").await, "10.244.2.0/24,fd00:10:244:2::/64");
    assert_eq!(world.database.subnets("node1").await, "10.244.0.0/24,fd00:10:244::/64");
    assert_eq!(world.database.subnets("node2").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_made_while_the_database_is_away_get_their_ports_when_it_is_back() {
    let mut world = World::two_nodes().await;
    let _controller = world.controller();
    world.kubernetes.pod("a", "node1").await;
    let a = world.database.port("a").await;
    let right = world.database.contents();

    let kubernetes = &world.kubernetes;
    let meanwhile = async {
        kubernetes.pod("b", "node1").await;
    };
    world.database.stopped_during(meanwhile).await;
    assert_eq!(world.database.port("b").await, ["10.244.0.6", "fd00:10:244::6"]);
    assert_eq!(world.database.port("a").await, a);
    assert_eq!(world.database.contents().len(), right.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_while_the_api_was_away_arrives_when_it_is_back() {
    let mut world = World::two_nodes().await;
    let _controller = world.controller();
    for pod in ["a", "b"] {
        world.kubernetes.pod(pod, "node1").await;
        world.database.port(pod).await;
    }

    world.kubernetes.stop().await;
    world.database.changes();
    // Others still reach the API; and the database is still looked after.
    let mut elsewhere = world.kubernetes.elsewhere().await;
    elsewhere.delete_pod("a").await;
    elsewhere.pod("c", "node2").await;
    elsewhere.stop().await;
    let (b, _) = world.database.named("Logical_Switch_Port", &port_name("b")).unwrap();
    world.database.remove_port("node1", b).await;
    world.database.port("b").await;
    assert!(world.database.named("Logical_Switch_Port", &port_name("a")).is_some());

    world.database.changes();
    world.kubernetes.start_again();
    assert_eq!(world.database.port("c").await, ["10.244.1.5", "fd00:10:244:1::5"]);
    world.database.no_port("a").await;
    assert_eq!(
        world.database.changes(),
        [
            "delete Logical_Switch_Port port/default/a/eth0",
            "insert Logical_Switch_Port port/default/c/eth0",
            "update Logical_Switch switch/node/node1",
            "update Logical_Switch switch/node/node2"
        ]
    );
}
