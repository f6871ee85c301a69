//! Pods and nodes become rows, and rows go with them.

use crate::world::{PORT, SWITCH, World, holds, port_name};

#[tokio::test(flavor = "multi_thread")]
async fn pods_and_nodes_become_rows() {
    let mut world = World::two_nodes().await;
    let _controller = world.controller();
    assert_eq!(world.database.subnets("node1").await, "10.244.0.0/24,fd00:10:244::/64");
    assert_eq!(world.database.subnets("node2").await, "10.244.1.0/24,fd00:10:244:1::/64");
    world.database.row("Logical_Router", "cluster-router", |_| true).await;
    world
        .database
        .row("Logical_Router_Port", "cluster-router_to_switch_node2", |_| true)
        .await;

    world.kubernetes.pod("a", "node1").await;
    assert_eq!(world.database.port("a").await, ["10.244.0.5", "fd00:10:244::5"]);
    world.kubernetes.pod("b", "node2").await;
    assert_eq!(world.database.port("b").await, ["10.244.1.5", "fd00:10:244:1::5"]);

    let (_, switch) = world.database.named(SWITCH, "node1").unwrap();
    assert_eq!(
        switch["ports"].len(),
        4,
        "the router, the node itself, its services and one pod: {switch:?}"
    );
    assert_eq!(
        world.kubernetes.node_annotation("node2", "netloom.io/subnets").await,
        "10.244.1.0/24,fd00:10:244:1::/64"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pods_address_is_used_again_after_all_others() {
    let mut world = World::empty().await;
    world.kubernetes.network(&["10.244.0.0/16=28"]).await;
    world.kubernetes.node("node1").await;
    let _controller = world.controller();
    // All but the last of the addresses 5 to 14.
    for host in 5..14 {
        world.kubernetes.pod(&format!("pod{host}"), "node1").await;
        assert_eq!(world.database.port(&format!("pod{host}")).await, [format!("10.244.0.{host}")]);
    }

    world.database.changes();
    world.kubernetes.delete_pod("pod6").await;
    world.database.no_port("pod6").await;
    assert_eq!(
        world.database.changes(),
        [
            "delete Logical_Switch_Port port/default/pod6/eth0",
            "update Logical_Switch switch/node/node1"
        ]
    );
    // Its neighbour's news are no reason to go back.
    world.kubernetes.show_addresses("pod5", &["10.244.0.5".to_owned()]).await;
    for (pod, address) in [("d", "10.244.0.14"), ("e", "10.244.0.6")] {
        world.kubernetes.pod(pod, "node1").await;
        assert_eq!(world.database.port(pod).await, [address]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pods_address_rests_over_a_restart() {
    let mut world = World::two_nodes().await;
    let controller = world.controller();
    for pod in ["z", "b", "c"] {
        world.kubernetes.pod(pod, "node1").await;
        world.database.port(pod).await;
    }
    world.kubernetes.delete_pod("b").await;
    world.database.no_port("b").await;
    controller.stop().await;
    let _controller = world.controller();
    world.kubernetes.pod("d", "node1").await;
    assert_eq!(world.database.port("d").await, ["10.244.0.8", "fd00:10:244::8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_made_anew_under_its_old_name_is_another_pod() {
    let mut world = World::two_nodes().await;
    let controller = world.controller();
    world.kubernetes.pod("a", "node1").await;
    let before = world.database.port("a").await;
    controller.stop().await;

    // Nobody saw the old one go: the port is the same row, its owner and its switch are not.
    world.kubernetes.delete_pod("a").await;
    world.kubernetes.pod("a", "node2").await;
    let _controller = world.controller();
    let (uuid, _) = world.database.row(PORT, &port_name("a"), |_| true).await;
    let (_, switch) = world
        .database
        .row(SWITCH, "node2", |switch| crate::world::holds(switch, uuid))
        .await;
    assert!(crate::world::holds(&switch, uuid));
    let after = world.database.port("a").await;
    assert_ne!(before, after);
    assert_eq!(after, ["10.244.1.5", "fd00:10:244:1::5"]);
    assert!(!holds(&world.database.named(SWITCH, "node1").unwrap().1, uuid));
}
