//! A difference that is too large for one transaction is committed in several, and whoever looks in between finds nothing open.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::PostParams;
use netloom_ovsdb::{Replica, Uuid};
use serde_json::json;

use crate::world::{PORT, World, holds, port_name};

/// How many pods there are before the first commit.
const PODS: usize = 30;
/// How many operations a transaction may have.
const LARGEST: usize = 10;

fn pod(number: usize) -> String {
    format!("pod-{number}")
}

/// The ports of pods, each of which must be in the group that denies what reaches it.
fn denied_ports(replica: &Replica) -> Vec<Uuid> {
    let is_pod = |name: Option<&str>| name.is_some_and(|name| name.contains('/'));
    let ports = replica.rows(PORT).filter(|(_, row)| is_pod(row["name"].as_str()));
    let ports: Vec<Uuid> = ports.map(|(uuid, _)| *uuid).collect();
    let key = |row: &netloom_ovsdb::Row| Some(row.get("external_ids")?.get("netloom.io/key")?.to_owned());
    for port in &ports {
        let denies = |row: &netloom_ovsdb::Row| key(row).is_some_and(|key| key.starts_with("denied/")) && holds(row, *port);
        assert!(
            replica.rows("Port_Group").any(|(_, row)| denies(row)),
            "port {port} is there before its denial"
        );
    }
    ports
}

async fn world_of_denied_pods() -> World {
    let world = World::two_nodes().await;
    let policies: Api<NetworkPolicy> = Api::default_namespaced(world.kubernetes.client.clone());
    let deny = json!({ "metadata": { "name": "deny" }, "spec": { "podSelector": {}, "policyTypes": ["Ingress"] } });
    let deny = serde_json::from_value(deny).unwrap();
    policies.create(&PostParams::default(), &deny).await.unwrap();
    for number in 0..PODS {
        world
            .kubernetes
            .pod(&pod(number), if number % 2 == 0 { "node1" } else { "node2" })
            .await;
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_commit_is_split_and_every_port_is_written_with_its_denial() {
    let mut world = world_of_denied_pods().await;
    let controller = world.controller_of_commits(LARGEST);
    let all = |replica: &Replica| (denied_ports(replica).len() == PODS).then_some(());
    world.database.until("all ports", all).await;
    let commits = controller.metric("commit_seconds_count").await.unwrap();
    assert!(commits >= (2 * PODS / LARGEST) as f64, "{commits} commits");
    assert_eq!(controller.metric("commits_failed_total").await, Some(0.0));

    // One that ends in the middle leaves the rest to the next, which splits it in another way.
    controller.kill().await;
    let complete = world.database.contents();
    world.database.lose_everything().await;
    let first = world.controller_of_commits(LARGEST);
    let some = |replica: &Replica| (!denied_ports(replica).is_empty()).then_some(());
    world.database.until("the first ports", some).await;
    first.kill().await;
    let _second = world.controller();
    world.database.until("all ports again", all).await;
    world.database.becomes(&complete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_in_one_of_several_transactions_is_left_out_alone() {
    let mut world = world_of_denied_pods().await;
    world.database.foreign_switch("theirs", &port_name(&pod(7))).await;
    let _controller = world.controller_of_commits(LARGEST);
    for number in (0..PODS).filter(|number| *number != 7) {
        world.database.port(&pod(number)).await;
    }
    world.kubernetes.pod_condition(&pod(7), "False", "RefusedByDatabase").await;
}
