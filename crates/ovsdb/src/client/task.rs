//! The task behind a client: connects, runs one session after another, and backs off in between.
//!
//! This is the only place that tries again. What outlives a connection is kept here: the monitored tables with their
//! current conditions, the last transaction seen, whether the lock is wanted.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::condition::Condition;
use crate::replica::Replica;
use crate::transaction::{OperationResult, Transaction};

use super::session::{End, Session};
use super::{ClientError, ConnectError, Event, Options, Remote, Remotes, Shared, Status, TransactError, transport};

/// The wait after the first round of attempts, doubled by every further round up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(3);
/// A session that did not last this long counts as a failed attempt, so that nothing makes us spin.
const SHORT_SESSION: Duration = Duration::from_secs(1);
/// The limit for making a connection when there is no probe interval to take it from.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

pub(super) type Reply = oneshot::Sender<Result<(), ClientError>>;
pub(super) type TransactReply = oneshot::Sender<Result<Vec<OperationResult>, TransactError>>;

/// What a handle asks of the task.
#[derive(Debug)]
pub(super) enum Command {
    Transact {
        transaction: Transaction,
        reply: TransactReply,
    },
    Condition {
        table: String,
        condition: Vec<Condition>,
        reply: Reply,
    },
    Lock(LockRequest, Reply),
    Remotes(Remotes),
}

/// What a handle wants to do with the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockRequest {
    Wait,
    Steal,
    Release,
}

/// How waiting for something without a connection ended.
enum Meanwhile<T> {
    Done(T),
    /// The servers are others now, so what was awaited no longer matters.
    Remotes,
    NoClients,
}

/// What outlives a connection.
pub(super) struct Task {
    pub(super) options: Options,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) shared: Arc<Shared>,
    /// The last transaction the replica includes; `None` if the next connection must start afresh.
    pub(super) last_transaction: Option<Uuid>,
    /// Whether the lock is to be asked for.
    pub(super) lock_wanted: bool,
    /// Those who wait for a changed condition to take effect with the next connection.
    pub(super) condition_waiters: Vec<(String, Reply)>,
    events: mpsc::UnboundedSender<Event>,
}

impl Task {
    pub(super) fn new(
        options: Options,
        commands: mpsc::UnboundedReceiver<Command>,
        events: mpsc::UnboundedSender<Event>,
        shared: Arc<Shared>,
    ) -> Self {
        let lock_wanted = options.lock.is_some();
        Task {
            options,
            commands,
            shared,
            last_transaction: None,
            lock_wanted,
            condition_waiters: Vec::new(),
            events,
        }
    }

    /// Runs until all handles are gone.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        for index in 0.. {
            let wait = wait_before(failures, self.options.remotes.len());
            if !wait.is_zero() {
                tracing::warn!(remotes = %self.options.remotes, ?wait, "no server will do, trying again");
                match self.meanwhile(tokio::time::sleep(wait)).await {
                    Meanwhile::Done(()) => {}
                    Meanwhile::Remotes => failures = 0,
                    Meanwhile::NoClients => return,
                }
            }
            let remote = self.options.remotes.cycle(index);
            let limit = if self.options.probe.is_zero() {
                CONNECT_LIMIT
            } else {
                self.options.probe
            };
            let connect = transport::connect(remote.clone(), self.options.tls.clone(), limit);
            let stream = match self.meanwhile(connect).await {
                Meanwhile::NoClients => return,
                Meanwhile::Remotes => {
                    failures = 0;
                    continue;
                }
                Meanwhile::Done(Err(reason)) => {
                    failures += 1;
                    self.unreachable(remote, reason);
                    continue;
                }
                Meanwhile::Done(Ok(stream)) => stream,
            };
            let start = Instant::now();
            let end = Session::new(&mut self, remote.clone(), stream).run().await;
            let connected = self.status().connected;
            self.set_status(|status| *status = Status::default());
            match end {
                End::NoClients => return,
                End::Lost(reason) if connected => {
                    tracing::warn!(%remote, %reason, "disconnected");
                    self.emit(Event::Disconnected(reason));
                }
                End::Lost(reason) => self.unreachable(remote, reason),
            }
            failures = if connected && start.elapsed() >= SHORT_SESSION {
                0
            } else {
                failures + 1
            };
        }
    }

    /// Answers commands while something else is awaited, unless that is overtaken by other remotes.
    async fn meanwhile<T>(&mut self, future: impl Future<Output = T>) -> Meanwhile<T> {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                output = &mut future => return Meanwhile::Done(output),
                command = self.commands.recv() => match command {
                    None => return Meanwhile::NoClients,
                    Some(Command::Remotes(remotes)) if remotes == self.options.remotes => {}
                    Some(Command::Remotes(remotes)) => {
                        self.options.remotes = remotes;
                        return Meanwhile::Remotes;
                    }
                    Some(command) => self.answer_unconnected(command),
                },
            }
        }
    }

    /// Does what can be done about a command without a connection.
    pub(super) fn answer_unconnected(&mut self, command: Command) {
        match command {
            Command::Transact { reply, .. } => drop(reply.send(Err(TransactError::NotConnected))),
            Command::Condition { table, condition, reply } => match self.record_condition(&table, condition) {
                Ok(_) => {
                    self.last_transaction = None;
                    self.condition_waiters.push((table, reply));
                }
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Lock(_, reply) if self.options.lock.is_none() => drop(reply.send(Err(ClientError::NoLock))),
            Command::Lock(request, reply) => {
                self.lock_wanted = request != LockRequest::Release;
                let result = if request == LockRequest::Steal {
                    Err(ClientError::NotConnected)
                } else {
                    Ok(())
                };
                drop(reply.send(result));
            }
            Command::Remotes(remotes) => self.options.remotes = remotes,
        }
    }

    /// Notes the condition of a table for this and later connections; returns the one before.
    pub(super) fn record_condition(&mut self, table: &str, condition: Vec<Condition>) -> Result<Vec<Condition>, ClientError> {
        let mut tables = self.options.monitor.iter_mut();
        let monitored = tables.find(|monitored| monitored.table == table);
        let monitored = monitored.ok_or_else(|| ClientError::NotMonitored(table.to_owned()))?;
        monitored.check(&condition)?;
        Ok(std::mem::replace(&mut monitored.condition, condition))
    }

    fn unreachable(&self, remote: Remote, reason: ConnectError) {
        tracing::debug!(%remote, %reason, "cannot connect");
        self.emit(Event::Unreachable { remote, reason });
    }

    /// Queues an event; a user who does not listen misses nothing.
    pub(super) fn emit(&self, event: Event) {
        drop(self.events.send(event));
    }

    pub(super) fn status(&self) -> Status {
        *self.shared.status.borrow()
    }

    pub(super) fn set_status(&self, change: impl FnOnce(&mut Status)) {
        self.shared.status.send_modify(change);
    }

    /// Works on the replica that all handles see.
    pub(super) fn with_replica<T>(&self, work: impl FnOnce(&mut Option<Replica>) -> T) -> T {
        work(&mut self.shared.replica.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How long to wait before the next attempt: not at all within a round through the remotes, longer after every round.
fn wait_before(failures: usize, remotes: usize) -> Duration {
    let rounds = failures / remotes;
    if rounds == 0 || !failures.is_multiple_of(remotes) {
        return Duration::ZERO;
    }
    let doublings = u32::try_from(rounds - 1).unwrap_or(u32::MAX).min(10);
    let wait = (FIRST_WAIT * 2u32.pow(doublings)).min(LONGEST_WAIT);
    // A quarter of it is random, so that the clients of a restarted server do not come all at once.
    let random = u32::from(Uuid::new_v4().as_bytes()[0]);
    wait * 3 / 4 + wait * random / (4 * 255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_round_is_immediate_and_later_rounds_wait_longer() {
        assert!((0..3).all(|failures| wait_before(failures, 3).is_zero()));
        assert!(wait_before(3, 3) >= FIRST_WAIT * 3 / 4);
        assert!(wait_before(4, 3).is_zero());
        assert!(wait_before(6, 3) >= FIRST_WAIT * 3 / 2);
        assert!((1..2000).all(|failures| wait_before(failures, 1) <= LONGEST_WAIT));
    }
}
