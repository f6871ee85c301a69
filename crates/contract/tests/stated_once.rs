//! Keys are stated in this crate alone: the programs that share them write none of their own.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn programs_write_no_key_of_their_own() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for program in ["agent", "cni", "controller", "ovn"] {
        sources(&crates.join(program).join("src"), &mut files);
    }
    assert!(files.len() > 50, "there are sources: {}", files.len());
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| line.contains("\"netloom.io/"));
        found.extend(lines.map(|line| format!("{}: {}", file.display(), line.trim())));
    }
    assert!(found.is_empty(), "state these in netloom-contract: {found:#?}");
}
