//! What a user asks of a client.

use std::path::PathBuf;
use std::time::Duration;

use crate::condition::Condition;

use super::{Remotes, UnmonitoredColumn};

/// What to connect to and what to watch there.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers, tried in order. [`Client::set_remotes`](super::Client::set_remotes) replaces them later.
    pub remotes: Remotes,
    /// The name of the database.
    pub database: String,
    /// The tables to replicate.
    pub monitor: Vec<MonitorTable>,
    /// The lock to hold or wait for: letters, digits and underscores. The members of a cluster do not share locks, so
    /// against a cluster it fences only together with `leader_only`.
    pub lock: Option<String>,
    /// Whether to talk only to the leader of a cluster.
    pub leader_only: bool,
    /// The files needed for `ssl:` remotes.
    pub tls: Option<Tls>,
    /// After this long without a sign of life the server is probed; after as long again it is given up. Zero: never. A server that
    /// has the first copy to make or a large transaction to carry out gets more time for its answer.
    pub probe: Duration,
}

impl Options {
    /// Options that monitor nothing, take no lock, accept any member of a cluster and probe every five seconds.
    pub fn new(remotes: Remotes, database: impl Into<String>) -> Self {
        Options {
            remotes,
            database: database.into(),
            monitor: Vec::new(),
            lock: None,
            leader_only: false,
            tls: None,
            probe: Duration::from_secs(5),
        }
    }
}

/// Which part of a table to replicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorTable {
    /// The table.
    pub table: String,
    /// The columns, all if `None`. Conditions, now and later, can be about these and `_uuid` only.
    pub columns: Option<Vec<String>>,
    /// The rows: those that satisfy any of the conditions, all if there are none.
    pub condition: Vec<Condition>,
}

impl MonitorTable {
    /// All rows and columns of a table.
    pub fn all(table: impl Into<String>) -> Self {
        MonitorTable {
            table: table.into(),
            columns: None,
            condition: Vec::new(),
        }
    }

    /// Checks that a condition is about monitored columns.
    ///
    /// `ovsdb-server` would take others, but it shares the tracked changes between clients that monitor the same columns.
    /// A column that a condition adds later is missing in what it tracks already: it reads past the end, and misses rows or
    /// crashes (seen with 3.5.0).
    pub(super) fn check(&self, condition: &[Condition]) -> Result<(), UnmonitoredColumn> {
        let Some(columns) = &self.columns else { return Ok(()) };
        let unmonitored = condition.iter().find_map(|condition| match condition {
            Condition::Column { column, .. } if column != "_uuid" && !columns.contains(column) => Some(column),
            _ => None,
        });
        unmonitored.map_or(Ok(()), |column| {
            Err(UnmonitoredColumn {
                table: self.table.clone(),
                column: column.clone(),
            })
        })
    }
}

/// The PEM files for `ssl:` remotes.
///
/// As everywhere in OVSDB, a server is trusted because its certificate comes from the authority; its name is not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificates of the authorities that servers are trusted by.
    pub ca: PathBuf,
    /// The client's certificate, followed by those between it and its authority.
    pub cert: PathBuf,
    /// The client's private key.
    pub key: PathBuf,
}
