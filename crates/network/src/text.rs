//! The Northbound as text for people: rows in a stable order under their keys, references shown as the keys they point to. This is
//! what `netloom plan` prints and what scenario snapshots hold; it has no UUID in it.

use netloom_contract::external_id::KEY;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use netloom_ovsdb::{Atom, Datum, Row};
use uuid::Uuid;

use crate::northbound::{Northbound, RowId, key_of};

/// Writes a Northbound.
pub fn northbound(northbound: &Northbound) -> String {
    let keys: HashMap<Uuid, String> = northbound.rows().map(|(id, row)| (id.uuid, key(id, row))).collect();
    let mut tables: BTreeMap<&str, BTreeMap<String, BTreeMap<&str, String>>> = BTreeMap::new();
    for (id, row) in northbound.rows() {
        let columns = row.iter().map(|(column, datum)| (column, show_datum(datum, &keys)));
        tables.entry(id.table).or_default().insert(key(id, row), columns.collect());
    }
    for (id, column, values) in northbound.collections() {
        let mut shown: Vec<String> = values.iter().map(|value| show_atom(value, &keys)).collect();
        shown.sort();
        let owner = keys.get(&id.uuid).cloned().unwrap_or_else(|| "(no such row)".to_owned());
        tables
            .entry(id.table)
            .or_default()
            .entry(owner)
            .or_default()
            .insert(column, shown.join(", "));
    }
    let mut text = String::new();
    for (table, rows) in tables {
        for (key, columns) in rows {
            let _ = writeln!(text, "{table} {key}");
            for (column, value) in columns {
                let _ = writeln!(text, "  {column}: {value}");
            }
            text.push('\n');
        }
    }
    text
}

fn key(id: &RowId, row: &Row) -> String {
    key_of(id.table, row).unwrap_or_else(|| "(no key)".to_owned())
}

fn show_datum(datum: &Datum, keys: &HashMap<Uuid, String>) -> String {
    match datum {
        Datum::Set(values) => values.iter().map(|value| show_atom(value, keys)).collect::<Vec<_>>().join(", "),
        Datum::Map(entries) => {
            let own = |name: &Atom| name.as_str() == Some(KEY);
            let shown = entries
                .iter()
                .filter(|(name, _)| !own(name))
                .map(|(name, value)| format!("{}={}", show_atom(name, keys), show_atom(value, keys)));
            shown.collect::<Vec<_>>().join(" ")
        }
    }
}

fn show_atom(atom: &Atom, keys: &HashMap<Uuid, String>) -> String {
    match atom {
        Atom::Uuid(uuid) => keys.get(uuid).cloned().unwrap_or_else(|| "(no such row)".to_owned()),
        Atom::String(text) => text.to_string(),
        Atom::Integer(number) => number.to_string(),
        Atom::Boolean(value) => value.to_string(),
        Atom::Real(number) => number.get().to_string(),
        Atom::NamedUuid(name) => name.to_string(),
    }
}
