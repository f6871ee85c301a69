//! The row types are those of the OVN in the node image.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::PathBuf;

use netloom_ovsdb::Schema;

#[test]
fn rows_are_generated_from_the_schema_of_the_node_image() {
    let image = std::env::var_os("NETLOOM_IMAGE").map_or_else(|| PathBuf::from("/var/cache/netloom/image/rootfs"), PathBuf::from);
    let path = image.join("usr/share/ovn/ovn-nb.ovsschema");
    let schema = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}; run `make rootfs` first", path.display()));
    let schema = Schema::parse(&schema).unwrap();
    let generated = netloom_ovsdb::generate::generate(&schema, &[]).unwrap();
    assert!(
        generated == include_str!("../src/rows.rs"),
        "rows.rs is of another schema; generate it again, see docs/decisions/0004"
    );
}
