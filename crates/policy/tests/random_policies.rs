//! Properties of the verdict over random clusters and policies: the order of objects leaves no trace, a further policy for pods that are
//! isolated already only opens, one for any pods only closes if it has no rule, Pass empties a tier, and mistakes never open.
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

fn cluster_peer(egress: bool) -> impl Strategy<Value = Value> {
    let pods = prop_oneof![
        selector().prop_map(|namespaces| json!({ "namespaces": namespaces })),
        (selector(), selector()).prop_map(|(namespaces, pods)| json!({ "pods": { "namespaceSelector": namespaces, "podSelector": pods } })),
    ];
    let length = if egress { 24u8..=32 } else { 33..=33 };
    (pods, length).prop_map(|(pods, length)| match length {
        // Only egress has these, and not beside the name of a port.
        24..29 => json!({ "networks": [format!("10.0.0.0/{length}")] }),
        _ => pods,
    })
}

fn cluster_rules(side: &'static str) -> impl Strategy<Value = Vec<Value>> {
    let action = prop_oneof![Just("Accept"), Just("Deny"), Just("Pass")];
    let protocols = prop_oneof![
        Just(Value::Null),
        (79u16..=81).prop_map(|port| json!([{ "tcp": { "destinationPort": { "number": port } } }])),
        Just(json!([{ "udp": { "destinationPort": { "range": { "start": 79, "end": 80 } } } }])),
    ];
    let rule = (action, prop::collection::vec(cluster_peer(side == "to"), 1..3), protocols)
        .prop_map(move |(action, peers, protocols)| json!({ "action": action, side: peers, "protocols": protocols }));
    prop::collection::vec(rule, 0..4)
}

/// Policies of the whole cluster, each with a priority of its own.
fn cluster_policies() -> impl Strategy<Value = Vec<Value>> {
    let tier = prop_oneof![Just("Admin"), Just("Baseline")];
    let spec = (tier, selector(), cluster_rules("from"), cluster_rules("to"));
    prop::collection::vec(spec, 0..4).prop_map(|specs| {
        let numbered = specs.into_iter().enumerate();
        let policies = numbered.map(|(number, (tier, subject, ingress, egress))| {
            json!({
                "kind": "ClusterNetworkPolicy",
                "metadata": { "name": format!("c{number}") },
                "spec": {
                    "tier": tier, "priority": number, "subject": { "namespaces": subject },
                    "ingress": ingress, "egress": egress,
                },
            })
        });
        policies.collect()
    })
}

fn at_first(tier: &str, action: &str) -> Value {
    json!({
        "kind": "ClusterNetworkPolicy",
        "metadata": { "name": "first" },
        "spec": {
            "tier": tier, "priority": 0, "subject": { "namespaces": {} },
            "ingress": [{ "action": action, "from": [{ "namespaces": {} }] }],
            "egress": [{ "action": action, "to": [{ "networks": ["0.0.0.0/0"] }] }],
        },
    })
}

proptest! {
    // A failure is printed whole; a file in the work tree would be found by chance.
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_cluster_policies_leaves_no_trace(world in world(), policies in policies(), more in cluster_policies()) {
        let objects: Vec<&Value> = world.iter().chain(&policies).chain(&more).collect();
        let backwards = cluster(objects.iter().rev().copied());
        prop_assert_eq!(verdicts(&cluster(objects)), verdicts(&backwards));
    }

    #[test]
    fn passing_everything_first_is_as_if_the_tier_were_empty(world in world(), policies in policies(), mut more in cluster_policies()) {
        // Lower ones come after the one that passes.
        more.iter_mut().for_each(|policy| {
            policy["spec"]["priority"] = json!(policy["spec"]["priority"].as_u64().unwrap() + 1);
            policy["spec"]["tier"] = json!("Admin");
        });
        let pass = at_first("Admin", "Pass");
        let with: Vec<&Value> = world.iter().chain(&policies).chain(&more).chain([&pass]).collect();
        let without = cluster(world.iter().chain(&policies));
        for (with, without) in verdicts(&cluster(with)).iter().zip(verdicts(&without)) {
            // What comes from outside is no peer of ingress rules, so it is not passed.
            if with.flows[0].from.party != netloom_policy::Party::External {
                prop_assert_eq!(with.allowed, without.allowed, "{:#?}\n{:#?}", with, without);
            }
        }
    }

    #[test]
    fn mistakes_in_cluster_policies_never_open(world in world(), policies in policies(), more in cluster_policies(), place in any::<prop::sample::Index>(), what in 0..5) {
        prop_assume!(!more.is_empty());
        let mut broken = more.clone();
        let index = place.index(broken.len());
        let spec = &mut broken[index]["spec"];
        match what {
            0 => spec["subject"] = json!({}),
            1 => spec["subject"]["namespaces"]["matchExpressions"] = json!([{ "key": "l", "operator": "Like" }]),
            _ => {
                let side = if what % 2 == 0 { "ingress" } else { "egress" };
                let Some(rule) = spec[side].get_mut(0) else { return Ok(()) };
                if what < 4 {
                    rule["protocols"] = json!([{ "icmp": {} }]);
                } else {
                    rule["action"] = json!("Allow");
                }
            }
        }
        let good = cluster(world.iter().chain(&policies).chain(&more));
        let bad = cluster(world.iter().chain(&policies).chain(&broken));
        prop_assert!(!bad.problems().is_empty());
        for (good, bad) in verdicts(&good).iter().zip(verdicts(&bad)) {
            prop_assert!(good.allowed || !bad.allowed, "{:#?}\n{:#?}", good, bad);
        }
    }

    #[test]
    fn isolation_only_closes_and_only_to_other_namespaces(world in world(), policies in policies(), level in prop::sample::select(&["pods", "services", "nonsense"][..])) {
        let isolated = json!({ "kind": "Namespace", "metadata": { "name": "a", "annotations": { "netloom.io/isolation": level } } });
        let open = json!({ "kind": "Namespace", "metadata": { "name": "a" } });
        let before = cluster(world.iter().chain(&policies).chain([&open]));
        let after = cluster(world.iter().chain(&policies).chain([&isolated]));
        for (before, after) in verdicts(&before).iter().zip(verdicts(&after)) {
            let (from, to) = (&after.flows[0].from.party, &after.flows[0].to.party);
            let crosses = matches!((from, to), (netloom_policy::Party::Pod(from), netloom_policy::Party::Pod(to)) if to.namespace == "a" && from.namespace != "a");
            prop_assert_eq!(after.allowed, before.allowed && !crosses, "{:#?}\n{:#?}", before, after);
        }
    }

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
