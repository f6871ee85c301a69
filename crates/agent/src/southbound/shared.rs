//! Two nodes at one real Southbound server, which shares between them the changes it tracks: one node's conditions must
//! not spoil the other's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use netloom_fixtures::{SOUTHBOUND, Server};
use netloom_ovsdb::{Client, Datum, Operation, Options, Row};
use uuid::Uuid;

use super::Southbound;

struct Database {
    server: Server,
    writer: Client,
    datapath: Uuid,
}

impl Database {
    async fn start() -> Self {
        let server = Server::start(&[SOUTHBOUND]);
        let (writer, _) = Client::start(Options::new(server.remote.parse().unwrap(), SOUTHBOUND.name));
        writer.ready().await.unwrap();
        let datapath = Uuid::new_v4();
        let row = row([("tunnel_key", Datum::integer(1))]);
        writer.transact(Operation::insert("Datapath_Binding", datapath, row)).await.unwrap();
        Self { server, writer, datapath }
    }

    /// The watch of a node, connected.
    async fn watch(&self, node: &'static str) -> Arc<Southbound> {
        let (southbound, follow) = Southbound::start(node, crate::databases::Southbound::Fixed(self.server.remote.parse().unwrap()), None);
        tokio::spawn(follow);
        southbound.until(|state| state.connected.then_some(())).await;
        southbound
    }

    fn port(&self, name: &str, key: i64, chassis: Uuid) -> Operation {
        let row = row([
            ("logical_port", Datum::string(name)),
            ("datapath", Datum::from(self.datapath)),
            ("tunnel_key", Datum::integer(key)),
            ("requested_chassis", Datum::from(chassis)),
            ("mac", Datum::string("0a:00:00:00:00:01 10.0.0.1")),
        ]);
        Operation::insert("Port_Binding", Uuid::new_v4(), row)
    }

    async fn write(&self, operations: Vec<Operation>) {
        self.writer.transact(operations).await.expect("the server is alive");
    }

    /// Waits until a node sees its port; the server must live that long.
    async fn seen(&mut self, southbound: &Southbound, port: &str) {
        let shown = southbound.until(|state| state.binding(port).map(|_| ()));
        if tokio::time::timeout(Duration::from_secs(30), shown).await.is_err() {
            panic!("{port} is never shown; has the server ended? {:?}", self.server.ended());
        }
    }
}

/// What ovn-controller writes when it starts.
fn registration(chassis: Uuid, node: &str) -> Vec<Operation> {
    let encap = Uuid::new_v4();
    let encap_row = row([
        ("type", Datum::string("geneve")),
        ("ip", Datum::string(node)),
        ("chassis_name", Datum::string(node)),
    ]);
    let chassis_row = row([("name", Datum::string(node)), ("encaps", Datum::from(encap))]);
    vec![
        Operation::insert("Encap", encap, encap_row),
        Operation::insert("Chassis", chassis, chassis_row),
    ]
}

fn row<const N: usize>(columns: [(&str, Datum); N]) -> Row {
    columns.map(|(column, datum)| (column.to_owned(), datum)).into()
}

#[tokio::test]
async fn a_node_that_learns_its_chassis_disturbs_no_other() {
    let mut database = Database::start().await;
    // Both ask for the same before either has a chassis.
    let (a, b) = (database.watch("a").await, database.watch("b").await);
    let (chassis_a, chassis_b) = (Uuid::new_v4(), Uuid::new_v4());

    let mut operations = registration(chassis_a, "a");
    operations.push(database.port("a1", 1, chassis_a));
    database.write(operations).await;
    database.seen(&a, "a1").await;
    // The condition is in effect now, for one of the two.
    database.write(vec![database.port("a2", 2, chassis_a)]).await;
    database.seen(&a, "a2").await;

    let mut operations = registration(chassis_b, "b");
    operations.push(database.port("b1", 3, chassis_b));
    database.write(operations).await;
    database.seen(&b, "b1").await;
    database
        .write(vec![database.port("b2", 4, chassis_b), database.port("a3", 5, chassis_a)])
        .await;
    database.seen(&b, "b2").await;
    database.seen(&a, "a3").await;
    assert!(a.read(|state| state.binding("b1").is_none() && state.binding("b2").is_none()));
    assert!(b.read(|state| state.binding("a1").is_none() && state.binding("a3").is_none()));
}
