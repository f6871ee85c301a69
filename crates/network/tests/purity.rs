//! The core is pure because of what it may depend on: nothing that waits, listens, logs, reads a clock or draws random numbers.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeSet;
use std::process::Command;

const ALLOWED: &[&str] = &[
    "ipnet",
    "itoa",
    "memchr",
    "netloom-contract",
    "netloom-network",
    "netloom-ovsdb",
    "proc-macro2",
    "quote",
    "ryu",
    "serde",
    "serde_core",
    "serde_derive",
    "serde_json",
    "sha1_smol",
    "syn",
    "thiserror",
    "thiserror-impl",
    "unicode-ident",
    "uuid",
    "zmij",
];

#[test]
fn the_dependency_list_proves_the_core_pure() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package",
            "netloom-network",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{lib} {p}",
            "--no-dedupe",
        ])
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).unwrap();
    let found: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert!(found.contains("netloom-ovsdb"), "{text}");
    let strangers: Vec<_> = found.into_iter().filter(|name| !ALLOWED.contains(name)).collect();
    assert_eq!(strangers, Vec::<&str>::new(), "the pure core may not depend on these");
}
