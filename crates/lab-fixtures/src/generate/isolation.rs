//! Isolation annotations of namespaces: none, one, both, such that disagree and such that nobody knows.

use serde_json::{Value, json};

use super::{Random, Shape, of_kind_mut};

pub fn mark(random: &mut Random, shape: &Shape, objects: &mut [Value]) {
    for namespace in of_kind_mut(objects, "Namespace") {
        let annotations = match random.below(10) {
            0..=3 => continue,
            4 | 5 => json!({ "netloom.io/isolation": "pods" }),
            6 => json!({ "netloom.io/isolation": "services" }),
            7 => json!({ "opencontrail.kubernetes.isolated": *random.pick(&["true", "true", "false"]) }),
            8 => json!({ "opencontrail.kubernetes.isolated": "true", "netloom.io/isolation": *random.pick(&["none", "pods", "services"]) }),
            _ if !shape.mistakes => json!({ "netloom.io/isolation": "none" }),
            _ => json!({
                *random.pick(&["netloom.io/isolation", "opencontrail.kubernetes.isolated"]): *random.pick(&["yes", "", "Pods", "TRUE"]),
            }),
        };
        namespace["metadata"]["annotations"] = annotations;
    }
}
