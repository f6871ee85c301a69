//! What is monitored: columns, rows by condition, and conditions that change.

use netloom_ovsdb::{
    Client, ClientError, Condition, ConnectError, Datum, Event, Function, MonitorTable, Operation, UnmonitoredColumn, Uuid,
};

use crate::support::{PORT, SWITCH, Standalone, connect, id, next, row, until, within};

fn named(name: &str) -> Operation {
    Operation::insert(
        SWITCH,
        id(name),
        row([("name", Datum::string(name)), ("external_ids", Datum::map([("k", name)]))]),
    )
}

#[tokio::test]
async fn a_condition_selects_rows_and_can_change() {
    let mut database = Standalone::start();
    let (writer, _events) = database.client().await;
    within(writer.transact(vec![named("a"), named("b"), named("c")])).await.unwrap();
    let mut options = database.options();
    options.monitor = vec![MonitorTable {
        table: SWITCH.to_owned(),
        columns: Some(vec!["name".to_owned()]),
        condition: vec![Condition::equal("name", "a")],
    }];
    let (client, mut events) = connect(options).await;
    let shown = || {
        let mut rows: Vec<Uuid> = client
            .read(|replica| replica.rows(SWITCH).map(|(uuid, _)| *uuid).collect())
            .unwrap();
        rows.sort();
        rows
    };
    let sorted = |names: &[&str]| {
        let mut ids: Vec<Uuid> = names.iter().map(|name| id(name)).collect();
        ids.sort();
        ids
    };
    assert_eq!(shown(), sorted(&["a"]));
    let columns = client.read(|replica| replica.row(SWITCH, &id("a")).unwrap().len()).unwrap();
    assert_eq!(columns, 1, "only the column asked for");

    within(client.set_condition(SWITCH, vec![Condition::equal("name", "b"), Condition::equal("name", "c")]))
        .await
        .unwrap();
    assert_eq!(shown(), sorted(&["b", "c"]), "any of the conditions");
    within(client.set_condition(SWITCH, vec![Condition::Constant(false)]))
        .await
        .unwrap();
    assert_eq!(shown(), sorted(&[]));
    within(client.set_condition(SWITCH, Vec::new())).await.unwrap();
    assert_eq!(shown(), sorted(&["a", "b", "c"]));
    assert_eq!(
        client.set_condition(PORT, Vec::new()).await,
        Err(ClientError::NotMonitored(PORT.to_owned()))
    );

    // A condition that is refused leaves the one before.
    let refused = within(client.set_condition(SWITCH, vec![Condition::new("name", Function::Less, "c")])).await;
    assert!(matches!(refused, Err(ClientError::Refused(_))), "{refused:?}");
    assert_eq!(shown(), sorted(&["a", "b", "c"]));

    // A condition changed while there is no connection holds from the next one on.
    database.server.kill();
    until(&mut events, |event| matches!(event, Event::Disconnected(_)).then_some(())).await;
    let change = tokio::spawn({
        let client = client.clone();
        async move { client.set_condition(SWITCH, vec![Condition::equal("name", "c")]).await }
    });
    tokio::task::yield_now().await;
    database.server.run();
    within(change).await.unwrap().unwrap();
    assert_eq!(shown(), sorted(&["c"]));
}

/// A server that is asked for more misses rows or crashes, if another client monitors the same.
#[tokio::test]
async fn a_condition_is_about_monitored_columns() {
    let database = Standalone::start();
    let (writer, _events) = database.client().await;
    let mut options = database.options();
    options.monitor = vec![MonitorTable {
        table: SWITCH.to_owned(),
        columns: Some(vec!["name".to_owned()]),
        condition: vec![Condition::Constant(false)],
    }];
    let unmonitored = UnmonitoredColumn {
        table: SWITCH.to_owned(),
        column: "external_ids".to_owned(),
    };
    let condition = || {
        vec![
            Condition::equal("name", "a"),
            Condition::includes("external_ids", Datum::map([("k", "a")])),
        ]
    };

    let (client, _events) = connect(options.clone()).await;
    let refused = within(client.set_condition(SWITCH, condition())).await;
    assert_eq!(refused, Err(ClientError::Condition(unmonitored.clone())));
    within(client.set_condition(SWITCH, vec![Condition::uuid(id("a"))])).await.unwrap();
    within(writer.transact(vec![named("a"), named("b")])).await.unwrap();
    within(client.set_condition(SWITCH, vec![Condition::uuid(id("b"))])).await.unwrap();
    let shown: Vec<Uuid> = client
        .read(|replica| replica.rows(SWITCH).map(|(uuid, _)| *uuid).collect())
        .unwrap();
    assert_eq!(shown, [id("b")], "the identity is always known");

    options.monitor[0].condition = condition();
    let (_client, mut events) = Client::start(options);
    match within(events.recv()).await {
        Some(Event::Unreachable {
            reason: ConnectError::Condition(error),
            ..
        }) => assert_eq!(error, unmonitored),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nothing_needs_to_be_monitored() {
    let database = Standalone::start();
    let mut options = database.options();
    options.monitor.clear();
    let (client, mut events) = connect(options).await;
    within(client.transact(named("a"))).await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Connected { .. }));
    assert!(matches!(next(&mut events).await, Event::Snapshot(replica) if replica.is_empty()));
    assert!(events.try_recv().is_none());
    assert_eq!(within(client.get_schema()).await.unwrap().name, crate::support::DATABASE);
}

#[tokio::test]
async fn an_unknown_table_or_database_is_reported() {
    let database = Standalone::start();
    let (_client, _events) = database.client().await;
    for (change, expected) in [("table", "monitor_cond_since refused"), ("database", "get_schema refused")] {
        let mut options = database.options();
        match change {
            "table" => options.monitor.push(MonitorTable::all("Nope")),
            _ => options.database = "Nope".to_owned(),
        }
        let (_client, mut events) = netloom_ovsdb::Client::start(options);
        let Some(Event::Unreachable { reason, .. }) = within(events.recv()).await else {
            panic!()
        };
        assert!(reason.to_string().starts_with(expected), "{reason}");
    }
}
