//! Transactions: operations, their results and their errors.

use netloom_ovsdb::{Condition, Datum, ErrorKind, Event, Mutation, Operation, OperationResult, Row, TransactError, Transaction, Until};

use crate::support::{ADDRESSES, PORT, SWITCH, Standalone, id, row, until, within};

#[tokio::test]
async fn inserts_with_chosen_identities_refer_to_each_other() {
    let database = Standalone::start();
    let (client, mut events) = database.client().await;
    let transaction = Transaction::new()
        .with(Operation::insert(
            SWITCH,
            id("switch"),
            row([("name", Datum::string("s")), ("ports", Datum::uuid(id("port")))]),
        ))
        .with(Operation::insert(PORT, id("port"), row([("name", Datum::string("p"))])));
    let results = within(client.transact(transaction)).await.unwrap();
    assert_eq!(
        results,
        [OperationResult::Inserted(id("switch")), OperationResult::Inserted(id("port"))]
    );

    // The change is in the queue by the time the reply is here.
    let mut changes = Vec::new();
    while let Some(event) = events.try_recv() {
        if let Event::Update(update) = event {
            changes.extend(update);
        }
    }
    assert_eq!(changes.len(), 2);
    assert!(changes.iter().all(|change| change.old.is_none()));
    let ports = client
        .read(|replica| replica.row(SWITCH, &id("switch")).unwrap()["ports"].as_uuid())
        .unwrap();
    assert_eq!(ports, Some(id("port")));
}

#[tokio::test]
async fn named_identities_hold_within_a_transaction() {
    let database = Standalone::start();
    let (client, _events) = database.client().await;
    let transaction = Transaction::new()
        .with(Operation::insert_named(PORT, "p", row([("name", Datum::string("p"))])))
        .with(Operation::insert_named(SWITCH, "s", row([("ports", Datum::named_uuid("p"))])));
    let results = within(client.transact(transaction)).await.unwrap();
    let (port, switch) = (results[0].uuid().unwrap(), results[1].uuid().unwrap());
    let ports = client
        .read(|replica| replica.row(SWITCH, &switch).unwrap()["ports"].clone())
        .unwrap();
    assert_eq!(ports, Datum::uuid(port));
}

#[tokio::test]
async fn mutations_change_sets_and_maps() {
    let database = Standalone::start();
    let (client, _events) = database.client().await;
    let set = row([("name", Datum::string("a")), ("addresses", Datum::set(["10.0.0.1", "10.0.0.2"]))]);
    within(client.transact(Operation::insert(ADDRESSES, id("a"), set))).await.unwrap();
    let mutations = vec![
        Mutation::insert("addresses", Datum::set(["10.0.0.3", "10.0.0.4"])),
        Mutation::delete("addresses", "10.0.0.1"),
        Mutation::insert("external_ids", Datum::map([("k", "v"), ("l", "w"), ("m", "x")])),
        Mutation::delete("external_ids", Datum::set(["l"])),
        Mutation::delete("external_ids", Datum::map([("m", "not x")])),
    ];
    let results = within(client.transact(Operation::mutate(ADDRESSES, id("a"), mutations)))
        .await
        .unwrap();
    assert_eq!(results, [OperationResult::Count(1)]);
    let row = client.read(|replica| replica.row(ADDRESSES, &id("a")).unwrap().clone()).unwrap();
    assert_eq!(row["addresses"], Datum::set(["10.0.0.2", "10.0.0.3", "10.0.0.4"]));
    assert_eq!(row["external_ids"], Datum::map([("k", "v"), ("m", "x")]));

    // Back to the default: the column is gone from the row.
    let reset = Operation::update(ADDRESSES, id("a"), Row::from([("external_ids".to_owned(), Datum::empty_map())]));
    within(client.transact(reset)).await.unwrap();
    let row = client.read(|replica| replica.row(ADDRESSES, &id("a")).unwrap().clone()).unwrap();
    assert!(!row.contains_key("external_ids"));
}

#[tokio::test]
async fn wait_holds_a_transaction_back() {
    let database = Standalone::start();
    let (client, _events) = database.client().await;
    let (other, _others) = database.client().await;
    let wait = |timeout| Operation::Wait {
        timeout,
        table: SWITCH.to_owned(),
        where_: vec![Condition::uuid(id("s"))],
        columns: vec!["name".to_owned()],
        until: Until::Equal,
        rows: vec![row([("name", Datum::string("s"))])],
    };
    let error = within(client.transact(wait(Some(0)))).await.unwrap_err();
    assert_eq!(error.error().unwrap().kind, ErrorKind::TimedOut);

    let waiting = tokio::spawn(async move { client.transact(wait(None)).await });
    within(other.transact(Operation::insert(SWITCH, id("s"), row([("name", Datum::string("s"))]))))
        .await
        .unwrap();
    assert_eq!(within(waiting).await.unwrap().unwrap(), [OperationResult::Done]);
}

#[tokio::test]
async fn errors_name_the_operation_that_failed() {
    let database = Standalone::start();
    let (client, _events) = database.client().await;
    let good = || Operation::insert(SWITCH, id("good"), row([("name", Datum::string("good"))]));

    let bad = Operation::insert(
        "Meter",
        id("bad"),
        row([("name", Datum::string("bad")), ("unit", Datum::string("furlong"))]),
    );
    let error = within(client.transact(vec![good(), bad])).await.unwrap_err();
    let TransactError::Operation {
        index: 1,
        operation,
        error,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(error.kind, ErrorKind::Constraint);
    assert!(
        operation.starts_with("insert Meter") && error.details.contains("furlong"),
        "{error}"
    );

    let dangling = Operation::insert(SWITCH, id("bad"), row([("ports", Datum::uuid(id("nowhere")))]));
    let error = within(client.transact(vec![good(), dangling])).await.unwrap_err();
    let TransactError::Commit(cause) = &error else { panic!("{error}") };
    assert_eq!(cause.kind, ErrorKind::ReferentialIntegrity);

    let error = within(client.transact(vec![good(), Operation::Abort])).await.unwrap_err();
    assert_eq!(error.error().unwrap().kind, ErrorKind::Aborted);

    // Nothing of all that was committed.
    assert_eq!(client.read(netloom_ovsdb::Replica::len), Some(0));
    let twice = |name: &str| Operation::insert(ADDRESSES, id(name), row([("name", Datum::string("same"))]));
    let error = within(client.transact(vec![twice("a"), twice("b")])).await.unwrap_err();
    assert_eq!(error.error().unwrap().kind, ErrorKind::Constraint);
}

#[tokio::test]
async fn updates_of_others_arrive_with_the_row_before_and_after() {
    let database = Standalone::start();
    let (writer, _events) = database.client().await;
    let (_reader, mut events) = database.client().await;
    within(writer.transact(Operation::insert(SWITCH, id("s"), row([("name", Datum::string("old"))]))))
        .await
        .unwrap();
    within(writer.transact(Operation::update(SWITCH, id("s"), row([("name", Datum::string("new"))]))))
        .await
        .unwrap();
    within(writer.transact(Operation::delete(SWITCH, id("s")))).await.unwrap();
    let mut names = Vec::new();
    until(&mut events, |event| {
        let Event::Update(changes) = event else { return None };
        let name = |row: &Option<std::sync::Arc<Row>>| row.as_ref().map(|row| row["name"].as_str().unwrap().to_owned());
        names.extend(changes.iter().map(|change| (name(&change.old), name(&change.new))));
        names.last().is_some_and(|(_, new)| new.is_none()).then_some(())
    })
    .await;
    // The server may join transactions, but what one change leaves behind the next one finds.
    assert_eq!(names.first().unwrap().0, None);
    assert!(names.windows(2).all(|pair| pair[0].1 == pair[1].0), "{names:?}");
}
