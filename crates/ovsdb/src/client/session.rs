//! One connection, from its first byte to its end: the loop, and what is sent.
//!
//! Run by the task. Set-up goes: role of the server (if only the leader will do), schema, monitor, lock. What the server
//! says is handled in [`super::response`]. Reading never waits for writing, so neither side can block the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use crate::codec::Decoder;
use crate::condition::Condition;
use crate::schema::Schema;

use super::membership::Membership;
use super::request::{MonitorMethod, Pending, Request, TransactParams, monitor_requests, where_};
use super::task::{Command, LockRequest, Reply, Task};
use super::transport::Stream;
use super::{ClientError, ConnectError, Remote, TransactError};

/// The ids of the two monitors.
pub(super) const ROWS: &str = "rows";
pub(super) const SERVER: &str = "server";

/// The least time a server is given for the first copy of the content.
const FIRST_COPY: Duration = Duration::from_secs(60);

/// What a server is given for each operation of a transaction, many times what it takes.
const OPERATION: Duration = Duration::from_millis(10);

/// How a session ended.
pub(super) enum End {
    /// All handles are gone.
    NoClients,
    /// The connection is lost or of no use.
    Lost(ConnectError),
}

impl<E: Into<ConnectError>> From<E> for End {
    fn from(error: E) -> Self {
        End::Lost(error.into())
    }
}

/// One connection.
pub(super) struct Session<'a> {
    pub(super) task: &'a mut Task,
    pub(super) remote: Remote,
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    decoder: Decoder,
    /// Bytes to write, of which the first `written` are out already.
    outgoing: Vec<u8>,
    written: usize,
    next_id: u64,
    pub(super) pending: HashMap<u64, Pending>,
    pub(super) membership: Membership,
    /// Counts how often the lock was given to us or taken away, so that an answer about an earlier turn changes nothing.
    pub(super) turn: u64,
    /// The schema, once the replica is current; until then there is nothing to serve commands with.
    pub(super) ready: Option<Arc<Schema>>,
}

impl<'a> Session<'a> {
    pub(super) fn new(task: &'a mut Task, remote: Remote, stream: Box<dyn Stream>) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Session {
            task,
            remote,
            reader,
            writer,
            decoder: Decoder::new(),
            outgoing: Vec::new(),
            written: 0,
            next_id: 0,
            pending: HashMap::new(),
            membership: Membership::default(),
            turn: 0,
            ready: None,
        }
    }

    /// Runs until the connection or its users are gone.
    pub(super) async fn run(mut self) -> End {
        let end = match self.serve().await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        for (_, pending) in std::mem::take(&mut self.pending) {
            self.abandon(pending);
        }
        end
    }

    async fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        if self.task.options.leader_only {
            let params = Membership::monitor(SERVER, &self.task.options.database);
            self.request("monitor_cond", params, Pending::Server);
        } else {
            self.request_schema();
        }
        let probe = self.task.options.probe;
        let mut buffer = vec![0; 64 * 1024];
        let (mut deadline, mut probed) = (Instant::now() + probe, false);
        loop {
            tokio::select! {
                read = self.reader.read(&mut buffer) => {
                    let count = read.map_err(ConnectError::Io)?;
                    if count == 0 {
                        return Err(ConnectError::Closed.into());
                    }
                    (deadline, probed) = (Instant::now() + probe, false);
                    for message in self.decoder.feed(&buffer[..count]).map_err(ConnectError::Decode)? {
                        self.receive(message)?;
                    }
                }
                wrote = self.writer.write(&self.outgoing[self.written..]), if !self.outgoing.is_empty() => {
                    self.written += wrote.map_err(ConnectError::Io)?;
                    if self.written == self.outgoing.len() {
                        self.outgoing.clear();
                        self.written = 0;
                        self.writer.flush().await.map_err(ConnectError::Io)?;
                    }
                }
                command = self.task.commands.recv() => self.command(command.ok_or(End::NoClients)?)?,
                () = sleep_until(deadline), if !probe.is_zero() => {
                    if probed {
                        return Err(ConnectError::Inactive(probe).into());
                    }
                    (deadline, probed) = (Instant::now() + self.patience(), true);
                    self.request("echo", json!([]), Pending::Echo);
                }
            }
        }
    }

    /// How long the answer to a probe may take. A server that puts together the first copy of a large database, or works on a large
    /// transaction, does nothing else meanwhile, and would have to start over if we left.
    fn patience(&self) -> Duration {
        let of = |pending: &Pending| match pending {
            Pending::Monitor { .. } => FIRST_COPY,
            Pending::Transact { transaction, .. } => OPERATION * u32::try_from(transaction.len()).unwrap_or(u32::MAX),
            _ => Duration::ZERO,
        };
        let longest = self.pending.values().map(of).max().unwrap_or_default();
        self.task.options.probe + longest
    }

    pub(super) fn request<P: Serialize>(&mut self, method: &str, params: P, pending: Pending) {
        let id = self.next_id();
        self.pending.insert(id, pending);
        self.write(&Request { method, params, id });
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn write<T: Serialize>(&mut self, message: &T) {
        // Writing to memory cannot fail, and all our keys are strings.
        if let Err(error) = serde_json::to_writer(&mut self.outgoing, message) {
            tracing::error!(%error, "cannot encode a message");
        }
    }

    pub(super) fn request_schema(&mut self) {
        let params = json!([self.task.options.database]);
        self.request("get_schema", params, Pending::Schema);
    }

    pub(super) fn request_monitor(&mut self, method: MonitorMethod, schema: Arc<Schema>) -> Result<(), ConnectError> {
        let options = &self.task.options;
        if method == MonitorMethod::Plain && options.monitor.iter().any(|table| !table.condition.is_empty()) {
            return Err(ConnectError::Unsupported("conditional monitoring; OVS 2.6 or newer does"));
        }
        options.monitor.iter().try_for_each(|table| table.check(&table.condition))?;
        let requests = monitor_requests(&schema, &options.monitor, method);
        let mut params = vec![json!(options.database), json!(ROWS), requests];
        if method == MonitorMethod::Since {
            params.push(json!(self.task.last_transaction.unwrap_or_default()));
        }
        let waiters = std::mem::take(&mut self.task.condition_waiters);
        self.request(method.name(), params, Pending::Monitor { method, schema, waiters });
        Ok(())
    }

    /// Asks the server to show the rows that the table's recorded condition selects.
    pub(super) fn request_condition(&mut self, table: String, before: Option<Vec<Condition>>, reply: Reply) {
        let monitored = self.task.options.monitor.iter().find(|monitored| monitored.table == table);
        let condition = where_(monitored.map_or(&[], |monitored| &monitored.condition));
        let change = json!({ &table: [{"where": condition}] });
        self.request(
            "monitor_cond_change",
            json!([ROWS, ROWS, change]),
            Pending::Condition { table, before, reply },
        );
    }

    pub(super) fn request_lock(&mut self, method: &'static str, reply: Option<Reply>) {
        if let Some(lock) = self.task.options.lock.clone() {
            self.request(method, json!([lock]), Pending::Lock(reply));
        }
    }

    pub(super) fn request_unlock(&mut self, reply: Option<Reply>) {
        if let Some(lock) = self.task.options.lock.clone() {
            self.request("unlock", json!([lock]), Pending::Unlock(reply));
        }
    }

    fn command(&mut self, command: Command) -> Result<(), End> {
        if let Command::Remotes(remotes) = command {
            self.task.options.remotes = remotes;
            let stays = self.task.options.remotes.iter().any(|remote| *remote == self.remote);
            return if stays { Ok(()) } else { Err(ConnectError::Withdrawn.into()) };
        }
        match self.ready.clone() {
            None => self.task.answer_unconnected(command),
            Some(schema) => self.send(command, schema),
        }
        Ok(())
    }

    fn send(&mut self, command: Command, schema: Arc<Schema>) {
        match command {
            Command::Transact { transaction, reply } => {
                let database = self.task.options.database.clone();
                let id = self.next_id();
                self.write(&Request {
                    method: "transact",
                    params: TransactParams(&database, &transaction),
                    id,
                });
                self.pending.insert(
                    id,
                    Pending::Transact {
                        transaction,
                        schema,
                        reply,
                    },
                );
            }
            Command::Condition { table, condition, reply } => match self.task.record_condition(&table, condition) {
                Ok(before) => self.request_condition(table, Some(before), reply),
                Err(error) => answer(Some(reply), Err(error)),
            },
            Command::Lock(_, reply) if self.task.options.lock.is_none() => drop(reply.send(Err(ClientError::NoLock))),
            Command::Lock(request, reply) => {
                // A client that waits must stop waiting before it may ask again, in whichever way.
                self.task.lock_wanted = request != LockRequest::Release;
                match request {
                    LockRequest::Release => self.request_unlock(Some(reply)),
                    LockRequest::Steal => {
                        self.request_unlock(None);
                        self.request_lock("steal", Some(reply));
                    }
                    LockRequest::Wait if self.task.status().locked => drop(reply.send(Ok(()))),
                    LockRequest::Wait => {
                        self.request_unlock(None);
                        self.request_lock("lock", Some(reply));
                    }
                }
            }
            Command::Remotes(_) => self.task.answer_unconnected(command),
        }
    }

    /// Tells whoever waits for an answer that there will be none.
    fn abandon(&mut self, pending: Pending) {
        match pending {
            Pending::Transact { reply, .. } => drop(reply.send(Err(TransactError::Disconnected))),
            Pending::Lock(reply) | Pending::Unlock(reply) | Pending::Turn { reply, .. } => answer(reply, Err(ClientError::Disconnected)),
            Pending::Condition { table, reply, .. } => {
                // Whether the server changed the condition is unknown, so the next copy must be a fresh one.
                self.task.last_transaction = None;
                self.task.condition_waiters.push((table, reply));
            }
            Pending::Monitor { waiters, .. } => self.task.condition_waiters.extend(waiters),
            Pending::Echo | Pending::Server | Pending::Schema => {}
        }
    }
}

/// Answers a caller, if there is one and it still waits.
pub(super) fn answer(reply: Option<Reply>, result: Result<(), ClientError>) {
    if let Some(reply) = reply {
        drop(reply.send(result));
    }
}
