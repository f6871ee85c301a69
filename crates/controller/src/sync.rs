//! The sync loop: one task that owns the planner and the observed Northbound. It plans, commits the difference, and publishes what people
//! should know once it is in the database.
//!
//! There is no other path: start-up, a lost connection, a take-over, a row someone else changed by hand and a new pod are all the same
//! comparison, over everything or over what an event touched. At most one transaction is in flight; its own updates arrive before
//! its reply, so the next comparison sees them.

mod commit;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use netloom_network::cluster::View;
use netloom_network::northbound::{TABLES, written_by_ovn};
use netloom_network::{Northbound, Object, Part, Planner, Problem, Scope, diff};
use netloom_ovsdb::client::{Client, Event, Events, MonitorTable};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::findings::{Findings, Unpublished};
use crate::metrics::Metrics;
use crate::sync::commit::{Commits, Outcome};
use crate::watch::{Change, Kind};

/// The lock whose holder writes.
pub const LOCK: &str = "netloom_controller";
/// How many changes are taken before the next commit.
const BATCH: usize = 1024;

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
    metrics: Arc<Metrics>,
    planner: Planner,
    observed: Northbound,
    /// Where observed may differ from desired.
    pending: Scope,
    listed: BTreeSet<Kind>,
    connected: bool,
    active: bool,
    /// How often this controller became active.
    term: u64,
    /// Nothing can be committed until something happens.
    stalled: bool,
    /// What was last sent is in the database.
    committed: bool,
    /// How many operations a transaction may have.
    largest_commit: usize,
    commits: Commits,
    findings: watch::Sender<Findings>,
    unpublished: Unpublished,
}

impl Sync {
    /// A loop that has seen nothing yet.
    pub fn new(northbound: Client, largest_commit: usize, metrics: Arc<Metrics>, findings: watch::Sender<Findings>) -> Self {
        Self {
            largest_commit,
            commits: Commits::new(northbound, Arc::clone(&metrics)),
            metrics,
            planner: Planner::default(),
            observed: Northbound::default(),
            pending: Scope::All,
            listed: BTreeSet::new(),
            connected: false,
            active: false,
            term: 0,
            stalled: false,
            committed: false,
            findings,
            unpublished: Unpublished::default(),
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
                reply = self.commits.reply() => {
                    let outcome = self.commits.settle(reply, &self.observed, &self.planner);
                    self.on_outcome(&outcome);
                }
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
            Event::Locked => self.take_over(),
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

    /// Another controller may have decided since we last looked, so its records replace ours. All it wrote was observed before the lock.
    fn take_over(&mut self) {
        info!("active");
        self.active = true;
        self.committed = false;
        self.term += 1;
        self.unpublished.begin(self.term);
        self.planner.restore(&self.observed);
        self.compare_everything();
    }

    fn compare_everything(&mut self) {
        self.pending = Scope::All;
        self.commits.forget_parts();
    }

    /// A row that is not ours changed; it may have been in the way.
    fn try_refused_again(&mut self) {
        let scopes = self.commits.refused_scopes(&self.planner);
        scopes.into_iter().for_each(|scope| self.pending.extend(scope));
    }

    fn on_change(&mut self, change: Change) {
        self.stalled = false;
        match change {
            Change::Apply(object) => self.apply(object),
            Change::Delete(object) => self.planner.remove(&object),
            Change::Reset(kind, objects) => {
                for gone in kind.absent(self.planner.cluster(), &objects) {
                    self.planner.remove(&gone);
                }
                objects.into_iter().for_each(|object| self.apply(object));
                self.listed.insert(kind);
            }
        }
    }

    fn apply(&mut self, object: Object) {
        self.planner.apply(object);
    }

    fn on_outcome(&mut self, outcome: &Outcome) {
        if let Outcome::Interrupted | Outcome::Stalled = outcome {
            self.compare_everything();
        }
        self.committed = matches!(outcome, Outcome::Done);
        self.stalled = matches!(outcome, Outcome::Stalled);
    }

    /// Plans, and commits the difference if nothing is in flight.
    fn step(&mut self) {
        let ready = self.listed.len() == Kind::ALL.len() && self.connected;
        self.metrics.set_ready(ready);
        if !ready || !self.active || self.stalled || self.commits.is_busy() || self.commits.send_apart(&self.observed, &self.planner) {
            return;
        }
        if std::mem::take(&mut self.committed) {
            self.publish();
        }
        let started = Instant::now();
        self.plan();
        let scope = std::mem::take(&mut self.pending);
        if !scope.is_empty() {
            let transaction = diff(&self.observed, self.planner.desired(), &scope);
            self.metrics.planned(started.elapsed());
            if self
                .commits
                .send_at_most(self.largest_commit, transaction, &self.observed, &self.planner)
            {
                return;
            }
        }
        self.publish();
    }

    /// Brings desired up to date, and gathers what people should know.
    fn plan(&mut self) {
        self.pending.extend(self.planner.compile());
        if self.commits.forget_accepted(&self.observed, &self.planner) {
            self.pending = Scope::All;
        }
        let problems = self.planner.problems().len() + self.commits.refused().len();
        self.metrics.set_size(self.planner.units(), problems);
        self.unpublished.add(self.planner.take_news());
    }

    /// Publishes what people should know of what is in the database, and of what it refuses.
    fn publish(&mut self) {
        let view = View::new(self.planner.cluster());
        let refusal = |(Part { unit, .. }, said): &(Part, String)| {
            let message = format!("the Northbound database refuses its rows: {said} Rename or delete the row that is in the way.");
            Some(Problem::new(unit.as_ref()?.object(&view), "RefusedByDatabase", message))
        };
        let refused = self.commits.refused().iter().filter_map(refusal).collect();
        self.unpublished.publish(refused, &self.findings);
    }
}
