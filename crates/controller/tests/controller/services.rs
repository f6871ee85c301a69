//! Services and their endpoints become load balancers, and go with them.

use netloom_ovsdb::Row;
use serde_json::{Value, json};

use crate::world::{Endpoint, World};

const BALANCER: &str = "Load_Balancer";
const WEB: &str = "service_default_web_tcp";
const VIP: &str = "10.96.0.10:80";

/// Two nodes, the pods `a` and `b`, and the service `web` before them.
async fn web() -> World {
    let world = World::two_nodes().await;
    for (pod, node) in [("a", "node1"), ("b", "node2")] {
        world.kubernetes.pod(pod, node).await;
    }
    world
        .kubernetes
        .service("default", "web", json!({ "clusterIP": "10.96.0.10" }))
        .await;
    world.kubernetes.endpoints("web", &[A, B]).await;
    world
}

const A: Endpoint<'static> = Endpoint {
    pod: "a",
    address: "10.244.0.5",
    node: "node1",
};
const B: Endpoint<'static> = Endpoint {
    pod: "b",
    address: "10.244.1.5",
    node: "node2",
};

/// Whether a load balancer sends the service's address to these backends and no others.
fn sends_to(backends: &str) -> impl Fn(&Row) -> bool {
    move |row| row["vips"].get(VIP) == Some(backends)
}

#[tokio::test(flavor = "multi_thread")]
async fn services_and_endpoints_become_load_balancers() {
    let mut world = web().await;
    let _controller = world.controller();
    let both = sends_to("10.244.0.5:8080,10.244.1.5:8080");
    let (uuid, row) = world.database.row(BALANCER, WEB, both).await;
    assert_eq!(row["protocol"].as_str(), Some("tcp"));
    let (_, group) = world.database.row("Load_Balancer_Group", "services", |_| true).await;
    assert!(group["load_balancer"].uuids().any(|member| member == uuid), "{group:?}");

    // By name only, it has nothing to send anywhere.
    let name_only = json!({ "spec": { "type": "ExternalName", "externalName": "a.example", "clusterIP": null, "clusterIPs": null } });
    world.kubernetes.change_service("web", name_only).await;
    world.database.gone(BALANCER, WEB).await;
    world.kubernetes.delete_service("web").await;
    world
        .kubernetes
        .service("default", "web", json!({ "clusterIP": "10.96.0.10" }))
        .await;
    world.kubernetes.endpoints("web", &[A]).await;
    world.database.row(BALANCER, WEB, sends_to("10.244.0.5:8080")).await;

    // Somebody else's proxy looks after it now, or nobody's.
    for label in ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"] {
        let label = |value: Value| json!({ "metadata": { "labels": { label: value } } });
        world.kubernetes.change_service("web", label(json!("theirs"))).await;
        world.database.gone(BALANCER, WEB).await;
        world.kubernetes.change_service("web", label(Value::Null)).await;
        world.database.row(BALANCER, WEB, |_| true).await;
    }
    world.kubernetes.delete_service("web").await;
    world.database.gone(BALANCER, WEB).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_change_is_one_small_transaction() {
    let mut world = web().await;
    let controller = world.controller();
    let both = sends_to("10.244.0.5:8080,10.244.1.5:8080");
    world.database.row(BALANCER, WEB, &both).await;
    let before = controller.metric("operations_total").await.unwrap();

    world.database.changes();
    world.kubernetes.endpoints("web", &[A]).await;
    world.database.row(BALANCER, WEB, sends_to("10.244.0.5:8080")).await;
    assert_eq!(world.database.changes(), ["update Load_Balancer service/default/web/tcp"]);
    world.kubernetes.endpoints("web", &[A, B]).await;
    world.database.row(BALANCER, WEB, &both).await;
    assert_eq!(world.database.changes(), ["update Load_Balancer service/default/web/tcp"]);
    controller.has("operations_total", before + 2.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_to_services_while_no_controller_ran_is_made_up_for() {
    let mut world = web().await;
    let controller = world.controller();
    let both = sends_to("10.244.0.5:8080,10.244.1.5:8080");
    world.database.row(BALANCER, WEB, &both).await;
    world.kubernetes.service("default", "old", json!({})).await;
    world.database.row(BALANCER, "service_default_old_tcp", |_| true).await;
    world.kubernetes.node_annotation("node2", "netloom.io/subnets").await;
    controller.stop().await;

    world.database.changes();
    let again = world.controller();
    again.ready().await;
    world.kubernetes.endpoints("web", &[B]).await;
    world.database.row(BALANCER, WEB, sends_to("10.244.1.5:8080")).await;
    assert_eq!(world.database.changes(), ["update Load_Balancer service/default/web/tcp"]);
    again.stop().await;

    world.kubernetes.delete_service("old").await;
    world.kubernetes.service("default", "new", json!({})).await;
    let _controller = world.controller();
    world.database.row(BALANCER, "service_default_new_tcp", |_| true).await;
    world.database.gone(BALANCER, "service_default_old_tcp").await;
    world.database.row(BALANCER, WEB, sends_to("10.244.1.5:8080")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_the_mode_leaves_nothing_behind() {
    let mut world = web().await;
    world.kubernetes.network(&["10.244.0.0/16"]).await;
    world.kubernetes.pool("public", &["192.0.2.0/28"], &[]).await;
    world.kubernetes.balancer("mail").await;
    let _controller = world.controller();
    let addresses = world.kubernetes.external_addresses("mail", 1).await;
    world.database.row(BALANCER, WEB, |_| true).await;
    world
        .database
        .row(BALANCER, "service_default_mail_tcp_gateway_refused", |_| true)
        .await;
    let native = world.database.contents();

    world.kubernetes.service_mode("kube-proxy").await;
    let proxied = |tables: &std::collections::BTreeMap<(String, netloom_ovsdb::Uuid), Row>| {
        let count = |table: &str| tables.keys().filter(|(name, _)| name == table).count();
        (count(BALANCER), count("Logical_Router_Policy"))
    };
    world.database.gone(BALANCER, WEB).await;
    world.database.gone(BALANCER, "service_default_mail_tcp_gateway_refused").await;
    assert_eq!(
        proxied(&world.database.contents()),
        (0, 4),
        "a way to its node's own translation for each node, but not for the node itself"
    );
    assert_eq!(world.kubernetes.external_addresses("mail", 1).await, addresses);

    world.kubernetes.service_mode("native").await;
    world.database.becomes(&native).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_services_mistake_is_told_and_taken_back() {
    let mut world = web().await;
    let _controller = world.controller();
    world.database.row(BALANCER, WEB, |_| true).await;
    world.kubernetes.stray_endpoint("web", "10.244.0.99").await;
    let message = world
        .kubernetes
        .service_condition("default", "web", "False", "EndpointWithoutPod")
        .await;
    assert!(message.contains("10.244.0.99"), "{message}");
    assert_eq!(world.kubernetes.event("web", "EndpointWithoutPod").await, message);
    let (_, row) = world.database.named(BALANCER, WEB).unwrap();
    assert!(sends_to("10.244.0.5:8080,10.244.1.5:8080")(&row), "the others are served: {row:?}");
    world.kubernetes.no_stray_endpoint("web").await;
    world.kubernetes.service_condition("default", "web", "True", "Resolved").await;
}
