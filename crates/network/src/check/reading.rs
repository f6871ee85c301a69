//! A Northbound read once for all rules: rows by table, matches as trees.

use std::collections::{BTreeMap, HashMap};

use netloom_ovsdb::{Atom, Datum, Row, Table as _};
use uuid::Uuid;

use crate::check::expression::Expression;
use crate::northbound::{Northbound, RowId, key_of};
use crate::rows::{Acl, LogicalRouterPolicy};

/// Tables whose rows have a match.
const WITH_MATCH: [&str; 2] = [Acl::TABLE, LogicalRouterPolicy::TABLE];

/// A Northbound, read for the rules.
pub(super) struct Reading<'a> {
    pub(super) northbound: &'a Northbound,
    tables: HashMap<&'static str, Vec<(RowId, &'a Row)>>,
    /// Matches, those that can be read as trees.
    pub(super) matches: Vec<(RowId, Result<Expression, String>)>,
}

impl<'a> Reading<'a> {
    pub(super) fn of(northbound: &'a Northbound) -> Self {
        let mut tables: HashMap<&'static str, Vec<(RowId, &'a Row)>> = HashMap::new();
        for (id, row) in northbound.rows() {
            tables.entry(id.table).or_default().push((*id, row.as_ref()));
        }
        tables.values_mut().for_each(|rows| rows.sort_unstable_by_key(|(id, _)| *id));
        let rows = WITH_MATCH.iter().flat_map(|table| tables.get(table).into_iter().flatten());
        let matches = rows.map(|(id, row)| (*id, Expression::parse(text(row, "match")))).collect();
        Self {
            northbound,
            tables,
            matches,
        }
    }

    /// Rows of a table, in the order of their UUIDs.
    pub(super) fn rows(&self, table: &str) -> impl Iterator<Item = (RowId, &'a Row)> + use<'a, '_> {
        self.tables.get(table).into_iter().flatten().copied()
    }

    /// Rows that a collection holds, as far as they are ours.
    pub(super) fn held(&self, holder: RowId, column: &'static str, table: &'static str) -> impl Iterator<Item = (RowId, &'a Row)> {
        let uuids = self.northbound.members(holder, column).filter_map(Atom::as_uuid);
        uuids.filter_map(move |uuid| {
            let id = RowId { table, uuid };
            Some((id, self.northbound.row(&id)?.as_ref()))
        })
    }

    /// A row by its name.
    pub(super) fn by_name(&self, table: &str) -> BTreeMap<&'a str, RowId> {
        self.rows(table).map(|(id, row)| (text(row, "name"), id)).collect()
    }

    /// Table and key of a row, for messages.
    pub(super) fn named(&self, id: RowId) -> String {
        let key = self.northbound.row(&id).and_then(|row| key_of(id.table, row));
        format!("{} {}", id.table, key.unwrap_or_else(|| id.uuid.to_string()))
    }
}

/// A column that is one string; empty without it.
pub(super) fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).and_then(Datum::as_str).unwrap_or_default()
}

/// A column that is one number; zero without it.
pub(super) fn number(row: &Row, column: &str) -> i64 {
    row.get(column).and_then(Datum::as_integer).unwrap_or_default()
}

/// A column that is a set of strings.
pub(super) fn strings<'a>(row: &'a Row, column: &str) -> impl Iterator<Item = &'a str> {
    row.get(column).into_iter().flat_map(Datum::strings)
}

/// An entry of a column that is a map.
pub(super) fn entry<'a>(row: &'a Row, column: &str, key: &str) -> Option<&'a str> {
    row.get(column)?.get(key)
}

/// All entries of a column that is a map of strings.
pub(super) fn entries<'a>(row: &'a Row, column: &str) -> Vec<(&'a str, &'a str)> {
    let map = row.get(column).and_then(Datum::as_map);
    map.into_iter()
        .flat_map(netloom_ovsdb::Map::iter)
        .filter_map(|(key, value)| Some((key.as_str()?, value.as_str()?)))
        .collect()
}

/// Whether a row can be one of ours; the server gives the rows of others random UUIDs.
pub(super) fn is_ours(uuid: Uuid) -> bool {
    uuid.get_version_num() == 5
}
