//! A server that knows nothing but RFC 7047, played by the test itself.

use std::time::Duration;

use netloom_ovsdb::codec::Decoder;
use netloom_ovsdb::message::Message;
use netloom_ovsdb::{Client, Condition, ConnectError, Datum, Event, Operation, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{id, next, until, within};

/// How often the server is probed, and how many operations it has to carry out.
const PROBE: Duration = Duration::from_millis(200);
const OPERATIONS: usize = 500;

fn schema() -> Value {
    json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {
        "name": {"type": "string"},
        "tags": {"type": {"key": "string", "min": 0, "max": "unlimited"}}}}}})
}

/// Answers the client until `monitor` was answered, then sends one update, and returns the methods that were asked for.
async fn serve(mut stream: TcpStream) -> Vec<String> {
    let (mut decoder, mut buffer, mut methods) = (Decoder::new(), [0; 4096], Vec::new());
    loop {
        let count = within(stream.read(&mut buffer)).await.unwrap();
        if count == 0 {
            return methods;
        }
        for message in decoder.feed(&buffer[..count]).unwrap() {
            let Message::Request { id: request, method, .. } = message else {
                panic!("{message:?}")
            };
            let uuid = id("row").to_string();
            let mut replies = match method.as_str() {
                "get_schema" => vec![json!({"id": request, "result": schema(), "error": null})],
                "monitor" => vec![
                    json!({"id": request, "result": {"T": {&uuid: {"new": {"name": "a", "tags": ["set", []]}}}}, "error": null}),
                    json!({"id": null, "method": "update", "params": ["rows", {"T": {&uuid: {
                        "old": {"tags": ["set", []]}, "new": {"name": "a", "tags": ["set", ["x", "y"]]}}}}]}),
                ],
                "transact" => {
                    // Busy for many probe intervals.
                    tokio::time::sleep(5 * PROBE).await;
                    vec![json!({"id": request, "result": vec![json!({}); OPERATIONS], "error": null})]
                }
                _ => vec![json!({"id": request, "error": "unknown method"})],
            };
            methods.push(method);
            for reply in replies.drain(..) {
                stream.write_all(reply.to_string().as_bytes()).await.unwrap();
            }
        }
    }
}

async fn start(leader_only: bool, condition: Vec<Condition>) -> (TcpListener, Client, netloom_ovsdb::Events) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = Options::new(format!("tcp:{}", listener.local_addr().unwrap()).parse().unwrap(), "D");
    options.leader_only = leader_only;
    options.probe = PROBE;
    options.monitor = vec![netloom_ovsdb::MonitorTable {
        condition,
        ..netloom_ovsdb::MonitorTable::all("T")
    }];
    let (client, events) = Client::start(options);
    (listener, client, events)
}

#[tokio::test]
async fn older_monitors_are_good_enough() {
    let (listener, client, mut events) = start(true, Vec::new()).await;
    let server = tokio::spawn(serve(within(listener.accept()).await.unwrap().0));
    assert!(matches!(next(&mut events).await, Event::Connected { resumed: false, .. }));
    let Event::Snapshot(replica) = next(&mut events).await else {
        panic!()
    };
    assert_eq!(replica.row("T", &id("row")).unwrap().len(), 1);
    let Event::Update(changes) = next(&mut events).await else {
        panic!()
    };
    assert_eq!(changes[0].new.as_ref().unwrap()["tags"], Datum::set(["x", "y"]));
    drop(client);
    let methods = within(server).await.unwrap();
    assert_eq!(
        methods,
        ["monitor_cond", "get_schema", "monitor_cond_since", "monitor_cond", "monitor"]
    );
}

#[tokio::test]
async fn a_condition_that_cannot_be_had_is_an_error() {
    let (listener, _client, mut events) = start(false, vec![Condition::equal("name", "a")]).await;
    let _server = tokio::spawn(serve(within(listener.accept()).await.unwrap().0));
    let Some(Event::Unreachable { reason, .. }) = within(events.recv()).await else {
        panic!()
    };
    assert!(matches!(reason, ConnectError::Unsupported(_)), "{reason}");
}

#[tokio::test]
async fn a_server_is_not_given_up_while_it_works_on_a_large_transaction() {
    let (listener, client, mut events) = start(false, Vec::new()).await;
    let server = tokio::spawn(serve(within(listener.accept()).await.unwrap().0));
    until(&mut events, |event| matches!(event, Event::Update(_)).then_some(())).await;
    let operations = vec![Operation::Comment("one of many".to_owned()); OPERATIONS];
    within(client.transact(operations)).await.unwrap();
    drop(client);
    within(server).await.unwrap();
}
