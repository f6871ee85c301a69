//! Servers that live as long as a test, clients connected to them, and what both hold.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

pub use netloom_fixtures::free_port;
use netloom_fixtures::{NORTHBOUND, Server};
use netloom_ovsdb::{Client, Datum, Event, Events, MonitorTable, Operation, Options, Replica, Row, Uuid};

pub const DATABASE: &str = NORTHBOUND.name;
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

/// One server.
pub struct Standalone {
    pub server: Server,
}

impl Standalone {
    /// A server on a unix socket.
    pub fn start() -> Self {
        Self {
            server: Server::start(&[NORTHBOUND]),
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
    pub members: [Server; 3],
}

impl Cluster {
    pub fn start() -> Self {
        Self {
            members: Server::start_cluster(NORTHBOUND),
        }
    }

    pub fn remotes(&self) -> String {
        self.members.each_ref().map(|member| member.remote.as_str()).join(",")
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
