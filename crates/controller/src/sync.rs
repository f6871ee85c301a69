//! The sync loop: one task that owns the planner and the observed Northbound, and commits their difference.
//!
//! There is no other path: start-up, a lost connection, a take-over, a row someone else changed by hand and a new pod are all the same
//! comparison, over everything or over what an event touched. At most one transaction is in flight; its own updates arrive before
//! its reply, so the next comparison sees them. What the server refuses is committed in ever smaller groups of units, until only the
//! unit it refuses is left out.

use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use netloom_network::northbound::{TABLES, written_by_ovn};
use netloom_network::{Northbound, Object, Part, Planner, PodName, Problem, Scope, ServiceName, Unit, diff};
use netloom_ovsdb::client::{Client, Event, Events, MonitorTable, TransactError};
use netloom_ovsdb::{ErrorKind, Operation, OperationResult, Transaction};
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

use crate::findings::{Findings, News, concerns_place, concerns_status, place_to_show, to_show};
use crate::metrics::Metrics;
use crate::objects;
use crate::watch::{Change, Kind};

/// The lock whose holder writes.
pub const LOCK: &str = "netloom_controller";
/// How many changes are taken before the next commit.
const BATCH: usize = 1024;

type Commit = Pin<Box<dyn Future<Output = Result<Vec<OperationResult>, TransactError>> + Send>>;

/// What to monitor in the Northbound database: the tables we write, less the columns OVN writes.
pub fn monitored_tables() -> Vec<MonitorTable> {
    let columns = |table: &str, all: &[netloom_ovsdb::Column]| {
        let ignored: HashSet<_> = written_by_ovn(table).collect();
        Some(
            all.iter()
                .map(|column| column.name.to_owned())
                .filter(|name| !ignored.contains(name.as_str()))
                .collect(),
        )
    };
    TABLES
        .iter()
        .map(|(table, all)| MonitorTable {
            table: (*table).to_owned(),
            columns: columns(table, all),
            condition: vec![],
        })
        .collect()
}

/// The state of the loop.
pub struct Sync {
    northbound: Client,
    metrics: Arc<Metrics>,
    findings: watch::Sender<Findings>,
    planner: Planner,
    observed: Northbound,
    /// Where observed may differ from desired.
    pending: Scope,
    listed: BTreeSet<Kind>,
    connected: bool,
    active: bool,
    /// How often this controller became active.
    term: u64,
    /// The server takes nothing from us (another has the lock, its disk is full); only news can change that.
    stalled: bool,
    commit: Option<(Instant, Commit)>,
    /// The parts in flight, if not everything pending was sent at once.
    attempt: Vec<Part>,
    /// Groups of parts to commit by themselves because the server refused them together; the last is next.
    apart: Vec<Vec<Part>>,
    /// Parts the server refused by themselves, and what it said. They are tried again when they or rows of others change.
    refused: Vec<(Part, String)>,
    /// What people are told as soon as nothing is in flight.
    news: News,
    /// The planner's revision and what was refused when news were last gathered; no revision if those came to nothing.
    told: (Option<u64>, Vec<(Part, String)>),
    /// Services whose status may be another than when news were last gathered.
    touched: BTreeSet<ServiceName>,
    /// Pods that came or changed since news were last gathered, if they show where they are.
    placed: BTreeSet<PodName>,
    /// Services whose status shows addresses of ours.
    given: BTreeSet<ServiceName>,
}

impl Sync {
    /// A loop that has seen nothing yet.
    pub fn new(northbound: Client, metrics: Arc<Metrics>, findings: watch::Sender<Findings>) -> Self {
        Self {
            northbound,
            metrics,
            findings,
            planner: Planner::default(),
            observed: Northbound::default(),
            pending: Scope::All,
            listed: BTreeSet::new(),
            connected: false,
            active: false,
            term: 0,
            stalled: false,
            commit: None,
            attempt: Vec::new(),
            apart: Vec::new(),
            refused: Vec::new(),
            news: News::default(),
            told: Default::default(),
            touched: BTreeSet::new(),
            placed: BTreeSet::new(),
            given: BTreeSet::new(),
        }
    }

    /// Runs until one of its sources ends. Database events come first: a reply is looked at after the updates it caused.
    pub async fn run(mut self, mut events: Events, mut changes: mpsc::Receiver<Change>) -> Result<()> {
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(event) => self.on_event(event),
                    None => bail!("the database client ended"),
                },
                reply = in_flight(&mut self.commit) => self.on_reply(reply),
                change = changes.recv() => match change {
                    Some(change) => self.on_change(change),
                    None => bail!("the watches ended"),
                },
            }
            // What is already waiting goes into the same transaction.
            while let Some(event) = events.try_recv() {
                self.on_event(event);
            }
            for _ in 0..BATCH {
                match changes.try_recv() {
                    Ok(change) => self.on_change(change),
                    Err(_) => break,
                }
            }
            self.step();
        }
    }

    fn on_event(&mut self, event: Event) {
        self.stalled = false;
        match event {
            Event::Connected { remote, .. } => {
                info!(%remote, "connected to the Northbound database");
                self.connected = true;
            }
            Event::Snapshot(replica) => {
                self.observed = Northbound::default();
                for (table, rows) in replica.tables() {
                    for (uuid, row) in rows {
                        self.observed.observe(table, *uuid, Some(row));
                    }
                }
                self.compare_everything();
            }
            Event::Update(changes) => {
                for change in changes {
                    let (row, members) = self.observed.observe(&change.table, change.uuid, change.new.as_deref());
                    match row {
                        Some(id) => {
                            self.observed.share(&id, self.planner.desired());
                            self.pending.add_row(id);
                        }
                        None => self.try_refused_again(),
                    }
                    members.into_iter().for_each(|member| self.pending.add_member(member));
                }
            }
            Event::Locked => self.active = self.take_over(),
            Event::Stolen | Event::Unlocked => {
                warn!("another controller is active");
                self.active = false;
            }
            Event::Unreachable { remote, reason } => warn!(%remote, %reason, "cannot reach the Northbound database, trying again"),
            Event::Disconnected(reason) => {
                warn!(%reason, "lost the Northbound database");
                self.connected = false;
                self.active = false;
            }
            _ => {}
        }
        self.metrics.set_role(self.connected, self.active);
    }

    /// Another controller may have decided since we last looked, so its records replace ours.
    fn take_over(&mut self) -> bool {
        info!("active");
        self.term += 1;
        self.planner.restore(&self.observed);
        self.compare_everything();
        self.take_back_news();
        true
    }

    fn compare_everything(&mut self) {
        self.pending = Scope::All;
        self.apart.clear();
    }

    /// A row that is not ours changed; it may have been in the way.
    fn try_refused_again(&mut self) {
        let scopes = self.refused.iter().filter_map(|(part, _)| self.planner.scope_of(part));
        scopes.for_each(|scope| self.pending.extend(scope));
    }

    fn on_change(&mut self, change: Change) {
        self.stalled = false;
        match change {
            Change::Apply(object) => self.apply(object),
            Change::Delete(object) => self.remove(&object),
            Change::Reset(kind, objects) => {
                for gone in objects::absent(self.planner.cluster(), kind, &objects) {
                    self.remove(&gone);
                }
                objects.into_iter().for_each(|object| self.apply(object));
                self.listed.insert(kind);
            }
        }
    }

    fn apply(&mut self, object: Object) {
        if let Object::Service(name, service) = &object {
            let before = self.planner.cluster().services.get(name);
            if before.into_iter().chain([service]).any(concerns_status) {
                self.touched.insert(name.clone());
            }
        }
        if let Object::Pod(name, pod) = &object
            && concerns_place(self.planner.cluster(), name, pod)
        {
            self.placed.insert(name.clone());
        }
        self.planner.apply(object);
    }

    fn remove(&mut self, object: &Object) {
        match object {
            Object::Service(name, _) => drop(self.touched.insert(name.clone())),
            Object::Pod(name, _) if name.machine().is_some() || self.planner.cluster().records.attachment(name).is_some() => {
                self.placed.insert(name.clone());
            }
            _ => {}
        }
        self.planner.remove(object);
    }

    /// Plans, and commits the difference if nothing is in flight.
    fn step(&mut self) {
        let ready = self.listed.len() == Kind::ALL.len() && self.connected;
        self.metrics.set_ready(ready);
        if !ready || !self.active || self.stalled || self.commit.is_some() {
            return;
        }
        while let Some(parts) = self.apart.pop() {
            let transaction = self.difference(parts.iter());
            if !transaction.is_empty() {
                self.attempt = parts;
                return self.send(transaction);
            }
        }
        // What was decided is in the database by now.
        self.news.publish(&self.findings);
        let started = Instant::now();
        self.pending.extend(self.planner.compile());
        self.forget_accepted();
        let problems = self.planner.problems().len() + self.refused.len();
        self.metrics.set_size(self.planner.units(), problems);
        self.gather();
        let scope = std::mem::take(&mut self.pending);
        if !scope.is_empty() {
            let transaction = diff(&self.observed, self.planner.desired(), &scope);
            self.metrics.planned(started.elapsed());
            if !transaction.is_empty() {
                return self.send(transaction);
            }
        }
        self.news.publish(&self.findings);
    }

    fn difference<'a>(&self, parts: impl Iterator<Item = &'a Part>) -> Transaction {
        let mut scope = Scope::default();
        parts.for_each(|part| scope.extend(part.scope.clone()));
        diff(&self.observed, self.planner.desired(), &scope)
    }

    fn send(&mut self, mut transaction: Transaction) {
        transaction.0.insert(0, Operation::assert(LOCK));
        self.metrics.committing(transaction.len() - 1);
        let northbound = self.northbound.clone();
        self.commit = Some((Instant::now(), Box::pin(async move { northbound.transact(transaction).await })));
    }

    fn on_reply(&mut self, (started, reply): (Instant, Result<Vec<OperationResult>, TransactError>)) {
        self.metrics.committed(started.elapsed(), reply.is_ok());
        let attempt = std::mem::take(&mut self.attempt);
        match reply {
            Ok(_) => {}
            Err(reason @ (TransactError::Disconnected | TransactError::NotConnected | TransactError::Ended)) => {
                warn!(%reason, "commit interrupted; the comparison after reconnecting decides");
                self.compare_everything();
                self.take_back_news();
            }
            Err(reason) if is_about_rows(&reason) => self.take_apart(attempt, &reason),
            Err(reason) => {
                error!(%reason, "commit refused by the Northbound database; comparing again at the next event");
                self.compare_everything();
                self.take_back_news();
                self.stalled = true;
            }
        }
    }

    /// Splits what the server refused; a single part stays out.
    fn take_apart(&mut self, mut parts: Vec<Part>, reason: &TransactError) {
        if parts.is_empty() {
            warn!(%reason, "commit refused by the Northbound database; committing in parts");
            parts = self.planner.parts(&self.observed);
            parts.retain(|part| !self.difference(std::iter::once(part)).is_empty());
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

    /// A part that is as it should be is refused no more. Others may have had to wait for it.
    fn forget_accepted(&mut self) {
        let (observed, planner, before) = (&self.observed, &self.planner, self.refused.len());
        let differs = |scope: Scope| !diff(observed, planner.desired(), &scope).is_empty();
        self.refused.retain(|(part, _)| planner.scope_of(part).is_some_and(differs));
        if self.refused.len() < before {
            self.pending = Scope::All;
        }
    }

    /// Finds what people should know, when it changed. They are told when it is in the database: an address nobody recorded may still be
    /// given to another service.
    fn gather(&mut self) {
        let (touched, placed) = (std::mem::take(&mut self.touched), std::mem::take(&mut self.placed));
        let (cluster, given) = (self.planner.cluster(), &mut self.given);
        if self.told.0 == Some(self.planner.revision()) && self.told.1 == self.refused {
            let statuses = touched.into_iter().map(|name| {
                let shown = to_show(cluster, &name, given);
                (name, shown)
            });
            self.news.statuses.extend(statuses);
            let places = placed.into_iter().map(|name| {
                let place = place_to_show(cluster, &name);
                (name, place)
            });
            self.news.places.extend(places);
            return;
        }
        self.told = (Some(self.planner.revision()), self.refused.clone());
        let refused = self.refused.iter().filter_map(|(Part { unit, .. }, said)| {
            let message = format!("the Northbound database refuses its rows: {said} Rename or delete the row that is in the way.");
            Some(Problem::new(unit.as_ref()?.object(cluster), "RefusedByDatabase", message))
        });
        self.news = News {
            all: Some(Findings {
                problems: self.planner.problems().iter().cloned().chain(refused).collect(),
                term: self.term,
                ..Findings::of(cluster, given)
            }),
            ..News::default()
        };
    }

    /// What was decided may not be in the database: nobody is told, and all of it is looked at again.
    fn take_back_news(&mut self) {
        self.news = News::default();
        self.told.0 = None;
    }
}

/// Whether the server refused what was asked of it, rather than being asked.
fn is_about_rows(reason: &TransactError) -> bool {
    use ErrorKind::{Constraint, Domain, DuplicateUuid, Range, ReferentialIntegrity};
    let kind = reason.error().map(|error| &error.kind);
    matches!(kind, Some(Constraint | Domain | DuplicateUuid | Range | ReferentialIntegrity))
}

async fn in_flight(commit: &mut Option<(Instant, Commit)>) -> (Instant, Result<Vec<OperationResult>, TransactError>) {
    match commit {
        None => std::future::pending().await,
        Some((started, future)) => {
            let reply = (*started, future.await);
            *commit = None;
            reply
        }
    }
}
