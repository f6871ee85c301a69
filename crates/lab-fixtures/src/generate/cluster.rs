//! Nodes, namespaces, pods with their ports, services and their endpoint slices.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::selectors::{OF_NAMESPACES, OF_PODS, labels};
use super::{Random, Shape, machines, of_kind, text};

pub const NAMESPACES: &[&str] = &["shop", "bank", "lab", "ops", "void"];
/// Names and numbers of ports, few enough that the same name has several numbers and the same number several names.
pub const PORT_NAMES: &[&str] = &["http", "admin", "sip-2"];
pub const PORT_NUMBERS: &[u16] = &[80, 81, 8080, 5060];
pub const PROTOCOLS: &[&str] = &["TCP", "TCP", "UDP", "SCTP"];

pub fn objects(random: &mut Random, shape: &Shape) -> Vec<Value> {
    let nodes = random.between(shape.nodes);
    let mut objects: Vec<Value> = (1..=nodes).map(node).collect();
    let names = usize::try_from(random.between(shape.namespaces)).unwrap();
    for name in &NAMESPACES[..names] {
        let labels = labels(random, OF_NAMESPACES);
        objects.push(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } }));
    }
    for number in 0..random.between(shape.pods) {
        let namespace = *random.pick(&NAMESPACES[..names]);
        objects.push(pod(random, shape, namespace, number, nodes));
    }
    for number in 0..random.between(shape.services) {
        let namespace = *random.pick(&NAMESPACES[..names]);
        objects.push(service(random, namespace, number));
    }
    objects
}

/// Addresses of a node.
pub fn node_addresses(number: u64) -> [IpAddr; 2] {
    [
        format!("172.30.0.{}", 10 + number).parse().unwrap(),
        format!("fd30::{}", 10 + number).parse().unwrap(),
    ]
}

fn node(number: u64) -> Value {
    let [v4, v6] = node_addresses(number);
    let addresses = [v4, v6].map(|address| json!({ "type": "InternalIP", "address": address }));
    let gateway = json!({
        "mac": format!("0a:00:00:00:00:{number:02x}"),
        "addresses": [format!("{v4}/24"), format!("{v6}/64")],
        "nextHops": ["172.30.0.1", "fd30::1"],
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": format!("node{number}"), "labels": { "rack": if number == 1 { "one" } else { "two" } }, "annotations": { "netloom.io/gateway": gateway.to_string() } },
        "status": { "addresses": addresses },
    })
}

fn pod(random: &mut Random, shape: &Shape, namespace: &str, number: u64, nodes: u64) -> Value {
    let node = random.between((1, nodes));
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": namespace, "name": format!("p{number}"), "labels": labels(random, OF_PODS) },
        "spec": {
            "nodeName": format!("node{node}"),
            "containers": [{ "name": "main", "image": "any", "ports": ports(random) }],
        },
        "status": { "phase": "Running" },
    });
    if random.chance(20) {
        let sidecar = json!({ "name": "beside", "image": "any", "restartPolicy": "Always", "ports": ports(random) });
        let before = json!({ "name": "before", "image": "any", "ports": ports(random) });
        pod["spec"]["initContainers"] = json!([sidecar, before]);
    }
    if shape.odd_pods && random.chance(10) {
        pod["spec"]["hostNetwork"] = json!(true);
        let addresses = node_addresses(node).map(|address| json!({ "ip": address }));
        pod["status"]["podIPs"] = json!(addresses);
    } else if shape.odd_pods && random.chance(8) {
        pod["status"]["phase"] = json!(if random.chance(50) { "Succeeded" } else { "Failed" });
    }
    // A pod that moves is another one.
    let uid = format!("{namespace}-{number}-{node}-{}", pod["spec"]["hostNetwork"]);
    pod["metadata"]["uid"] = json!(uid);
    pod
}

/// Ports of one container, no two of one name.
fn ports(random: &mut Random) -> Value {
    let mut ports: Vec<Value> = Vec::new();
    for name in PORT_NAMES {
        if random.chance(60) {
            let (number, protocol) = (random.pick(PORT_NUMBERS), random.pick(PROTOCOLS));
            let same = |port: &Value| port["containerPort"] == *number && port["protocol"] == *protocol;
            if !ports.iter().any(same) {
                ports.push(json!({ "name": name, "containerPort": number, "protocol": protocol }));
            }
        }
    }
    if random.chance(30) && !ports.iter().any(|port| port["containerPort"] == 9) {
        ports.push(json!({ "containerPort": 9 }));
    }
    ports.into()
}

fn service(random: &mut Random, namespace: &str, number: u64) -> Value {
    let (key, values) = random.pick(OF_PODS);
    let selector = json!({ *key: random.pick(values) });
    let mut numbers = vec![80, 443, 5060];
    let ports = random.several((1, 2), |random| {
        let number = numbers.remove(usize::try_from(random.below(numbers.len() as u64)).unwrap());
        let target = if random.chance(60) {
            json!(random.pick(PORT_NAMES))
        } else {
            json!(random.pick(PORT_NUMBERS))
        };
        json!({ "name": format!("port-{number}"), "port": number, "protocol": random.pick(PROTOCOLS), "targetPort": target })
    });
    let addresses = [format!("10.96.0.{}", 10 + number), format!("fd00:10:96::{}", 10 + number)];
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "namespace": namespace, "name": format!("s{number}"), "uid": format!("s-{number}") },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": addresses[0],
            "clusterIPs": addresses,
            "ipFamilies": ["IPv4", "IPv6"],
            "ipFamilyPolicy": "RequireDualStack",
            "selector": selector,
            "ports": ports,
        },
    })
}

/// For each service, family and set of resolved ports one slice.
pub fn slices(objects: &[Value]) -> Vec<Value> {
    let mut slices = Vec::new();
    for service in of_kind(objects, "Service") {
        let (namespace, name) = (text(service, "/metadata/namespace"), text(service, "/metadata/name"));
        let selected = of_kind(objects, "Pod").filter(|pod| {
            let labels = service["spec"]["selector"].as_object().unwrap();
            text(pod, "/metadata/namespace") == namespace
                && !machines::is_one(pod)
                && text(pod, "/status/phase") == "Running"
                && labels.iter().all(|(key, value)| pod["metadata"]["labels"].get(key) == Some(value))
        });
        let mut groups: BTreeMap<(bool, String), (Value, Vec<Value>)> = BTreeMap::new();
        for pod in selected {
            let ports: Vec<Value> = service["spec"]["ports"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|port| resolved(port, pod))
                .collect();
            let ports = Value::from(ports);
            for address in pod["status"]["podIPs"].as_array().into_iter().flatten() {
                let is_v6 = text(address, "/ip").contains(':');
                let endpoint = json!({
                    "addresses": [address["ip"]],
                    "conditions": { "ready": true, "serving": true, "terminating": false },
                    "nodeName": pod["spec"]["nodeName"],
                    "targetRef": { "kind": "Pod", "namespace": namespace, "name": pod["metadata"]["name"] },
                });
                let group = groups.entry((is_v6, ports.to_string())).or_insert((ports.clone(), Vec::new()));
                group.1.push(endpoint);
            }
        }
        for (number, ((is_v6, _), (ports, endpoints))) in groups.into_iter().enumerate() {
            slices.push(json!({
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "namespace": namespace,
                    "name": format!("{name}-{number}"),
                    "labels": { "kubernetes.io/service-name": name },
                },
                "addressType": if is_v6 { "IPv6" } else { "IPv4" },
                "ports": ports,
                "endpoints": endpoints,
            }));
        }
    }
    slices
}

/// A port of a service as a pod has it: a name is looked up in its containers, first those that come first.
fn resolved(port: &Value, pod: &Value) -> Option<Value> {
    let number = match &port["targetPort"] {
        Value::String(wanted) => {
            let sidecars = pod["spec"]["initContainers"].as_array().into_iter().flatten();
            let sidecars = sidecars.filter(|container| container["restartPolicy"] == "Always");
            let containers = pod["spec"]["containers"].as_array().into_iter().flatten().chain(sidecars);
            let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
            let named = ports.find(|own| own["name"] == *wanted && own["protocol"] == port["protocol"])?;
            named["containerPort"].clone()
        }
        number => number.clone(),
    };
    Some(json!({ "name": port["name"], "protocol": port["protocol"], "port": number }))
}
