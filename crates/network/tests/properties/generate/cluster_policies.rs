//! Cluster-wide policies of all three kinds, with mistakes.

use netloom_network::policy::LabelSelector;
use netloom_network::{ClusterPolicy, ClusterPolicyKind, ClusterPolicyName, Object};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::policies;

pub fn policy() -> BoxedStrategy<Object> {
    let log = policies::logged();
    (0..6usize, 0..2u8, any::<bool>(), 0..3u16, subject(), rules(true), rules(false), log)
        .prop_map(|(number, generation, admin, priority, subject, ingress, egress, log)| {
            let kind = ClusterPolicyKind::ALL[number % 3];
            let tier = if admin { "Admin" } else { "Baseline" };
            let name = ClusterPolicyName {
                kind,
                name: format!("policy{number}"),
            };
            let spec = json!({ "tier": tier, "priority": priority * 500, "subject": subject, "ingress": ingress, "egress": egress });
            let policy = ClusterPolicy {
                uid: format!("policy-{generation}"),
                annotations: log.into_iter().collect(),
                spec,
            };
            Object::ClusterPolicy(name, policy)
        })
        .boxed()
}

fn subject() -> impl Strategy<Value = Value> {
    prop_oneof![4 => pods(), 1 => Just(json!({}))]
}

fn pods() -> impl Strategy<Value = Value> {
    let namespaces = policies::selector().prop_map(|selector| json!({ "namespaces": written(&selector) }));
    let pods = (policies::selector(), policies::selector())
        .prop_map(|(namespaces, pods)| json!({ "pods": { "namespaceSelector": written(&namespaces), "podSelector": written(&pods) } }));
    prop_oneof![namespaces, pods]
}

fn rules(ingress: bool) -> impl Strategy<Value = Vec<Value>> {
    let action = prop_oneof![Just("Accept"), Just("Allow"), Just("Deny"), Just("Pass")];
    let nodes = policies::selector().prop_map(|selector| json!({ "nodes": written(&selector) }));
    let peer = prop_oneof![4 => pods(), 2 => nodes, 1 => Just(json!({ "networks": ["10.244.0.0/28", "fd00::/64"] })), 1 => Just(json!({}))];
    let port = prop_oneof![
        Just(json!({ "tcp": { "destinationPort": { "number": 80 } } })),
        Just(json!({ "destinationNamedPort": "http" })),
        Just(json!({ "portNumber": { "protocol": "UDP", "port": 80 } })),
        Just(json!({ "namedPort": "http" })),
    ];
    let ports = prop::option::of(prop::collection::vec(port, 1..3));
    let rule = (action, prop::collection::vec(peer, 1..3), ports).prop_map(move |(action, peers, ports)| {
        let mut rule = json!({ "action": action });
        rule[if ingress { "from" } else { "to" }] = json!(peers);
        if let Some(ports) = ports {
            let older = ports
                .iter()
                .any(|port| port.get("portNumber").is_some() || port.get("namedPort").is_some());
            rule[if older { "ports" } else { "protocols" }] = json!(ports);
        }
        rule
    });
    prop::collection::vec(rule, 0..4)
}

fn written(selector: &LabelSelector) -> Value {
    let expressions = selector.match_expressions.iter();
    let expressions = expressions.map(|it| json!({ "key": it.key, "operator": it.operator, "values": it.values }));
    json!({ "matchLabels": selector.match_labels, "matchExpressions": expressions.collect::<Vec<_>>() })
}
