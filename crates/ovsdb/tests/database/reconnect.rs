//! The server dies and comes back.

use std::time::Duration;

use netloom_ovsdb::{Client, ConnectError, Datum, ErrorKind, Event, Operation, TransactError, Until};
use tokio::io::AsyncReadExt;

use crate::support::{SWITCH, Standalone, contents, free_port, id, next, options, row, select_all, until, within};

/// Waits for a row in a table that has none.
fn forever(timeout: Option<u64>) -> Operation {
    Operation::Wait {
        timeout,
        table: SWITCH.to_owned(),
        where_: Vec::new(),
        columns: vec!["name".to_owned()],
        until: Until::NotEqual,
        rows: Vec::new(),
    }
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let mut database = Standalone::start();
    let mut options = database.options();
    options.lock = Some("it".to_owned());
    let (client, mut events) = crate::support::connect(options).await;
    until(&mut events, |event| matches!(event, Event::Locked).then_some(())).await;
    within(client.transact(Operation::insert(SWITCH, id("a"), row([("name", Datum::string("a"))]))))
        .await
        .unwrap();

    database.server.kill();
    until(&mut events, |event| matches!(event, Event::Disconnected(_)).then_some(())).await;
    assert!(!client.status().connected && !client.status().locked);
    let unsent = client.transact(Operation::delete(SWITCH, id("a"))).await;
    assert_eq!(unsent, Err(TransactError::NotConnected));

    database.server.run();
    assert!(matches!(next(&mut events).await, Event::Connected { resumed: false, .. }));
    let Event::Snapshot(replica) = next(&mut events).await else {
        panic!("a snapshot follows")
    };
    assert!(matches!(next(&mut events).await, Event::Locked));
    assert_eq!(contents(&replica), select_all(&client).await);
    assert_eq!(replica.len(), 1);
    within(client.transact(vec![Operation::assert("it"), Operation::delete(SWITCH, id("a"))]))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_transaction_in_flight_has_an_unknown_outcome() {
    let mut database = Standalone::start();
    let (client, _events) = database.client().await;
    let transact = tokio::spawn({
        let client = client.clone();
        async move { client.transact(forever(None)).await }
    });
    // The server has seen the first transaction when it has answered the second.
    tokio::task::yield_now().await;
    within(client.transact(Operation::Comment("after".to_owned()))).await.unwrap();
    database.server.kill();
    assert_eq!(within(transact).await.unwrap(), Err(TransactError::Disconnected));
}

#[tokio::test]
async fn remotes_are_tried_in_order_and_the_client_ends_with_its_last_handle() {
    let database = Standalone::start();
    let nobody = format!("tcp:127.0.0.1:{}", free_port());
    let (client, mut events) = Client::start(options(&format!("{nobody},{}", database.server.remote)));
    let Event::Unreachable { remote, reason } = within(events.recv()).await.unwrap() else {
        panic!()
    };
    assert_eq!(remote.to_string(), nobody);
    assert!(matches!(reason, ConnectError::Connect(_)));
    let copy = client.clone();
    within(client.ready()).await.unwrap();
    drop(client);
    within(copy.transact(Operation::Comment("still here".to_owned()))).await.unwrap();
    drop(copy);
    while within(events.recv()).await.is_some() {}
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = options(&format!("tcp:{}", listener.local_addr().unwrap()));
    options.probe = Duration::from_millis(50);
    let (_client, mut events) = Client::start(options);
    let (mut stream, _) = within(listener.accept()).await.unwrap();
    let Event::Unreachable { reason, .. } = within(events.recv()).await.unwrap() else {
        panic!()
    };
    assert!(matches!(reason, ConnectError::Inactive(_)), "{reason}");
    let mut sent = Vec::new();
    within(stream.read_to_end(&mut sent)).await.unwrap();
    assert!(String::from_utf8(sent).unwrap().contains("\"echo\""));
}

#[tokio::test]
async fn an_idle_connection_is_kept_by_probes() {
    let database = Standalone::start();
    let mut options = database.options();
    // Long enough for a busy machine to answer a probe.
    options.probe = Duration::from_millis(500);
    let (client, mut events) = crate::support::connect(options).await;
    // The server keeps silent for many probe intervals, but for its answers to the probes.
    let error = within(client.transact(forever(Some(3000)))).await.unwrap_err();
    assert_eq!(error.error().map(|error| error.kind.clone()), Some(ErrorKind::TimedOut), "{error}");
    while let Some(event) = events.try_recv() {
        assert!(!matches!(event, Event::Disconnected(_)), "{event:?}");
    }
}

#[tokio::test]
async fn garbage_is_an_error_and_not_the_end() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_client, mut events) = Client::start(options(&format!("tcp:{}", listener.local_addr().unwrap())));
    for _ in 0..2 {
        let (mut stream, _) = within(listener.accept()).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n")
            .await
            .unwrap();
        let Event::Unreachable { reason, .. } = within(events.recv()).await.unwrap() else {
            panic!()
        };
        assert!(matches!(reason, ConnectError::Decode(_)), "{reason}");
    }
}

#[tokio::test]
async fn other_remotes_take_effect_at_once_unless_the_server_stays() {
    let (first, second) = (Standalone::start(), Standalone::start());
    let nobody = format!("tcp:127.0.0.1:{}", free_port());
    // Before there is a connection: the attempts and the waits between them are over.
    let (client, mut events) = Client::start(options(&nobody));
    assert!(matches!(within(events.recv()).await, Some(Event::Unreachable { .. })));
    client.set_remotes(first.server.remote.parse().unwrap());
    let connected = async |events: &mut _| {
        let remote = |event| match event {
            Event::Connected { remote, .. } => Some(remote.to_string()),
            _ => None,
        };
        until(events, remote).await
    };
    assert_eq!(connected(&mut events).await, first.server.remote);

    // The server stays: so does the connection.
    client.set_remotes(format!("{},{}", second.server.remote, first.server.remote).parse().unwrap());
    within(client.transact(Operation::Comment("still here".to_owned()))).await.unwrap();
    while let Some(event) = events.try_recv() {
        assert!(!matches!(event, Event::Disconnected(_)), "{event:?}");
    }

    // The server goes: the client moves, and what it asks is answered by the other.
    client.set_remotes(second.server.remote.parse().unwrap());
    let reason = until(&mut events, |event| match event {
        Event::Disconnected(reason) => Some(reason),
        _ => None,
    })
    .await;
    assert!(matches!(reason, ConnectError::Withdrawn), "{reason}");
    assert_eq!(connected(&mut events).await, second.server.remote);
}
