//! Of several controllers one writes; the next one finds everything as it should be.

use netloom_controller::LOCK;

use crate::world::{PORT, World, port_name};

/// What one new pod on `node1` is worth.
fn one_pod(name: &str) -> [String; 2] {
    [
        format!("insert Logical_Switch_Port port/default/{name}/eth0"),
        "update Logical_Switch switch/node/node1".to_owned(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standby_waits_for_the_lock_and_takes_over_without_a_write() {
    let mut world = World::two_nodes().await;
    world.kubernetes.pod("a", "node1").await;
    let first = world.controller();
    world.database.port("a").await;
    let second = world.controller();
    second.ready().await;
    assert_eq!(first.metric("active").await, Some(1.0));
    assert_eq!(second.metric("active").await, Some(0.0));
    assert_eq!(second.metric("northbound_connected").await, Some(1.0));

    world.database.changes();
    world.kubernetes.pod("b", "node1").await;
    world.database.port("b").await;
    assert_eq!(world.database.changes(), one_pod("b"));
    assert_eq!(second.metric("operations_total").await, Some(0.0));

    first.kill().await;
    world.kubernetes.pod("c", "node1").await;
    assert_eq!(world.database.port("c").await, ["10.244.0.7", "fd00:10:244::7"]);
    assert_eq!(world.database.changes(), one_pod("c"));
    assert_eq!(second.metric("active").await, Some(1.0));
    assert_eq!(second.metric("commits_failed_total").await, Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_on_an_unchanged_cluster_writes_nothing() {
    let mut world = World::empty().await;
    let controller = world.controller();
    // In an order that nobody would come to who counts them anew.
    for node in ["node2", "node1"] {
        world.kubernetes.node(node).await;
        world.database.subnets(node).await;
    }
    for (pod, node) in [("c", "node1"), ("b", "node2"), ("a", "node1")] {
        world.kubernetes.pod(pod, node).await;
        world.database.port(pod).await;
    }
    // The last thing a controller writes about a new cluster.
    world.kubernetes.node_annotation("node1", "netloom.io/subnets").await;
    controller.stop().await;

    world.database.changes();
    let again = world.controller();
    again.ready().await;
    world.kubernetes.pod("d", "node1").await;
    world.database.port("d").await;
    assert_eq!(world.database.changes(), one_pod("d"));
    assert_eq!(again.metric("operations_total").await, Some(2.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_lost_the_lock_leaves_the_database_alone_until_it_has_it_again() {
    let mut world = World::two_nodes().await;
    let controller = world.controller();
    world.kubernetes.pod("a", "node1").await;
    world.database.port("a").await;

    let thief = world.database.steal(LOCK).await;
    controller.has("active", 0.0).await;
    world.database.changes();
    world.kubernetes.pod("b", "node1").await;
    let (port, _) = world.database.named(PORT, &port_name("a")).unwrap();
    world.database.remove_port("node1", port).await;
    assert_eq!(
        world.database.changes(),
        [
            "delete Logical_Switch_Port port/default/a/eth0",
            "update Logical_Switch switch/node/node1"
        ]
    );

    drop(thief);
    world.database.port("a").await;
    world.database.port("b").await;
    assert_eq!(controller.metric("active").await, Some(1.0));
}
