//! The planner: keeps the desired Northbound up to date while objects are created, changed and deleted, looking only at what a change
//! concerns.
//!
//! The controller calls [`Planner::apply`] for every event and [`Planner::compile`] for every batch. The result always equals
//! [`compile`] of the same cluster, the oracle it is tested against.

mod graph;
mod parts;
mod records;
mod scope;
mod weave;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use graph::Work;
pub use records::read_records;
pub use scope::{Part, Scope};
pub use weave::News;

use crate::cluster::{Cluster, Object, View};
use crate::decide::{Decision, Outcome, Rank};
use crate::facts::Changes;
use crate::northbound::Northbound;
use crate::plan::graph::Graph;
use crate::plan::weave::Woven;
use crate::problem::{ObjectRef, Problem};
use crate::status::Shows;

/// Everything of a cluster at once: what the incremental path must equal.
pub fn compile(cluster: &Cluster) -> (Northbound, Vec<Problem>) {
    let (mut northbound, mut problems) = (Northbound::default(), Vec::new());
    for work in cluster.work() {
        let Work::Compile(unit) = work else { continue };
        let fragment = unit.compile(&View::new(cluster));
        fragment
            .rows
            .into_iter()
            .for_each(|(id, row)| northbound.insert_row(id, Arc::new(row)));
        fragment.members.into_iter().for_each(|member| northbound.insert_member(member));
        problems.extend(fragment.problems);
    }
    problems.sort();
    problems.dedup();
    (northbound, problems)
}

/// What all objects of a cluster have to show.
pub fn statuses(cluster: &Cluster) -> BTreeMap<ObjectRef, Shows> {
    let units = cluster.work().into_iter().filter_map(|work| match work {
        Work::Compile(unit) => Some(unit),
        Work::Decide(_) => None,
    });
    let statuses = units.flat_map(|unit| unit.compile(&View::new(cluster)).statuses);
    statuses.map(|status| (status.object, status.shows)).collect()
}

/// The incremental compiler.
pub struct Planner {
    cluster: Cluster,
    graph: Graph,
    woven: Woven,
}

impl Default for Planner {
    /// A planner of an empty cluster, whose first compile decides the addressing.
    fn default() -> Self {
        Self {
            cluster: Cluster::default(),
            graph: Graph::new(Cluster::default().work()),
            woven: Woven::default(),
        }
    }
}

impl Planner {
    /// The cluster as applied and decided so far.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What the database must hold.
    pub fn desired(&self) -> &Northbound {
        self.woven.desired()
    }

    /// What users have to change.
    pub fn problems(&self) -> &BTreeSet<Problem> {
        self.woven.problems()
    }

    /// What objects have to show.
    pub fn statuses(&self) -> &BTreeMap<ObjectRef, Shows> {
        self.woven.statuses()
    }

    /// What differs for people since this was last asked for.
    pub fn take_news(&mut self) -> News {
        self.woven.take_news()
    }

    /// How many units are compiled.
    pub fn units(&self) -> usize {
        self.woven.units()
    }

    /// How many units the next compile looks at, as far as is known before what is undecided is decided.
    pub fn marked(&self) -> usize {
        self.graph.marked()
    }

    /// Takes over the choices recorded in the database, instead of its own: before the first compile, and whenever another planner may
    /// have decided in between.
    pub fn restore(&mut self, observed: &Northbound) {
        let recorded = read_records(observed);
        self.change(|cluster, changes| cluster.record(|records, changes| records.replace(recorded, changes), changes));
    }

    /// Adds or changes an object; says whether anything the network depends on changed.
    pub fn apply(&mut self, object: Object) -> bool {
        self.change(|cluster, changes| cluster.change(object, true, changes))
    }

    /// Removes an object; only its kind and name matter. A node keeps its subnets while pods on it have ports, and the addressing in
    /// force stays without its `ClusterNetwork`.
    pub fn remove(&mut self, object: &Object) {
        self.change(|cluster, changes| cluster.change(object.clone(), false, changes));
    }

    /// Decides what is undecided and recompiles what changed; returns where desired may now differ from before.
    pub fn compile(&mut self) -> Scope {
        self.decide();
        let mut compiled = Vec::new();
        for (id, unit) in self.graph.take_units() {
            let view = View::noting(&self.cluster);
            let fragment = unit.compile(&view);
            self.graph.note_reads(id, view.into_reads());
            compiled.push((id, fragment));
        }
        self.woven.weave(self.graph.take_gone(), compiled)
    }

    /// Makes decisions, the most urgent first, until all of them come out as recorded.
    fn decide(&mut self) {
        let mut queue: BTreeSet<(Rank, Decision)> = BTreeSet::new();
        loop {
            let marked = self.graph.take_decisions();
            queue.extend(marked.into_iter().map(|decision| (decision.rank(&self.cluster), decision)));
            let Some((_, decision)) = queue.pop_first() else { return };
            let view = View::noting(&self.cluster);
            let Outcome { choice, refusals } = decision.decide(&view);
            self.graph.note_reads_of(&decision, view.into_reads());
            self.change(|cluster, changes| {
                cluster.record(|records, changes| records.record(&decision, choice, refusals, changes), changes)
            });
        }
    }

    /// Changes the cluster, and marks whoever read what is different now; says whether anything is.
    fn change(&mut self, change: impl FnOnce(&mut Cluster, &mut Changes)) -> bool {
        let mut changes = Changes::default();
        change(&mut self.cluster, &mut changes);
        let differs = !changes.facts.is_empty();
        self.graph.mark(changes);
        differs
    }

    /// Where a part may differ now; none when its unit is gone.
    pub fn scope_of(&self, part: &Part) -> Option<Scope> {
        match &part.unit {
            None => Some(part.scope.clone()),
            Some(unit) => self.woven.scope_of(self.graph.id_of_unit(unit)?),
        }
    }
}
