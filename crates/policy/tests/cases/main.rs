//! The definitions, clause by clause: policies as a user writes them, then questions and their answers. Each module is one part of an
//! API; all use the same small cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod apps;
mod bad_cluster_policies;
mod bad_input;
mod cluster_policies;
mod groups;
mod isolation;
mod namespaces;
mod networks;
mod peers;
mod ports;
mod reasons;
mod services;
mod tiers;
mod words;

use netloom_policy::{Cluster, Protocol, Question, Source, Target, Unknown, Verdict, judge};
use serde_json::Value;

const CLUSTER: &str = include_str!("cluster.yaml");

/// The cluster with more manifests.
pub fn cluster(more: &str) -> Cluster {
    let mut cluster = Cluster::default();
    for text in [CLUSTER, more] {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        for document in documents.iter().filter(|document| !document.is_null()) {
            cluster.add_manifest(document).unwrap();
        }
    }
    cluster
}

/// A policy `a/NAME` with this spec, in YAML's flow style.
pub fn policy(name: &str, spec: &str) -> String {
    format!("---\nkind: NetworkPolicy\nmetadata: {{ name: {name}, namespace: a }}\nspec: {spec}\n")
}

/// A ClusterNetworkPolicy about all pods of namespaces with `team: red` (which is `a`), at a priority of a tier.
pub fn cluster_policy(name: &str, tier: &str, priority: u16, rules: &str) -> String {
    format!(
        "---\nkind: ClusterNetworkPolicy\nmetadata: {{ name: {name} }}\nspec: {{ tier: {tier}, priority: {priority}, \
         subject: {{ namespaces: {{ matchLabels: {{ team: red }} }} }}, {rules} }}\n"
    )
}

/// The namespace `a` with an annotation.
pub fn annotated(annotations: &str) -> String {
    format!("---\nkind: Namespace\nmetadata: {{ name: a, labels: {{ team: red }}, annotations: {{ {annotations} }} }}\n")
}

/// What is wrong, as people read it.
pub fn told(cluster: &Cluster) -> Vec<String> {
    cluster
        .problems()
        .iter()
        .map(|problem| format!("{} {problem}", problem.reason))
        .collect()
}

/// Reads `FROM > TO PORT [PROTOCOL]`.
pub fn question(text: &str) -> Question {
    let (from, rest) = text.split_once(" > ").unwrap();
    let mut rest = rest.split(' ');
    Question {
        from: Source::parse(from, "default").unwrap(),
        to: Target::parse(rest.next().unwrap(), "default").unwrap(),
        port: rest.next().unwrap().parse().unwrap(),
        protocol: Protocol::parse(rest.next().unwrap_or("TCP")).unwrap(),
    }
}

pub fn ask(cluster: &Cluster, text: &str) -> Result<Verdict, Unknown> {
    judge(cluster, &question(text))
}

/// Whether the answers to questions are these, with these policies.
#[track_caller]
pub fn check(policies: &str, allowed: &[&str], denied: &[&str]) {
    let cluster = cluster(policies);
    assert_eq!(cluster.problems(), []);
    answers(&cluster, allowed, denied);
}

#[track_caller]
pub fn answers(cluster: &Cluster, allowed: &[&str], denied: &[&str]) {
    for (texts, wanted) in [(allowed, true), (denied, false)] {
        for text in texts {
            let verdict = ask(cluster, text).unwrap_or_else(|unknown| panic!("{text}: {unknown}"));
            assert_eq!(verdict.allowed, wanted, "{text}: {verdict:#?}");
        }
    }
}
