//! Fragments in and out of the desired state: what a unit put in is remembered, so that only what changed is touched.

use std::collections::HashSet;
use std::sync::Arc;

use crate::northbound::{Member, RowId};
use crate::plan::{Planner, Scope};
use crate::problem::Problem;
use crate::unit::{Fragment, Unit};

/// What a unit put into the desired state, to take it out again.
#[derive(Default)]
pub(super) struct Woven {
    pub(super) rows: Vec<RowId>,
    pub(super) members: Vec<Member>,
    pub(super) problems: Vec<Problem>,
}

impl Woven {
    pub(super) fn scope(&self) -> Scope {
        Scope::Some {
            rows: self.rows.iter().copied().collect(),
            members: self.members.iter().cloned().collect(),
        }
    }
}

impl Planner {
    /// Takes out what a unit put in before and its new fragment does not have; returns all it had put in.
    pub(super) fn unravel(&mut self, unit: &Unit, fragment: &Fragment) -> Woven {
        let old = self.woven.remove(unit).unwrap_or_default();
        let rows: HashSet<&RowId> = fragment.rows.iter().map(|(id, _)| id).collect();
        for id in old.rows.iter().filter(|id| !rows.contains(id)) {
            self.desired.remove_row(id);
            self.scope.add_row(*id);
        }
        let members: HashSet<&Member> = fragment.members.iter().collect();
        for member in old.members.iter().filter(|member| !members.contains(member)) {
            self.desired.remove_member(member);
            self.scope.add_member(member.clone());
        }
        for problem in &old.problems {
            self.problems.remove(problem);
        }
        old
    }

    /// Puts in what a unit's fragment has and `old`, what it put in before, had not.
    pub(super) fn weave(&mut self, unit: Unit, fragment: Fragment, old: Woven) {
        if old.problems != fragment.problems || matches!(unit, Unit::Network | Unit::Node(_)) {
            self.revision += 1;
        }
        let new = Woven {
            rows: fragment.rows.iter().map(|(id, _)| *id).collect(),
            members: fragment.members.clone(),
            problems: fragment.problems.clone(),
        };
        for (id, row) in fragment.rows {
            if self.desired.row(&id).is_none_or(|current| **current != row) {
                self.desired.insert_row(id, Arc::new(row));
                self.scope.add_row(id);
            }
        }
        let known: HashSet<Member> = old.members.into_iter().collect();
        for member in fragment.members.into_iter().filter(|member| !known.contains(member)) {
            self.scope.add_member(member.clone());
            self.desired.insert_member(member);
        }
        self.problems.extend(fragment.problems);
        if !(new.rows.is_empty() && new.members.is_empty() && new.problems.is_empty()) {
            self.woven.insert(unit, new);
        }
    }
}
