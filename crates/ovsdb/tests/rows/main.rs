//! The generated rows: the checked-in file is what the generator writes, and it does what it should.
//!
//! To renew it: `cargo run -p netloom-ovsdb --bin ovsdb-rows -- crates/ovsdb/tests/rows/garden.ovsschema > crates/ovsdb/tests/rows/garden.rs`
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod garden;

use std::collections::{BTreeMap, BTreeSet};

use garden::{FlowerBed, Plant, TABLES};
use netloom_ovsdb::generate::generate;
use netloom_ovsdb::{Datum, Row, Schema, Table, Uuid};

fn bed() -> FlowerBed {
    FlowerBed {
        name: "roses".to_owned(),
        type_: "raised".to_owned(),
        match_: Some("rosa".to_owned()),
        area: 2.5.into(),
        plants: BTreeSet::from([Uuid::from_u128(2), Uuid::from_u128(1)]),
        external_ids: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        ..FlowerBed::default()
    }
}

#[test]
fn the_file_is_what_the_generator_writes() {
    let schema = Schema::parse(include_str!("garden.ovsschema")).unwrap();
    assert_eq!(generate(&schema, &[]).unwrap(), include_str!("garden.rs"));
}

#[test]
fn rows_leave_defaults_out_and_survive() {
    assert_eq!(FlowerBed::default().to_row(), Row::new());
    let row = bed().to_row();
    assert_eq!(
        row.keys().collect::<Vec<_>>(),
        ["area", "external_ids", "match", "name", "plants", "type"]
    );
    assert_eq!(row["plants"], Datum::set([Uuid::from_u128(1), Uuid::from_u128(2)]));
    assert_eq!(FlowerBed::from_row(&row), bed());
}

#[test]
fn reading_is_total() {
    let odd = Row::from([
        ("name".to_owned(), Datum::integer(1)),
        ("match".to_owned(), Datum::empty_map()),
        ("area".to_owned(), Datum::integer(3)),
        ("unknown".to_owned(), Datum::string("x")),
    ]);
    assert_eq!(
        FlowerBed::from_row(&odd),
        FlowerBed {
            area: 3.0.into(),
            ..FlowerBed::default()
        }
    );
}

#[test]
fn columns_know_their_defaults() {
    let schema = Schema::parse(include_str!("garden.ovsschema")).unwrap();
    assert_eq!(
        TABLES.iter().map(|(table, _)| *table).collect::<Vec<_>>(),
        [FlowerBed::TABLE, Plant::TABLE]
    );
    for (table, columns) in TABLES {
        for column in *columns {
            assert_eq!(column.default_datum(), schema.tables[*table].columns[column.name].default_datum());
        }
    }
    let plants = FlowerBed::COLUMNS.iter().find(|column| column.name == "plants").unwrap();
    assert_eq!(plants.refers_to, Some(Plant::TABLE));
}
