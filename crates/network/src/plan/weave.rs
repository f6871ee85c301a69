//! Fragments in and out of the desired state: what a unit put in is remembered, so that only what changed is touched. A member that several
//! units put in stays until the last of them takes it out.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::facts::HashMap;
use crate::northbound::{Member, Northbound, RowId};
use crate::plan::Scope;
use crate::plan::graph::Id;
use crate::problem::{ObjectRef, Problem};
use crate::status::{Shows, Status};
use crate::unit::Fragment;

/// What a unit put into the desired state, to take it out again.
#[derive(Default)]
struct Thread {
    rows: Vec<RowId>,
    members: Vec<Member>,
    problems: Vec<Problem>,
    statuses: Vec<ObjectRef>,
}

/// What differs for people since it was last asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Problems, and whether they are there now.
    pub problems: BTreeMap<Problem, bool>,
    /// Objects, and what they have to show now.
    pub statuses: BTreeMap<ObjectRef, Option<Shows>>,
}

impl News {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty() && self.statuses.is_empty()
    }
}

/// The desired state, and which unit put in what.
#[derive(Default)]
pub(super) struct Woven {
    desired: Northbound,
    threads: HashMap<Id, Thread>,
    /// How many units put in a member, besides the first.
    shared: HashMap<Member, usize>,
    problems: BTreeSet<Problem>,
    /// How many units have a problem, besides the first.
    shared_problems: HashMap<Problem, usize>,
    statuses: BTreeMap<ObjectRef, Shows>,
    scope: Scope,
    news: News,
}

impl Woven {
    pub(super) fn desired(&self) -> &Northbound {
        &self.desired
    }

    pub(super) fn problems(&self) -> &BTreeSet<Problem> {
        &self.problems
    }

    pub(super) fn statuses(&self) -> &BTreeMap<ObjectRef, Shows> {
        &self.statuses
    }

    pub(super) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// How many units put anything in.
    pub(super) fn units(&self) -> usize {
        self.threads.len()
    }

    /// Where a unit put something in; none if it did not.
    pub(super) fn scope_of(&self, unit: Id) -> Option<Scope> {
        let thread = self.threads.get(&unit)?;
        Some(Scope::Some {
            rows: thread.rows.iter().copied().collect(),
            members: thread.members.iter().cloned().collect(),
        })
    }

    /// Takes out what units that are gone put in, and puts in what others came to; returns where the desired state may now differ.
    pub(super) fn weave(&mut self, gone: Vec<Id>, compiled: Vec<(Id, Fragment)>) -> Scope {
        let nothing = Fragment::default();
        // What is given up is taken out first: a row that one unit had and another has now is the same row.
        for id in gone {
            self.unravel(id, &nothing);
        }
        let before: Vec<Thread> = compiled.iter().map(|(id, fragment)| self.unravel(*id, fragment)).collect();
        for ((id, fragment), before) in compiled.into_iter().zip(before) {
            self.put_in(id, fragment, before);
        }
        std::mem::take(&mut self.scope)
    }

    /// Takes out what a unit put in before and its new fragment does not have; returns all it had put in.
    fn unravel(&mut self, unit: Id, fragment: &Fragment) -> Thread {
        let Some(old) = self.threads.remove(&unit) else {
            return Thread::default();
        };
        let rows: HashSet<&RowId> = fragment.rows.iter().map(|(id, _)| id).collect();
        for id in old.rows.iter().filter(|id| !rows.contains(id)) {
            self.desired.remove_row(id);
            self.scope.add_row(*id);
        }
        let members: HashSet<&Member> = fragment.members.iter().collect();
        for member in old.members.iter().filter(|member| !members.contains(member)) {
            self.take_out(member);
        }
        for problem in &old.problems {
            if is_last(&mut self.shared_problems, problem) {
                self.problems.remove(problem);
                self.news.problems.insert(problem.clone(), false);
            }
        }
        for object in &old.statuses {
            if !fragment.statuses.iter().any(|status| status.object == *object) {
                self.statuses.remove(object);
                self.news.statuses.insert(object.clone(), None);
            }
        }
        old
    }

    fn take_out(&mut self, member: &Member) {
        if is_last(&mut self.shared, member) {
            self.desired.remove_member(member);
            self.scope.add_member(member.clone());
        }
    }

    /// Puts in what a unit's fragment has and `old`, what it put in before, had not.
    fn put_in(&mut self, unit: Id, fragment: Fragment, old: Thread) {
        let new = Thread {
            rows: fragment.rows.iter().map(|(id, _)| *id).collect(),
            members: fragment.members.clone(),
            problems: fragment.problems.clone(),
            statuses: fragment.statuses.iter().map(|status| status.object.clone()).collect(),
        };
        for (id, row) in fragment.rows {
            if self.desired.row(&id).is_none_or(|current| **current != row) {
                self.desired.insert_row(id, Arc::new(row));
                self.scope.add_row(id);
            }
        }
        let known: HashSet<Member> = old.members.into_iter().collect();
        for member in fragment.members.into_iter().filter(|member| !known.contains(member)) {
            if self.desired.has(&member) {
                *self.shared.entry(member).or_default() += 1;
            } else {
                self.scope.add_member(member.clone());
                self.desired.insert_member(member);
            }
        }
        for problem in fragment.problems {
            if self.problems.insert(problem.clone()) {
                self.news.problems.insert(problem, true);
            } else {
                *self.shared_problems.entry(problem).or_default() += 1;
            }
        }
        for Status { object, shows } in fragment.statuses {
            if self.statuses.get(&object) != Some(&shows) {
                self.statuses.insert(object.clone(), shows.clone());
                self.news.statuses.insert(object, Some(shows));
            }
        }
        let empty = new.rows.is_empty() && new.members.is_empty() && new.problems.is_empty() && new.statuses.is_empty();
        if !empty {
            self.threads.insert(unit, new);
        }
    }
}

/// Counts one less of what several put in; says whether nobody else did.
fn is_last<T: Eq + Hash>(shared: &mut HashMap<T, usize>, it: &T) -> bool {
    match shared.get_mut(it) {
        None => return true,
        Some(1) => drop(shared.remove(it)),
        Some(others) => *others -= 1,
    }
    false
}
