//! Two nodes at one real Southbound server, which shares between them the changes it tracks: one node's conditions must
//! not spoil the other's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../../../tests/image.rs"]
mod image;

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use netloom_ovsdb::{Client, Datum, Operation, Options, Row};
use tokio::process::{Child, Command};
use uuid::Uuid;

use super::Southbound;

/// A program of the node image.
fn program(path: &str) -> Command {
    let mut command = Command::from(image::program(path));
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command
}

struct Database {
    server: Child,
    remote: String,
    writer: Client,
    datapath: Uuid,
    _directory: tempfile::TempDir,
}

impl Database {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let created = program("usr/bin/ovsdb-tool")
            .args(["create", &path("db")])
            .arg(image::image().join("usr/share/ovn/ovn-sb.ovsschema"))
            .status()
            .await
            .unwrap();
        assert!(created.success(), "ovsdb-tool: {created}");
        let server = program("usr/sbin/ovsdb-server")
            .arg(format!("--remote=punix:{}", path("sock")))
            .arg(format!("--unixctl={}", path("control")))
            .args([format!("--log-file={}", path("log")), "-vconsole:off".to_owned(), path("db")])
            .spawn()
            .unwrap();
        let remote = format!("unix:{}", path("sock"));
        let (writer, _) = Client::start(Options::new(remote.parse().unwrap(), "OVN_Southbound"));
        writer.ready().await.unwrap();
        let datapath = Uuid::new_v4();
        let row = row([("tunnel_key", Datum::integer(1))]);
        writer.transact(Operation::insert("Datapath_Binding", datapath, row)).await.unwrap();
        Self {
            server,
            remote,
            writer,
            datapath,
            _directory: directory,
        }
    }

    /// The watch of a node, connected.
    async fn watch(&self, node: &'static str) -> Arc<Southbound> {
        let (southbound, follow) = Southbound::start(node, crate::databases::Southbound::Fixed(self.remote.parse().unwrap()), None);
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
        tokio::select! {
            () = southbound.until(|state| state.binding(port).map(|_| ())) => {}
            status = self.server.wait() => panic!("the server ended while {port} was awaited: {status:?}"),
            () = tokio::time::sleep(Duration::from_secs(30)) => panic!("{port} is never shown"),
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
