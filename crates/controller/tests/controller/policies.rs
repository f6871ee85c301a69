//! Policies become ACLs and sets, a new pod is in its sets as soon as it has a port, and mistakes are told.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use netloom_ovsdb::{Replica, Row, Uuid};
use serde_json::{Value, json};

use crate::world::{PORT, World, holds, port_name};

const EVERY_POD: &str = "subject/default/*";

async fn policy(world: &World, name: &str, spec: Value) {
    let policy = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
    policies(world).create(&PostParams::default(), &policy).await.unwrap();
}

fn policies(world: &World) -> Api<NetworkPolicy> {
    Api::default_namespaced(world.kubernetes.client.clone())
}

fn keyed(replica: &Replica, table: &str, key: &str) -> Option<(Uuid, Row)> {
    let mut rows = replica.rows(table);
    let found = rows.find(|(_, row)| row.get("external_ids").and_then(|ids| ids.get("netloom.io/key")) == Some(key));
    found.map(|(uuid, row)| (*uuid, Row::clone(row)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_pod_is_isolated_by_the_transaction_that_makes_its_port() {
    let mut world = World::two_nodes().await;
    policy(&world, "deny", json!({ "podSelector": {}, "policyTypes": ["Ingress", "Egress"] })).await;
    let controller = world.controller();
    let subject = |replica: &Replica| keyed(replica, "Port_Group", EVERY_POD);
    world.database.until("the group", subject).await;
    world.kubernetes.pod("a", "node1").await;
    let born = |replica: &Replica| {
        let (port, _) = replica
            .rows(PORT)
            .find(|(_, row)| row["name"].as_str() == Some(port_name("a").as_str()))?;
        let groups = [EVERY_POD, "isolated/node1", "denied/node1/ingress", "denied/node1/egress"];
        Some((*port, groups.map(|key| keyed(replica, "Port_Group", key))))
    };
    let (port, groups) = world.database.until("the port of a", born).await;
    for group in groups {
        assert!(holds(&group.as_ref().unwrap().1, port), "at first it is not in {group:?}");
    }

    // A restart writes nothing, and without the policy nothing is left of it.
    controller.stop().await;
    let before = world.database.contents();
    let controller = world.controller();
    controller.ready().await;
    world.database.becomes(&before).await;
    policies(&world).delete("deny", &DeleteParams::default()).await.unwrap();
    let gone = |replica: &Replica| keyed(replica, "Port_Group", EVERY_POD).is_none().then_some(());
    world.database.until("the group to go", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespaces_labels_decide_who_is_a_peer() {
    let mut world = World::two_nodes().await;
    world.kubernetes.pod("a", "node1").await;
    let from = json!([{ "namespaceSelector": { "matchLabels": { "stage": "live" } } }]);
    policy(&world, "live", json!({ "podSelector": {}, "ingress": [{ "from": from }] })).await;
    let _controller = world.controller();
    let set = |replica: &Replica| keyed(replica, "Address_Set", "peers/(stage=live)/*/4").map(|(_, row)| row);
    let addresses = |row: &Row| row.get("addresses").map_or(0, netloom_ovsdb::Datum::len);
    let row = world.database.until("the set", set).await;
    assert_eq!(addresses(&row), 0);
    for (stage, expected) in [("live", 1), ("test", 0)] {
        let namespaces: Api<Namespace> = Api::all(world.kubernetes.client.clone());
        let patch = Patch::Merge(json!({ "metadata": { "labels": { "stage": stage } } }));
        namespaces.patch("default", &PatchParams::default(), &patch).await.unwrap();
        let moved = |replica: &Replica| set(replica).filter(|row| addresses(row) == expected);
        world.database.until("the pod to move", moved).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policys_mistake_is_told_and_closes() {
    let mut world = World::two_nodes().await;
    let from = json!([{ "podSelector": { "matchExpressions": [{ "key": "app", "operator": "Like", "values": ["web"] }] } }]);
    policy(&world, "wrong", json!({ "podSelector": {}, "ingress": [{ "from": from }] })).await;
    let _controller = world.controller();
    let message = world.kubernetes.event("wrong", "InvalidPolicy").await;
    assert!(message.contains("spec.ingress[0].from[0].podSelector"), "{message}");
    let subject = |replica: &Replica| keyed(replica, "Port_Group", EVERY_POD);
    world.database.until("the group", subject).await;
    let allowed = |replica: &Replica| Some(keyed(replica, "ACL", "policy/default/wrong/ingress/0/4"));
    assert_eq!(world.database.until("nothing", allowed).await, None);
}
