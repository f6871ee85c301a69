//! From observed to desired: the transaction that makes one Northbound the other.
//!
//! A changed row is an update of its changed columns, never delete and insert; a collection changes by `mutate`. Applying
//! `diff(a, b)` to `a` gives `b`, and `diff(x, x)` is empty.

use std::collections::{BTreeMap, BTreeSet};

use netloom_ovsdb::{Atom, Datum, Mutation, Operation, Row, Transaction};

use crate::northbound::{Member, Northbound, RowId, collections, default_of};
use crate::plan::Scope;

/// What takes `observed` to `desired`, looking only at what is in `scope`.
pub fn diff(observed: &Northbound, desired: &Northbound, scope: &Scope) -> Transaction {
    match scope {
        Scope::All => {
            let rows = observed.rows().chain(desired.rows()).map(|(id, _)| *id).collect();
            let of = |northbound: &Northbound| northbound.all_members().collect::<BTreeSet<_>>();
            let members = of(observed).symmetric_difference(&of(desired)).cloned().collect();
            operations(observed, desired, &rows, &members)
        }
        Scope::Some { rows, members } => operations(observed, desired, rows, members),
    }
}

fn operations(observed: &Northbound, desired: &Northbound, rows: &BTreeSet<RowId>, members: &BTreeSet<Member>) -> Transaction {
    let (mut inserts, mut updates, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
    let there = |id: &RowId| rows.contains(id) || observed.existing(id).is_some();
    for id in rows {
        match (observed.existing(id), desired.row(id)) {
            (None, Some(wanted)) => inserts.push(insert(id, wanted, desired, there)),
            (Some(current), Some(wanted)) => updates.extend(update(id, current, wanted)),
            (Some(_), None) if observed.row(id).is_some() => deletes.push(Operation::delete(id.table, id.uuid)),
            (_, None) => {}
        }
    }
    let mutates = mutates(observed, desired, rows, members);
    Transaction(inserts.into_iter().chain(updates).chain(mutates).chain(deletes).collect())
}

/// A new row with those of its members that are there; the others bring themselves along when they come.
fn insert(id: &RowId, wanted: &Row, desired: &Northbound, there: impl Fn(&RowId) -> bool) -> Operation {
    let mut row = wanted.clone();
    for column in collections(id.table) {
        let members = desired.members(*id, column).map(|value| Member {
            row: *id,
            column,
            value: value.clone(),
        });
        let values = Datum::set(
            members
                .filter(|member| member.held().is_none_or(|id| there(&id)))
                .map(|member| member.value),
        );
        if !values.is_empty() {
            row.insert(column, values);
        }
    }
    Operation::insert(id.table, id.uuid, row)
}

fn update(id: &RowId, current: &Row, wanted: &Row) -> Option<Operation> {
    let changed = wanted
        .iter()
        .filter(|(column, datum)| current.get(column) != Some(*datum))
        .map(|(column, datum)| (column, datum.clone()));
    let dropped = current
        .keys()
        .filter(|column| !wanted.contains_key(column))
        .map(|column| (column, default_of(id.table, column)));
    let row: Row = changed.chain(dropped).collect();
    (!row.is_empty()).then(|| Operation::update(id.table, id.uuid, row))
}

/// What one collection loses and gains.
#[derive(Default)]
struct Delta {
    removed: Vec<Atom>,
    added: Vec<Atom>,
}

/// Mutations of collections whose row exists before and after, even if it is to be deleted later. Members that are rows of somebody else
/// stay.
fn mutates(observed: &Northbound, desired: &Northbound, rows: &BTreeSet<RowId>, members: &BTreeSet<Member>) -> Vec<Operation> {
    let mut deltas: BTreeMap<RowId, BTreeMap<&'static str, Delta>> = BTreeMap::new();
    let is_deleted_later = |id: &RowId| observed.row(id).is_some() && !rows.contains(id);
    for member in members {
        let stays = desired.row(&member.row).is_some() || is_deleted_later(&member.row);
        if observed.existing(&member.row).is_none() || !stays {
            continue;
        }
        let delta = deltas.entry(member.row).or_default().entry(member.column).or_default();
        match (observed.has(member), desired.has(member)) {
            (true, false) if observed.owns(member) => delta.removed.push(member.value.clone()),
            (false, true) => delta.added.push(member.value.clone()),
            _ => {}
        }
    }
    let mutations = |(column, delta): (&'static str, Delta)| {
        let delete = (!delta.removed.is_empty()).then(|| Mutation::delete(column, Datum::set(delta.removed)));
        let insert = (!delta.added.is_empty()).then(|| Mutation::insert(column, Datum::set(delta.added)));
        delete.into_iter().chain(insert)
    };
    deltas
        .into_iter()
        .map(|(id, columns)| (id, columns.into_iter().flat_map(mutations).collect::<Vec<_>>()))
        .filter(|(_, mutations)| !mutations.is_empty())
        .map(|(id, mutations)| Operation::mutate(id.table, id.uuid, mutations))
        .collect()
}
