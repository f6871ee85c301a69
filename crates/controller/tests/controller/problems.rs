//! Mistakes are told where they were made, and taken back when they are mended.

use serde_json::{Value, json};

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_mistake_is_told_and_taken_back() {
    let mut world = World::two_nodes().await;
    let controller = world.controller();
    let wrong = json!({ "netloom.io/addresses": "10.99.0.1" });
    world.kubernetes.annotated_pod("a", "node1", wrong).await;
    let message = world.kubernetes.pod_condition("a", "False", "AddressRefused").await;
    assert!(message.contains("10.99.0.1 is not in its node's subnet 10.244.0.0/24"), "{message}");
    assert_eq!(world.kubernetes.event("a", "AddressRefused").await, message);
    assert_eq!(controller.metric("problems").await, Some(1.0));

    // Nobody else is concerned.
    world.kubernetes.pod("b", "node1").await;
    world.database.port("b").await;

    world.kubernetes.annotate_pod("a", "netloom.io/addresses", Value::Null).await;
    world.database.port("a").await;
    world.kubernetes.pod_condition("a", "True", "Resolved").await;
    assert_eq!(controller.metric("problems").await, Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_mended_while_no_controller_ran_is_taken_back() {
    let mut world = World::two_nodes().await;
    let controller = world.controller();
    world
        .kubernetes
        .annotated_pod("a", "node1", json!({ "netloom.io/adresses": "10.244.0.9" }))
        .await;
    world.kubernetes.pod_condition("a", "False", "InvalidAnnotation").await;
    controller.stop().await;

    world.kubernetes.annotate_pod("a", "netloom.io/adresses", Value::Null).await;
    let _controller = world.controller();
    world.database.port("a").await;
    world.kubernetes.pod_condition("a", "True", "Resolved").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_waits_for_a_free_address_and_is_told_so() {
    let mut world = World::empty().await;
    world.kubernetes.network(&["10.244.0.0/16=29"]).await;
    world.kubernetes.node("node1").await;
    let _controller = world.controller();
    for pod in ["a", "b"] {
        world.kubernetes.pod(pod, "node1").await;
        world.database.port(pod).await;
    }
    world.kubernetes.pod("e", "node1").await;
    world.kubernetes.pod_condition("e", "False", "SubnetFull").await;
    world.kubernetes.delete_pod("b").await;
    assert_eq!(world.database.port("e").await, ["10.244.0.6"]);
    world.kubernetes.pod_condition("e", "True", "Resolved").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_addressing_says_whether_it_is_in_force() {
    let mut world = World::two_nodes().await;
    world.kubernetes.network(&["10.244.0.0/16"]).await;
    let _controller = world.controller();
    world.kubernetes.network_condition("True", "InForce").await;
    let subnets = world.database.subnets("node1").await;

    world.kubernetes.network(&["10.244.0.1/16"]).await;
    let message = world.kubernetes.network_condition("False", "InvalidNetwork").await;
    assert!(message.contains("write 10.244.0.0/16"), "{message}");
    world.kubernetes.network(&["10.9.0.0/16"]).await;
    world.kubernetes.network_condition("False", "ChangeRefused").await;
    assert_eq!(world.database.subnets("node1").await, subnets);

    world.kubernetes.network(&["10.244.0.0/16"]).await;
    world.kubernetes.network_condition("True", "Resolved").await;

    // Another object of the same name is told again.
    world.kubernetes.delete_network().await;
    world.kubernetes.network(&["10.244.0.0/16"]).await;
    world.kubernetes.network_condition("True", "InForce").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_are_served() {
    let mut world = World::two_nodes().await;
    let controller = world.controller();
    world.kubernetes.pod("a", "node1").await;
    world.database.port("a").await;
    controller.ready().await;
    assert!(controller.get("/healthz").await.unwrap().starts_with("HTTP/1.0 200"));
    let text = controller.get("/metrics").await.unwrap();
    for name in [
        "northbound_connected",
        "active",
        "units",
        "problems",
        "operations_total",
        "commits_failed_total",
        "plan_seconds_count",
        "commit_seconds_count",
    ] {
        assert!(text.contains(&format!("\nnetloom_controller_{name} ")), "no {name} in\n{text}");
    }
    // The network, two nodes and a pod; no agent has reported a gateway yet.
    assert_eq!(controller.metric("units").await, Some(4.0));
    assert_eq!(controller.metric("active").await, Some(1.0));

    world.kubernetes.stop().await;
    assert!(
        controller.get("/readyz").await.unwrap().starts_with("HTTP/1.0 200"),
        "pods need the database, not the API"
    );
}
