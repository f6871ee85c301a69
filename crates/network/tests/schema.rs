//! The row types are those of the OVN in the node image.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use netloom_fixtures::NORTHBOUND;
use netloom_network::check::{HOLDERS, ROOTS};
use netloom_network::northbound::TABLES;
use netloom_ovsdb::Schema;

fn schema() -> Schema {
    Schema::parse(&std::fs::read_to_string(NORTHBOUND.path()).unwrap()).unwrap()
}

#[test]
fn rows_are_generated_from_the_schema_of_the_node_image() {
    let generated = netloom_ovsdb::generate::generate(&schema(), &[]).unwrap();
    assert!(
        generated == include_str!("../src/rows.rs"),
        "rows.rs is of another schema; generate it again, see docs/decisions/0004"
    );
}

/// Which rows the server would drop is as the linter has it.
#[test]
fn the_server_keeps_the_rows_the_linter_says_it_keeps() {
    let schema = schema();
    let ours = |table: &str| TABLES.iter().any(|(known, _)| *known == table);
    let roots: Vec<&String> = schema
        .tables
        .iter()
        .filter(|(name, table)| table.is_root && ours(name))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(roots, ROOTS);
    let mut holders = Vec::new();
    for (name, table) in schema.tables.iter().filter(|(name, _)| ours(name)) {
        for (column, of) in &table.columns {
            let held = of
                .key_reference
                .iter()
                .filter(|held| held.strong && ours(&held.table) && !ROOTS.contains(&held.table.as_str()));
            holders.extend(held.map(|held| (name.as_str(), column.as_str(), held.table.as_str())));
        }
    }
    assert_eq!(holders, HOLDERS);
}
