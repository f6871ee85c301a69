//! The Northbound server, and a client that watches it: what is in it, and what changed since the test last looked.

use std::collections::BTreeMap;

use netloom_contract::external_id::KEY;
use netloom_controller::monitored_tables;
use netloom_fixtures::{NORTHBOUND, Server};
use netloom_network::PodName;
use netloom_ovsdb::{Client, Condition, Datum, Event, Events, Mutation, Operation, Options, Replica, Row, RowChange, Transaction, Uuid};

use super::within;

pub const SWITCH: &str = "Logical_Switch";
pub const PORT: &str = "Logical_Switch_Port";

/// Name of the port of a pod in the namespace `default`.
pub fn port_name(pod: &str) -> String {
    let pod = PodName {
        namespace: "default".to_owned(),
        name: pod.to_owned(),
    };
    pod.port()
}

/// A row of the given columns.
pub fn row<const N: usize>(columns: [(&str, Datum); N]) -> Row {
    Row::from(columns)
}

/// A standalone Northbound server and its contents as events tell them.
pub struct Database {
    server: Server,
    client: Client,
    events: Events,
    replica: Option<Replica>,
    changes: Vec<RowChange>,
}

impl Database {
    pub async fn start() -> Self {
        let server = Server::start(&[NORTHBOUND]);
        let mut options = Options::new(server.remote.parse().unwrap(), NORTHBOUND.name);
        options.monitor = monitored_tables();
        let (client, events) = Client::start(options);
        within("the database", client.ready()).await.unwrap();
        let mut database = Database {
            server,
            client,
            events,
            replica: None,
            changes: Vec::new(),
        };
        database.until("the first copy", |_| Some(())).await;
        database
    }

    /// Where the server is reached.
    pub fn remote(&self) -> &str {
        &self.server.remote
    }

    /// Stops the server, gives it an empty database and starts it again.
    pub async fn lose_everything(&mut self) {
        self.server.kill();
        self.server.create();
        self.server.run();
        while !matches!(self.next("the server to come back").await, Event::Snapshot(_)) {}
    }

    /// Stops the server for as long as `meanwhile` takes.
    pub async fn stopped_during(&mut self, meanwhile: impl Future<Output = ()>) {
        self.server.kill();
        meanwhile.await;
        self.server.run();
        while !matches!(self.next("the server to come back").await, Event::Snapshot(_)) {}
    }

    /// Takes in what happened, up to the first moment at which `find` finds something.
    pub async fn until<T>(&mut self, waiting_for: &str, find: impl Fn(&Replica) -> Option<T>) -> T {
        loop {
            if let Some(found) = self.replica.as_ref().and_then(&find) {
                return found;
            }
            self.next(waiting_for).await;
        }
    }

    /// The row of a name, now.
    pub fn named(&self, table: &str, name: &str) -> Option<(Uuid, Row)> {
        find_named(self.replica.as_ref()?, table, name)
    }

    /// Waits until a row of this name is there and passes.
    pub async fn row(&mut self, table: &str, name: &str, passes: impl Fn(&Row) -> bool) -> (Uuid, Row) {
        let found = |replica: &Replica| find_named(replica, table, name).filter(|(_, row)| passes(row));
        self.until(&format!("{table} {name}"), found).await
    }

    /// Waits until no row has this name.
    pub async fn gone(&mut self, table: &str, name: &str) {
        let gone = |replica: &Replica| find_named(replica, table, name).is_none().then_some(());
        self.until(&format!("{table} {name} to go"), gone).await;
    }

    /// Waits for a pod's port on a switch, and gives its addresses.
    pub async fn port(&mut self, pod: &str) -> Vec<String> {
        let name = port_name(pod);
        let attached = |replica: &Replica| {
            let (uuid, port) = find_named(replica, PORT, &name)?;
            replica.rows(SWITCH).find(|(_, switch)| holds(switch, uuid))?;
            Some(port)
        };
        let port = self.until(&format!("the port of {pod}"), attached).await;
        let addresses = port["addresses"].as_str().unwrap();
        addresses.split(' ').skip(1).map(str::to_owned).collect()
    }

    /// Waits until a pod has no port.
    pub async fn no_port(&mut self, pod: &str) {
        self.gone(PORT, &port_name(pod)).await;
    }

    /// Waits for a node's switch, and gives its subnets.
    pub async fn subnets(&mut self, node: &str) -> String {
        let (_, switch) = self.row(SWITCH, node, |row| row["external_ids"].get(KEY).is_some()).await;
        switch["external_ids"].get("netloom.io/subnets").unwrap().to_owned()
    }

    /// What was done to rows of ours since the last call, as `verb table key`.
    pub fn changes(&mut self) -> Vec<String> {
        let told = self.changes.drain(..).filter_map(|change| {
            // Groups of load balancers have no external ids; their name is their key.
            let key = |row: &Row| match row.get("external_ids") {
                Some(ids) => ids.get(KEY).map(str::to_owned),
                None => row.get("name").and_then(Datum::as_str).map(str::to_owned),
            };
            let key = change.new.as_deref().or(change.old.as_deref()).and_then(key)?;
            let verb = match (&change.old, &change.new) {
                (None, _) => "insert",
                (_, None) => "delete",
                _ => "update",
            };
            Some(format!("{verb} {} {key}", change.table))
        });
        let mut told: Vec<String> = told.collect();
        told.sort();
        told
    }

    /// Everything in the monitored tables, now.
    pub fn contents(&self) -> BTreeMap<(String, Uuid), Row> {
        self.replica.as_ref().map(contents).unwrap()
    }

    /// Waits until the monitored tables hold this and nothing else.
    pub async fn becomes(&mut self, expected: &BTreeMap<(String, Uuid), Row>) {
        self.until("the contents expected", |replica| (contents(replica) == *expected).then_some(()))
            .await;
    }

    /// Changes the database by hand, and takes in the change and what it has already caused.
    pub async fn by_hand(&mut self, operations: impl Into<Transaction>) {
        within("a change by hand", self.client.transact(operations)).await.unwrap();
        while let Some(event) = self.events.try_recv() {
            self.take(&event);
        }
    }

    /// Takes a lock away from its holder, for as long as the client lives.
    pub async fn steal(&self, lock: &str) -> Client {
        let mut options = Options::new(self.server.remote.parse().unwrap(), NORTHBOUND.name);
        options.lock = Some(lock.to_owned());
        let (thief, _) = Client::start(options);
        within("the thief's connection", thief.ready()).await.unwrap();
        within("the lock", thief.steal_lock()).await.unwrap();
        thief
    }

    /// Takes a port out of its switch by hand, which deletes it.
    pub async fn remove_port(&mut self, switch: &str, port: Uuid) {
        self.by_hand(mutate_ports(switch, Mutation::delete("ports", Datum::uuid(port))))
            .await;
    }

    /// A switch that is not ours, with one port.
    pub async fn foreign_switch(&mut self, name: &str, port: &str) {
        let insert = Operation::insert_named(PORT, "port", row([("name", Datum::string(port))]));
        let columns = row([("name", Datum::string(name)), ("ports", Datum::named_uuid("port"))]);
        self.by_hand(vec![insert, Operation::insert_named(SWITCH, "switch", columns)]).await;
    }

    /// A port that is not ours, put into a switch.
    pub async fn foreign_port(&mut self, switch: &str, port: &str) {
        let insert = Operation::insert_named(PORT, "port", row([("name", Datum::string(port))]));
        let mutate = mutate_ports(switch, Mutation::insert("ports", Datum::named_uuid("port")));
        self.by_hand(vec![insert, mutate]).await;
    }

    async fn next(&mut self, waiting_for: &str) -> Event {
        let event = within(waiting_for, self.events.recv()).await.expect("the client has ended");
        self.take(&event);
        event
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Snapshot(replica) => self.replica = Some(replica.clone()),
            Event::Update(changes) => {
                self.replica.as_mut().unwrap().apply(changes);
                self.changes.extend(changes.iter().cloned());
            }
            _ => {}
        }
    }
}

fn mutate_ports(switch: &str, mutation: Mutation) -> Operation {
    Operation::Mutate {
        table: SWITCH.to_owned(),
        where_: vec![Condition::equal("name", Datum::string(switch))],
        mutations: vec![mutation],
    }
}

fn contents(replica: &Replica) -> BTreeMap<(String, Uuid), Row> {
    let rows = replica.tables().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row)));
    rows.map(|(table, (uuid, row))| ((table.to_owned(), *uuid), (**row).clone()))
        .collect()
}

fn find_named(replica: &Replica, table: &str, name: &str) -> Option<(Uuid, Row)> {
    let is_it = |row: &Row| row.get("name").and_then(Datum::as_str) == Some(name);
    let found = replica.rows(table).find(|(_, row)| is_it(row))?;
    Some((*found.0, (**found.1).clone()))
}

/// Whether a switch has a port.
pub fn holds(switch: &Row, port: Uuid) -> bool {
    switch.get("ports").is_some_and(|ports| ports.uuids().any(|uuid| uuid == port))
}
