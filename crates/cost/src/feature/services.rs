//! Services of three pods each, in both families.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::cluster::{Base, node, node_name};

/// Pods of a service.
const BACKENDS: usize = 3;

/// Services inside the cluster.
pub fn cluster_ip(base: &Base) -> Vec<Value> {
    services(base, &json!({}))
}

/// Services of every node's address.
pub fn node_port(base: &Base) -> Vec<Value> {
    services(base, &json!({ "type": "NodePort" }))
}

/// Services with an address of their own, which a node that is not the real one announces, if there is any.
///
/// Of a service that the real node may announce too, it would always become the announcer: it sends probes to the nodes before it, and
/// those that are rows only do not answer.
pub fn load_balancer(base: &Base) -> Vec<Value> {
    announced_elsewhere(base, services(base, &json!({ "type": "LoadBalancer" })))
}

/// The same, all announced by the real node.
pub fn announcers(base: &Base) -> Vec<Value> {
    let others = (1..base.size.nodes).map(|number| node(number, false));
    with_pool(services(base, &json!({ "type": "LoadBalancer" })))
        .into_iter()
        .chain(others)
        .collect()
}

/// Services that only some may use.
pub fn source_ranges(base: &Base) -> Vec<Value> {
    let ranges: Vec<String> = (0..4).map(range).collect();
    let spec = json!({ "type": "LoadBalancer", "loadBalancerSourceRanges": ranges });
    announced_elsewhere(base, services(base, &spec))
}

/// One service that more and more may use.
pub fn ranges(base: &Base) -> Vec<Value> {
    let ranges: Vec<String> = (0..base.size.objects).map(range).collect();
    let spec = json!({ "type": "LoadBalancer", "loadBalancerSourceRanges": ranges });
    announced_elsewhere(base, service(base, 0, &spec).into())
}

/// Services whose pods are used on their own node only.
pub fn local(base: &Base) -> Vec<Value> {
    services(
        base,
        &json!({ "type": "NodePort", "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Local" }),
    )
}

/// Ranges that have nothing in common: they differ in many bits.
fn range(number: usize) -> String {
    let [.., a, b] = number.wrapping_mul(40_503).to_be_bytes();
    format!("{}.{a}.{b}.0/24", 20 + number % 80)
}

fn announced_elsewhere(base: &Base, manifests: Vec<Value>) -> Vec<Value> {
    let real = (base.size.nodes > 1).then(|| node(0, false));
    with_pool(manifests).into_iter().chain(real).collect()
}

fn with_pool(mut manifests: Vec<Value>) -> Vec<Value> {
    let spec = json!({ "cidrs": ["198.19.0.0/16", "fd18::1:0/112"] });
    manifests.push(json!({ "apiVersion": "netloom.io/v1alpha1", "kind": "ExternalPool", "metadata": { "name": "public" }, "spec": spec }));
    manifests
}

fn services(base: &Base, spec: &Value) -> Vec<Value> {
    (0..base.size.objects).flat_map(|number| service(base, number, spec)).collect()
}

/// A service and its endpoints of both families.
fn service(base: &Base, number: usize, spec: &Value) -> [Value; 3] {
    let name = format!("service-{number}");
    let [.., high, low] = (number + 1).to_be_bytes();
    let mut merged = json!({
        "clusterIPs": [format!("172.24.{high}.{low}"), format!("fd00:24::{:x}", number + 1)],
        "ipFamilies": ["IPv4", "IPv6"],
        "ports": [{ "port": 80, "nodePort": 30_000 + number }],
    });
    merged.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    if merged["type"].is_null() {
        merged["ports"][0].as_object_mut().unwrap().remove("nodePort");
    }
    let metadata = json!({ "name": name, "namespace": "base" });
    [
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": merged }),
        slice(base, number, "IPv4", IpAddr::is_ipv4),
        slice(base, number, "IPv6", IpAddr::is_ipv6),
    ]
}

fn slice(base: &Base, number: usize, family: &str, of_family: fn(&IpAddr) -> bool) -> Value {
    let backends = BACKENDS.min(base.size.nodes * base.size.pods);
    let endpoints = (0..backends).map(|place| {
        let place = number * backends + place;
        let pod = base.pod(place);
        let address = base.addresses(&pod).iter().find(|address| of_family(address)).unwrap();
        let node = node_name(base.node(place));
        json!({ "addresses": [address], "nodeName": node, "targetRef": { "kind": "Pod", "name": pod, "namespace": "base" } })
    });
    let name = format!("service-{number}");
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": format!("{name}-{}", family.to_lowercase()), "namespace": "base", "labels": { "kubernetes.io/service-name": name } },
        "addressType": family, "ports": [{ "port": 8080 }], "endpoints": endpoints.collect::<Vec<_>>(),
    })
}
