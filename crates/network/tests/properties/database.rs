//! A database of raw rows that applies transactions the way `ovsdb-server` does, for properties that need thousands of commits.

use std::collections::{BTreeSet, HashMap, HashSet};

use netloom_network::northbound::collections;
use netloom_network::{Northbound, Scope, diff};
use netloom_ovsdb::{Atom, Condition, Datum, Mutator, Operation, Row, Transaction};
use uuid::Uuid;

#[derive(Clone, Default)]
pub struct Database {
    rows: HashMap<(String, Uuid), Row>,
    observed: Northbound,
}

impl Database {
    /// What a controller that watches it sees.
    pub fn observed(&self) -> &Northbound {
        &self.observed
    }

    /// A database that has these rows.
    pub fn of(northbound: &Northbound) -> Self {
        let mut database = Self::default();
        let everything = diff(&Northbound::default(), northbound, &Scope::All);
        database.apply(&everything).unwrap();
        database
    }

    /// Applies a transaction; an error says why the server would refuse it.
    pub fn apply(&mut self, transaction: &Transaction) -> Result<(), String> {
        for operation in &transaction.0 {
            self.operate(operation)?;
        }
        for operation in &transaction.0 {
            let (table, uuid) = changed(operation);
            let row = self.rows.get(&(table.to_owned(), uuid));
            self.observed.observe(table, uuid, row);
        }
        Ok(())
    }

    fn operate(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Insert { table, row, uuid, .. } => {
                if self.rows.insert((table.clone(), uuid.unwrap()), row.clone()).is_some() {
                    return Err(format!("insert of a row that exists: {row:?}"));
                }
            }
            Operation::Update { table, where_, row } => {
                let current = self.row(table, where_)?;
                for (column, datum) in row.iter() {
                    if datum.is_empty() || datum.as_str() == Some("") || datum.as_bool() == Some(false) {
                        current.remove(column);
                    } else {
                        current.insert(column, datum.clone());
                    }
                }
            }
            Operation::Mutate { table, where_, mutations } => {
                let row = self.row(table, where_)?;
                for mutation in mutations {
                    let mut values: BTreeSet<Atom> = row.get(&mutation.column).map(|d| d.atoms().cloned().collect()).unwrap_or_default();
                    for atom in mutation.value.atoms() {
                        let news = match mutation.mutator {
                            Mutator::Insert => values.insert(atom.clone()),
                            Mutator::Delete => values.remove(atom),
                            _ => unreachable!("the diff only inserts and deletes"),
                        };
                        if !news {
                            return Err(format!("a mutation that changes nothing: {mutation:?}"));
                        }
                    }
                    row.insert(mutation.column.clone(), Datum::set(values));
                }
            }
            Operation::Delete { table, where_ } => {
                let old = self.rows.remove(&(table.clone(), target(where_)));
                old.ok_or_else(|| format!("delete of a row of {table} that does not exist"))?;
            }
            other => unreachable!("the diff does not use {other:?}"),
        }
        Ok(())
    }

    /// Rows that a row refers to exist; the server refuses what breaks this.
    pub fn whole(&self) -> Result<(), String> {
        let known: HashSet<Uuid> = self.rows.keys().map(|(_, uuid)| *uuid).collect();
        for ((table, _), row) in &self.rows {
            for column in collections(table) {
                let held = row.get(column).into_iter().flat_map(Datum::uuids);
                if held.into_iter().any(|uuid| !known.contains(&uuid)) {
                    return Err(format!("{table}.{column} refers to rows that do not exist: {row:?}"));
                }
            }
        }
        Ok(())
    }

    fn row(&mut self, table: &str, where_: &[Condition]) -> Result<&mut Row, String> {
        let row = self.rows.get_mut(&(table.to_owned(), target(where_)));
        row.ok_or_else(|| format!("change of a row of {table} that does not exist"))
    }
}

/// The row an operation is about.
fn changed(operation: &Operation) -> (&str, Uuid) {
    match operation {
        Operation::Insert { table, uuid, .. } => (table, uuid.unwrap()),
        Operation::Update { table, where_, .. } | Operation::Mutate { table, where_, .. } | Operation::Delete { table, where_ } => {
            (table, target(where_))
        }
        other => unreachable!("the diff does not use {other:?}"),
    }
}

fn target(where_: &[Condition]) -> Uuid {
    match where_ {
        [Condition::Column { column, value, .. }] if column == "_uuid" => value.as_uuid().unwrap(),
        other => unreachable!("the diff addresses rows by uuid, not by {other:?}"),
    }
}
