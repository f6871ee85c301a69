//! A database of raw rows that applies transactions the way `ovsdb-server` does, for properties that need thousands of commits.

use std::collections::{BTreeSet, HashMap, HashSet};

use netloom_network::Northbound;
use netloom_network::northbound::collections;
use netloom_ovsdb::{Atom, Condition, Datum, Mutator, Operation, Row, Transaction};
use uuid::Uuid;

#[derive(Clone, Default)]
pub struct Database {
    rows: HashMap<(String, Uuid), Row>,
}

impl Database {
    pub fn observed(&self) -> Northbound {
        let mut northbound = Northbound::default();
        for ((table, uuid), row) in &self.rows {
            northbound.observe(table, *uuid, Some(row));
        }
        northbound
    }

    pub fn apply(&mut self, transaction: &Transaction) {
        for operation in &transaction.0 {
            match operation {
                Operation::Insert { table, row, uuid, .. } => {
                    let old = self.rows.insert((table.clone(), uuid.unwrap()), row.clone());
                    assert!(old.is_none(), "insert of a row that exists");
                }
                Operation::Update { table, where_, row } => {
                    let current = self.row(table, where_);
                    for (column, datum) in row {
                        if datum.is_empty() || datum.as_str() == Some("") || datum.as_bool() == Some(false) {
                            current.remove(column);
                        } else {
                            current.insert(column.clone(), datum.clone());
                        }
                    }
                }
                Operation::Mutate { table, where_, mutations } => {
                    let row = self.row(table, where_);
                    for mutation in mutations {
                        let mut values: BTreeSet<Atom> =
                            row.get(&mutation.column).map(|d| d.atoms().cloned().collect()).unwrap_or_default();
                        for atom in mutation.value.atoms() {
                            match mutation.mutator {
                                Mutator::Insert => assert!(values.insert(atom.clone()), "mutate inserts what is there"),
                                Mutator::Delete => assert!(values.remove(atom), "mutate deletes what is not there"),
                                _ => unreachable!("the diff only inserts and deletes"),
                            }
                        }
                        row.insert(mutation.column.clone(), Datum::set(values));
                    }
                }
                Operation::Delete { table, where_ } => {
                    self.rows
                        .remove(&(table.clone(), target(where_)))
                        .expect("delete of a row that does not exist");
                }
                other => unreachable!("the diff does not use {other:?}"),
            }
        }
    }

    /// Rows that a row refers to exist; the server refuses what breaks this.
    pub fn assert_whole(&self) {
        let known: HashSet<Uuid> = self.rows.keys().map(|(_, uuid)| *uuid).collect();
        for ((table, _), row) in &self.rows {
            for column in collections(table) {
                let held = row.get(column).into_iter().flat_map(Datum::uuids);
                let missing: Vec<Uuid> = held.filter(|uuid| !known.contains(uuid)).collect();
                assert!(missing.is_empty(), "{table}.{column} refers to rows that do not exist: {row:?}");
            }
        }
    }

    fn row(&mut self, table: &str, where_: &[Condition]) -> &mut Row {
        self.rows
            .get_mut(&(table.to_owned(), target(where_)))
            .expect("change of a row that does not exist")
    }
}

fn target(where_: &[Condition]) -> Uuid {
    match where_ {
        [Condition::Column { column, value, .. }] if column == "_uuid" => value.as_uuid().unwrap(),
        other => unreachable!("the diff addresses rows by uuid, not by {other:?}"),
    }
}
