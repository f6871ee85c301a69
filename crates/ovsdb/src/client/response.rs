//! What the server says on a connection, and what follows from it.
//!
//! The other half of [`super::session`]. Everything is handled in the order it arrives, and a server sends the changes of
//! a transaction before its reply: that is what puts them into the event queue before the caller goes on.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::message::Message;
use crate::operation::Operation;
use crate::replica::{Changes, Replica, ReplicaError};
use crate::schema::Schema;
use crate::transaction::{ErrorKind, Failure, OperationError, OperationResult, Transaction, results};

use super::request::{MonitorMethod, Pending};
use super::session::{ROWS, SERVER, Session, answer};
use super::task::Reply;
use super::{ClientError, ConnectError, Event, TransactError};

impl Session<'_> {
    pub(super) fn receive(&mut self, message: Message) -> Result<(), ConnectError> {
        match message {
            Message::Request { id, method, params } => {
                let (result, error) = match method.as_str() {
                    "echo" => (params, Value::Null),
                    _ => (Value::Null, json!("unknown method")),
                };
                self.write(&Message::Response { id, result, error });
                Ok(())
            }
            Message::Notification { method, params } => self.notified(&method, params),
            Message::Response { id, result, error } => {
                // The answer to nothing we asked: ignoring it is all one can do.
                let Some(pending) = id.as_u64().and_then(|id| self.pending.remove(&id)) else {
                    return Ok(());
                };
                let outcome = if error.is_null() {
                    Ok(result)
                } else {
                    Err(OperationError::from_json(&error))
                };
                self.answered(pending, outcome)
            }
        }
    }

    fn notified(&mut self, method: &str, params: Value) -> Result<(), ConnectError> {
        let monitor = params.get(0).and_then(Value::as_str).unwrap_or_default();
        match (method, monitor) {
            ("update2" | "update3", SERVER) => {
                self.membership.apply(params.get(1).unwrap_or(&Value::Null));
                self.membership.check(&self.task.options.database)
            }
            ("update", ROWS) => self.update(params.get(1), Replica::apply_update),
            ("update2", ROWS) => self.update(params.get(1), Replica::apply_update2),
            ("update3", ROWS) => {
                self.update(params.get(2), Replica::apply_update2)?;
                self.task.last_transaction = transaction_id(params.get(1));
                Ok(())
            }
            ("locked", lock) if Some(lock) == self.task.options.lock.as_deref() => {
                self.locked(None);
                Ok(())
            }
            ("stolen", lock) if Some(lock) == self.task.options.lock.as_deref() => {
                self.turn += 1;
                self.task.set_status(|status| status.locked = false);
                self.task.emit(Event::Stolen);
                self.request_unlock(None);
                self.request_lock("lock", None);
                Ok(())
            }
            // The database was removed or converted: what we know about it is worthless.
            ("monitor_canceled", ROWS) => Err(ConnectError::NoDatabase(self.task.options.database.clone())),
            _ => Ok(()),
        }
    }

    fn answered(&mut self, pending: Pending, outcome: Result<Value, OperationError>) -> Result<(), ConnectError> {
        match (pending, outcome) {
            (Pending::Echo, _) => Ok(()),
            (Pending::Server, Ok(updates)) => {
                self.membership.apply(&updates);
                self.membership.check(&self.task.options.database)?;
                self.request_schema();
                Ok(())
            }
            // A server without `_Server` is older than clusters are.
            (Pending::Server, Err(_)) => {
                self.request_schema();
                Ok(())
            }
            (Pending::Schema, Ok(json)) => {
                let schema = Arc::new(Schema::from_json(&json)?);
                if self
                    .task
                    .with_replica(|replica| replica.as_ref().is_none_or(|old| *old.schema() != schema))
                {
                    self.task.last_transaction = None;
                }
                self.request_monitor(MonitorMethod::Since, schema)
            }
            (Pending::Schema, Err(error)) => Err(ConnectError::Refused {
                method: "get_schema",
                error,
            }),
            (Pending::Monitor { method, schema, waiters }, Ok(reply)) => {
                self.monitored(method, schema, &reply)?;
                waiters.into_iter().for_each(|(_, reply)| answer(Some(reply), Ok(())));
                // Conditions that changed while the reply was under way are not in it.
                for (table, reply) in std::mem::take(&mut self.task.condition_waiters) {
                    self.request_condition(table, None, reply);
                }
                Ok(())
            }
            (Pending::Monitor { method, schema, waiters }, Err(error)) => {
                self.task.condition_waiters.extend(waiters);
                match method.fallback() {
                    Some(fallback) if error.kind == ErrorKind::Other("unknown method".to_owned()) => self.request_monitor(fallback, schema),
                    _ => Err(ConnectError::Refused {
                        method: method.name(),
                        error,
                    }),
                }
            }
            (Pending::Lock(reply), Ok(result)) => {
                if result.get("locked").and_then(Value::as_bool) == Some(true) {
                    self.locked(reply);
                } else {
                    answer(reply, Ok(()));
                }
                Ok(())
            }
            (Pending::Lock(Some(reply)), Err(error)) => {
                answer(Some(reply), Err(ClientError::Refused(error)));
                Ok(())
            }
            (Pending::Lock(None), Err(error)) => Err(ConnectError::Refused { method: "lock", error }),
            (Pending::Turn { turn, reply }, outcome) => self.caught_up(turn, reply, outcome),
            (Pending::Unlock(reply), _) => {
                self.turn += 1;
                if self.task.status().locked {
                    self.task.set_status(|status| status.locked = false);
                    self.task.emit(Event::Unlocked);
                }
                answer(reply, Ok(()));
                Ok(())
            }
            (Pending::Condition { table, before, reply }, outcome) => {
                if let (Err(_), Some(before)) = (&outcome, before) {
                    // A condition the server does not understand would keep the next connection from succeeding. The
                    // table is monitored, or the condition would not have been sent.
                    drop(self.task.record_condition(&table, before));
                }
                answer(Some(reply), outcome.map(|_| ()).map_err(ClientError::Refused));
                Ok(())
            }
            (
                Pending::Transact {
                    transaction,
                    schema,
                    reply,
                },
                outcome,
            ) => {
                drop(reply.send(transacted(&schema, &transaction, outcome)));
                Ok(())
            }
        }
    }

    /// The reply to the monitor request: from here on the replica is current.
    fn monitored(&mut self, method: MonitorMethod, schema: Arc<Schema>, reply: &Value) -> Result<(), ConnectError> {
        let (resumed, last, updates) = match (method, reply) {
            (MonitorMethod::Since, Value::Array(parts)) => match parts.as_slice() {
                [found, last, updates] => (found == &Value::Bool(true), transaction_id(Some(last)), updates),
                _ => return Err(ReplicaError::malformed(reply).into()),
            },
            _ => (false, None, reply),
        };
        let content = if resumed {
            Event::Update(self.apply(Some(updates), Replica::apply_update2)?)
        } else {
            let mut replica = Replica::new(schema.clone());
            match method {
                MonitorMethod::Plain => replica.apply_update(updates)?,
                MonitorMethod::Since | MonitorMethod::Conditional => replica.apply_update2(updates)?,
            };
            self.task.with_replica(|shared| *shared = Some(replica.clone()));
            Event::Snapshot(replica)
        };
        let remote = self.remote.clone();
        tracing::info!(%remote, resumed, "connected");
        self.task.emit(Event::Connected { remote, resumed });
        if !matches!(&content, Event::Update(changes) if changes.is_empty()) {
            self.task.emit(content);
        }
        self.task.last_transaction = last;
        self.ready = Some(schema);
        self.task.set_status(|status| status.connected = true);
        if self.task.lock_wanted {
            self.request_lock("lock", None);
        }
        Ok(())
    }

    fn update(&mut self, updates: Option<&Value>, apply: Apply) -> Result<(), ConnectError> {
        let changes = self.apply(updates, apply)?;
        if !changes.is_empty() {
            self.task.emit(Event::Update(changes));
        }
        Ok(())
    }

    fn apply(&mut self, updates: Option<&Value>, apply: Apply) -> Result<Changes, ReplicaError> {
        let updates = updates.unwrap_or(&Value::Null);
        let applied = self
            .task
            .with_replica(|replica| replica.as_mut().map(|replica| apply(replica, updates)));
        let applied = applied.unwrap_or_else(|| Ok(Changes::new()));
        if applied.is_err() {
            // The replica is half updated; only a fresh copy helps.
            self.task.last_transaction = None;
        }
        applied
    }

    /// The lock is ours, but the server says so before it sends what the last holder changed. It answers a transaction after all
    /// changes that were made before it, also those that a cluster has yet to agree on, so one that changes nothing is awaited first.
    fn locked(&mut self, reply: Option<Reply>) {
        self.turn += 1;
        let turn = self.turn;
        let (database, lock) = (&self.task.options.database, self.task.options.lock.as_deref().unwrap_or_default());
        let params = json!([database, Operation::assert(lock)]);
        self.request("transact", params, Pending::Turn { turn, reply });
    }

    /// The replica shows what the last holder changed: the lock can be used, unless it was lost meanwhile.
    fn caught_up(&mut self, turn: u64, reply: Option<Reply>, outcome: Result<Value, OperationError>) -> Result<(), ConnectError> {
        let asserted = outcome.and_then(|results| match results.get(0) {
            Some(result) if result.get("error").is_none() => Ok(()),
            Some(error) => Err(OperationError::from_json(error)),
            None => Err(OperationError::from_json(&results)),
        });
        match asserted {
            Ok(()) if turn == self.turn => {
                self.task.set_status(|status| status.locked = true);
                self.task.emit(Event::Locked);
            }
            // Another has the lock by now; the notification says so too, and this client is in the queue again.
            Ok(())
            | Err(OperationError {
                kind: ErrorKind::NotOwner, ..
            }) => {}
            Err(error) => {
                answer(reply, Err(ClientError::Refused(error.clone())));
                return Err(ConnectError::Refused { method: "transact", error });
            }
        }
        answer(reply, Ok(()));
        Ok(())
    }
}

/// Either form of update, applied to a replica.
type Apply = fn(&mut Replica, &Value) -> Result<Changes, ReplicaError>;

fn transacted(
    schema: &Schema,
    transaction: &Transaction,
    outcome: Result<Value, OperationError>,
) -> Result<Vec<OperationResult>, TransactError> {
    let reply = outcome.map_err(TransactError::Refused)?;
    results(schema, transaction, &reply).map_err(|failure| match failure {
        Failure::Operation(index, error) => match transaction.0.get(index) {
            Some(operation) => TransactError::Operation {
                index,
                operation: shortened(operation),
                error,
            },
            None => TransactError::Commit(error),
        },
        Failure::Malformed(error) => TransactError::Malformed(error.to_string()),
    })
}

/// The id of a transaction; servers that keep no history send zeros.
fn transaction_id(json: Option<&Value>) -> Option<Uuid> {
    json?.as_str().and_then(|text| Uuid::try_parse(text).ok()).filter(|id| !id.is_nil())
}

fn shortened(operation: &Operation) -> String {
    let mut text = operation.to_string();
    if let Some((end, _)) = text.char_indices().nth(200) {
        text.truncate(end);
        text.push('…');
    }
    text
}
