//! Network policies of every form, and with every mistake an API server would not let in.

use serde_json::{Value, json};

use super::cluster::{PORT_NAMES, PORT_NUMBERS, PROTOCOLS};
use super::selectors::{OF_PODS, block, namespaces, selector};
use super::{Known, Random, Shape, of_kind, text};

pub fn objects(random: &mut Random, shape: &Shape, objects: &[Value], known: &Known) -> Vec<Value> {
    // Where pods are, most of the time.
    let mut places: Vec<&str> = of_kind(objects, "Pod").map(|pod| text(pod, "/metadata/namespace")).collect();
    places.extend(of_kind(objects, "Namespace").map(|namespace| text(namespace, "/metadata/name")));
    let count = random.between(shape.policies);
    let policy = |number| {
        let mut spec = spec(random, known);
        if shape.mistakes && random.chance(20) {
            spoil(random, &mut spec);
        }
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": { "namespace": random.pick(&places), "name": format!("n{number}") },
            "spec": spec,
        })
    };
    (0..count).map(policy).collect()
}

fn spec(random: &mut Random, known: &Known) -> Value {
    let mut spec = json!({ "podSelector": selector(random, OF_PODS) });
    match random.below(6) {
        0 => spec["policyTypes"] = json!(["Ingress"]),
        1 => spec["policyTypes"] = json!(["Egress"]),
        2 | 3 => spec["policyTypes"] = json!(["Ingress", "Egress"]),
        4 => spec["policyTypes"] = json!([]),
        _ => {}
    }
    for (direction, side) in [("ingress", "from"), ("egress", "to")] {
        if random.chance(70) {
            spec[direction] = random.several((0, 3), |random| rule(random, side, known)).into();
        }
    }
    spec
}

fn rule(random: &mut Random, side: &str, known: &Known) -> Value {
    let mut rule = json!({});
    if random.chance(80) {
        rule[side] = random.several((0, 3), |random| peer(random, known)).into();
    }
    if random.chance(65) {
        rule["ports"] = random.several((0, 3), port).into();
    }
    rule
}

fn peer(random: &mut Random, known: &Known) -> Value {
    match random.below(5) {
        0 => json!({ "podSelector": selector(random, OF_PODS) }),
        1 => json!({ "namespaceSelector": namespaces(random) }),
        2 => json!({ "namespaceSelector": namespaces(random), "podSelector": selector(random, OF_PODS) }),
        _ => json!({ "ipBlock": block(random, known) }),
    }
}

fn port(random: &mut Random) -> Value {
    let mut port = json!({});
    match random.below(10) {
        0..=3 => port["port"] = json!(random.pick(PORT_NUMBERS)),
        4..=6 => port["port"] = json!(random.pick(PORT_NAMES)),
        7 => (port["port"], port["endPort"]) = (json!(80), json!(*random.pick(&[80, 81, 5060, 65535]))),
        8 => (port["port"], port["endPort"]) = (json!(1), json!(*random.pick(&[79, 80, 5059, 65535]))),
        _ => {}
    }
    if random.chance(80) {
        port["protocol"] = json!(random.pick(PROTOCOLS));
    }
    port
}

/// Something that cannot be read; where there is no place for it, one is made.
fn spoil(random: &mut Random, spec: &mut Value) {
    let (direction, side) = *random.pick(&[("ingress", "from"), ("egress", "to")]);
    let bad_selector = json!({ "matchExpressions": [random.pick(&[
        json!({ "key": "app", "operator": "Like", "values": ["web"] }),
        json!({ "key": "app", "operator": "In", "values": [] }),
        json!({ "key": "app", "operator": "Exists", "values": ["web"] }),
        json!({ "key": "", "operator": "Exists" }),
        json!({ "key": "-app", "operator": "Exists" }),
        json!({ "key": "app", "operator": "In", "values": ["no value!"] }),
    ])] });
    let bad_peer = json!(random.pick(&[
        json!({}),
        json!({ "ipBlock": { "cidr": "10.244.0.0/33" } }),
        json!({ "ipBlock": { "cidr": "10.244.0.0" } }),
        json!({ "ipBlock": { "cidr": "nonsense" } }),
        json!({ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["192.0.2.0/24"] } }),
        json!({ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"] } }),
        json!({ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["0.0.0.0/0"] } }),
        json!({ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["fd00::/64"] } }),
        json!({ "ipBlock": { "cidr": "::/0" }, "podSelector": {} }),
        json!({ "podSelector": bad_selector }),
        json!({ "namespaceSelector": bad_selector, "podSelector": {} }),
        json!({ "podSelector": {}, "nodeSelector": {} }),
        json!({ "podSelector": { "matchLabel": { "app": "web" } } }),
    ]));
    let bad_port = json!(random.pick(&[
        json!({ "port": 0 }),
        json!({ "port": 65536 }),
        json!({ "port": -1 }),
        json!({ "port": 81, "endPort": 80 }),
        json!({ "endPort": 80 }),
        json!({ "port": "http", "endPort": 80 }),
        json!({ "port": 80, "protocol": "ICMP" }),
        json!({ "port": 80, "protocol": "" }),
        json!({ "port": "HTTP" }),
        json!({ "port": "" }),
        json!({ "port": "80" }),
        json!({ "port": "-http" }),
        json!({ "port": "a--b" }),
        json!({ "port": "a-name-that-is-too-long" }),
        json!({ "port": 80, "lastPort": 90 }),
    ]));
    match random.below(8) {
        0 => spec["podSelector"]["matchExpressions"] = bad_selector["matchExpressions"].clone(),
        1 => spec["policyTypes"] = json!(random.pick(&[json!(["Nothing"]), json!(["Ingress", "egress"])])),
        2 => spec["podSelector"] = json!({ "matchLabels": { "app": "no value!" } }),
        3 => spec["rules"] = json!([]),
        4 | 5 => put(random, &mut spec[direction], side, bad_peer),
        _ => put(random, &mut spec[direction], "ports", bad_port),
    }
}

/// Adds to a list of one of the rules, or of a new one.
fn put(random: &mut Random, rules: &mut Value, list: &str, value: Value) {
    if !rules.is_array() {
        *rules = json!([]);
    }
    let rules = rules.as_array_mut().unwrap();
    if rules.is_empty() || random.chance(30) {
        rules.push(json!({}));
    }
    let place = usize::try_from(random.below(rules.len() as u64)).unwrap();
    let rule = &mut rules[place];
    if !rule[list].is_array() {
        rule[list] = json!([]);
    }
    rule[list].as_array_mut().unwrap().push(value);
}
