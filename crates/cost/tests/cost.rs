//! How what OVN makes of our rows grows: with the nodes, each with as many objects as the others, and with the objects on the same nodes.
//! Flows are counted, never timed. Nothing may grow faster than the cluster, and a node may have no more than a few flows for what
//! other nodes have.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fmt::Write as _;
use std::sync::Arc;

use netloom_cost::feature::JOINED;
use netloom_cost::{Counts, FEATURES, Feature, Growth, Measure, Ovn, Size, cluster};
use netloom_network::Northbound;
use netloom_ovsdb::Datum;

/// Sizes at equal distances: what is linear has equal steps.
const NODES: [usize; 3] = [3, 6, 9];
const OBJECTS: [usize; 3] = [6, 12, 18];
/// Objects of each node, while nodes are added.
const OF_A_NODE: usize = 3;
/// Pods of each node that no feature is about.
const PODS: usize = 2;

fn size(nodes: usize, objects: usize) -> Size {
    let pods = PODS;
    Size { nodes, pods, objects }
}

#[tokio::test]
async fn nothing_multiplies_when_nodes_are_added() {
    let mut ovn = Ovn::start().await;
    let (mut bases, mut counts) = (Vec::new(), Vec::new());
    for nodes in NODES {
        let base = ovn.count(nodes, &cluster::compile(size(nodes, 0), None)).await;
        bases.push(base);
        for feature in FEATURES {
            let with = ovn
                .count(nodes, &cluster::compile(size(nodes, OF_A_NODE * nodes), Some(feature)))
                .await;
            counts.push(with.beyond(base));
        }
    }
    let mut wrong = judge("nodes with gateways", &[(Measure::Logical, JOINED)], &bases);
    for (place, feature) in FEATURES.iter().enumerate() {
        let counts: Vec<Counts> = counts.iter().copied().skip(place).step_by(FEATURES.len()).collect();
        wrong += &judge(feature.name, feature.multiplied, &counts);
        // All that was added is on other nodes.
        let more = counts[2].openflow.saturating_sub(counts[1].openflow) / (OF_A_NODE * (NODES[2] - NODES[1]));
        println!("{:<48} {more:>4} flows on a node for an object of another", feature.name);
        if more > feature.elsewhere {
            let (name, most) = (feature.name, feature.elsewhere);
            writeln!(
                wrong,
                "{name}: a node has {more} OpenFlow flows for each object of another node, not {most}"
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[tokio::test]
async fn nothing_multiplies_when_objects_are_added() {
    let mut ovn = Ovn::start().await;
    let mut wrong = String::new();
    for feature in FEATURES {
        let mut counts = Vec::new();
        for objects in OBJECTS {
            counts.push(ovn.count(NODES[0], &cluster::compile(size(NODES[0], objects), Some(feature))).await);
        }
        wrong += &judge(feature.name, feature.multiplied, &counts);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The judgement can fail: with addresses of both families in one match there is no conjunction, and flows are the product of subjects and
/// peers.
#[tokio::test]
async fn families_in_one_match_multiply() {
    let mut ovn = Ovn::start().await;
    let feature = feature("NetworkPolicy with peers");
    let mut counts = Vec::new();
    for objects in OBJECTS {
        let northbound = cluster::compile(size(NODES[0], objects), Some(feature));
        counts.push(ovn.count(NODES[0], &with_families_in_one_match(&northbound)).await);
    }
    let wrong = judge(feature.name, &[], &counts);
    assert!(wrong.contains("OpenFlow"), "nothing is noticed: {counts:?}");
}

/// What grows faster than it may.
fn judge(name: &str, known: &[(Measure, &str)], counts: &[Counts]) -> String {
    let mut wrong = String::new();
    for measure in Measure::ALL {
        let numbers = [0, 1, 2].map(|place: usize| counts[place].of(measure));
        let growth = Growth::of(numbers);
        println!("{name:<48} {measure:?} {numbers:?} {growth:?}");
        if growth == Growth::Multiplied && !known.iter().any(|(known, _)| *known == measure) {
            writeln!(wrong, "{name}: {measure:?} multiply: {numbers:?} at equal steps").unwrap();
        }
    }
    wrong
}

fn feature(name: &str) -> &'static Feature {
    FEATURES.iter().find(|feature| feature.name == name).unwrap()
}

/// Each policy as it once was: `ip4.src == $a` and `ip6.src == $b` in one row.
fn with_families_in_one_match(northbound: &Northbound) -> Northbound {
    let mut changed = northbound.clone();
    let sets = |family: &str| northbound.rows().find_map(|(_, row)| set_of(row.get("match")?.as_str()?, family));
    let (fourth, sixth) = (sets("ip4").expect("a set of IPv4"), sets("ip6").expect("a set of IPv6"));
    let both = format!("({fourth} || {sixth})");
    for (id, row) in northbound.rows().filter(|(id, _)| id.table == "ACL") {
        let Some(text) = row.get("match").and_then(Datum::as_str).filter(|text| text.contains(&fourth)) else {
            continue;
        };
        let mut row = netloom_ovsdb::Row::clone(row);
        row.insert("match", Datum::string(text.replace(&fourth, &both)));
        changed.insert_row(*id, Arc::new(row));
    }
    changed
}

/// The comparison of a source with an address set, in a match that has one.
fn set_of(text: &str, family: &str) -> Option<String> {
    let start = text.find(&format!("{family}.src == $"))?;
    let rest = &text[start..];
    let words: Vec<&str> = rest.split_whitespace().take(3).collect();
    Some(words.join(" "))
}
