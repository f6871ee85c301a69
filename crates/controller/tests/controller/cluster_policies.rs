//! Cluster-wide policies become ACLs in their tiers, say whether they are in force, and need no definitions for everything else to work.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use netloom_ovsdb::{Datum, Replica, Row, Uuid};
use serde_json::{Value, json};

use crate::world::{PORT, World, holds, port_name};

fn policies(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("policy.networking.k8s.io", "v1alpha2", "ClusterNetworkPolicy");
    let resource = ApiResource::from_gvk_with_plural(&kind, "clusternetworkpolicies");
    Api::all_with(world.kubernetes.client.clone(), &resource)
}

async fn create(world: &World, name: &str, tier: &str, rules: Value) {
    let policy = json!({
        "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": { "name": name },
        "spec": { "tier": tier, "priority": 3, "subject": { "namespaces": {} }, "ingress": rules },
    });
    let policy = serde_json::from_value(policy).unwrap();
    policies(world).create(&PostParams::default(), &policy).await.unwrap();
}

fn keyed(replica: &Replica, table: &str, key: &str) -> Option<(Uuid, Row)> {
    let mut rows = replica.rows(table);
    let found = rows.find(|(_, row)| row.get("external_ids").and_then(|ids| ids.get("netloom.io/key")) == Some(key));
    found.map(|(uuid, row)| (*uuid, Row::clone(row)))
}

fn acl(replica: &Replica, name: &str) -> Option<Row> {
    let key = format!("cluster-policy/ClusterNetworkPolicy/{name}/ingress/0");
    // What is about all packets has one row, what is about addresses one for each family.
    let found = keyed(replica, "ACL", &format!("{key}/4")).or_else(|| keyed(replica, "ACL", &key));
    found.map(|(_, row)| row)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_in_force_and_says_so() {
    let mut world = World::two_nodes().await;
    create(
        &world,
        "deny",
        "Admin",
        json!([{ "action": "Deny", "from": [{ "namespaces": {} }] }]),
    )
    .await;
    let controller = world.controller();
    world
        .kubernetes
        .condition(&policies(&world), "deny", "Accepted", "True", "InForce")
        .await;
    let row = world.database.until("the ACL", |replica| acl(replica, "deny")).await;
    let text = |column: &str| row[column].as_str().map(str::to_owned);
    assert_eq!(text("action").as_deref(), Some("drop"));

    // A new pod is judged by the transaction that makes its port.
    world.kubernetes.pod("a", "node1").await;
    let born = |replica: &Replica| {
        let name = port_name("a");
        let (port, _) = replica.rows(PORT).find(|(_, row)| row["name"].as_str() == Some(name.as_str()))?;
        let groups = ["cluster-subject/(*)/*", "isolated/node1"].map(|key| keyed(replica, "Port_Group", key));
        Some((*port, groups))
    };
    let (port, groups) = world.database.until("the port of a", born).await;
    for group in groups {
        assert!(holds(&group.unwrap().1, port), "at first it is not judged");
    }

    // A restart writes nothing, and without the policy nothing is left of it.
    controller.stop().await;
    let before = world.database.contents();
    let controller = world.controller();
    controller.ready().await;
    world.database.becomes(&before).await;
    policies(&world).delete("deny", &DeleteParams::default()).await.unwrap();
    let gone = |replica: &Replica| keyed(replica, "Port_Group", "cluster-subject/(*)/*").is_none().then_some(());
    world.database.until("the group to go", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policys_mistake_is_told_closes_and_can_be_mended() {
    let mut world = World::two_nodes().await;
    let selector = json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": [] }] });
    create(
        &world,
        "wrong",
        "Baseline",
        json!([{ "action": "Pass", "from": [{ "namespaces": selector }] }]),
    )
    .await;
    let _controller = world.controller();
    let message = world.kubernetes.event("wrong", "InvalidPolicy").await;
    assert!(message.contains("spec.ingress[0].from[0].namespaces"), "{message}");
    let said = world
        .kubernetes
        .condition(&policies(&world), "wrong", "Accepted", "False", "InvalidPolicy")
        .await;
    assert_eq!(said, message);
    let action = |row: &Row| row["action"].as_str().map(str::to_owned);
    let row = world.database.until("the denial", |replica| acl(replica, "wrong")).await;
    assert_eq!(action(&row).as_deref(), Some("drop"));

    let rules = json!([{ "action": "Accept", "from": [{ "namespaces": {} }] }]);
    let patch = Patch::Merge(json!({ "spec": { "ingress": rules } }));
    policies(&world).patch("wrong", &PatchParams::default(), &patch).await.unwrap();
    world
        .kubernetes
        .condition(&policies(&world), "wrong", "Accepted", "True", "Resolved")
        .await;
    let mended = |replica: &Replica| acl(replica, "wrong").filter(|row| action(row).as_deref() == Some("allow-related"));
    world.database.until("what was meant", mended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_definitions_there_are_no_such_policies_until_they_come() {
    let mut world = World::two_nodes().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.kubernetes.client.clone());
    let name = "clusternetworkpolicies.policy.networking.k8s.io";
    let mut definition = definitions.get(name).await.unwrap();
    create(
        &world,
        "deny",
        "Admin",
        json!([{ "action": "Deny", "from": [{ "namespaces": {} }] }]),
    )
    .await;
    let controller = world.controller();
    world.database.until("the ACL", |replica| acl(replica, "deny")).await;
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    let gone = |replica: &Replica| acl(replica, "deny").is_none().then_some(());
    world.database.until("the policies to go with their definition", gone).await;

    // A controller that begins without them works.
    controller.stop().await;
    let controller = world.controller();
    controller.ready().await;
    world.kubernetes.pod("a", "node1").await;
    let born = |replica: &Replica| {
        let name = port_name("a");
        replica
            .rows(PORT)
            .any(|(_, row)| row["name"].as_str() == Some(name.as_str()))
            .then_some(())
    };
    world.database.until("the port of a", born).await;
    definition.metadata.resource_version = None;
    definition.metadata.uid = None;
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let established = kube::runtime::wait::await_condition(definitions, name, kube::runtime::conditions::is_crd_established());
    established.await.unwrap();
    create(
        &world,
        "deny",
        "Admin",
        json!([{ "action": "Deny", "from": [{ "namespaces": {} }] }]),
    )
    .await;
    world.database.until("the ACL", |replica| acl(replica, "deny")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_understands_is_told_and_one_that_is_understood_is_written() {
    let mut world = World::two_nodes().await;
    create(
        &world,
        "watched",
        "Admin",
        json!([{ "action": "Deny", "from": [{ "namespaces": {} }] }]),
    )
    .await;
    let ask = |log: &str| Patch::Merge(json!({ "metadata": { "annotations": { "netloom.io/policy-log": log } } }));
    let asked = PatchParams::default();
    policies(&world).patch("watched", &asked, &ask("denied")).await.unwrap();
    let _controller = world.controller();
    let message = world.kubernetes.event("watched", "InvalidPolicyLog").await;
    assert!(message.contains("write dropped, allowed, all or none"), "{message}");
    policies(&world).patch("watched", &asked, &ask("dropped")).await.unwrap();
    let logged = |replica: &Replica| acl(replica, "watched").filter(|row| row.get("log").and_then(Datum::as_bool) == Some(true));
    world.database.until("the log", logged).await;
    world
        .kubernetes
        .condition(&policies(&world), "watched", "Accepted", "True", "Resolved")
        .await;
}
