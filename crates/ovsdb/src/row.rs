//! Rows: the columns of one row, by name.
//!
//! A row is a sorted vector, not a tree: it has a handful of columns, and databases have hundreds of thousands of rows. Names of columns are
//! kept once for the whole program.

use std::collections::HashSet;
use std::fmt;
use std::ops::Index;
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::{Serialize, Serializer};

use crate::datum::Datum;

/// The columns of a row. A column that is absent holds its default.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(Vec<(&'static str, Datum)>);

/// Rows of one table have the same few columns; a vector that doubles would waste half of them.
const FIRST_COLUMNS: usize = 4;
const MORE_COLUMNS: usize = 2;

impl Row {
    /// A row whose columns all hold their default.
    pub fn new() -> Self {
        Self::default()
    }

    /// The contents of a column; none for the default.
    pub fn get(&self, column: &str) -> Option<&Datum> {
        let index = self.position(column).ok()?;
        self.0.get(index).map(|(_, datum)| datum)
    }

    /// Whether a column holds something else than its default.
    pub fn contains_key(&self, column: &str) -> bool {
        self.position(column).is_ok()
    }

    /// Sets the contents of a column; returns what it held.
    pub fn insert(&mut self, column: impl AsRef<str>, datum: Datum) -> Option<Datum> {
        match self.position(column.as_ref()) {
            Ok(index) => Some(std::mem::replace(&mut self.0[index].1, datum)),
            Err(index) => {
                self.insert_at(index, name(column.as_ref()), datum);
                None
            }
        }
    }

    /// The same for a name that is known when the program is compiled.
    pub(crate) fn insert_known(&mut self, column: &'static str, datum: Datum) {
        match self.position(column) {
            Ok(index) => self.0[index].1 = datum,
            Err(index) => self.insert_at(index, column, datum),
        }
    }

    /// Gives a column its default back; returns what it held.
    pub fn remove(&mut self, column: &str) -> Option<Datum> {
        let index = self.position(column).ok()?;
        Some(self.0.remove(index).1)
    }

    /// The columns in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Datum)> {
        self.0.iter().map(|(column, datum)| (*column, datum))
    }

    /// The names of the columns, in order.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(column, _)| *column)
    }

    /// How many columns hold something else than their default.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all columns hold their default.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, column: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(name, _)| (*name).cmp(column))
    }

    fn insert_at(&mut self, index: usize, column: &'static str, datum: Datum) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(if self.0.is_empty() { FIRST_COLUMNS } else { MORE_COLUMNS });
        }
        self.0.insert(index, (column, datum));
    }
}

/// The one copy of a name. It is never given back: a program meets the columns of a few schemas.
fn name(column: &str) -> &'static str {
    static NAMES: LazyLock<RwLock<HashSet<&'static str>>> = LazyLock::new(RwLock::default);
    if let Some(name) = NAMES.read().unwrap_or_else(PoisonError::into_inner).get(column) {
        return name;
    }
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(column) {
        return name;
    }
    let name = Box::leak(Box::from(column));
    names.insert(name);
    name
}

impl FromIterator<(&'static str, Datum)> for Row {
    fn from_iter<I: IntoIterator<Item = (&'static str, Datum)>>(columns: I) -> Self {
        let mut row = Self::new();
        for (column, datum) in columns {
            row.insert_known(column, datum);
        }
        row
    }
}

impl<S: AsRef<str>, const N: usize> From<[(S, Datum); N]> for Row {
    fn from(columns: [(S, Datum); N]) -> Self {
        columns.into_iter().map(|(column, datum)| (name(column.as_ref()), datum)).collect()
    }
}

impl IntoIterator for Row {
    type Item = (&'static str, Datum);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Index<&str> for Row {
    type Output = Datum;

    /// Panics if the column holds its default, like a map.
    #[allow(clippy::expect_used)]
    fn index(&self, column: &str) -> &Datum {
        self.get(column).expect("the column holds its default")
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_in_order_and_each_is_there_once() {
        let mut row = Row::from([("b", Datum::integer(2)), ("a", Datum::integer(1)), ("b", Datum::integer(3))]);
        assert_eq!(row.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(row["b"], Datum::integer(3));
        row.insert_known("c", Datum::integer(4));
        assert_eq!(row.insert("c", Datum::integer(5)), Some(Datum::integer(4)));
        assert_eq!(row.remove("a"), Some(Datum::integer(1)));
        assert_eq!((row.len(), row.get("a"), row.contains_key("c")), (2, None, true));
    }

    #[test]
    fn a_row_is_written_as_an_object() {
        let row = Row::from([("name", Datum::string("x")), ("ports", Datum::set(["a", "b"]))]);
        assert_eq!(serde_json::to_string(&row).unwrap(), r#"{"name":"x","ports":["set",["a","b"]]}"#);
    }
}
