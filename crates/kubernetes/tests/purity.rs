//! Reading is as pure as the core: whatever this crate depends on, the core does.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn reading_depends_on_nothing_that_the_core_does_not() {
    let core = dependencies("netloom-network");
    assert!(core.contains("serde_json"), "{core:?}");
    let ours: Vec<String> = dependencies("netloom-kubernetes").difference(&core).cloned().collect();
    assert_eq!(ours, ["netloom-kubernetes"]);
}

fn dependencies(package: &str) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--no-dedupe"])
        .args(["--format", "{p}", "--package", package])
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}
