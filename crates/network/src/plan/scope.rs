//! Where two Northbounds may differ: what a comparison looks at, so that its cost is that of the change.

use std::collections::BTreeSet;

use crate::northbound::{Member, RowId};
use crate::unit::Unit;

/// Which part of two Northbounds may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Anything.
    All,
    /// Only these rows and members.
    Some {
        /// Rows.
        rows: BTreeSet<RowId>,
        /// Members of collections.
        members: BTreeSet<Member>,
    },
}

impl Default for Scope {
    fn default() -> Self {
        Self::Some {
            rows: BTreeSet::new(),
            members: BTreeSet::new(),
        }
    }
}

impl Scope {
    /// Whether nothing can differ.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Some { rows, members } if rows.is_empty() && members.is_empty())
    }

    /// Widens by another scope.
    pub fn extend(&mut self, other: Self) {
        match other {
            Self::All => *self = Self::All,
            Self::Some { rows, members } => {
                rows.into_iter().for_each(|id| self.add_row(id));
                members.into_iter().for_each(|member| self.add_member(member));
            }
        }
    }

    /// Widens by one row.
    pub fn add_row(&mut self, id: RowId) {
        if let Self::Some { rows, .. } = self {
            rows.insert(id);
        }
    }

    /// Widens by one member.
    pub fn add_member(&mut self, member: Member) {
        if let Self::Some { members, .. } = self {
            members.insert(member);
        }
    }
}

/// A piece of the difference that makes sense without the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The unit it belongs to; none for what no unit wants any more.
    pub unit: Option<Unit>,
    /// What may differ.
    pub scope: Scope,
}
