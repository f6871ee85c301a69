//! A difference that is too large for one transaction, or that the database refuses as a whole, in parts that are committed one after the
//! other. After each part the database is whole, and no pod has more than before or than it should have.
//!
//! First what pods leave behind, so that whoever has their addresses next inherits nothing. Then the units: those that own collections
//! before those that are in them, so that a port is written with all its memberships, and rules before the pods they are about. Last what
//! no unit wants any more, because a rule must not be deleted before the one that replaces it is there.

use std::collections::{BTreeMap, HashSet};

use netloom_ovsdb::{Row, Table};

use crate::northbound::{Member, Northbound, RowId, depth};
use crate::plan::{Part, Planner, Scope};
use crate::rows::LogicalSwitchPort;
use crate::unit::Unit;

/// What no unit wants, by the row that has to go with it: rows that hold others first, plain values before all.
type Unwanted = BTreeMap<(usize, Option<RowId>), Scope>;

impl Planner {
    /// All that may differ from `observed`, in parts that can be committed one after the other.
    pub fn parts(&self, observed: &Northbound) -> Vec<Part> {
        let units: BTreeMap<&Unit, Scope> = self
            .graph
            .units()
            .filter_map(|(id, unit)| Some((unit, self.woven.scope_of(id)?)))
            .collect();
        let units = units.into_iter().map(|(unit, scope)| (Some(unit.clone()), scope));
        let (ports, addresses, rest) = self.unwanted(observed);
        let of_no_unit = |scope| (None, scope);
        let released = ports.into_values().chain([addresses]).map(of_no_unit);
        let parts = released.chain(units).chain(rest.into_values().map(of_no_unit));
        parts.map(|(unit, scope)| Part { unit, scope }).collect()
    }

    /// The parts that do differ, in groups for one transaction each: at most `limit` operations, unless a single part has more.
    pub fn batches(&self, observed: &Northbound, limit: usize) -> Vec<Vec<Part>> {
        let (mut batches, mut batch, mut touched) = (Vec::new(), Vec::new(), HashSet::new());
        for part in self.parts(observed) {
            let mut with_it = self.touched(observed, &part.scope);
            if with_it.is_empty() {
                continue;
            }
            let more = with_it.iter().filter(|it| !touched.contains(*it)).count();
            if touched.len() + more > limit && !batch.is_empty() {
                batches.push(std::mem::take(&mut batch));
                touched.clear();
            }
            touched.extend(with_it.drain(..));
            batch.push(part);
        }
        batches.extend((!batch.is_empty()).then_some(batch));
        batches
    }

    /// The rows that a part changes, and those whose collections it changes, for which there is an operation of its own. Whatever was
    /// committed before the part, it takes no more operations than these, and those of several parts that are the same are one.
    fn touched(&self, observed: &Northbound, scope: &Scope) -> Vec<(RowId, bool)> {
        let Scope::Some { rows, members } = scope else { return Vec::new() };
        let differs = |id: &&RowId| observed.existing(id) != self.desired().row(id);
        let moves = |member: &&Member| observed.has(member) != self.desired().has(member);
        let holders = members.iter().filter(moves).map(|member| (member.row, true));
        let mut touched: Vec<_> = rows.iter().filter(differs).map(|id| (*id, false)).chain(holders).collect();
        touched.dedup();
        touched
    }

    /// What no unit wants: ports, addresses that ports had, and the rest.
    fn unwanted(&self, observed: &Northbound) -> (Unwanted, Scope, Unwanted) {
        let (mut ports, mut addresses, mut rest) = (Unwanted::new(), Scope::default(), Unwanted::new());
        let released = self.released_addresses(observed);
        let is_wanted = |id: &RowId| self.desired().row(id).is_some();
        let place = |id: Option<RowId>| (id.map_or(0, |id| depth(id.table)), id);
        for (id, _) in observed.rows().filter(|(id, _)| !is_wanted(id)) {
            let scopes = if is_port(id) { &mut ports } else { &mut rest };
            scopes.entry(place(Some(*id))).or_default().add_row(*id);
        }
        for member in observed.all_members().filter(|member| !self.desired().has(member)) {
            let held = member.held();
            let of_port = held.is_some_and(|id| is_port(&id) && !is_wanted(&id));
            let was_released = held.is_none() && member.value.as_str().is_some_and(|value| released.contains(value));
            if was_released {
                addresses.add_member(member);
            } else {
                let scopes = if of_port { &mut ports } else { &mut rest };
                scopes.entry(place(held)).or_default().add_member(member);
            }
        }
        (ports, addresses, rest)
    }

    /// Addresses, of either layer, of ports that are gone or have others now.
    fn released_addresses<'a>(&self, observed: &'a Northbound) -> HashSet<&'a str> {
        let mut released = HashSet::new();
        for (id, row) in observed.rows().filter(|(id, _)| is_port(id)) {
            let kept: HashSet<&str> = self.desired().row(id).into_iter().flat_map(|row| addresses(row)).collect();
            released.extend(addresses(row).filter(|address| !kept.contains(address)));
        }
        released
    }
}

fn is_port(id: &RowId) -> bool {
    id.table == LogicalSwitchPort::TABLE
}

fn addresses(port: &Row) -> impl Iterator<Item = &str> {
    let addresses = port.get("addresses").into_iter().flat_map(|addresses| addresses.strings());
    addresses.flat_map(|addresses| addresses.split(' '))
}
