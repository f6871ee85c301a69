//! What namespaces and cluster-wide policies ask to be logged, which must decide nothing.

use serde_json::{Value, json};

use super::Random;

const ASKERS: [&str; 4] = [
    "Namespace",
    "ClusterNetworkPolicy",
    "AdminNetworkPolicy",
    "BaselineAdminNetworkPolicy",
];

pub fn mark(random: &mut Random, objects: &mut [Value]) {
    let askers = objects
        .iter_mut()
        .filter(|object| ASKERS.iter().any(|kind| object["kind"] == *kind));
    for object in askers {
        if random.chance(50) {
            let asked = *random.pick(&["dropped", "allowed", "all", "all", "none", "nonsense"]);
            object["metadata"]["annotations"]["netloom.io/policy-log"] = json!(asked);
        }
    }
}
