//! External addresses: given once, shown in the status of their service, kept over every loss, never given twice.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::world::World;

/// Two nodes and a pool of six addresses.
async fn with_pool() -> World {
    let world = World::two_nodes().await;
    world.kubernetes.pool("public", &["192.0.2.0/29"], &[]).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_shown_and_kept_over_a_restart() {
    let mut world = with_pool().await;
    let controller = world.controller();
    world.kubernetes.pool_condition("public", "True", "InForce").await;
    world.kubernetes.balancer("web").await;
    assert_eq!(world.kubernetes.external_addresses("web", 1).await, ["192.0.2.1"]);
    let message = world.kubernetes.event("web", "AddressAssigned").await;
    assert!(message.contains("192.0.2.1"), "{message}");
    // In an order that nobody would come to who counts them anew.
    for name in ["b", "a"] {
        world.kubernetes.balancer(name).await;
        world.kubernetes.external_addresses(name, 1).await;
        let router = format!("announcer_default_{name}");
        world.database.row("Logical_Router", &router, |_| true).await;
    }
    world.kubernetes.delete_service("b").await;
    world.database.gone("Logical_Router", "announcer_default_b").await;
    let before = world.kubernetes.look_at_service("web").await;
    let ingress = &before
        .status
        .as_ref()
        .unwrap()
        .load_balancer
        .as_ref()
        .unwrap()
        .ingress
        .as_ref()
        .unwrap()[0];
    assert_eq!(ingress.ip_mode.as_deref(), Some("VIP"));
    world.kubernetes.node_annotation("node2", "netloom.io/subnets").await;
    controller.stop().await;

    world.database.changes();
    let again = world.controller();
    again.ready().await;
    // The restarted one has looked at everything when it has given the next its address.
    world.kubernetes.balancer("next").await;
    world.kubernetes.external_addresses("next", 1).await;
    world.database.row("Logical_Router", "announcer_default_next", |_| true).await;
    assert_eq!(
        world.database.changes(),
        [
            "insert Load_Balancer service/default/next/tcp",
            "insert Load_Balancer service/default/next/tcp/gateway/refused",
            "insert Logical_Router announcer/default/next",
            "update Load_Balancer_Group gateways",
            "update Load_Balancer_Group services",
        ]
    );
    assert_eq!(world.kubernetes.look_at_service("web").await, before, "nothing to write about it");
    assert_eq!(world.kubernetes.external_addresses("a", 1).await, ["192.0.2.3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_on_unchanged_services_writes_nothing() {
    let mut world = with_pool().await;
    let controller = world.controller();
    for name in ["web", "mail"] {
        world.kubernetes.balancer(name).await;
        world.kubernetes.external_addresses(name, 1).await;
    }
    world.kubernetes.pool_condition("public", "True", "InForce").await;
    world.kubernetes.node_annotation("node2", "netloom.io/subnets").await;
    for name in ["announcer_default_web", "announcer_default_mail"] {
        world.database.row("Logical_Router", name, |_| true).await;
    }
    controller.stop().await;

    world.database.changes();
    let again = world.controller();
    again.ready().await;
    again.has("active", 1.0).await;
    world.kubernetes.pod("a", "node1").await;
    world.database.port("a").await;
    assert_eq!(
        world.database.changes(),
        [
            "insert Logical_Switch_Port port/default/a/eth0",
            "update Logical_Switch switch/node/node1"
        ]
    );
    assert_eq!(again.metric("operations_total").await, Some(2.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_services_never_have_one_address_and_a_full_pool_says_so() {
    let world = with_pool().await;
    let _controller = world.controller();
    let names: Vec<String> = (1..=7).map(|number| format!("web{number}")).collect();
    for name in &names {
        world.kubernetes.balancer(name).await;
    }
    let mut addresses = BTreeSet::new();
    for name in &names[..6] {
        addresses.extend(world.kubernetes.external_addresses(name, 1).await);
    }
    assert_eq!(addresses.len(), 6, "{addresses:?}");
    let message = world
        .kubernetes
        .service_condition("default", "web7", "False", "NoExternalAddress")
        .await;
    assert_eq!(world.kubernetes.event("web7", "NoExternalAddress").await, message);

    // The one that waits gets the first that is free.
    let freed = world.kubernetes.external_addresses("web3", 1).await;
    world.kubernetes.delete_service("web3").await;
    assert_eq!(world.kubernetes.external_addresses("web7", 1).await, freed);
    world.kubernetes.service_condition("default", "web7", "True", "Resolved").await;

    // Asking for another's is refused.
    let taken = json!({ "type": "LoadBalancer", "loadBalancerIP": freed[0] });
    world.kubernetes.service("default", "greedy", taken).await;
    let message = world
        .kubernetes
        .service_condition("default", "greedy", "False", "ExternalAddressRefused")
        .await;
    assert!(message.contains("default/web7"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_for_the_namespaces_it_names() {
    let world = World::two_nodes().await;
    for namespace in ["shop", "office"] {
        world.kubernetes.namespace(namespace).await;
    }
    world.kubernetes.pool("shops", &["192.0.2.0/29"], &["shop"]).await;
    let _controller = world.controller();
    let asking = || json!({ "type": "LoadBalancer", "loadBalancerIP": "192.0.2.4" });
    world.kubernetes.service("office", "web", asking()).await;
    let message = world
        .kubernetes
        .service_condition("office", "web", "False", "ExternalAddressRefused")
        .await;
    assert!(message.contains("shops") && message.contains("office"), "{message}");
    assert_eq!(world.kubernetes.event("web", "ExternalAddressRefused").await, message);
    world.kubernetes.service("office", "any", json!({ "type": "LoadBalancer" })).await;
    world
        .kubernetes
        .service_condition("office", "any", "False", "NoExternalAddress")
        .await;
    world.kubernetes.service("shop", "front", asking()).await;
    assert_eq!(world.kubernetes.external_addresses_in("shop", "front", 1).await, ["192.0.2.4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_have_the_same_addresses_after_the_database_is_lost() {
    let mut world = with_pool().await;
    let _controller = world.controller();
    let mut given = Vec::new();
    for name in ["c", "b", "a"] {
        world.kubernetes.balancer(name).await;
        given.push((name, world.kubernetes.external_addresses(name, 1).await));
    }
    // The controller has seen all of this when it has seen what came after it.
    world.kubernetes.node("node3").await;
    world.database.subnets("node3").await;

    world.database.lose_everything().await;
    for (name, addresses) in given {
        let router = format!("announcer_default_{name}");
        let (_, row) = world.database.row("Logical_Router", &router, |_| true).await;
        let recorded = format!("{}/32", addresses[0]);
        assert_eq!(row["external_ids"].get("netloom.io/addresses"), Some(recorded.as_str()));
        assert_eq!(world.kubernetes.external_addresses(name, 1).await, addresses);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_taken_back_from_a_service_that_has_no_address_any_more() {
    let mut world = with_pool().await;
    let _controller = world.controller();
    for name in ["web", "mail", "name"] {
        world.kubernetes.balancer(name).await;
        world.kubernetes.external_addresses(name, 1).await;
    }
    // Not any more a load balancer; not any more a service of the network.
    world
        .kubernetes
        .change_service("mail", json!({ "spec": { "type": "ClusterIP" } }))
        .await;
    world.kubernetes.external_addresses("mail", 0).await;
    let name_only = json!({ "spec": { "type": "ExternalName", "externalName": "a.example", "clusterIP": null, "clusterIPs": null } });
    world.kubernetes.change_service("name", name_only).await;
    world.kubernetes.external_addresses("name", 0).await;
    // What somebody wipes is shown again.
    world.kubernetes.write_addresses("web", &[]).await;
    assert_eq!(world.kubernetes.external_addresses("web", 1).await, ["192.0.2.1"]);
    world.database.row("Logical_Router", "announcer_default_web", |_| true).await;
    world.kubernetes.delete_pool("public").await;
    world.kubernetes.external_addresses("web", 0).await;
    world.database.gone("Logical_Router", "announcer_default_web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_of_somebody_else_is_theirs() {
    let mut world = with_pool().await;
    let _controller = world.controller();
    let theirs = json!({ "type": "LoadBalancer", "loadBalancerClass": "example.com/theirs", "clusterIP": "10.96.0.20" });
    world.kubernetes.service("default", "theirs", theirs).await;
    world.kubernetes.write_addresses("theirs", &["198.51.100.7"]).await;
    let ours = json!({ "type": "LoadBalancer", "loadBalancerClass": "netloom.io/external" });
    world.kubernetes.service("default", "ours", ours).await;
    assert_eq!(world.kubernetes.external_addresses("ours", 1).await, ["192.0.2.1"]);
    // Theirs is served at the address they gave it, and left to them to announce.
    let at_theirs = |row: &netloom_ovsdb::Row| row["vips"].get("198.51.100.7:80").is_some();
    world
        .database
        .row("Load_Balancer", "service_default_theirs_tcp_gateway_refused", at_theirs)
        .await;
    assert!(world.database.named("Logical_Router", "announcer_default_theirs").is_none());
    assert_eq!(world.kubernetes.external_addresses("theirs", 1).await, ["198.51.100.7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pools_mistake_is_told_and_taken_back() {
    let world = with_pool().await;
    let _controller = world.controller();
    world.kubernetes.pool_condition("public", "True", "InForce").await;
    world.kubernetes.pool("second", &["192.0.2.0/28"], &[]).await;
    let message = world.kubernetes.pool_condition("second", "False", "InvalidPool").await;
    assert_eq!(world.kubernetes.event("second", "InvalidPool").await, message);
    world
        .kubernetes
        .change_pool("second", json!({ "cidrs": ["198.51.100.0/28"] }))
        .await;
    world.kubernetes.pool_condition("second", "True", "Resolved").await;
    let wanting = json!({ "type": "LoadBalancer", "loadBalancerIP": "198.51.100.3" });
    world.kubernetes.service("default", "web", wanting).await;
    assert_eq!(world.kubernetes.external_addresses("web", 1).await, ["198.51.100.3"]);
    let nothing: Value = json!({ "cidrs": [] });
    assert!(
        world.kubernetes.try_change_pool("second", nothing).await.is_err(),
        "the definition refuses it"
    );
}
