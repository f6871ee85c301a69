//! Cluster-wide policies: `ClusterNetworkPolicy` of both tiers, and the older `AdminNetworkPolicy` and `BaselineAdminNetworkPolicy`. No two of
//! one tier have the same priority, because the API leaves open which of those comes first.

use serde_json::{Value, json};

use super::cluster::{PORT_NAMES, PORT_NUMBERS};
use super::selectors::{OF_PODS, namespaces, range, selector};
use super::{Known, Random, Shape};

/// The three kinds differ in words, not in what they mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cluster,
    Admin,
    Baseline,
}

pub fn objects(random: &mut Random, shape: &Shape, known: &Known) -> Vec<Value> {
    let mut priorities: Vec<u64> = vec![0, 1, 7, 100, 500, 999, 1000];
    let mut policies = Vec::new();
    for number in 0..random.between((1, 4)) {
        let priority = priorities.remove(usize::try_from(random.below(priorities.len() as u64)).unwrap());
        let kind = if random.chance(70) { Kind::Cluster } else { Kind::Admin };
        let mut spec = spec(random, shape, kind, known);
        spec["priority"] = json!(priority);
        policies.push(if kind == Kind::Cluster {
            spec["tier"] = json!(random.pick(&["Admin", "Admin", "Baseline"]));
            object(
                "policy.networking.k8s.io/v1alpha2",
                "ClusterNetworkPolicy",
                &format!("c{number}"),
                &spec,
            )
        } else {
            object(
                "policy.networking.k8s.io/v1alpha1",
                "AdminNetworkPolicy",
                &format!("c{number}"),
                &spec,
            )
        });
    }
    if random.chance(30) {
        let spec = spec(random, shape, Kind::Baseline, known);
        policies.push(object(
            "policy.networking.k8s.io/v1alpha1",
            "BaselineAdminNetworkPolicy",
            "default",
            &spec,
        ));
    }
    policies
}

fn object(version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec })
}

fn spec(random: &mut Random, shape: &Shape, kind: Kind, known: &Known) -> Value {
    let mut spec = json!({ "subject": pods(random) });
    for (direction, side) in [("ingress", "from"), ("egress", "to")] {
        if random.chance(75) {
            spec[direction] = random.several((0, 4), |random| rule(random, shape, kind, side, known)).into();
        }
    }
    if shape.mistakes && random.chance(5) {
        spec["subject"] = json!({ "namespaces": { "matchExpressions": [{ "key": "team", "operator": "Like", "values": ["red"] }] } });
    }
    spec
}

/// Pods by the labels of their namespaces, or by both.
fn pods(random: &mut Random) -> Value {
    if random.chance(40) {
        json!({ "namespaces": namespaces(random) })
    } else {
        json!({ "pods": { "namespaceSelector": namespaces(random), "podSelector": selector(random, OF_PODS) } })
    }
}

fn rule(random: &mut Random, shape: &Shape, kind: Kind, side: &str, known: &Known) -> Value {
    let accept = if kind == Kind::Cluster { "Accept" } else { "Allow" };
    let actions: &[&str] = if kind == Kind::Baseline {
        &[accept, "Deny"]
    } else {
        &[accept, "Deny", "Deny", "Pass"]
    };
    let mut rule = json!({ "action": random.pick(actions) });
    rule[side] = random.several((1, 2), |random| peer(random, side, known)).into();
    if random.chance(50) {
        let ports: Vec<Value> = random.several((1, 2), |random| port(random, kind));
        rule[if kind == Kind::Cluster { "protocols" } else { "ports" }] = ports.into();
    }
    if shape.mistakes && random.chance(6) {
        match random.below(4) {
            0 => rule["action"] = json!("Reject"),
            1 => rule[side] = json!([{}]),
            2 => rule[side] = json!([{ "networks": ["10.0.0.0/33"] }]),
            _ => rule[side] = json!([{ "namespaces": { "matchExpressions": [{ "key": "team", "operator": "In" }] } }]),
        }
    }
    rule
}

fn peer(random: &mut Random, side: &str, known: &Known) -> Value {
    match random.below(4) {
        0 if side == "to" => json!({ "networks": random.several((1, 2), |random| range(random, known).trunc().to_string()) }),
        1 if side == "to" => json!({ "nodes": random.pick(&[
            json!({}),
            json!({ "matchLabels": { "rack": "one" } }),
            json!({ "matchExpressions": [{ "key": "rack", "operator": "NotIn", "values": ["one"] }] }),
        ]) }),
        _ => pods(random),
    }
}

fn port(random: &mut Random, kind: Kind) -> Value {
    let (number, name) = (*random.pick(PORT_NUMBERS), *random.pick(PORT_NAMES));
    let (start, end) = *random.pick(&[(80, 81), (81, 9000), (1, 65535)]);
    if kind == Kind::Cluster {
        let protocol = *random.pick(&["tcp", "tcp", "udp", "sctp"]);
        return match random.below(4) {
            0 => json!({ "destinationNamedPort": name }),
            1 => json!({ protocol: { "destinationPort": { "range": { "start": start, "end": end } } } }),
            2 => json!({ protocol: {} }),
            _ => json!({ protocol: { "destinationPort": { "number": number } } }),
        };
    }
    let protocol = *random.pick(&["TCP", "TCP", "UDP", "SCTP"]);
    match random.below(3) {
        0 => json!({ "namedPort": name }),
        1 => json!({ "portRange": { "protocol": protocol, "start": start, "end": end } }),
        _ => json!({ "portNumber": { "protocol": protocol, "port": number } }),
    }
}
