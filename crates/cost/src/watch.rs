//! A database as it is now, and waiting until it is as it should be. Every wait ends with an event of the database.

use std::time::Duration;

use netloom_ovsdb::client::{Client, Events, MonitorTable, Options};
use netloom_ovsdb::{Operation, Replica};

/// A hanging OVN fails; nothing depends on how long anything takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// A connection to a database.
pub struct Watch {
    client: Client,
    events: Events,
}

impl Watch {
    /// Connects, and monitors some columns of some tables.
    pub async fn start(remote: &str, database: &str, tables: &[(&str, &[&str])]) -> Self {
        let mut options = Options::new(remote.parse().unwrap(), database);
        let monitor = |(table, columns): &(&str, &[&str])| MonitorTable {
            columns: Some(columns.iter().map(|column| (*column).to_owned()).collect()),
            ..MonitorTable::all(*table)
        };
        options.monitor = tables.iter().map(monitor).collect();
        // A server that has much to do is not gone.
        options.probe = PATIENCE;
        let (client, events) = Client::start(options);
        tokio::time::timeout(PATIENCE, client.ready()).await.expect("no database").unwrap();
        Self { client, events }
    }

    /// Looks at the database as it is.
    pub fn read<T>(&self, look: impl FnOnce(&Replica) -> T) -> T {
        self.client.read(look).expect("connected")
    }

    /// Waits until there is what is looked for.
    pub async fn until<T>(&mut self, what: &str, mut look: impl FnMut(&Replica) -> Option<T>) -> T {
        loop {
            // Events that are there already say nothing that the replica does not.
            while self.events.try_recv().is_some() {}
            if let Some(found) = self.read(&mut look) {
                return found;
            }
            let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
            event
                .unwrap_or_else(|_| panic!("still waiting for {what}"))
                .expect("the client has ended");
        }
    }

    /// Writes.
    pub async fn write(&self, operations: Vec<Operation>) {
        let written = tokio::time::timeout(PATIENCE, self.client.transact(operations)).await;
        written.expect("no answer of the database").unwrap();
    }
}
