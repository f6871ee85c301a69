//! The lock: fencing, hand-over, stealing.

use netloom_ovsdb::{Client, Datum, ErrorKind, Event, Events, Operation, TransactError};

use crate::support::{SWITCH, Standalone, id, next, row, until, within};

const LOCK: &str = "writer_1";

async fn contender(database: &Standalone) -> (Client, Events) {
    let mut options = database.options();
    options.lock = Some(LOCK.to_owned());
    crate::support::connect(options).await
}

async fn until_locked(events: &mut Events) {
    until(events, |event| matches!(event, Event::Locked).then_some(())).await;
}

async fn write(client: &Client, key: &str) -> Result<(), TransactError> {
    let insert = Operation::insert(SWITCH, id(key), row([("name", Datum::string(key))]));
    within(client.transact(vec![Operation::assert(LOCK), insert])).await.map(|_| ())
}

fn refused(result: Result<(), TransactError>) {
    let error = result.unwrap_err();
    assert!(matches!(&error, TransactError::Operation { index: 0, .. }), "{error}");
    assert_eq!(error.error().unwrap().kind, ErrorKind::NotOwner);
}

#[tokio::test]
async fn only_the_holder_writes_and_the_next_in_line_follows() {
    let database = Standalone::start();
    let (first, mut first_events) = contender(&database).await;
    until_locked(&mut first_events).await;
    let (second, mut second_events) = contender(&database).await;
    write(&first, "a").await.unwrap();
    refused(write(&second, "b").await);
    assert!(first.status().locked && !second.status().locked);

    // The holder's connection dies with its last handle.
    drop(first);
    until_locked(&mut second_events).await;
    write(&second, "b").await.unwrap();
}

#[tokio::test]
async fn a_stolen_lock_comes_back_when_the_thief_goes() {
    let database = Standalone::start();
    let (owner, mut owner_events) = contender(&database).await;
    until_locked(&mut owner_events).await;
    let (thief, mut thief_events) = contender(&database).await;
    within(thief.steal_lock()).await.unwrap();
    until_locked(&mut thief_events).await;
    until(&mut owner_events, |event| matches!(event, Event::Stolen).then_some(())).await;
    refused(write(&owner, "a").await);
    write(&thief, "a").await.unwrap();

    drop(thief);
    until_locked(&mut owner_events).await;
    write(&owner, "b").await.unwrap();
}

#[tokio::test]
async fn a_lock_is_given_up_and_taken_again() {
    let database = Standalone::start();
    let (client, mut events) = contender(&database).await;
    until_locked(&mut events).await;
    within(client.unlock()).await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Unlocked));
    refused(write(&client, "a").await);
    within(client.lock()).await.unwrap();
    until_locked(&mut events).await;
    write(&client, "a").await.unwrap();
}

#[tokio::test]
async fn a_lock_that_cannot_be_is_reported() {
    let database = Standalone::start();
    let mut options = database.options();
    options.lock = Some("no-dashes".to_owned());
    let (_client, mut events) = crate::support::connect(options).await;
    let reason = until(&mut events, |event| match event {
        Event::Disconnected(reason) => Some(reason.to_string()),
        _ => None,
    })
    .await;
    assert!(reason.starts_with("lock refused by the server: syntax error"), "{reason}");
}
