//! Scenarios: `cluster.yaml` in, the Northbound and every problem out, compared with the reviewed text beside it. Of scenarios about
//! services (`service-*`) only what belongs to services is shown, of those about who reaches whom (`policy-*`, `cluster-policy-*`, `isolation-*`,
//! `app-*`, `security-*`) only groups, sets and ACLs; the rest is that of any other cluster.
//! `UPDATE_SCENARIOS=1 cargo test -p netloom-network --test scenarios` writes the texts anew; read the difference before you commit it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};

use netloom_kubernetes::manifest;
use netloom_network::{Planner, check, text};

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut folders: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(!folders.is_empty(), "no scenario in {}", root.display());
    folders
}

#[test]
fn every_scenario_compiles_to_its_reviewed_text() {
    for folder in folders() {
        let mut shown = compile(&std::fs::read_to_string(folder.join("cluster.yaml")).unwrap());
        let name = folder.file_name().unwrap().to_str().unwrap();
        if name.starts_with("service-") {
            shown = of_services(&shown);
        } else if ["policy-", "cluster-policy-", "isolation-", "app-", "security-"]
            .iter()
            .any(|kind| name.starts_with(kind))
        {
            shown = of_policies(&shown);
        }
        let expected = folder.join("northbound.txt");
        if std::env::var_os("UPDATE_SCENARIOS").is_some() {
            std::fs::write(&expected, &shown).unwrap();
        }
        let reviewed = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(shown, reviewed, "{} differs from what was reviewed", expected.display());
    }
}

fn plan(yaml: &str) -> Planner {
    let manifests: Vec<serde_json::Value> = serde_saphyr::from_multiple(yaml).unwrap();
    let mut planner = Planner::default();
    for object in manifest::cluster(&manifests).unwrap() {
        planner.apply(object);
    }
    planner.compile();
    planner
}

fn compile(yaml: &str) -> String {
    let planner = plan(yaml);
    assert_eq!(check::check(planner.desired()), []);
    let problems = planner.problems().iter().map(|problem| format!("problem {problem}\n"));
    format!("{}{}", text::northbound(planner.desired()), problems.collect::<String>())
}

/// Rows made for services, and of other rows the collections that hold some of them.
fn of_services(text: &str) -> String {
    let holds = |line: &str| line.starts_with("  load_balancer: ") || (line.starts_with("  acls: ") && line.contains("source-ranges/"));
    let block = |block: &str| match block.split_once('\n') {
        _ if block.starts_with("problem") || block.contains("netloom.io/owner=Service/") => Some(block.to_owned()),
        Some((title, lines)) => {
            let held: Vec<&str> = lines.lines().filter(|line| holds(line)).collect();
            (!held.is_empty()).then(|| format!("{title}\n{}", held.join("\n")))
        }
        None => None,
    };
    let blocks: Vec<String> = text.trim_end().split("\n\n").filter_map(block).collect();
    format!("{}\n", blocks.join("\n\n"))
}

/// Sets, ACLs and how much of them is logged.
fn of_policies(text: &str) -> String {
    let shown = |block: &&str| {
        let tables = ["ACL ", "Address_Set ", "Meter", "Port_Group ", "problem "];
        tables.iter().any(|table| block.starts_with(table)) && !block.starts_with("Port_Group port-group/")
    };
    let blocks: Vec<&str> = text.trim_end().split("\n\n").filter(shown).collect();
    format!("{}\n", blocks.join("\n\n"))
}
