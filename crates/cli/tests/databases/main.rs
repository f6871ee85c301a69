//! `netloom run database` as a StatefulSet runs it: three members on addresses of the loopback, with certificates of the issuer, found through
//! the Kubernetes API.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod node;
mod trust;
mod world;

use netloom_ovsdb::{Client, ConnectError, Datum, Event, MonitorTable, Operation, Uuid};
use world::{World, within};

const SWITCH: &str = "Logical_Switch";

fn switch(name: &str) -> Operation {
    let row = [("name".to_owned(), Datum::string(name))].into();
    Operation::insert(SWITCH, Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()), row)
}

#[tokio::test]
async fn three_members_are_one_cluster_and_stay_one_whoever_loses_its_disk() {
    let world = World::start().await;
    let mut members: Vec<_> = (0..3).map(|place| world.member(place, 3)).collect();
    members[0].says("making the cluster").await;
    let (client, _events) = world.client(&world.remotes(), true);
    within("a leader", client.ready()).await.unwrap();
    within("a commit", client.transact(switch("first"))).await.unwrap();
    world.recorded().await;
    for place in 0..3 {
        world.serves(place, 1).await;
        let status = world.status(place).await;
        assert!(status.contains("Election timer: 5000"), "{status}");
    }

    // The last member loses its disk. The cluster knows the one it was, which would count for the majority for ever.
    members.pop().unwrap().stop().await;
    let bring_back = world.take_disk(2);
    members.push(world.member(2, 3));
    members[2].says("joining the cluster").await;
    members[2].says("removing a member that is gone for good").await;
    world.serves(2, 1).await;

    // The disk comes back, as when a pod returns to a node it had left: its server is known to nobody, and would ask for votes for ever.
    members.pop().unwrap().stop().await;
    bring_back();
    members.push(world.member(2, 3));
    members[2].says("the cluster went on without this file's server").await;
    members[2].says("joining the cluster").await;
    members[2].says("removing a member that is gone for good").await;
    world.serves(2, 1).await;

    // The first member loses its disk while nobody else can be asked: it must not make a second cluster.
    within("a commit", async {
        client.ready().await.unwrap();
        client.transact(switch("second")).await.unwrap();
    })
    .await;
    for member in members.drain(..) {
        member.stop().await;
    }
    world.wipe(0);
    members.push(world.member(0, 3));
    members[0].says("there was a cluster, so this member joins it").await;
    members.extend([1, 2].map(|place| world.member(place, 3)));
    members[0].says("joining the cluster").await;
    members[0].says("removing a member that is gone for good").await;
    for place in 0..3 {
        world.serves(place, 2).await;
    }
    let mut leader = None;
    for place in 0..3 {
        let status = world.status(place).await;
        if status.contains("Role: leader") {
            assert_eq!(status.matches(" at ssl:").count(), 3, "{status}");
            leader = Some(place);
        }
    }
    // A leader that is asked to end hands over first.
    members.remove(leader.expect("a leader")).stop().await;
    let mut said = String::new();
    for mut member in members {
        assert!(member.end().await.success());
        said += &member.text();
    }
    assert!(said.contains("received leadership transfer"), "{said}");
}

/// ovn-controllers follow the row without looking whether it is there.
#[tokio::test]
async fn a_new_southbound_has_its_settings_before_northd_has_run() {
    for replicas in [1, 3] {
        let world = World::start().await;
        let member = world.member_of("southbound", 0, replicas);
        let mut options = world.options(&world.remote(0).replace("6641", "6645"), true);
        options.database = "OVN_Southbound".to_owned();
        options.monitor = vec![MonitorTable::all("SB_Global")];
        let (client, _events) = Client::start(options);
        within("the database", client.ready()).await.unwrap();
        let rows = client.read(|replica| replica.rows("SB_Global").count());
        assert_eq!(rows, Some(1), "{replicas} members");
        member.stop().await;
    }
}

#[tokio::test]
async fn certificates_of_another_authority_are_used_by_new_connections() {
    let world = World::start().await;
    let member = world.member(0, 1);
    let (client, _events) = world.client(&world.remote(0), true);
    within("the database", client.ready()).await.unwrap();
    let before = world.keep_own_certificates();

    world.replace_authority().await;
    // Who comes with the new certificates is served, by the same process.
    let (client, _events) = world.client(&world.remote(0), true);
    within("the database", client.ready()).await.unwrap();
    // Who comes with the old ones is not.
    let mut options = world.options(&world.remote(0), true);
    options.tls = Some(before);
    let (_client, mut events) = netloom_ovsdb::Client::start(options);
    let Some(Event::Unreachable { reason, .. }) = within("a refusal", events.recv()).await else {
        panic!("connected with withdrawn certificates")
    };
    assert!(matches!(&reason, ConnectError::Connect(_)), "{reason}");
    member.stop().await;
}

#[tokio::test]
async fn a_plain_file_becomes_a_cluster_when_members_are_added() {
    let world = World::start().await;
    let member = world.member(0, 1);
    let (client, _events) = world.client(&world.remote(0), true);
    within("the database", client.ready()).await.unwrap();
    within("a commit", client.transact(switch("first"))).await.unwrap();
    member.stop().await;

    let members = [world.member(0, 3), world.member(1, 3)];
    for place in 0..2 {
        world.serves(place, 1).await;
    }
    for member in members {
        member.stop().await;
    }
}
