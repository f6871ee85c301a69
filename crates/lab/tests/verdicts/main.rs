//! The ACLs against the policies: for random clusters, what OVN does with a packet (`ovn-trace` on the flows northd made of what our
//! compiler wrote) equals what an evaluator says that knows the Kubernetes API's definition and nothing of OVN.
//!
//! `NETLOOM_SEED` is the first seed, `NETLOOM_CLUSTERS` how many follow, `NETLOOM_FEATURES` which kinds of rules there are. A difference is
//! told with its seed, and the smallest cluster that still shows it is kept as a file for `netloom why -f` and `netloom plan -f`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod choose;
mod ovn;
mod questions;
mod shrink;
mod world;

use netloom_contract::external_id::KEY;
use std::collections::BTreeMap;

use choose::questions;
use netloom_lab_fixtures::generate::{self, Random, Shape};
use netloom_network::{Member, Northbound, RowId};
use netloom_ovsdb::Datum;
use ovn::Ovn;
use questions::Question;
use serde_json::json;
use world::{Compiler, World};

/// How many clusters are looked at, and how many questions are asked about each.
const CLUSTERS: u64 = 200;
const QUESTIONS: usize = 40;
/// One for each core.
const SHARDS: u64 = 2;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number"))
    })
}

/// How many questions of each kind were allowed and denied.
type Counts = BTreeMap<&'static str, (usize, usize)>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ovn_does_is_what_the_policies_say() {
    let (first, count) = (number("NETLOOM_SEED", 1), number("NETLOOM_CLUSTERS", CLUSTERS));
    let shards = (0..SHARDS).map(|shard| tokio::spawn(look_at((first..first + count).filter(move |seed| seed % SHARDS == shard))));
    let mut counts = Counts::new();
    for shard in shards.collect::<Vec<_>>() {
        for (kind, (allowed, denied)) in shard.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())) {
            let sum = counts.entry(kind).or_default();
            *sum = (sum.0 + allowed, sum.1 + denied);
        }
    }
    let total: usize = counts.values().map(|(allowed, denied)| allowed + denied).sum();
    println!("{count} clusters, {total} questions: {counts:?} (allowed, denied)");
    if count >= CLUSTERS {
        // A comparison of what always passes, or never, shows nothing.
        for (kind, (allowed, denied)) in counts {
            let (always, never) = (kind == "own node to pod", kind.starts_with("never"));
            assert!(
                (allowed > 10) != never && (denied > 10) != always,
                "{kind}: {allowed} allowed, {denied} denied"
            );
        }
    }
}

/// Goes through clusters one after the other; each is written as the difference from the one before.
async fn look_at(seeds: impl Iterator<Item = u64>) -> Counts {
    let mut ovn = Ovn::start().await;
    let mut compiler = Compiler::default();
    let mut counts = Counts::new();
    for seed in seeds {
        let world = World::random(seed, &Shape::wild(seed), &mut compiler);
        world.check_networks(&compiler);
        ovn.become_like(compiler.planner().desired()).await;
        let mut random = Random::new(!seed);
        let asked = questions(&mut random, &world, &compiler, QUESTIONS);
        let (tracer, cluster) = (ovn.tracer(QUESTIONS), world.evaluator());
        for question in asked {
            let Some(answer) = question.ask(&tracer, &cluster) else { continue };
            if let Some(difference) = answer.difference {
                drop(tracer);
                report(seed, &mut ovn, &mut compiler, world, &question, &difference).await;
            }
            let count = counts.entry(question.kind).or_default();
            *(if answer.allowed { &mut count.0 } else { &mut count.1 }) += 1;
        }
    }
    counts
}

/// Makes the cluster as small as it can be and fails.
async fn report(seed: u64, ovn: &mut Ovn, compiler: &mut Compiler, world: World, question: &Question, difference: &str) -> ! {
    println!("seed {seed}: {}", difference.lines().next().unwrap_or_default());
    let (small, difference) = shrink::shrink(ovn, compiler, world, question, difference.to_owned()).await;
    let file = std::env::temp_dir().join(format!("netloom-verdicts-{seed}.yaml"));
    std::fs::write(&file, small.to_text()).unwrap();
    panic!(
        "seed {seed} (NETLOOM_SEED={seed} NETLOOM_CLUSTERS=1), cluster in {}\n{difference}",
        file.display()
    );
}

/// The comparison can fail: without an ACL of any kind, or what routers drop, a question has another answer.
#[tokio::test]
async fn a_missing_acl_is_found() {
    let mut ovn = Ovn::start().await;
    let mut compiler = Compiler::default();
    let kinds = [
        "denied/",
        "policy/",
        "cluster-policy/",
        "isolated/",
        "isolation/",
        "network/",
        "app/",
        "security-group/",
        "security-groups/",
        "custom-network/",
        "fence/network/",
        "guard/gateway/",
    ];
    for kind in kinds {
        let mut found = false;
        for seed in 1.. {
            let world = World::random(seed, &Shape::wild(seed), &mut compiler);
            let desired = compiler.planner().desired();
            for rule in rules(desired, kind)
                .into_iter()
                .filter(|(key, _)| !kind.starts_with("isolated") || key.contains("/node/"))
            {
                if found {
                    break;
                }
                ovn.become_like(&without(desired, rule.1)).await;
                let mut random = Random::new(seed);
                let asked = questions(&mut random, &world, &compiler, QUESTIONS);
                let (tracer, cluster) = (ovn.tracer(QUESTIONS), world.evaluator());
                let mut answers = asked.iter().filter_map(|question| question.ask(&tracer, &cluster));
                found |= answers.any(|answer| answer.difference.is_some());
            }
            if found {
                break;
            }
            assert!(seed < 100, "nobody notices that {kind} is missing");
        }
    }
}

/// However many policies select a pod, they add up.
#[tokio::test]
async fn a_thousand_policies_on_every_pod_of_a_namespace_add_up() {
    let mut ovn = Ovn::start().await;
    let mut compiler = Compiler::default();
    let shape = Shape {
        features: Vec::new(),
        ..Shape::wild(1)
    };
    let mut world = World::random(1, &shape, &mut compiler);
    let namespace = generate::of_kind(&world.objects, "Pod")
        .map(|pod| generate::text(pod, "/metadata/namespace").to_owned())
        .next()
        .unwrap();
    for number in 0..1000 {
        let port = if number == 500 { 80 } else { 20_000 + number };
        world.objects.push(json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": { "namespace": namespace, "name": format!("p{number}") },
            "spec": { "podSelector": {}, "ingress": [{ "ports": [{ "port": port }] }] },
        }));
    }
    world.compile(&mut compiler);
    ovn.become_like(compiler.planner().desired()).await;
    let asked = questions(&mut Random::new(7), &world, &compiler, 200);
    let (tracer, cluster) = (ovn.tracer(200), world.evaluator());
    let mut counts = [0, 0];
    for question in asked {
        let Some(answer) = question.ask(&tracer, &cluster) else { continue };
        assert_eq!(answer.difference, None);
        counts[usize::from(answer.allowed)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 10), "{counts:?} denied and allowed");
}

/// ACLs, and policies of routers, whose key begins so.
fn rules(northbound: &Northbound, kind: &str) -> Vec<(String, RowId)> {
    let of_rules = |id: &RowId| ["ACL", "Logical_Router_Policy"].contains(&id.table);
    let keyed = northbound.rows().filter(|(id, _)| of_rules(id)).filter_map(|(id, row)| {
        let key = row.get("external_ids").and_then(|ids: &Datum| ids.get(KEY))?;
        Some((key.to_owned(), *id))
    });
    keyed.filter(|(key, _)| key.starts_with(kind)).collect()
}

/// The same without one row.
fn without(northbound: &Northbound, row: RowId) -> Northbound {
    let mut less = northbound.clone();
    let holds = |member: &Member| member.held() == Some(row);
    northbound
        .all_members()
        .filter(holds)
        .for_each(|member| less.remove_member(&member));
    less.remove_row(&row);
    less
}
