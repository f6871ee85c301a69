//! Properties of the verdict over random clusters and policies: the order of objects leaves no trace, a further policy for pods that are
//! isolated already only opens, one for any pods only closes if it has no rule, and mistakes never open.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use netloom_policy::{Cluster, Name, Protocol, Question, Source, Target, Verdict, judge};
use proptest::prelude::*;
use serde_json::{Value, json};

const NAMESPACES: [&str; 2] = ["a", "b"];
const PODS: usize = 3;

fn selector() -> impl Strategy<Value = Value> {
    let value = prop_oneof![Just("x"), Just("y")];
    let operator = prop_oneof![Just("In"), Just("NotIn"), Just("Exists"), Just("DoesNotExist")];
    prop_oneof![
        Just(json!({})),
        value.clone().prop_map(|value| json!({ "matchLabels": { "l": value } })),
        (operator, value).prop_map(|(operator, value)| {
            let values: Vec<&str> = if operator.ends_with("In") { vec![value] } else { Vec::new() };
            json!({ "matchExpressions": [{ "key": "l", "operator": operator, "values": values }] })
        }),
    ]
}

fn peer() -> impl Strategy<Value = Value> {
    prop_oneof![
        selector().prop_map(|pods| json!({ "podSelector": pods })),
        selector().prop_map(|namespaces| json!({ "namespaceSelector": namespaces })),
        (selector(), selector()).prop_map(|(namespaces, pods)| json!({ "namespaceSelector": namespaces, "podSelector": pods })),
        (24u8..=32).prop_map(|length| json!({ "ipBlock": { "cidr": format!("10.0.0.0/{length}") } })),
        (25u8..=32).prop_map(|length| json!({ "ipBlock": { "cidr": "10.0.0.0/24", "except": [format!("10.0.0.0/{length}")] } })),
    ]
}

fn port() -> impl Strategy<Value = Value> {
    prop_oneof![
        (79u16..=81).prop_map(|port| json!({ "port": port })),
        Just(json!({ "port": "http" })),
        Just(json!({ "port": 80, "endPort": 82 })),
        Just(json!({ "protocol": "UDP" })),
    ]
}

fn rules(side: &'static str) -> impl Strategy<Value = Vec<Value>> {
    let lists = (prop::collection::vec(peer(), 0..3), prop::collection::vec(port(), 0..3));
    let rule = lists.prop_map(move |(peers, ports)| json!({ side: peers, "ports": ports }));
    prop::collection::vec(rule, 0..3)
}

fn spec() -> impl Strategy<Value = Value> {
    let types = prop_oneof![
        Just(json!([])),
        Just(json!(["Ingress"])),
        Just(json!(["Egress"])),
        Just(json!(["Ingress", "Egress"]))
    ];
    (selector(), types, rules("from"), rules("to")).prop_map(
        |(selector, types, ingress, egress)| json!({ "podSelector": selector, "policyTypes": types, "ingress": ingress, "egress": egress }),
    )
}

fn policy(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({ "kind": "NetworkPolicy", "metadata": { "namespace": namespace, "name": name }, "spec": spec })
}

fn policies() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec((prop::sample::select(&NAMESPACES[..]), spec()), 0..5).prop_map(|specs| {
        let named = specs.iter().enumerate();
        named
            .map(|(number, (namespace, spec))| policy(namespace, &format!("p{number}"), spec))
            .collect()
    })
}

/// Namespaces and pods; labels and the number of the port `http` differ.
fn world() -> impl Strategy<Value = Vec<Value>> {
    let label = || prop_oneof![Just(json!({})), Just(json!({ "l": "x" })), Just(json!({ "l": "y" }))];
    let pods = prop::collection::vec((label(), 79u16..=81, prop::bool::weighted(0.1)), NAMESPACES.len() * PODS);
    (prop::collection::vec(label(), NAMESPACES.len()), pods).prop_map(|(namespaces, pods)| {
        let names = NAMESPACES.iter().zip(namespaces);
        let mut objects: Vec<Value> = names
            .map(|(name, labels)| json!({ "kind": "Namespace", "metadata": { "name": name, "labels": labels } }))
            .collect();
        for node in ["n0", "n1"] {
            objects.push(json!({ "kind": "Node", "metadata": { "name": node }, "status": { "addresses": [] } }));
        }
        for (number, (labels, http, host)) in pods.into_iter().enumerate() {
            objects.push(json!({
                "kind": "Pod",
                "metadata": { "namespace": NAMESPACES[number / PODS], "name": format!("{}", number % PODS), "labels": labels },
                "spec": {
                    "nodeName": format!("n{}", number % 2),
                    "hostNetwork": host,
                    "containers": [{ "name": "c", "ports": [{ "name": "http", "containerPort": http }] }],
                },
                "status": { "podIPs": [{ "ip": format!("10.0.0.{}", number * 40) }] },
            }));
        }
        objects
    })
}

fn cluster<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Cluster {
    let mut cluster = Cluster::default();
    objects.into_iter().for_each(|object| cluster.add_manifest(object).unwrap());
    cluster
}

fn questions() -> Vec<Question> {
    let names = || {
        NAMESPACES
            .iter()
            .flat_map(|namespace| (0..PODS).map(|number| Name::new(*namespace, number.to_string())))
    };
    let outside = ["10.0.0.7", "198.51.100.1"].map(|ip| ip.parse().unwrap());
    let sources = names().map(Source::Pod).chain(outside.map(Source::Address));
    let targets: Vec<Target> = names().map(Target::Pod).chain(outside.map(Target::Address)).collect();
    let ports = [(Protocol::Tcp, 79), (Protocol::Tcp, 80), (Protocol::Udp, 80)];
    let mut all = Vec::new();
    for from in sources {
        for to in &targets {
            for (protocol, port) in ports {
                let (from, to) = (from.clone(), to.clone());
                all.push(Question { from, to, protocol, port });
            }
        }
    }
    all
}

fn verdicts(cluster: &Cluster) -> Vec<Verdict> {
    questions().iter().map(|question| judge(cluster, question).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_objects_leaves_no_trace(world in world(), policies in policies()) {
        let objects: Vec<&Value> = world.iter().chain(&policies).collect();
        let backwards = cluster(objects.iter().rev().copied());
        prop_assert_eq!(verdicts(&cluster(objects)), verdicts(&backwards));
    }

    #[test]
    fn a_further_policy_for_isolated_pods_only_opens(world in world(), policies in policies(), more in spec()) {
        // All are isolated in both directions already.
        let deny = json!({ "podSelector": {}, "policyTypes": ["Ingress", "Egress"] });
        let isolated = NAMESPACES.map(|namespace| policy(namespace, "deny", &deny));
        let before: Vec<&Value> = world.iter().chain(&policies).chain(&isolated).collect();
        let more = policy("a", "more", &more);
        let after = cluster(before.iter().copied().chain([&more]));
        for (before, after) in verdicts(&cluster(before)).iter().zip(verdicts(&after)) {
            prop_assert!(!before.allowed || after.allowed, "{:#?}\n{:#?}", before, after);
        }
    }

    #[test]
    fn a_policy_without_rules_only_closes(world in world(), policies in policies(), mut more in spec()) {
        more["ingress"] = json!([]);
        more["egress"] = json!([]);
        let more = policy("a", "more", &more);
        let before: Vec<&Value> = world.iter().chain(&policies).collect();
        let after = cluster(before.iter().copied().chain([&more]));
        for (before, after) in verdicts(&cluster(before)).iter().zip(verdicts(&after)) {
            prop_assert!(before.allowed || !after.allowed, "{:#?}\n{:#?}", before, after);
        }
    }

    #[test]
    fn mistakes_never_open(world in world(), policies in policies(), place in any::<prop::sample::Index>(), what in 0..4) {
        prop_assume!(!policies.is_empty());
        let mut broken = policies.clone();
        let index = place.index(broken.len());
        let spec = &mut broken[index]["spec"];
        match what {
            0 => spec["policyTypes"] = json!(["Nothing"]),
            1 => spec["podSelector"]["matchExpressions"] = json!([{ "key": "l", "operator": "Like" }]),
            _ => {
                let rule = if what == 2 { "ingress" } else { "egress" };
                let Some(rule) = spec[rule].get_mut(0) else { return Ok(()) };
                rule["ports"] = json!([{ "port": 0 }]);
            }
        }
        let good = cluster(world.iter().chain(&policies));
        for (good, bad) in verdicts(&good).iter().zip(verdicts(&cluster(world.iter().chain(&broken)))) {
            prop_assert!(good.allowed || !bad.allowed, "{:#?}\n{:#?}", good, bad);
        }
    }
}
