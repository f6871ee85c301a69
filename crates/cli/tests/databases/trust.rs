//! What the key of a node opens, and what it does not.

use netloom_fixtures::{Certificate, SOUTHBOUND, Server};
use netloom_ovsdb::client::Tls;
use netloom_ovsdb::{Client, Condition, ConnectError, Datum, Event, MonitorTable, Operation, Options, Row, Uuid};

use crate::world::{IN_CLUSTER, World, within};

fn with(tls: &Tls, remote: &str, database: &str, table: &str) -> Options {
    let mut options = Options::new(remote.parse().unwrap(), database);
    options.monitor = vec![MonitorTable::all(table)];
    options.tls = Some(tls.clone());
    options
}

/// Why there is no connection.
async fn refusal(options: Options) -> String {
    let remote = options.remotes.to_string();
    let (_client, mut events) = Client::start(options);
    match within("an answer", events.recv()).await {
        Some(Event::Unreachable {
            reason: ConnectError::Connect(error),
            ..
        }) => error.to_string(),
        Some(Event::Unreachable { reason, .. }) => reason.to_string(),
        other => panic!("{remote} lets it in: {other:?}"),
    }
}

fn row<const N: usize>(columns: [(&str, Datum); N]) -> Row {
    Row::from(columns.map(|(name, value)| (name.to_owned(), value)))
}

fn delete(table: &str, where_: Vec<Condition>) -> Operation {
    let table = table.to_owned();
    Operation::Delete { table, where_ }
}

/// What ovn-controller writes when it registers.
fn chassis(name: &str) -> Vec<Operation> {
    let uuid = |of: &str| Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{of} {name}").as_bytes());
    let encap = row([
        ("type", Datum::string("geneve")),
        ("ip", Datum::string("192.0.2.1")),
        ("chassis_name", Datum::string(name)),
    ]);
    let chassis = row([("name", Datum::string(name)), ("encaps", Datum::from(uuid("encap")))]);
    vec![
        Operation::insert("Encap", uuid("encap"), encap),
        Operation::insert("Chassis", uuid("chassis"), chassis),
    ]
}

#[tokio::test]
async fn a_nodes_key_writes_its_own_rows_of_the_southbound_and_opens_nothing_else() {
    let world = World::start().await;
    // Several members, so that they have ports for each other, though only the first is there.
    let databases = ["northbound", "southbound"].map(|database| world.member_of(database, 0, 3));
    let mut relay = world.relay(0);
    let northd = world.run(&[&["northd", "--tls", "/mnt/ovn", "--run-directory", "/mnt/0/run"], &IN_CLUSTER[..]].concat());
    let at = |port: &str| world.remote(0).replace("6641", port);
    let controller = world.options(&at("6645"), true).tls.unwrap();
    let (southbound, mut events) = Client::start(with(&controller, &at("6645"), "OVN_Southbound", "RBAC_Role"));
    let roles = |replica: &netloom_ovsdb::Replica| replica.rows("RBAC_Role").count();
    within("northd to say what a chassis may do", async {
        while southbound.read(roles).unwrap_or_default() == 0 {
            events.recv().await.unwrap();
        }
    })
    .await;

    let node = world.certify("node1").await;
    // The Northbound, the Southbound's member, and where members speak to each other.
    for (port, database, table) in [
        ("6641", "OVN_Northbound", "Logical_Switch"),
        ("6645", "OVN_Southbound", "Chassis"),
        ("6643", "OVN_Northbound", "Logical_Switch"),
        ("6644", "OVN_Southbound", "Chassis"),
    ] {
        let why = refusal(with(&node, &at(port), database, table)).await;
        assert!(why.contains("received fatal alert"), "{port}: {why}");
    }

    // Its own rows, and no other's.
    let (client, _events) = Client::start(with(&node, &at("6642"), "OVN_Southbound", "Chassis"));
    within("the relay", client.ready()).await.unwrap();
    within("its own rows", client.transact(chassis("node1"))).await.unwrap();
    let forbidden = [
        chassis("node2"),
        vec![delete("Logical_Flow", Vec::new())],
        vec![delete("RBAC_Role", Vec::new())],
    ];
    for operations in forbidden {
        let said = within("a refusal", client.transact(operations.clone())).await.unwrap_err();
        assert!(said.to_string().contains("RBAC"), "{operations:?}: {said}");
    }
    let other = world.certify("node2").await;
    let (client, _events) = Client::start(with(&other, &at("6642"), "OVN_Southbound", "Chassis"));
    within("the relay", client.ready()).await.unwrap();
    let stolen = delete("Chassis", vec![Condition::equal("name", "node1")]);
    let said = within("a refusal", client.transact(stolen)).await.unwrap_err();
    assert!(said.to_string().contains("RBAC"), "{said}");

    relay.end().await;
    northd.stop().await;
    for database in databases {
        database.stop().await;
    }
}

#[tokio::test]
async fn a_nodes_key_passes_for_no_database() {
    let world = World::start().await;
    let node = world.certify("node1").await;
    let posing = Server::start_with_tls(
        SOUTHBOUND,
        &Certificate {
            key: node.key.clone(),
            certificate: node.cert.clone(),
            authority: world.path("ovn/clients.crt"),
        },
    );
    let victim = world.certify("node2").await;
    let why = refusal(with(&victim, &posing.remote, "OVN_Southbound", "Chassis")).await;
    assert!(why.contains("invalid peer certificate"), "{why}");

    // The same to the programs of OVN.
    let files = ["-p", "/mnt/node2/tls.key", "-c", "/mnt/node2/tls.crt", "-C", "/mnt/node2/ca.crt"];
    let asked = [&["ovsdb-client", "--timeout=5"], &files[..], &["list-dbs", &posing.remote]].concat();
    let said = world.attempt(&asked).await;
    assert!(said.contains("certificate verify failed"), "{said}");
}
