//! Labels of pods and namespaces, selectors that meet them, and ranges around the addresses that are there.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use super::{Known, Random};

/// Labels of pods with their values.
pub const OF_PODS: &[(&str, &[&str])] = &[
    ("app", &["web", "db", "cache"]),
    ("tier", &["front", "back"]),
    ("example.com/canary", &["", "yes"]),
];
/// Labels of namespaces with their values.
pub const OF_NAMESPACES: &[(&str, &[&str])] = &[("team", &["red", "blue"]), ("stage", &["live", "test"])];

/// Some of them.
pub fn labels(random: &mut Random, from: &[(&str, &[&str])]) -> Value {
    let mut labels = Map::new();
    for (key, values) in from {
        if random.chance(65) {
            labels.insert((*key).to_owned(), json!(random.pick(values)));
        }
    }
    labels.into()
}

/// A selector of any form, one in six of everything.
pub fn selector(random: &mut Random, from: &[(&str, &[&str])]) -> Value {
    let mut selector = Map::new();
    if random.chance(16) {
        return selector.into();
    }
    let by_labels = random.chance(60);
    if by_labels {
        let (key, values) = random.pick(from);
        selector.insert("matchLabels".to_owned(), json!({ *key: random.pick(values) }));
    }
    if !by_labels || random.chance(30) {
        let expressions = random.several((1, 2), |random| expression(random, from));
        selector.insert("matchExpressions".to_owned(), expressions.into());
    }
    selector.into()
}

fn expression(random: &mut Random, from: &[(&str, &[&str])]) -> Value {
    let (key, values) = random.pick(from);
    match random.below(6) {
        0 | 1 => json!({ "key": key, "operator": "In", "values": random.several((1, 2), |random| *random.pick(values)) }),
        2 | 3 => json!({ "key": key, "operator": "NotIn", "values": random.several((1, 2), |random| *random.pick(values)) }),
        4 => json!({ "key": key, "operator": "Exists" }),
        _ => json!({ "key": key, "operator": "DoesNotExist" }),
    }
}

/// A selector of namespaces: by labels, or by name.
pub fn namespaces(random: &mut Random) -> Value {
    if random.chance(25) {
        let name = random.pick(super::cluster::NAMESPACES);
        return json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
    }
    selector(random, OF_NAMESPACES)
}

/// A range with somebody in it, of either family; its host bits are not always zero.
pub fn range(random: &mut Random, known: &Known) -> IpNet {
    let all: [&[IpAddr]; 5] = [&known.pods, &known.pods, &known.nodes, &known.outside, &known.services];
    let some: Vec<&[IpAddr]> = all.into_iter().filter(|list| !list.is_empty()).collect();
    let list = *random.pick(&some);
    let address = *random.pick(list);
    let lengths: &[u8] = if address.is_ipv4() {
        &[0, 8, 16, 24, 24, 28, 29, 30, 31, 32, 32]
    } else {
        &[0, 16, 48, 64, 64, 124, 125, 126, 127, 128, 128]
    };
    let range = IpNet::new(address, *random.pick(lengths)).unwrap();
    if random.chance(80) { range.trunc() } else { range }
}

/// A range within a range, around somebody if there is anybody in it.
pub fn part_of(random: &mut Random, whole: IpNet, known: &Known) -> Option<IpNet> {
    let everybody = known.pods.iter().chain(&known.nodes).chain(&known.outside).chain(&known.services);
    let inside: Vec<IpAddr> = everybody.filter(|address| whole.contains(*address)).copied().collect();
    let address = if inside.is_empty() { whole.addr() } else { *random.pick(&inside) };
    if whole.prefix_len() == whole.max_prefix_len() {
        return None;
    }
    let first = u64::from(whole.prefix_len()) + 1;
    let length = if random.chance(50) {
        u64::from(whole.max_prefix_len()) - random.below(3)
    } else {
        random.between((first, u64::from(whole.max_prefix_len())))
    };
    let length = u8::try_from(length.max(first)).unwrap();
    Some(IpNet::new(address, length).unwrap().trunc())
}

/// An `ipBlock`.
pub fn block(random: &mut Random, known: &Known) -> Value {
    let whole = range(random, known);
    let mut except: Vec<IpNet> = Vec::new();
    if random.chance(55) {
        except = random
            .several((1, 3), |random| part_of(random, whole, known))
            .into_iter()
            .flatten()
            .collect();
    }
    if except.is_empty() {
        json!({ "cidr": whole.to_string() })
    } else {
        json!({ "cidr": whole.to_string(), "except": except.iter().map(ToString::to_string).collect::<Vec<_>>() })
    }
}
