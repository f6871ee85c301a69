//! Networks that users define, with few enough subnets that they overlap, and pods on them by their own annotation or by that of their
//! namespace. Some name a network that is not there, has a mistake or does not let their namespace in.

use serde_json::{Value, json};

use super::selectors::namespaces;
use super::{Random, Shape, of_kind_mut};

const NETWORK: &str = "netloom.io/network";
const NAMES: &[&str] = &["blue", "red", "green"];
const V4: &[&str] = &["192.168.10.0/24", "192.168.10.0/24", "192.168.10.0/27", "192.168.0.0/16"];
const V6: &[&str] = &["fd01:10::/64", "fd01:10::/64", "fd01:10::/120"];

pub fn add(random: &mut Random, shape: &Shape, objects: &mut Vec<Value>) {
    let names = &NAMES[..usize::try_from(random.between((1, 3))).unwrap()];
    for namespace in of_kind_mut(objects, "Namespace") {
        if random.chance(35) {
            namespace["metadata"]["annotations"][NETWORK] = json!(random.pick(names));
        }
    }
    for pod in of_kind_mut(objects, "Pod") {
        if random.chance(40) {
            pod["metadata"]["annotations"][NETWORK] = json!(random.pick(names));
        } else if shape.mistakes && random.chance(4) {
            pod["metadata"]["annotations"][NETWORK] = json!("nowhere");
        }
        // A pod does not change networks, so each cluster has other ones.
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        pod["metadata"]["uid"] = json!(format!("{uid}-{}", random.below(1 << 32)));
    }
    for name in names {
        objects.push(json!({
            "apiVersion": "netloom.io/v1alpha1",
            "kind": "Network",
            "metadata": { "name": name, "uid": format!("network-{name}") },
            "spec": spec(random, shape),
        }));
    }
}

fn spec(random: &mut Random, shape: &Shape) -> Value {
    let (v4, v6) = (json!(random.pick(V4)), json!(random.pick(V6)));
    let families = random.below(8);
    let subnets = match families {
        0 | 1 => vec![v4],
        2 => vec![v6],
        3 => vec![v6, v4],
        _ => vec![v4, v6],
    };
    let mut spec = json!({ "subnets": subnets });
    if random.chance(50) {
        spec["isolated"] = json!(random.chance(90));
    }
    if random.chance(20) {
        spec["gateways"] = json!([if families == 2 { "fd01:10::9" } else { "192.168.10.9" }]);
    }
    if random.chance(15) && families != 2 {
        spec["routes"] = json!([{ "to": "10.99.0.0/16", "via": "192.168.10.14" }]);
    }
    if random.chance(12) {
        spec["namespaceSelector"] = namespaces(random);
    }
    if shape.mistakes && random.chance(6) {
        match random.below(5) {
            0 => spec["subnets"] = json!(["192.168.10.0/31"]),
            1 => spec["isolate"] = json!(true),
            2 => spec["gateways"] = json!(["10.0.0.1"]),
            3 => spec["isolated"] = json!("yes"),
            _ => spec["namespaceSelector"] = json!({ "matchLabels": { "team": "no value!" } }),
        }
    }
    spec
}
