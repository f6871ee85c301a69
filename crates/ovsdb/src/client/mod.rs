//! The client: a cheap handle, and one task that owns the connection.
//!
//! ```text
//! Client ──commands──► task ── connects, backs off ──► session ── one connection: probes, monitor, lock ──► server
//! Events ◄──events──── task ◄─────────────────────────────┘
//! ```
//!
//! Reconnecting happens in the task and nowhere else. Whatever the task learns goes into the event queue before the
//! reply of the transaction that caused it, so a caller of [`Client::transact`] finds its own changes there.
//!
//! ```no_run
//! use netloom_ovsdb::{Client, Datum, MonitorTable, Operation, Options, Row, Uuid};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = Options::new("tcp:127.0.0.1:6641,tcp:127.0.0.1:6643".parse()?, "Garden");
//! options.monitor = vec![MonitorTable::all("Flower_Bed")];
//! options.leader_only = true;
//! let (client, mut events) = Client::start(options);
//! client.ready().await?;
//! let row = Row::from([("name".to_owned(), Datum::string("roses"))]);
//! client.transact(Operation::insert("Flower_Bed", Uuid::from_u128(1), row)).await?;
//! let beds = client.read(|replica| replica.rows("Flower_Bed").count());
//! while let Some(event) = events.recv().await {
//!     println!("{event:?}");
//! }
//! # Ok(())
//! # }
//! ```

mod event;
mod membership;
mod options;
mod remote;
mod request;
mod response;
mod session;
mod task;
mod transport;

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot, watch};

use crate::condition::Condition;
use crate::replica::Replica;
use crate::schema::Schema;
use crate::transaction::{OperationResult, Transaction};

pub use event::{ClientError, ConnectError, Event, Events, TransactError, UnmonitoredColumn};
pub use options::{MonitorTable, Options, Tls};
pub use remote::{InvalidRemote, Remote, Remotes};

use task::{Command, LockRequest, Task};

/// A handle on a connection to a database. Clones share the connection; when the last one goes, the connection ends.
#[derive(Clone, Debug)]
pub struct Client {
    commands: mpsc::UnboundedSender<Command>,
    shared: Arc<Shared>,
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether there is a connection and the replica is current.
    pub connected: bool,
    /// Whether the lock is held.
    pub locked: bool,
}

/// What the task shows to all handles.
#[derive(Debug)]
struct Shared {
    replica: RwLock<Option<Replica>>,
    status: watch::Sender<Status>,
}

impl Client {
    /// Starts the task that connects, and connects again whenever it must. Needs a running tokio runtime.
    pub fn start(options: Options) -> (Client, Events) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (sender, events) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            replica: RwLock::new(None),
            status: watch::Sender::new(Status::default()),
        });
        tokio::spawn(Task::new(options, receiver, sender, shared.clone()).run());
        (Client { commands, shared }, Events::new(events))
    }

    /// Runs a transaction, once. The changes it causes in monitored rows are in the event queue when this returns.
    ///
    /// Fails at once when there is no connection ([`TransactError::NotConnected`]); a connection that is lost before
    /// the reply leaves the outcome unknown ([`TransactError::Disconnected`]) and the transaction is not repeated.
    pub async fn transact(&self, transaction: impl Into<Transaction>) -> Result<Vec<OperationResult>, TransactError> {
        let (reply, result) = oneshot::channel();
        let command = Command::Transact {
            transaction: transaction.into(),
            reply,
        };
        self.commands.send(command).map_err(|_| TransactError::Ended)?;
        result.await.unwrap_or(Err(TransactError::Ended))
    }

    /// Changes which rows of a monitored table are shown: those that satisfy any of the conditions, all if there are
    /// none. Returns when the replica shows exactly those, even if that takes a reconnection. The conditions can be about
    /// [monitored columns](MonitorTable::columns) only.
    pub async fn set_condition(&self, table: &str, condition: Vec<Condition>) -> Result<(), ClientError> {
        self.ask(|reply| Command::Condition {
            table: table.to_owned(),
            condition,
            reply,
        })
        .await
    }

    /// Replaces [`Options::remotes`]. A connection to a server that stays on the list stays; any other ends, and so does waiting
    /// before the next attempt.
    pub fn set_remotes(&self, remotes: Remotes) {
        // Without a task there is nothing to connect.
        drop(self.commands.send(Command::Remotes(remotes)));
    }

    /// Takes the lock of [`Options::lock`] away from whoever holds it.
    pub async fn steal_lock(&self) -> Result<(), ClientError> {
        self.ask(|reply| Command::Lock(LockRequest::Steal, reply)).await
    }

    /// Queues for the lock of [`Options::lock`] again, after [`unlock`](Client::unlock).
    pub async fn lock(&self) -> Result<(), ClientError> {
        self.ask(|reply| Command::Lock(LockRequest::Wait, reply)).await
    }

    /// Gives the lock up, or stops waiting for it, until [`lock`](Client::lock) or [`steal_lock`](Client::steal_lock).
    pub async fn unlock(&self) -> Result<(), ClientError> {
        self.ask(|reply| Command::Lock(LockRequest::Release, reply)).await
    }

    /// The schema of the database, when the first connection has learned it.
    pub async fn get_schema(&self) -> Result<Arc<Schema>, ClientError> {
        self.ready().await?;
        self.read(|replica| replica.schema().clone()).ok_or(ClientError::NotConnected)
    }

    /// Waits until there is a connection and the replica is current.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.wait_for(|status| status.connected).await
    }

    /// Waits until the lock is held.
    pub async fn locked(&self) -> Result<(), ClientError> {
        self.wait_for(|status| status.locked).await
    }

    /// Where the client stands now.
    pub fn status(&self) -> Status {
        *self.shared.status.borrow()
    }

    /// Looks at the live replica; `None` before the first connection. The replica does not change meanwhile, so be brief.
    pub fn read<T>(&self, look: impl FnOnce(&Replica) -> T) -> Option<T> {
        self.shared
            .replica
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(look)
    }

    async fn wait_for(&self, condition: impl FnMut(&Status) -> bool) -> Result<(), ClientError> {
        let mut status = self.shared.status.subscribe();
        let mut condition = condition;
        tokio::select! {
            found = status.wait_for(|status| condition(status)) => found.map(|_| ()).map_err(|_| ClientError::Ended),
            () = self.commands.closed() => Err(ClientError::Ended),
        }
    }

    async fn ask(&self, command: impl FnOnce(oneshot::Sender<Result<(), ClientError>>) -> Command) -> Result<(), ClientError> {
        let (reply, result) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|_| ClientError::Ended)?;
        result.await.unwrap_or(Err(ClientError::Ended))
    }
}
