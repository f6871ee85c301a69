//! Security groups, and pods that name them by annotation, by label, or by a name of no group.

use serde_json::{Value, json};

use super::cluster::PORT_NUMBERS;
use super::selectors::range;
use super::{Known, Random, Shape, of_kind, of_kind_mut, text};

const GROUPS: &[&str] = &["g-web", "g-ssh", "g-none"];

pub fn mark(random: &mut Random, shape: &Shape, objects: &mut [Value]) {
    let names = if shape.mistakes { GROUPS } else { &GROUPS[..2] };
    for pod in of_kind_mut(objects, "Pod") {
        if random.chance(20) {
            pod["metadata"]["labels"]["netloom.io/security-group"] = json!(random.pick(names));
        }
        if random.chance(20) {
            let named = random.several((1, 2), |random| *random.pick(names));
            pod["metadata"]["annotations"] = json!({ "netloom.io/security-groups": named.join(", ") });
        }
    }
}

/// Most groups of most namespaces; of those that are missing, pods may still name some.
pub fn objects(random: &mut Random, shape: &Shape, objects: &[Value], known: &Known) -> Vec<Value> {
    let namespaces: Vec<&str> = of_kind(objects, "Namespace")
        .map(|namespace| text(namespace, "/metadata/name"))
        .collect();
    let mut groups = Vec::new();
    for namespace in &namespaces {
        for name in &GROUPS[..2] {
            if shape.mistakes && random.chance(15) {
                continue;
            }
            let mut spec = json!({});
            if random.chance(90) {
                spec["rules"] = random.several((0, 4), |random| rule(random, shape, &namespaces, known)).into();
            }
            groups.push(json!({
                "apiVersion": "netloom.io/v1alpha1",
                "kind": "SecurityGroup",
                "metadata": { "namespace": namespace, "name": name },
                "spec": spec,
            }));
        }
    }
    groups
}

fn rule(random: &mut Random, shape: &Shape, namespaces: &[&str], known: &Known) -> Value {
    let mut rule = json!({ "direction": random.pick(&["Ingress", "Egress"]) });
    match random.below(8) {
        0 | 1 => {}
        2 => rule["protocol"] = json!("ICMP"),
        _ => {
            rule["protocol"] = json!(random.pick(super::cluster::PROTOCOLS));
            if random.chance(60) {
                rule["port"] = json!(random.pick(PORT_NUMBERS));
                if random.chance(30) {
                    rule["port"] = json!(80);
                    rule["endPort"] = json!(random.pick(&[80, 81, 8080, 65535]));
                }
            }
        }
    }
    match random.below(5) {
        0 => {}
        1 => rule["remote"] = json!({ "cidr": range(random, known).trunc().to_string() }),
        2 => rule["remote"] = json!({ "group": { "name": random.pick(&GROUPS[..2]) } }),
        _ => rule["remote"] = json!({ "group": { "name": random.pick(&GROUPS[..2]), "namespace": random.pick(namespaces) } }),
    }
    if shape.mistakes && random.chance(10) {
        match random.below(7) {
            0 => rule["direction"] = json!("ingress"),
            1 => rule["protocol"] = json!("GRE"),
            2 => (rule["protocol"], rule["port"]) = (json!("ICMP"), json!(80)),
            3 => (rule["protocol"], rule["port"], rule["endPort"]) = (json!("TCP"), json!(81), json!(80)),
            4 => rule["remote"] = json!({}),
            5 => rule["remote"] = json!({ "cidr": "10.0.0.0/33" }),
            _ => rule["remote"] = json!({ "cidr": "10.0.0.0/8", "group": { "name": "g-web" } }),
        }
    }
    rule
}
