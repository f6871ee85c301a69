//! Truth tables with real packets: in random clusters every pod asks every other one at every port, in both families and over every protocol
//! the datapath has, and nodes ask as well; there is an answer if and only if the evaluator of the Kubernetes API's definition says so.
//!
//! Pods stay, and from one cluster to the next they and their namespaces get other labels and other policies. `NETLOOM_SEED` is the first
//! seed, `NETLOOM_CLUSTERS` how many follow.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod cluster;
mod table;

use cluster::Cluster;
use netloom_lab_fixtures::ask::kernel_datapath;
use netloom_lab_fixtures::generate::{Feature, Shape};
use netloom_lab_fixtures::world::ended;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number"))
    })
}

#[test]
fn random_clusters_answer_as_the_policies_say() {
    // The kernel's datapath runs in an emulated machine, where every process takes its time.
    let (pods, clusters) = if kernel_datapath() { (3, 1) } else { (6, 4) };
    let shape = Shape {
        nodes: (2, 2),
        namespaces: (3, 3),
        pods: (pods, pods),
        services: (2, 2),
        policies: (4, 6),
        mistakes: false,
        odd_pods: false,
        // Those the controller has heard of when it has heard of a mark on a namespace, a pod and a policy.
        features: vec![Feature::NetworkPolicies, Feature::NamespaceIsolation],
    };
    let (first, count) = (number("NETLOOM_SEED", 1), number("NETLOOM_CLUSTERS", clusters));
    let cluster = Cluster::up(first, &shape);
    for seed in first..first + count {
        let objects = cluster.become_like(seed, &shape);
        let table = table::of(&objects);
        let wrong = table.wrong(&cluster);
        let (allowed, denied) = table.count();
        println!("seed {seed}: {allowed} questions must be answered, {denied} must not");
        if !wrong.is_empty() {
            let file = std::env::temp_dir().join(format!("netloom-truth-table-{seed}.json"));
            std::fs::write(&file, serde_json::to_string_pretty(&objects).unwrap()).unwrap();
            panic!("seed {seed}, cluster in {}:\n{}", file.display(), wrong.join("\n"));
        }
        assert!(allowed > 0 && denied > 0, "seed {seed} shows nothing");
    }
    assert_eq!(ended(&cluster.lab), Vec::<String>::new(), "parts crashed");
}
