//! The lock: fencing, hand-over, stealing.

use netloom_ovsdb::codec::Decoder;
use netloom_ovsdb::{Client, Datum, ErrorKind, Event, Events, Operation, TransactError};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Cluster, DATABASE, SWITCH, Standalone, id, next, options, row, until, within};

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

/// A holder that sends its last change and gives the lock up at once, without waiting for an answer, as one that ends does.
struct Holder {
    stream: TcpStream,
    decoder: Decoder,
}

impl Holder {
    async fn start(leader: &str) -> Self {
        let address = leader.strip_prefix("tcp:").unwrap();
        let mut holder = Self {
            stream: within(TcpStream::connect(address)).await.unwrap(),
            decoder: Decoder::new(),
        };
        holder.ask(&[json!({"method": "lock", "params": [LOCK], "id": 1})]).await;
        holder
    }

    /// Sends all requests at once, and waits until all are answered.
    async fn ask(&mut self, requests: &[Value]) {
        let text: String = requests.iter().map(Value::to_string).collect();
        within(self.stream.write_all(text.as_bytes())).await.unwrap();
        let (mut answers, mut buffer) = (0, [0; 4096]);
        while answers < requests.len() {
            let count = within(self.stream.read(&mut buffer)).await.unwrap();
            answers += self.decoder.feed(&buffer[..count]).unwrap().len();
        }
    }
}

/// A leader hands the lock on at once, but sends the last holder's changes only when the cluster has agreed on them.
#[tokio::test]
async fn what_the_last_holder_changed_is_known_before_the_lock_is() {
    let cluster = Cluster::start();
    cluster.formed().await;
    for round in 0..10 {
        let mut options = options(&cluster.remotes());
        options.leader_only = true;
        let (_, mut events) = crate::support::connect(options.clone()).await;
        let leader = until(&mut events, |event| match event {
            Event::Connected { remote, .. } => Some(remote.to_string()),
            _ => None,
        });
        let mut holder = Holder::start(&leader.await).await;
        options.lock = Some(LOCK.to_owned());
        let (client, mut events) = crate::support::connect(options).await;
        // Answered after the request for the lock, which is in the queue from then on.
        within(client.transact(Operation::Comment("in line".to_owned()))).await.unwrap();
        let name = format!("last-{round}");
        let insert = json!({"op": "insert", "table": SWITCH, "row": {"name": name}});
        let transact = json!({"method": "transact", "params": [DATABASE, insert], "id": 2});
        holder
            .ask(&[transact, json!({"method": "unlock", "params": [LOCK], "id": 3})])
            .await;

        let mut names = Vec::new();
        loop {
            match next(&mut events).await {
                Event::Update(changes) => names.extend(changes.iter().filter_map(|change| Some(change.new.as_ref()?["name"].clone()))),
                Event::Locked => break,
                _ => {}
            }
        }
        assert_eq!(names, [Datum::string(&name)], "round {round}");
        write(&client, &format!("first-{round}")).await.unwrap();
        within(client.unlock()).await.unwrap();
    }
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
