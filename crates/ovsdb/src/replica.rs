//! A copy of the monitored rows, kept current by applying the server's updates.
//!
//! Pure: an update goes in, the changes it meant come out. The client keeps one; a consumer that wants its own applies
//! the changes it is given. Rows are shared, so a second replica costs pointers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::atom::InvalidValue;
use crate::datum::Datum;
use crate::row::Row;
use crate::schema::{NormalizeError, Schema, TableSchema};

/// Changes in the order in which they were applied.
pub type Changes = Vec<RowChange>;

/// The change of one row: inserted (no `old`), deleted (no `new`) or modified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// The table.
    pub table: Arc<str>,
    /// The identity of the row.
    pub uuid: Uuid,
    /// The row before.
    pub old: Option<Arc<Row>>,
    /// The row after.
    pub new: Option<Arc<Row>>,
}

/// The rows of a table by identity.
pub type Rows = HashMap<Uuid, Arc<Row>>;

/// A copy of the monitored part of a database.
#[derive(Clone, Debug)]
pub struct Replica {
    schema: Arc<Schema>,
    tables: HashMap<Arc<str>, Rows>,
}

impl Replica {
    /// An empty replica of a database with this schema.
    pub fn new(schema: Arc<Schema>) -> Self {
        Replica {
            schema,
            tables: HashMap::new(),
        }
    }

    /// The schema of the database.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The tables that have, or had, rows.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &Rows)> {
        self.tables.iter().map(|(table, rows)| (&**table, rows))
    }

    /// The rows of a table, in no particular order.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = (&Uuid, &Arc<Row>)> {
        self.tables.get(table).into_iter().flatten()
    }

    /// One row.
    pub fn row(&self, table: &str, uuid: &Uuid) -> Option<&Arc<Row>> {
        self.tables.get(table)?.get(uuid)
    }

    /// The number of rows of all tables.
    pub fn len(&self) -> usize {
        self.tables.values().map(HashMap::len).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies changes that another replica reported.
    pub fn apply(&mut self, changes: &[RowChange]) {
        for change in changes {
            let rows = self.tables.entry(change.table.clone()).or_default();
            match &change.new {
                Some(row) => rows.insert(change.uuid, row.clone()),
                None => rows.remove(&change.uuid),
            };
        }
    }

    /// Applies a `<table-updates>` of RFC 7047 (`monitor`, `update`): old and new contents of each row.
    pub fn apply_update(&mut self, updates: &Value) -> Result<Changes, ReplicaError> {
        self.apply_with(updates, |table, _, update| match update.get("new") {
            None | Some(Value::Null) => Ok(None),
            Some(new) => Ok(Some(table.normalize(new)?)),
        })
    }

    /// Applies a `<table-updates2>` (`monitor_cond`, `update2`, `update3`): differences.
    pub fn apply_update2(&mut self, updates: &Value) -> Result<Changes, ReplicaError> {
        self.apply_with(updates, |table, old, update| {
            if let Some(new) = update.get("initial").or_else(|| update.get("insert")) {
                Ok(Some(table.normalize(new)?))
            } else if let Some(difference) = update.get("modify") {
                let old = old.ok_or(RowError::Unknown)?;
                Ok(Some(modified(table, old, difference)?))
            } else if update.get("delete").is_some() {
                Ok(None)
            } else {
                Err(NormalizeError::from(InvalidValue::new("not a row update", update)).into())
            }
        })
    }

    fn apply_with(
        &mut self,
        updates: &Value,
        new: impl Fn(&TableSchema, Option<&Row>, &Value) -> Result<Option<Row>, RowError>,
    ) -> Result<Changes, ReplicaError> {
        let tables = updates.as_object().ok_or_else(|| ReplicaError::malformed(updates))?;
        let schema = self.schema.clone();
        let mut changes = Changes::new();
        for (table, updates) in tables {
            let name: Arc<str> = self
                .tables
                .get_key_value(table.as_str())
                .map_or_else(|| table.as_str().into(), |(key, _)| key.clone());
            let error = |uuid: &str, error: RowError| ReplicaError::Row {
                table: table.clone(),
                uuid: uuid.to_owned(),
                error,
            };
            let table_schema = schema
                .table(table)
                .map_err(|unknown| error("*", NormalizeError::from(unknown).into()))?;
            let rows = self.tables.entry(name.clone()).or_default();
            for (text, update) in updates.as_object().ok_or_else(|| ReplicaError::malformed(updates))? {
                let uuid = Uuid::try_parse(text).map_err(|_| ReplicaError::malformed(updates))?;
                let old = rows.get(&uuid).cloned();
                let new = new(table_schema, old.as_deref(), update)
                    .map_err(|cause| error(text, cause))?
                    .map(Arc::new);
                if old == new {
                    continue;
                }
                match (rows.entry(uuid), new.clone()) {
                    (Entry::Occupied(entry), None) => drop(entry.remove()),
                    (Entry::Vacant(_), None) => {}
                    (entry, Some(row)) => drop(entry.insert_entry(row)),
                }
                changes.push(RowChange {
                    table: name.clone(),
                    uuid,
                    old,
                    new,
                });
            }
        }
        Ok(changes)
    }
}

fn modified(table: &TableSchema, old: &Row, difference: &Value) -> Result<Row, NormalizeError> {
    let columns = difference.as_object().ok_or_else(|| InvalidValue::new("not a row", difference))?;
    // What does not change is copied, what does is made from the old: large sets are not copied twice.
    let kept = old.iter().filter(|(column, _)| !columns.contains_key(*column));
    let mut row: Row = kept.map(|(column, datum)| (column, datum.clone())).collect();
    for (column, value) in columns {
        let kind = table.kind(column)?;
        let value = kind.normalize(Datum::from_json(value)?);
        let new = match old.get(column) {
            Some(old) if kind.changes_by_difference() => old.apply_difference(&value),
            _ => value,
        };
        if !kind.is_default(&new) {
            row.insert(column, new);
        }
    }
    Ok(row)
}

/// Two replicas are equal when they hold the same rows.
impl PartialEq for Replica {
    fn eq(&self, other: &Self) -> bool {
        let contained = |a: &Replica, b: &Replica| {
            a.tables
                .iter()
                .all(|(table, rows)| rows.is_empty() || b.tables.get(table) == Some(rows))
        };
        contained(self, other) && contained(other, self)
    }
}

/// An update that cannot be applied. The replica is then partly updated and must be fetched again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// The update is not well formed.
    #[error(transparent)]
    Malformed(InvalidValue),
    /// The update of one row makes no sense.
    #[error("apply update of {table} row {uuid}: {error}")]
    Row {
        /// The table.
        table: String,
        /// The identity of the row.
        uuid: String,
        /// What is wrong.
        error: RowError,
    },
}

impl ReplicaError {
    pub(crate) fn malformed(json: &Value) -> Self {
        ReplicaError::Malformed(InvalidValue::new("not an update of tables", json))
    }
}

/// What is wrong with the update of a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// A row that is not in the replica was modified.
    #[error("the row was modified but is not in the replica")]
    Unknown,
    /// The contents do not fit the schema.
    #[error(transparent)]
    Contents(#[from] NormalizeError),
}
