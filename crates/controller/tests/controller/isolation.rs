//! Isolation is read from what the API server serves, and mistakes are told where they are.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use netloom_ovsdb::{Replica, Row, Uuid};
use serde_json::json;

use crate::world::{PORT, World, holds, port_name};

fn keyed(replica: &Replica, table: &str, key: &str) -> Option<(Uuid, Row)> {
    let mut rows = replica.rows(table);
    let found = rows.find(|(_, row)| row.get("external_ids").and_then(|ids| ids.get("netloom.io/key")) == Some(key));
    found.map(|(uuid, row)| (*uuid, Row::clone(row)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_pod_of_an_isolated_namespace_is_in_its_network_from_the_first() {
    let mut world = World::two_nodes().await;
    let namespaces: Api<Namespace> = Api::all(world.kubernetes.client.clone());
    let annotate = async |value: &str| {
        let patch = json!({ "metadata": { "annotations": { "netloom.io/isolation": value } } });
        let patched = namespaces.patch("default", &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.unwrap();
    };
    annotate("pods").await;
    let _controller = world.controller();
    let network = |replica: &Replica| keyed(replica, "Port_Group", "network/default-vn");
    world.database.until("the network", network).await;
    world.kubernetes.pod("a", "node1").await;
    let born = |replica: &Replica| {
        let mut ports = replica.rows(PORT);
        let (port, _) = ports.find(|(_, row)| row["name"].as_str() == Some(port_name("a").as_str()))?;
        Some((*port, network(replica), keyed(replica, "Port_Group", "isolation/pods")))
    };
    let (port, own, all) = world.database.until("the port of a", born).await;
    assert!(
        holds(&own.unwrap().1, port) && holds(&all.unwrap().1, port),
        "at first it is not isolated"
    );

    annotate("strict").await;
    let told = world.kubernetes.event("default", "InvalidIsolation").await;
    assert!(told.contains("\"strict\" is unknown"), "{told}");
    annotate("none").await;
    let gone = |replica: &Replica| network(replica).is_none().then_some(());
    world.database.until("the network to go", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_security_group_says_what_is_wrong_with_it() {
    let world = World::two_nodes().await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("netloom.io", "v1alpha1", "SecurityGroup"));
    let groups: Api<DynamicObject> = Api::namespaced_with(world.kubernetes.client.clone(), "default", &kind);
    let rules = json!([{ "direction": "Ingress", "remote": { "group": { "name": "nobody" } } }]);
    let group = DynamicObject::new("web", &kind).data(json!({ "spec": { "rules": rules } }));
    groups.create(&PostParams::default(), &group).await.unwrap();
    let _controller = world.controller();
    let told = world.kubernetes.event("web", "UnknownSecurityGroup").await;
    assert!(told.contains("no SecurityGroup nobody"), "{told}");
}
