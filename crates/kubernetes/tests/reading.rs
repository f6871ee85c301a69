//! What the one reader makes of Kubernetes objects: fields that mean something when they are missing, empty or null, and what is cut off.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::net::IpAddr;

use netloom_kubernetes::{Kind, manifest};
use netloom_network::cluster::View;
use netloom_network::service::Family;
use netloom_network::{Cluster, ClusterPolicyKind, ClusterPolicyName, EndpointSlice, Namespaced, Node, Object, Pod, Service};
use serde_json::{Value, json};

/// What the API server served, read as the controller does.
fn read(kind: Kind, value: &Value) -> Option<Object> {
    let text = value.to_string();
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    kind.deserialize(&mut deserializer).unwrap().object
}

fn node(value: &Value) -> Node {
    match read(Kind::Node, value) {
        Some(Object::Node(_, node)) => node,
        other => panic!("{other:?}"),
    }
}

fn pod(value: &Value) -> Pod {
    match read(Kind::Pod, value) {
        Some(Object::Pod(_, pod)) => pod,
        other => panic!("{other:?}"),
    }
}

fn service(value: &Value) -> Service {
    match read(Kind::Service, value) {
        Some(Object::Service(_, service)) => service,
        other => panic!("{other:?}"),
    }
}

fn slice(value: &Value) -> Option<EndpointSlice> {
    match read(Kind::EndpointSlice, value) {
        Some(Object::EndpointSlice(_, slice)) => Some(slice),
        None => None,
        other => panic!("{other:?}"),
    }
}

/// Objects with every field that is read.
fn written() -> Vec<(Kind, Value)> {
    let metadata = json!({
        "name": "a", "namespace": "b", "uid": "1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": { "kubernetes.io/service-name": "web" }, "annotations": { "netloom.io/isolation": "pods" },
    });
    let spec = |spec: Value| json!({ "metadata": metadata, "spec": spec });
    vec![
        (Kind::Namespace, json!({ "metadata": metadata })),
        (
            Kind::Node,
            json!({ "metadata": metadata, "status": {
                "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }], "conditions": [{ "type": "Ready", "status": "True" }],
            } }),
        ),
        (
            Kind::Pod,
            json!({
                "metadata": metadata,
                "spec": {
                    "nodeName": "n", "hostNetwork": true,
                    "containers": [{ "ports": [{ "name": "http", "protocol": "TCP", "containerPort": 80 }] }],
                    "initContainers": [{ "restartPolicy": "Always", "ports": [{ "name": "log", "containerPort": 81 }] }],
                },
                "status": { "phase": "Running", "podIPs": [{ "ip": "10.244.0.5" }] },
            }),
        ),
        (
            Kind::Service,
            json!({
                "metadata": metadata,
                "spec": {
                    "type": "LoadBalancer", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
                    "ports": [{ "name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080 }], "sessionAffinity": "ClientIP",
                    "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local", "externalIPs": ["192.0.2.9"],
                    "loadBalancerClass": "c", "loadBalancerIP": "192.0.2.8", "loadBalancerSourceRanges": ["192.0.2.0/24"],
                    "healthCheckNodePort": 30081, "selector": { "app": "web" },
                },
                "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.8", "ipMode": "VIP" }] } },
            }),
        ),
        (
            Kind::EndpointSlice,
            json!({
                "metadata": metadata, "addressType": "IPv4", "ports": [{ "name": "http", "protocol": "TCP", "port": 8080 }],
                "endpoints": [{
                    "addresses": ["10.244.0.5"], "conditions": { "ready": false, "serving": true, "terminating": true }, "nodeName": "n",
                    "hints": { "forZones": [{ "name": "z" }], "forNodes": [{ "name": "n" }] }, "targetRef": { "kind": "Pod" },
                }],
            }),
        ),
        (
            Kind::NetworkPolicy,
            spec(json!({
                "podSelector": { "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b"] }] }, "policyTypes": ["Egress"],
                "ingress": [{ "from": [{ "podSelector": {} }], "ports": [{ "port": 80 }] }],
                "egress": [{ "to": [{ "ipBlock": { "cidr": "192.0.2.0/24", "except": ["192.0.2.1/32"] } }] }],
            })),
        ),
        (
            Kind::ClusterNetwork,
            json!({ "metadata": { "name": "default" }, "spec": {
                "clusterCIDRs": [{ "cidr": "10.244.0.0/16", "nodePrefix": 25 }], "joinCIDRs": ["100.64.0.0/16"],
                "services": { "mode": "kube-proxy", "cidrs": ["10.96.0.0/16"] },
            } }),
        ),
        (
            Kind::ExternalPool,
            spec(json!({ "cidrs": ["192.0.2.0/28"], "ranges": ["192.0.2.32-192.0.2.40"], "namespaces": ["b"], "autoAssign": false })),
        ),
        (Kind::AdminNetworkPolicy, spec(json!({}))),
        (Kind::BaselineAdminNetworkPolicy, spec(json!({}))),
        (Kind::ClusterNetworkPolicy, spec(json!({}))),
        (Kind::SecurityGroup, spec(json!({ "rules": [{ "direction": "Ingress" }] }))),
        (
            Kind::Network,
            spec(json!({ "subnets": ["192.168.0.0/24"], "gateways": ["192.168.0.1"], "routes": [], "isolated": true })),
        ),
        (
            Kind::Port,
            json!({
                "metadata": metadata,
                "spec": { "node": "n", "mac": "52:54:00:12:34:56", "addresses": ["10.244.0.9"], "ports": [{ "name": "sql", "port": 5432 }] },
                "status": { "addresses": ["10.244.0.9/24"], "networkAddresses": ["192.168.0.9/24"] },
            }),
        ),
    ]
}

/// Every object once for each of its lists, maps and texts, with that one null; and with that one left out.
fn nulled(value: &Value) -> Vec<(String, Value, Value)> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(number, value)| (number.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    let mut found = Vec::new();
    for (name, child) in children {
        // What is in these is what users wrote: a null has a meaning of its own, or none.
        if !["labels", "annotations", "selector", "rules", "matchExpressions"].contains(&name.as_str()) {
            for (path, null, without) in nulled(child) {
                found.push((format!("{name}.{path}"), with(value, &name, null), with(value, &name, without)));
            }
        }
        // An object without it is none, and the API server has none.
        let required = name == "cidr";
        if let (Value::Object(fields), false) = (value, required) {
            let mut without = fields.clone();
            without.remove(&name);
            found.push((name.clone(), with(value, &name, Value::Null), without.into()));
        }
    }
    found
}

fn with(value: &Value, name: &str, child: Value) -> Value {
    let mut value = value.clone();
    *value.pointer_mut(&format!("/{name}")).unwrap() = child;
    value
}

#[test]
fn every_kind_has_an_example_here() {
    let written = written();
    let missing: Vec<&Kind> = Kind::ALL
        .iter()
        .filter(|kind| !written.iter().any(|(other, _)| other == *kind))
        .collect();
    assert_eq!(missing, Vec::<&Kind>::new());
}

#[test]
fn null_is_not_written_wherever_it_is() {
    let mut tried = 0;
    for (kind, object) in written() {
        for (field, null, without) in nulled(&object) {
            assert_eq!(read(kind, &null), read(kind, &without), "{kind:?}: {field}");
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried} fields");
}

#[test]
fn null_is_an_empty_text_among_labels() {
    let read = pod(&json!({ "metadata": { "labels": { "a": null }, "annotations": { "netloom.io/mac": null } } }));
    assert_eq!((read.labels["a"].as_str(), read.annotations["netloom.io/mac"].as_str()), ("", ""));
}

#[test]
fn only_annotations_the_network_reads_are_kept() {
    let annotations = json!({
        "kubectl.kubernetes.io/last-applied-configuration": "{}", "netloom.io/addresses": "10.244.0.9", "opencontrail.kubernetes.isolated": "true",
    });
    let read = pod(&json!({ "metadata": { "annotations": annotations } }));
    let names: Vec<&str> = read.annotations.keys().map(String::as_str).collect();
    assert_eq!(names, ["netloom.io/addresses", "opencontrail.kubernetes.isolated"]);
}

#[test]
fn a_node_is_ready_if_it_says_so() {
    let ready = |conditions: Value| node(&json!({ "metadata": {}, "status": { "conditions": conditions } })).ready;
    assert!(ready(json!([{ "type": "Ready", "status": "True" }])));
    for unready in [
        json!([]),
        json!(null),
        json!([{ "type": "Ready", "status": "Unknown" }]),
        json!([{ "type": "MemoryPressure", "status": "True" }]),
    ] {
        assert!(!ready(unready.clone()), "{unready}");
    }
}

#[test]
fn a_zone_and_a_node_have_names() {
    let zone = |zone: &str| node(&json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone } } })).zone;
    assert_eq!((zone(""), zone("a")), (None, Some("a".to_owned())));
    let bound = |name: &str| pod(&json!({ "metadata": {}, "spec": { "nodeName": name } })).node;
    assert_eq!((bound(""), bound("n")), (None, Some("n".to_owned())));
}

#[test]
fn ports_are_those_of_containers_that_stay() {
    let port = |name: &str, number: i64| json!({ "name": name, "containerPort": number });
    let read = pod(&json!({ "metadata": {}, "spec": {
        "containers": [{ "ports": [port("http", 80), port("", 81), port("far", 70000)] }],
        "initContainers": [{ "ports": [port("once", 82)] }, { "restartPolicy": "Always", "ports": [port("log", 83)] }],
    } }));
    let ports: Vec<_> = read.ports.iter().map(|port| (port.name.as_str(), port.number)).collect();
    assert_eq!(ports, [("http", 80), ("log", 83)]);
}

#[test]
fn only_addresses_that_are_used_as_they_are_count_as_shown() {
    let ingress = json!([
        { "ip": "192.0.2.1" }, { "ip": "192.0.2.2", "ipMode": "VIP" }, { "ip": "192.0.2.3", "ipMode": "Proxy" }, { "hostname": "a.example" },
    ]);
    let service = service(&json!({
        "metadata": { "name": "a", "namespace": "b" },
        "spec": { "type": "LoadBalancer", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"] },
        "status": { "loadBalancer": { "ingress": ingress } },
    }));
    let shown = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
    assert_eq!((service.status_addresses, service.families), (shown.to_vec(), vec![Family::Ipv4]));
}

#[test]
fn headless_services_and_mere_names_have_no_cluster_address() {
    let headless = service(&json!({ "metadata": {}, "spec": {
        "clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv6"], "ports": [{ "port": 80 }],
    } }));
    assert_eq!((headless.cluster_ips.len(), headless.ports.len()), (0, 1));
    assert_eq!(headless.families, [Family::Ipv6], "those that the API server wrote");
    let name = service(&json!({
        "metadata": { "uid": "1" },
        "spec": { "type": "ExternalName", "externalName": "a.example", "ports": [{ "port": 80 }], "externalIPs": ["192.0.2.1"] },
    }));
    let nothing = Service {
        uid: "1".to_owned(),
        ..Service::default()
    };
    assert_eq!(name, nothing);
}

#[test]
fn a_slice_says_little_and_means_the_usual() {
    let metadata = json!({ "name": "a-1", "namespace": "b", "labels": { "kubernetes.io/service-name": "a" } });
    let minimal = slice(&json!({
        "metadata": metadata, "addressType": "IPv4",
        "ports": [{ "port": 8080 }, { "name": "all" }],
        "endpoints": [{ "addresses": ["10.244.0.5"] }, { "addresses": ["10.244.0.6"], "conditions": { "ready": false } }],
    }));
    let minimal = minimal.unwrap();
    assert_eq!(minimal.service.to_string(), "b/a");
    assert_eq!(
        minimal.ports.len(),
        1,
        "a port without a number stands for any: there is nothing to translate to"
    );
    let states: Vec<_> = minimal
        .endpoints
        .iter()
        .map(|e| (e.ready, e.serving, e.terminating, e.pod))
        .collect();
    assert_eq!(states, [(true, true, false, false), (false, false, false, false)]);
    let names = slice(&json!({ "metadata": metadata, "addressType": "FQDN", "endpoints": [{ "addresses": ["a.example"] }] }));
    assert_eq!(names, None);
    assert_eq!(slice(&json!({ "metadata": { "name": "a-1" }, "addressType": "IPv4" })), None);
}

/// What a file has is read as the API server's answer is, once it says what a cluster would have added.
#[test]
fn files_and_the_api_are_read_alike() {
    for (kind, mut object) in written() {
        let from_api = read(kind, &object);
        object["kind"] = kind.name().into();
        object["apiVersion"] = kind.api_version().into();
        assert_eq!(manifest::read(&object).unwrap(), Vec::from_iter(from_api), "{kind:?}");
    }
}

#[test]
fn every_object_is_known_by_the_name_of_its_kind() {
    for (kind, object) in written() {
        let mut cluster = Cluster::default();
        let object = read(kind, &object).unwrap();
        cluster.insert(object.clone());
        assert_eq!(kind.absent(&cluster, std::slice::from_ref(&object)), [], "{kind:?} is in the list");
        let gone = kind.absent(&cluster, &[]);
        assert_eq!(gone.len(), 1, "{kind:?} is not in the list");
        cluster.remove(&gone[0]);
        assert_eq!(kind.absent(&cluster, &[]), [], "{kind:?} is removed by its name");
        for other in Kind::ALL.iter().filter(|other| **other != kind) {
            let mut cluster = Cluster::default();
            cluster.insert(object.clone());
            assert_eq!(other.absent(&cluster, &[]), [], "{kind:?} is no {other:?}");
        }
    }
}

/// Events and conditions are written by what an object's reference says of its kind.
#[test]
fn what_rows_and_problems_refer_to_is_in_the_table() {
    let (cluster, name) = (Cluster::default(), Namespaced::default());
    let view = View::new(&cluster);
    let policy = |kind| ClusterPolicyName { kind, name: String::new() };
    for (object, kind) in [
        (view.network_ref(), Kind::ClusterNetwork),
        (view.node_ref("a"), Kind::Node),
        (view.pod_ref(&name), Kind::Pod),
        (view.pod_ref(&name.clone().of_machine()), Kind::Port),
        (view.pool_ref("a"), Kind::ExternalPool),
        (view.service_ref(&name), Kind::Service),
        (view.namespace_ref("a"), Kind::Namespace),
        (view.policy_ref(&name), Kind::NetworkPolicy),
        (view.cluster_policy_ref(&policy(ClusterPolicyKind::Admin)), Kind::AdminNetworkPolicy),
        (
            view.cluster_policy_ref(&policy(ClusterPolicyKind::Baseline)),
            Kind::BaselineAdminNetworkPolicy,
        ),
        (
            view.cluster_policy_ref(&policy(ClusterPolicyKind::Cluster)),
            Kind::ClusterNetworkPolicy,
        ),
        (view.security_group_ref(&name), Kind::SecurityGroup),
        (view.custom_network_ref("a"), Kind::Network),
    ] {
        assert_eq!(Kind::named(object.kind), Some(kind), "{object}");
        assert_eq!(kind.reference(&object.namespace, &object.name, &object.uid), object);
    }
}

#[test]
fn kinds_of_others_with_the_same_name_are_theirs() {
    assert_eq!(Kind::of(Some("v1"), "Service"), Some(Kind::Service));
    assert_eq!(Kind::of(None, "Service"), Some(Kind::Service));
    assert_eq!(Kind::of(Some("serving.example.com/v1"), "Service"), None);
    assert_eq!(Kind::of(Some("netloom.io/v1alpha1"), "Network"), Some(Kind::Network));
    assert_eq!(Kind::of(Some("config.example.com/v1"), "Network"), None);
    let theirs = json!({ "apiVersion": "serving.example.com/v1", "kind": "Service", "metadata": { "name": "a" } });
    assert_eq!(manifest::read(&theirs).unwrap(), []);
}
