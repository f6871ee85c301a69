//! Servers that live as long as a test: started from the node image in a temporary directory, killed when dropped.

#[path = "../../../../tests/image.rs"]
mod image;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use image::{image, program};
use netloom_ovsdb::{Client, Datum, Event, Events, MonitorTable, Operation, Options, Replica, Row, Uuid};

pub const DATABASE: &str = "OVN_Northbound";
pub const SWITCH: &str = "Logical_Switch";
pub const PORT: &str = "Logical_Switch_Port";
pub const GLOBAL: &str = "NB_Global";
pub const ADDRESSES: &str = "Address_Set";

/// A hanging test fails; no test depends on how long anything takes.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("still waiting after a minute")
}

fn tool(arguments: &[&str]) {
    let output = program("usr/bin/ovsdb-tool").args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "ovsdb-tool {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn schema() -> String {
    image().join("usr/share/ovn/ovn-nb.ovsschema").display().to_string()
}

/// A port of the loopback that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server process.
pub struct Server {
    child: Option<Child>,
    directory: PathBuf,
    arguments: Vec<String>,
    pub remote: String,
}

impl Server {
    fn new(directory: PathBuf, remote: String, listen: String, more: Vec<String>) -> Self {
        let path = |name: &str| directory.join(name).display().to_string();
        let mut arguments = vec![
            format!("--remote={listen}"),
            format!("--unixctl={}", path("control.sock")),
            format!("--log-file={}", path("log")),
            "-vconsole:off".to_owned(),
        ];
        arguments.extend(more);
        arguments.push(path("db"));
        let mut server = Server {
            child: None,
            directory,
            arguments,
            remote,
        };
        server.start();
        server
    }

    /// Starts the process. Whoever connects finds out when it is ready.
    pub fn start(&mut self) {
        assert!(self.child.is_none());
        let child = program("usr/sbin/ovsdb-server")
            .args(&self.arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Kills the process the hard way.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Runs a command of the server's control socket.
    pub fn control(&self, command: &[&str]) {
        let output = program("usr/bin/ovs-appctl")
            .arg("-t")
            .arg(self.directory.join("control.sock"))
            .args(command)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One server with its own directory.
pub struct Standalone {
    pub server: Server,
    _directory: tempfile::TempDir,
}

impl Standalone {
    /// A server on a unix socket.
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("db.sock").display().to_string();
        Self::listening(directory, format!("unix:{socket}"), format!("punix:{socket}"), Vec::new())
    }

    pub fn listening(directory: tempfile::TempDir, remote: String, listen: String, more: Vec<String>) -> Self {
        tool(&["create", &directory.path().join("db").display().to_string(), &schema()]);
        let server = Server::new(directory.path().to_owned(), remote, listen, more);
        Standalone {
            server,
            _directory: directory,
        }
    }

    pub fn options(&self) -> Options {
        options(&self.server.remote)
    }

    /// A connected client that monitors all tables used here.
    pub async fn client(&self) -> (Client, Events) {
        connect(self.options()).await
    }
}

/// Three servers that replicate one database by Raft, on the loopback.
pub struct Cluster {
    pub members: Vec<Server>,
    _directory: tempfile::TempDir,
}

impl Cluster {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let peers: Vec<String> = (0..3).map(|_| format!("tcp:127.0.0.1:{}", free_port())).collect();
        let members = (0..3).map(|index| Self::member(directory.path(), &peers, index)).collect();
        Cluster {
            members,
            _directory: directory,
        }
    }

    fn member(directory: &Path, peers: &[String], index: usize) -> Server {
        let directory = directory.join(index.to_string());
        std::fs::create_dir(&directory).unwrap();
        let db = directory.join("db").display().to_string();
        match index {
            0 => tool(&["create-cluster", &db, &schema(), &peers[0]]),
            _ => tool(&["join-cluster", &db, DATABASE, &peers[index], &peers[0]]),
        }
        let port = free_port();
        Server::new(
            directory,
            format!("tcp:127.0.0.1:{port}"),
            format!("ptcp:{port}:127.0.0.1"),
            Vec::new(),
        )
    }

    pub fn remotes(&self) -> String {
        self.members
            .iter()
            .map(|member| member.remote.as_str())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Waits until every member serves the database.
    pub async fn formed(&self) {
        for member in &self.members {
            let (client, _) = Client::start(options(&member.remote));
            within(client.ready())
                .await
                .unwrap_or_else(|error| panic!("{error}: {}", member.log()));
        }
    }
}

/// Options that monitor all tables used here.
pub fn options(remotes: &str) -> Options {
    let mut options = Options::new(remotes.parse().unwrap(), DATABASE);
    options.monitor = [SWITCH, PORT, GLOBAL, ADDRESSES].map(MonitorTable::all).into();
    options
}

pub async fn connect(options: Options) -> (Client, Events) {
    let (client, events) = Client::start(options);
    within(client.ready()).await.unwrap();
    (client, events)
}

/// A row of the given columns.
pub fn row<const N: usize>(columns: [(&str, Datum); N]) -> Row {
    Row::from(columns)
}

/// The same identity for the same key, always.
pub fn id(key: &str) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, key.as_bytes())
}

/// The next event that is not about failed attempts.
pub async fn next(events: &mut Events) -> Event {
    loop {
        match within(events.recv()).await.expect("the client has ended") {
            Event::Unreachable { .. } => {}
            event => return event,
        }
    }
}

/// Waits for an event and returns what the function finds in it.
pub async fn until<T>(events: &mut Events, mut find: impl FnMut(Event) -> Option<T>) -> T {
    loop {
        if let Some(found) = find(next(events).await) {
            return found;
        }
    }
}

/// All rows of the monitored tables as the server has them now.
pub async fn select_all(client: &Client) -> BTreeMap<(String, Uuid), Row> {
    let tables = [SWITCH, PORT, GLOBAL, ADDRESSES];
    let transaction: Vec<Operation> = tables.map(|table| Operation::select(table, Vec::new())).into();
    let results = within(client.transact(transaction)).await.unwrap();
    let mut rows = BTreeMap::new();
    for (table, result) in tables.iter().zip(results) {
        for mut row in result.rows().iter().cloned() {
            row.remove("_version");
            let uuid = row.remove("_uuid").unwrap().as_uuid().unwrap();
            rows.insert(((*table).to_owned(), uuid), row);
        }
    }
    rows
}

/// All rows of a replica, in the same form.
pub fn contents(replica: &Replica) -> BTreeMap<(String, Uuid), Row> {
    replica
        .tables()
        .flat_map(|(table, rows)| rows.iter().map(move |(uuid, row)| ((table.to_owned(), *uuid), (**row).clone())))
        .collect()
}
