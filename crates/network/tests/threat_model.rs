//! `docs/threat-model.md` names a test for whatever somebody may try, and all of them exist.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::path::Path;

#[test]
fn every_line_of_the_threat_model_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/threat-model.md")).unwrap();
    let mut sources = String::new();
    for folder in ["crates", "tests"] {
        read(&root.join(folder), &mut sources);
    }
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| --- "))
        .collect();
    let tries: Vec<&&str> = rows.iter().filter(|row| !row.starts_with("| tries to ")).collect();
    assert!(tries.len() > 10, "the tables are not found: correct this test");
    for row in tries {
        let tests = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test is named: {row}");
        for test in named {
            let exists = [format!("fn {test}("), format!("def {test}(")]
                .iter()
                .any(|start| sources.contains(start));
            assert!(exists, "there is no test {test}: {row}");
        }
    }
}

/// Adds all Rust and Python sources under a folder.
fn read(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, sources);
        } else if path.extension().is_some_and(|end| end == "rs" || end == "py") {
            sources.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
