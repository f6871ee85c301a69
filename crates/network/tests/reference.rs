//! `docs/reference.md` lists every name that users meet: the annotations, labels, external ids, reasons and metrics in the sources.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Crates that write no annotation, Event or metric of a cluster: the lab has its own Kubernetes, the CLI and the doctor print what others
/// wrote, and fixtures are for tests.
const OTHER_CRATES: [&str; 7] = ["apiserver", "cli", "doctor", "fixtures", "lab", "lab-fixtures", "ovsdb"];
/// CamelCase words that are not reasons but words of Kubernetes.
const OTHER_WORDS: &str = "ClientIP ClusterIP ContainerPort DoesNotExist EndpointSlice ExternalName HostPort InternalIP LoadBalancer \
                           NetworkPolicies NodePort ReplicaSet SecurityGroups StatefulSet";

#[test]
fn the_reference_lists_every_name_that_users_meet() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(crates.join("../docs/reference.md")).unwrap();
    // In a table, the first cell lists a name; the others only mention it.
    let cells = page
        .lines()
        .map(|line| line.strip_prefix('|').and_then(|row| row.split('|').next()).unwrap_or(line));
    let listed: BTreeSet<&str> = cells.flat_map(|text| text.split([' ', '`', ',', '(', ')', ':'])).collect();
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        if !OTHER_CRATES.iter().any(|other| path.ends_with(other)) {
            collect(&path.join("src"), &mut names);
        }
    }
    for expected in ["AddressRefused", "netloom_controller_active", "netloom_cni_add_seconds"] {
        assert!(names.contains(expected), "{expected} is not found: correct this test");
    }
    let counter = |name: &str| format!("{name}_total");
    let missing = |name: &&String| !listed.contains(name.as_str()) && !listed.contains(counter(name).as_str());
    let missing: Vec<&String> = names.iter().filter(missing).collect();
    assert!(missing.is_empty(), "add these names to docs/reference.md: {missing:?}");
}

/// Adds the names in all sources under a folder; unit tests are left out.
fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && file != "tests" {
            collect(&path, names);
        } else if file.ends_with(".rs") && !file.ends_with("tests.rs") && file != "rows.rs" {
            let text = fs::read_to_string(&path).unwrap();
            add(text.split("#[cfg(test)]\nmod tests {").next().unwrap(), names);
        }
    }
}

/// Adds the names in a source. Whatever is between two quotes is looked at: code between two literals never has the form of a name.
fn add(source: &str, names: &mut BTreeSet<String>) {
    let mut prefix = "";
    for (before, literal) in source.split('"').zip(source.split('"').skip(1)) {
        match before.trim_end() {
            code if code.ends_with("Registry::with_prefix(") => prefix = literal,
            code if code.ends_with("registry.register(") => drop(names.insert(format!("{prefix}_{literal}"))),
            _ if is_name(literal) => drop(names.insert(literal.to_owned())),
            _ => {}
        }
    }
}

/// Whether a literal is a name under our prefixes, or has the form of a reason: `AddressRefused`.
fn is_name(literal: &str) -> bool {
    let prefixed = |prefix: &str| literal.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
    let plain = literal.chars().all(|c| c.is_ascii_alphanumeric() || "./-_".contains(c));
    let capitals = literal.chars().filter(char::is_ascii_uppercase).count();
    let camel =
        literal.len() > 5 && literal.chars().all(|c| c.is_ascii_alphabetic()) && literal.starts_with(|c: char| c.is_ascii_uppercase());
    let reason = camel && capitals > 1 && capitals < literal.len() / 2 && OTHER_WORDS.split(' ').all(|other| other != literal);
    plain && (reason || ["netloom.io/", "opencontrail."].into_iter().any(prefixed))
}
