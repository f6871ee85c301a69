//! A cluster of three: resuming, moving to the leader, losing nothing.

use std::collections::BTreeSet;

use netloom_ovsdb::{Client, ConnectError, Datum, Event, Events, Operation, Remote, TransactError, Uuid};

use crate::support::{Cluster, SWITCH, connect, contents, id, options, row, select_all, until, within};

async fn insert(client: &Client, key: &str) -> Result<(), TransactError> {
    let insert = Operation::insert(SWITCH, id(key), row([("name", Datum::string(key))]));
    within(client.transact(insert)).await.map(|_| ())
}

async fn connected(events: &mut Events) -> (Remote, bool) {
    until(events, |event| match event {
        Event::Connected { remote, resumed } => Some((remote, resumed)),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn the_leader_is_followed_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::start();
    cluster.formed().await;
    let mut leader_only = options(&cluster.remotes());
    leader_only.leader_only = true;
    leader_only.lock = Some("writer".to_owned());
    let (client, mut events) = connect(leader_only).await;
    let (first, _) = connected(&mut events).await;

    let mut acknowledged = BTreeSet::<Uuid>::new();
    for number in 0..50 {
        let key = format!("before {number}");
        insert(&client, &key).await.unwrap();
        acknowledged.insert(id(&key));
    }
    let leader = cluster
        .members
        .iter_mut()
        .find(|member| member.remote == first.to_string())
        .unwrap();
    // In flight while the leader dies: acknowledged or not, but never acknowledged and lost.
    let racing: Vec<_> = (0..20)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let key = format!("racing {number}");
                (id(&key), insert(&client, &key).await)
            })
        })
        .collect();
    tokio::task::yield_now().await;
    leader.kill();
    for task in racing {
        let (uuid, outcome) = within(task).await.unwrap();
        if outcome.is_ok() {
            acknowledged.insert(uuid);
        }
    }

    until(&mut events, |event| matches!(event, Event::Disconnected(_)).then_some(())).await;
    let (second, resumed) = connected(&mut events).await;
    assert_ne!(first, second);
    assert!(resumed, "the new leader knows the last transaction we saw");
    within(client.locked()).await.unwrap();
    insert(&client, "after").await.unwrap();
    acknowledged.insert(id("after"));

    let rows = select_all(&client).await;
    let present: BTreeSet<Uuid> = rows.keys().map(|(_, uuid)| *uuid).collect();
    assert!(acknowledged.is_subset(&present), "lost: {:?}", acknowledged.difference(&present));
    assert_eq!(client.read(contents).unwrap(), rows);
}

#[tokio::test]
async fn changes_missed_during_a_disconnection_arrive_as_an_update() {
    let mut cluster = Cluster::start();
    cluster.formed().await;
    let mut leader_only = options(&cluster.remotes());
    leader_only.leader_only = true;
    let (writer, mut writer_events) = connect(leader_only).await;
    let (leader, _) = connected(&mut writer_events).await;
    let follower = cluster
        .members
        .iter()
        .position(|member| member.remote != leader.to_string())
        .unwrap();

    insert(&writer, "seen").await.unwrap();
    let (reader, mut events) = connect(options(&cluster.members[follower].remote)).await;
    assert!(!connected(&mut events).await.1);
    until(&mut events, |event| matches!(event, Event::Snapshot(_)).then_some(())).await;

    cluster.members[follower].kill();
    until(&mut events, |event| matches!(event, Event::Disconnected(_)).then_some(())).await;
    insert(&writer, "missed").await.unwrap();
    within(writer.transact(Operation::delete(SWITCH, id("seen")))).await.unwrap();
    cluster.members[follower].run();

    assert!(connected(&mut events).await.1, "resumed");
    // The restarted member may still be catching up, so the changes come in one update or in several.
    until(&mut events, |event| match event {
        Event::Update(_) => {
            let rows = reader
                .read(|replica| replica.rows(SWITCH).map(|(uuid, _)| *uuid).collect::<Vec<_>>())
                .unwrap();
            (rows == [id("missed")]).then_some(())
        }
        Event::Snapshot(_) => panic!("the whole content came again"),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_steps_down_is_left() {
    let cluster = Cluster::start();
    cluster.formed().await;
    let mut leader_only = options(&cluster.remotes());
    leader_only.leader_only = true;
    let (client, mut events) = connect(leader_only).await;
    let (first, _) = connected(&mut events).await;
    let leader = cluster.members.iter().find(|member| member.remote == first.to_string()).unwrap();
    leader.control(&["cluster/failure-test", "transfer-leadership"]);
    let reason = until(&mut events, |event| match event {
        Event::Disconnected(reason) => Some(reason),
        _ => None,
    })
    .await;
    assert!(matches!(reason, ConnectError::NotLeader), "{reason}");
    let (second, _) = connected(&mut events).await;
    assert_ne!(first, second);
    insert(&client, "after").await.unwrap();
}
