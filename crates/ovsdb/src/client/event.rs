//! What a client tells its user: events, and the errors of its calls.
//!
//! The event queue has no bound, so that no change is ever lost: whoever holds [`Events`] reads it or drops it.

use tokio::sync::mpsc;

use crate::codec::DecodeError;
use crate::replica::{Changes, Replica, ReplicaError};
use crate::schema::SchemaError;
use crate::transaction::OperationError;

use super::Remote;

/// Something that happened to the connection or to monitored rows.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// There is a connection. A [`Snapshot`](Event::Snapshot) follows unless `resumed`, in which case the missed
    /// changes follow as an [`Update`](Event::Update), if there are any.
    Connected {
        /// The server.
        remote: Remote,
        /// Whether the replica goes on from where it was.
        resumed: bool,
    },
    /// The replica was replaced by this one.
    Snapshot(Replica),
    /// Rows changed, by one or more transactions.
    Update(Changes),
    /// The lock is held from now on, and all that its last holder changed is in the events before this one.
    Locked,
    /// The lock was taken away by another client; this one queues for it again.
    Stolen,
    /// The lock was given up.
    Unlocked,
    /// An attempt to connect failed; another follows.
    Unreachable {
        /// The server.
        remote: Remote,
        /// Why.
        reason: ConnectError,
    },
    /// The connection is gone, and the lock with it; the replica is kept but may be outdated.
    Disconnected(ConnectError),
}

/// The queue of events. Ends when all clients are dropped.
#[derive(Debug)]
pub struct Events(mpsc::UnboundedReceiver<Event>);

impl Events {
    pub(super) fn new(receiver: mpsc::UnboundedReceiver<Event>) -> Self {
        Events(receiver)
    }

    /// Waits for the next event; `None` when the client has ended. Cancel safe.
    pub async fn recv(&mut self) -> Option<Event> {
        self.0.recv().await
    }

    /// The next event, if there is one already.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.0.try_recv().ok()
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The transport could not be made.
    #[error("connect: {0}; is the server running and the address right?")]
    Connect(#[source] std::io::Error),
    /// The transport could not be made in time.
    #[error("connect: no answer in {0:?}; is the server reachable?")]
    Timeout(std::time::Duration),
    /// Certificates or keys cannot be used.
    #[error("set up TLS: {0}")]
    Tls(String),
    /// The transport failed.
    #[error("connection lost: {0}")]
    Io(#[source] std::io::Error),
    /// The server closed the connection.
    #[error("connection closed by the server")]
    Closed,
    /// The server is not among the remotes any more.
    #[error("the server was taken off the list of remotes")]
    Withdrawn,
    /// The server stopped answering.
    #[error("no answer from the server within the inactivity probe of {0:?}")]
    Inactive(std::time::Duration),
    /// The server sent something that is not OVSDB.
    #[error("read from the server: {0}")]
    Decode(#[from] DecodeError),
    /// The server sent a schema that is not one.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The server sent an update that cannot be applied.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// The server refused what the connection needs.
    #[error("{method} refused by the server: {error}")]
    Refused {
        /// The method called.
        method: &'static str,
        /// The server's words.
        error: OperationError,
    },
    /// The options have a condition on a column that is not monitored.
    #[error(transparent)]
    Condition(#[from] UnmonitoredColumn),
    /// The server cannot do what the options ask for.
    #[error("the server does not support {0}")]
    Unsupported(&'static str),
    /// The server does not have the database, or not yet.
    #[error("the server does not serve database {0}")]
    NoDatabase(String),
    /// The server is not the leader of its cluster.
    #[error("the server is not the leader of its cluster")]
    NotLeader,
    /// The server is cut off from its cluster.
    #[error("the server is not connected to its cluster")]
    NotInCluster,
}

/// Why a transaction has no results.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactError {
    /// An operation failed; nothing was changed.
    #[error("operation {index} failed ({operation}): {error}")]
    Operation {
        /// The number of the operation, from zero.
        index: usize,
        /// The operation, readable and shortened.
        operation: String,
        /// The server's words.
        error: OperationError,
    },
    /// All operations were fine but not their sum; nothing was changed.
    #[error("commit failed: {0}")]
    Commit(OperationError),
    /// The server did not look at the operations; nothing was changed.
    #[error("transaction refused: {0}")]
    Refused(OperationError),
    /// The server's reply makes no sense; the outcome is unknown.
    #[error("read the reply to the transaction: {0}")]
    Malformed(String),
    /// There is no connection; nothing was sent.
    #[error("not connected; wait for the connection and compute the transaction again")]
    NotConnected,
    /// The connection was lost before the reply; the outcome is unknown.
    #[error("connection lost before the reply: the outcome is unknown; compare with the database after reconnecting")]
    Disconnected,
    /// The client has ended.
    #[error("the client has ended")]
    Ended,
}

impl TransactError {
    /// The server's error, if the server reported one.
    pub fn error(&self) -> Option<&OperationError> {
        match self {
            TransactError::Operation { error, .. } | TransactError::Commit(error) | TransactError::Refused(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a call that is not a transaction failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no connection.
    #[error("not connected")]
    NotConnected,
    /// The connection was lost before the reply.
    #[error("connection lost before the reply")]
    Disconnected,
    /// The options name no lock.
    #[error("the options name no lock")]
    NoLock,
    /// The options do not monitor the table.
    #[error("table {0} is not monitored")]
    NotMonitored(String),
    /// The condition is about a column that is not monitored.
    #[error(transparent)]
    Condition(#[from] UnmonitoredColumn),
    /// The server refused.
    #[error("refused by the server: {0}")]
    Refused(OperationError),
    /// The client has ended.
    #[error("the client has ended")]
    Ended,
}

/// A condition of a monitor is about a column that is not monitored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("condition on column {column} of table {table}, which is not monitored; add it to the monitored columns")]
pub struct UnmonitoredColumn {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
}
