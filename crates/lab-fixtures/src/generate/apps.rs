//! App labels of pods and services: either name, the same and different values, and both at once.

use serde_json::{Value, json};

use super::{Random, Shape};

const LABELS: &[&str] = &["netloom.io/app", "opencontrail.org/name"];
const APPS: &[&str] = &["red", "blue"];

pub fn mark(random: &mut Random, shape: &Shape, objects: &mut [Value]) {
    for object in objects
        .iter_mut()
        .filter(|object| object["kind"] == "Pod" || object["kind"] == "Service")
    {
        if !object["metadata"]["labels"].is_object() {
            object["metadata"]["labels"] = json!({});
        }
        let labels = &mut object["metadata"]["labels"];
        if random.chance(40) {
            labels[*random.pick(LABELS)] = json!(random.pick(APPS));
        }
        if random.chance(8) {
            // Both: the same value, or two that disagree.
            let one = *random.pick(APPS);
            let other = if shape.mistakes { *random.pick(APPS) } else { one };
            (labels[LABELS[0]], labels[LABELS[1]]) = (json!(one), json!(other));
        }
    }
}
