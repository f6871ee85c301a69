//! What is installed agrees with the table of kinds: the definitions, and what the controller's account may do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use netloom_kubernetes::Kind;
use serde_json::Value;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

#[test]
fn every_definition_is_of_a_kind_and_says_the_same() {
    let mut plurals = BTreeSet::new();
    for kind in Kind::ALL {
        let resource = kind.resource();
        let Some(definition) = resource.definition else { continue };
        let definition: Value = serde_saphyr::from_str(definition).unwrap();
        let spec = &definition["spec"];
        assert_eq!(definition["metadata"]["name"], kind.qualified());
        assert_eq!(spec["group"], resource.group, "{kind:?}");
        assert_eq!(spec["names"]["kind"], kind.name());
        assert_eq!(spec["names"]["plural"], resource.plural);
        let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
        assert_eq!(spec["scope"], scope, "{kind:?}");
        let versions = spec["versions"].as_array().unwrap();
        let version = versions.iter().find(|version| version["name"] == resource.version).unwrap();
        assert_eq!(version["served"], true, "{kind:?}");
        assert_eq!(
            version["subresources"].get("status").is_some(),
            resource.condition.is_some(),
            "{kind:?}"
        );
        plurals.insert(format!("{}.yaml", resource.plural));
    }
    let files = std::fs::read_dir(deploy().join("chart/crds")).unwrap();
    let files: BTreeSet<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, plurals, "definitions and kinds");
}

/// A kind that Kubernetes does not bring along can be installed.
#[test]
fn only_kubernetes_own_kinds_have_no_definition() {
    for kind in Kind::ALL {
        let group = kind.resource().group;
        let native = group.is_empty() || ["discovery.k8s.io", "networking.k8s.io"].contains(&group);
        assert_eq!(kind.resource().definition.is_none(), native, "{kind:?}");
    }
}

#[test]
fn the_controllers_account_may_do_what_the_table_asks_for() {
    for file in ["chart/templates/rbac.yaml", "netloom.yaml"] {
        let rules = rules(&std::fs::read_to_string(deploy().join(file)).unwrap());
        let mut missing = Vec::new();
        for kind in Kind::ALL {
            let resource = kind.resource();
            let (objects, status) = (resource.plural.to_owned(), format!("{}/status", resource.plural));
            let read = ["list", "watch"].map(|verb| (&objects, verb));
            let looked_at = resource.in_force.map(|_| (&objects, "get"));
            let shown = resource.condition.map(|_| (&status, "patch"));
            for (what, verb) in read.into_iter().chain(looked_at).chain(shown) {
                if !rules.iter().any(|rule| allows(rule, resource.group, what, verb)) {
                    missing.push(format!("{verb} {what} of group {:?}", resource.group));
                }
            }
        }
        assert_eq!(
            missing,
            Vec::<String>::new(),
            "ClusterRole netloom-controller in deploy/{file} does not allow these"
        );
    }
}

/// The rules of the controller's ClusterRole. What Helm fills in is no matter of rights.
fn rules(text: &str) -> Vec<Value> {
    let documents = text
        .split("\n---\n")
        .filter(|text| text.contains("\nkind: ClusterRole\n") && text.contains("\n  name: netloom-controller\n"));
    let role = documents.last().expect("a ClusterRole netloom-controller");
    let plain: Vec<&str> = role.lines().filter(|line| !line.contains("{{")).collect();
    let role: Value = serde_saphyr::from_str(&plain.join("\n")).unwrap();
    role["rules"].as_array().unwrap().clone()
}

fn allows(rule: &Value, group: &str, resource: &str, verb: &str) -> bool {
    let has = |field: &str, text: &str| rule[field].as_array().unwrap().iter().any(|entry| entry == text);
    rule.get("resourceNames").is_none() && has("apiGroups", group) && has("resources", resource) && has("verbs", verb)
}
