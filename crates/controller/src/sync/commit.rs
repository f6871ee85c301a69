//! Commits: one transaction in flight at most. A large difference is committed in several transactions, because a server does nothing else
//! while it works on one. What the server refuses is committed in ever smaller groups of units, until only the unit it refuses is left out.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use netloom_network::{Northbound, Part, Planner, Scope, Unit, diff};
use netloom_ovsdb::client::{Client, TransactError};
use netloom_ovsdb::{ErrorKind, Operation, OperationResult, Transaction};
use tracing::{error, info, warn};

use crate::metrics::Metrics;
use crate::sync::LOCK;

type Reply = Result<Vec<OperationResult>, TransactError>;
/// When a transaction was sent, and its reply.
type InFlight = (Instant, Pin<Box<dyn Future<Output = Reply> + Send>>);

/// What became of a transaction.
pub(super) enum Outcome {
    /// It is in the database.
    Done,
    /// The server refused some rows; the rest is committed without them.
    TakenApart,
    /// Nobody knows; the comparison after reconnecting decides.
    Interrupted,
    /// The server takes nothing from us (another has the lock, its disk is full); only an event can change that.
    Stalled,
}

/// Transactions on their way, and what is left of those that were refused.
pub(super) struct Commits {
    northbound: Client,
    metrics: Arc<Metrics>,
    in_flight: Option<InFlight>,
    /// The parts in flight, if not everything was sent at once.
    attempt: Vec<Part>,
    /// Groups of parts to commit by themselves because together they are too large or were refused; the last is next.
    apart: Vec<Vec<Part>>,
    /// Parts the server refused by themselves, and what it said. They are tried again when they or rows of others change.
    refused: Vec<(Part, String)>,
}

impl Commits {
    pub(super) fn new(northbound: Client, metrics: Arc<Metrics>) -> Self {
        Self {
            northbound,
            metrics,
            in_flight: None,
            attempt: Vec::new(),
            apart: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Whether a transaction is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Parts that are left out, and what the server said.
    pub(super) fn refused(&self) -> &[(Part, String)] {
        &self.refused
    }

    /// Where parts that are left out may differ now.
    pub(super) fn refused_scopes(&self, planner: &Planner) -> Vec<Scope> {
        self.refused.iter().filter_map(|(part, _)| planner.scope_of(part)).collect()
    }

    /// Everything is going to be compared.
    pub(super) fn forget_parts(&mut self) {
        self.apart.clear();
    }

    /// Sends a transaction, if there is anything in it; says whether there is.
    pub(super) fn send(&mut self, mut transaction: Transaction) -> bool {
        if transaction.is_empty() {
            return false;
        }
        transaction.0.insert(0, Operation::assert(LOCK));
        self.metrics.committing(transaction.len() - 1);
        let northbound = self.northbound.clone();
        self.in_flight = Some((Instant::now(), Box::pin(async move { northbound.transact(transaction).await })));
        true
    }

    /// Sends a transaction of what differs, or the first of several if it has more operations than `limit`; says whether there is anything
    /// to send.
    pub(super) fn send_at_most(&mut self, limit: usize, transaction: Transaction, observed: &Northbound, planner: &Planner) -> bool {
        if transaction.len() <= limit {
            return self.send(transaction);
        }
        self.apart = planner.batches(observed, limit);
        info!(
            operations = transaction.len(),
            transactions = self.apart.len(),
            "committing in several transactions"
        );
        self.apart.reverse();
        self.send_apart(observed, planner)
    }

    /// Sends the next group of what is committed by itself; says whether there was one.
    pub(super) fn send_apart(&mut self, observed: &Northbound, planner: &Planner) -> bool {
        while let Some(parts) = self.apart.pop() {
            if self.send(difference(observed, planner, parts.iter())) {
                self.attempt = parts;
                return true;
            }
        }
        false
    }

    /// Waits for the reply to what is in flight.
    pub(super) async fn reply(&mut self) -> Reply {
        match &mut self.in_flight {
            None => std::future::pending().await,
            Some((started, reply)) => {
                let reply = reply.await;
                self.metrics.committed(started.elapsed(), reply.is_ok());
                self.in_flight = None;
                reply
            }
        }
    }

    /// Looks at a reply.
    pub(super) fn settle(&mut self, reply: Reply, observed: &Northbound, planner: &Planner) -> Outcome {
        let attempt = std::mem::take(&mut self.attempt);
        match reply {
            Ok(_) => Outcome::Done,
            Err(reason @ (TransactError::Disconnected | TransactError::NotConnected | TransactError::Ended)) => {
                warn!(%reason, "commit interrupted; the comparison after reconnecting decides");
                Outcome::Interrupted
            }
            Err(reason) if is_about_rows(&reason) => {
                self.take_apart(attempt, &reason, observed, planner);
                Outcome::TakenApart
            }
            Err(reason) => {
                error!(%reason, "commit refused by the Northbound database; comparing again at the next event");
                Outcome::Stalled
            }
        }
    }

    /// Splits what the server refused; a single part is left out.
    fn take_apart(&mut self, mut parts: Vec<Part>, reason: &TransactError, observed: &Northbound, planner: &Planner) {
        if parts.is_empty() {
            warn!(%reason, "commit refused by the Northbound database; committing in parts");
            parts = planner.parts(observed);
            parts.retain(|part| !difference(observed, planner, std::iter::once(part)).is_empty());
            self.apart = vec![parts];
        } else if parts.len() > 1 {
            let rest = parts.split_off(parts.len() / 2);
            self.apart.extend([rest, parts]);
        } else {
            for part in parts {
                let what = part
                    .unit
                    .as_ref()
                    .map_or_else(|| "a row no longer wanted".to_owned(), Unit::to_string);
                error!(%reason, what, "refused by the Northbound database and left out");
                let said = reason.error().map_or_else(|| reason.to_string(), ToString::to_string);
                self.refused
                    .retain(|(known, _)| known.unit != part.unit || (part.unit.is_none() && *known != part));
                self.refused.push((part, said));
            }
        }
    }

    /// A part that is as it should be is no longer refused. Says whether there was one: others may have had to wait for it.
    pub(super) fn forget_accepted(&mut self, observed: &Northbound, planner: &Planner) -> bool {
        let before = self.refused.len();
        let differs = |scope: Scope| !diff(observed, planner.desired(), &scope).is_empty();
        self.refused.retain(|(part, _)| planner.scope_of(part).is_some_and(differs));
        self.refused.len() < before
    }
}

fn difference<'a>(observed: &Northbound, planner: &Planner, parts: impl Iterator<Item = &'a Part>) -> Transaction {
    let mut scope = Scope::default();
    parts.for_each(|part| scope.extend(part.scope.clone()));
    diff(observed, planner.desired(), &scope)
}

/// Whether the server refused what was asked of it, rather than being asked.
fn is_about_rows(reason: &TransactError) -> bool {
    use ErrorKind::{Constraint, Domain, DuplicateUuid, Range, ReferentialIntegrity};
    let kind = reason.error().map(|error| &error.kind);
    matches!(kind, Some(Constraint | Domain | DuplicateUuid | Range | ReferentialIntegrity))
}
