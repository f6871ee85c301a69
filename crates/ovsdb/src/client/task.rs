//! The task behind a client: connects, runs one session after another, and backs off in between.
//!
//! This is the only place that tries again. What outlives a connection is kept here: the monitored tables with their
//! current conditions, the last transaction seen, whether the lock is wanted.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use netloom_retry::Backoff;
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
        let mut attempts = Attempts::new();
        let mut wait = Duration::ZERO;
        for index in 0.. {
            if !wait.is_zero() {
                tracing::warn!(remotes = %self.options.remotes, ?wait, "no server will do, trying again");
                match self.meanwhile(tokio::time::sleep(wait)).await {
                    Meanwhile::Done(()) => {}
                    Meanwhile::Remotes => attempts.reset(),
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
                    attempts.reset();
                    wait = Duration::ZERO;
                    continue;
                }
                Meanwhile::Done(Err(reason)) => {
                    wait = attempts.failed(self.options.remotes.len());
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
            wait = if connected && start.elapsed() >= SHORT_SESSION {
                attempts.reset();
                Duration::ZERO
            } else {
                attempts.failed(self.options.remotes.len())
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

/// Attempts that failed since the last success. There is no wait within a round through the remotes, and a longer one after every round.
struct Attempts {
    failures: usize,
    backoff: Backoff,
}

impl Attempts {
    fn new() -> Self {
        Self {
            failures: 0,
            backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT),
        }
    }

    /// Counts a failure; how long to wait before the next attempt.
    fn failed(&mut self, remotes: usize) -> Duration {
        self.failures += 1;
        if self.failures.is_multiple_of(remotes) {
            spread(self.backoff.delay())
        } else {
            Duration::ZERO
        }
    }

    /// Begins again.
    fn reset(&mut self) {
        *self = Self::new();
    }
}

/// Three quarters of a delay and a random part of the rest, so that the clients of a restarted server do not come all at once.
fn spread(delay: Duration) -> Duration {
    let random = u32::from(Uuid::new_v4().as_bytes()[0]);
    delay * 3 / 4 + delay * random / (4 * 255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_spread_over_their_last_quarter() {
        let delays: Vec<Duration> = (0..1000).map(|_| spread(LONGEST_WAIT)).collect();
        assert!(delays.iter().all(|delay| (LONGEST_WAIT * 3 / 4..=LONGEST_WAIT).contains(delay)));
        assert!(delays.iter().any(|delay| *delay != delays[0]));
    }

    #[test]
    fn first_round_is_immediate_and_later_rounds_wait_longer() {
        let mut attempts = Attempts::new();
        let mut waits = |failures: usize| -> Vec<Duration> { (0..failures).map(|_| attempts.failed(3)).collect() };
        assert!(waits(2).iter().all(Duration::is_zero));
        assert!(waits(1)[0] >= FIRST_WAIT * 3 / 4);
        assert!(waits(2).iter().all(Duration::is_zero));
        assert!(waits(1)[0] >= FIRST_WAIT * 3 / 2);
        assert!(waits(300).iter().all(|wait| *wait <= LONGEST_WAIT));
        attempts.reset();
        assert!(attempts.failed(2).is_zero());
    }
}
