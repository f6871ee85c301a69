//! Who read what: units and decisions, each with the facts it read when it was last run. A fact that changed marks its readers. Work exists
//! as long as a table has a key that gives rise to it; what was never run and exists no longer leaves nothing behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::decide::Decision;
use crate::facts::{Changes, Fact, HashMap};
use crate::unit::Unit;

/// Something that reads the cluster and comes to a result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Chooses.
    Decide(Decision),
    /// Makes rows.
    Compile(Unit),
}

impl From<Decision> for Work {
    fn from(decision: Decision) -> Self {
        Self::Decide(decision)
    }
}

impl From<Unit> for Work {
    fn from(unit: Unit) -> Self {
        Self::Compile(unit)
    }
}

/// Number of a piece of work, while it exists.
pub(super) type Id = u32;

/// A piece of work.
struct Node {
    work: Arc<Work>,
    /// How many keys give rise to it.
    roots: u32,
    /// Whether it was run since it exists.
    ran: bool,
    /// What it read then, in order.
    reads: Box<[Fact]>,
}

/// Who read a fact. Most facts have one or two readers: a decision and a unit.
enum Readers {
    One(Id),
    Two(Id, Id),
    /// Boxed, because there are few of these and very many of the others.
    #[allow(clippy::box_collection)]
    Many(Box<BTreeSet<Id>>),
}

type ReadersOf = HashMap<Fact, Readers>;

/// All work.
#[derive(Default)]
pub(super) struct Graph {
    nodes: Vec<Option<Node>>,
    free: Vec<Id>,
    ids: HashMap<Arc<Work>, Id>,
    readers: ReadersOf,
    units: BTreeSet<Id>,
    decisions: BTreeSet<Id>,
    /// Units that exist no longer and may have made rows.
    gone: Vec<Id>,
}

impl Graph {
    /// A graph of work that always exists.
    pub(super) fn new(work: impl IntoIterator<Item = Work>) -> Self {
        let mut graph = Self::default();
        work.into_iter().for_each(|work| graph.root(work));
        graph
    }

    /// How many units are marked.
    pub(super) fn marked(&self) -> usize {
        self.units.len()
    }

    /// Marks whoever read what changed, and takes note of work that exists now or no longer.
    pub(super) fn mark(&mut self, changes: Changes) {
        for (work, exists) in changes.work {
            if exists {
                self.root(work);
            } else {
                self.unroot(&work);
            }
        }
        for fact in changes.facts {
            let Self {
                nodes,
                readers,
                units,
                decisions,
                ..
            } = self;
            let mut mark = |id: &Id| mark(nodes, units, decisions, *id);
            match readers.get(&fact) {
                None => {}
                Some(Readers::One(id)) => mark(id),
                Some(Readers::Two(one, other)) => [one, other].into_iter().for_each(mark),
                Some(Readers::Many(ids)) => ids.iter().for_each(mark),
            }
        }
    }

    /// Takes the marked decisions.
    pub(super) fn take_decisions(&mut self) -> Vec<Decision> {
        let marked = std::mem::take(&mut self.decisions);
        let decision = |id: Id| match &*self.node(id)?.work {
            Work::Decide(decision) => Some(decision.clone()),
            Work::Compile(_) => None,
        };
        marked.into_iter().filter_map(decision).collect()
    }

    /// Takes the marked units.
    pub(super) fn take_units(&mut self) -> Vec<(Id, Unit)> {
        let marked = std::mem::take(&mut self.units);
        let unit = |id: Id| match &*self.node(id)?.work {
            Work::Compile(unit) => Some((id, unit.clone())),
            Work::Decide(_) => None,
        };
        marked.into_iter().filter_map(unit).collect()
    }

    /// Takes the units that exist no longer. Their numbers are given to others from now on.
    pub(super) fn take_gone(&mut self) -> Vec<Id> {
        let gone = std::mem::take(&mut self.gone);
        self.free.extend(&gone);
        gone
    }

    /// All units that exist.
    pub(super) fn units(&self) -> impl Iterator<Item = (Id, &Unit)> {
        self.ids.iter().filter_map(|(work, id)| match &**work {
            Work::Compile(unit) => Some((*id, unit)),
            Work::Decide(_) => None,
        })
    }

    /// The number of a unit, if it exists.
    pub(super) fn id_of_unit(&self, unit: &Unit) -> Option<Id> {
        self.ids.get(&Work::Compile(unit.clone())).copied()
    }

    /// Notes what a decision read when it was run.
    pub(super) fn note_reads_of(&mut self, decision: &Decision, reads: Vec<Fact>) {
        if let Some(id) = self.ids.get(&Work::Decide(decision.clone())).copied() {
            self.note_reads(id, reads);
        }
    }

    /// Notes what work read when it was run.
    pub(super) fn note_reads(&mut self, id: Id, reads: Vec<Fact>) {
        let Some(node) = self.nodes.get_mut(id as usize).and_then(Option::as_mut) else {
            return;
        };
        node.ran = true;
        if *node.reads == *reads {
            return;
        }
        let before = std::mem::replace(&mut node.reads, reads.into_boxed_slice());
        let Some(node) = self.nodes.get(id as usize).and_then(Option::as_ref) else {
            return;
        };
        let (readers, reads) = (&mut self.readers, &node.reads);
        for fact in before.iter().filter(|fact| reads.binary_search(fact).is_err()) {
            unread(readers, *fact, id);
        }
        for fact in reads.iter().filter(|fact| before.binary_search(fact).is_err()) {
            read(readers, *fact, id);
        }
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(id as usize)?.as_ref()
    }

    fn mark_work(&mut self, id: Id) {
        mark(&self.nodes, &mut self.units, &mut self.decisions, id);
    }

    /// A key gives rise to work, which is looked at, whether or not there was another such key: it may never have read this one.
    fn root(&mut self, work: Work) {
        if let Some(id) = self.ids.get(&work).copied() {
            if let Some(Some(node)) = self.nodes.get_mut(id as usize) {
                node.roots += 1;
            }
            return self.mark_work(id);
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            (self.nodes.len() - 1) as Id
        });
        let work = Arc::new(work);
        self.ids.insert(Arc::clone(&work), id);
        self.nodes[id as usize] = Some(Node {
            work,
            roots: 1,
            ran: false,
            reads: Box::default(),
        });
        self.mark_work(id);
    }

    /// A key that gave rise to work is gone, and with the last one the work.
    fn unroot(&mut self, work: &Work) {
        let Some(id) = self.ids.get(work).copied() else { return };
        let Some(Some(node)) = self.nodes.get_mut(id as usize) else {
            return;
        };
        node.roots -= 1;
        if node.roots > 0 {
            return;
        }
        self.ids.remove(work);
        let Some(node) = self.nodes[id as usize].take() else { return };
        node.reads.iter().for_each(|fact| unread(&mut self.readers, *fact, id));
        match *node.work {
            Work::Decide(_) => {
                self.decisions.remove(&id);
                self.free.push(id);
            }
            Work::Compile(_) => {
                self.units.remove(&id);
                let left = if node.ran { &mut self.gone } else { &mut self.free };
                left.push(id);
            }
        }
    }
}

fn mark(nodes: &[Option<Node>], units: &mut BTreeSet<Id>, decisions: &mut BTreeSet<Id>, id: Id) {
    match nodes.get(id as usize).and_then(Option::as_ref).map(|node| &*node.work) {
        Some(Work::Decide(_)) => drop(decisions.insert(id)),
        Some(Work::Compile(_)) => drop(units.insert(id)),
        None => {}
    }
}

fn read(readers: &mut ReadersOf, fact: Fact, id: Id) {
    let readers = readers.entry(fact).or_insert(Readers::One(id));
    match readers {
        Readers::One(known) if *known != id => *readers = Readers::Two(*known, id),
        Readers::Two(one, other) if *one != id && *other != id => *readers = Readers::Many(Box::new(BTreeSet::from([*one, *other, id]))),
        Readers::Many(ids) => drop(ids.insert(id)),
        _ => {}
    }
}

fn unread(readers: &mut ReadersOf, fact: Fact, id: Id) {
    let Some(of_fact) = readers.get_mut(&fact) else { return };
    match of_fact {
        Readers::One(known) if *known == id => drop(readers.remove(&fact)),
        Readers::Two(one, other) if *one == id => *of_fact = Readers::One(*other),
        Readers::Two(one, other) if *other == id => *of_fact = Readers::One(*one),
        Readers::Many(ids) => {
            ids.remove(&id);
            if ids.is_empty() {
                readers.remove(&fact);
            }
        }
        _ => {}
    }
}
