//! Machines: pods that are written down as a `Port`. Until then they are pods under the name that a port has among them, so that everything
//! else that is made knows of pods alone.

use serde_json::{Value, json};

use super::{of_kind_mut, text};

/// Every so many pods one is a machine.
const EVERY: usize = 5;
const PREFIX: &str = "port_";

/// Makes machines of some pods that run and have a network of their own.
pub fn mark(objects: &mut [Value]) {
    for pod in of_kind_mut(objects, "Pod").skip(EVERY / 2).step_by(EVERY) {
        let ordinary = text(pod, "/status/phase") == "Running" && pod["spec"]["hostNetwork"] != true;
        if ordinary {
            pod["metadata"]["name"] = json!(format!("{PREFIX}{}", text(pod, "/metadata/name")));
        }
    }
}

/// Whether a pod is a machine, which no service selects.
pub fn is_one(pod: &Value) -> bool {
    text(pod, "/metadata/name").starts_with(PREFIX)
}

/// The objects as they are written down.
pub fn with_ports(objects: &[Value]) -> Vec<Value> {
    let written = |object: &Value| {
        if object["kind"] == "Pod" && is_one(object) {
            port(object)
        } else {
            object.clone()
        }
    };
    objects.iter().map(written).collect()
}

fn port(pod: &Value) -> Value {
    let mut metadata = pod["metadata"].clone();
    metadata["name"] = json!(text(pod, "/metadata/name").trim_start_matches(PREFIX));
    let containers = ["containers", "initContainers"].map(|part| pod["spec"][part].as_array().into_iter().flatten());
    let running = containers.into_iter().flatten();
    let running = running.filter(|container| container["name"] == "main" || container["restartPolicy"] == "Always");
    let served = running.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let served = served
        .filter(|port| port["name"].is_string())
        .map(|port| json!({ "name": port["name"], "protocol": port["protocol"], "port": port["containerPort"] }));
    let addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
    let addresses = addresses.map(|address| {
        let ip = text(address, "/ip");
        let prefix = if ip.contains(':') { 64 } else { 24 };
        json!(format!("{ip}/{prefix}"))
    });
    json!({
        "apiVersion": "netloom.io/v1alpha1",
        "kind": "Port",
        "metadata": metadata,
        "spec": { "node": pod["spec"]["nodeName"], "ports": served.collect::<Vec<_>>() },
        "status": { "addresses": addresses.collect::<Vec<_>>() },
    })
}
