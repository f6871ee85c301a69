//! A cluster of nodes and pods that features are added to, as manifests, and what the core makes of it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use netloom_kubernetes::manifest;
use netloom_network::{Northbound, Object, Planner, PodName};
use serde_json::{Value, json};

use crate::feature::Feature;

/// How large a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Pods of each node that no feature is about. Services lead to them.
    pub pods: usize,
    /// Objects of a feature in the whole cluster. They are spread over the nodes.
    pub objects: usize,
}

/// The cluster without a feature, and where its pods are.
pub struct Base {
    /// How large it is.
    pub size: Size,
    addresses: BTreeMap<String, Vec<IpAddr>>,
}

/// The Northbound of a cluster with a feature, or without any.
pub fn compile(size: Size, feature: Option<&Feature>) -> Northbound {
    let mut planner = Planner::default();
    apply(&mut planner, &base(size));
    planner.compile();
    if let Some(feature) = feature {
        let assignments = planner.cluster().records.assignments();
        let addresses = assignments
            .map(|(pod, assignment)| (pod.name.clone(), assignment.addresses.clone()))
            .collect();
        let manifests = (feature.objects)(&Base { size, addresses });
        apply(&mut planner, &manifests);
        planner.compile();
    }
    let problems: Vec<String> = planner.problems().iter().map(|problem| format!("{problem:?}")).collect();
    assert!(problems.is_empty(), "the generated cluster has problems: {}", problems.join("\n"));
    planner.desired().clone()
}

/// A node's name. The first is the real one.
pub fn node_name(number: usize) -> String {
    format!("node{number}")
}

/// A node's address.
pub fn node_address(number: usize) -> IpAddr {
    let [.., high, low] = (number + 1).to_be_bytes();
    Ipv4Addr::new(198, 18, high, low).into()
}

/// A pod on a node. Features add their own.
pub fn pod(namespace: &str, name: &str, node: usize, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "spec": { "nodeName": node_name(node), "containers": [{ "name": "main", "image": "any" }] },
    })
}

/// A namespace.
pub fn namespace(name: &str, labels: &Value, annotations: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels, "annotations": annotations } })
}

impl Base {
    /// Where an object of a feature is: they are spread over the nodes.
    pub fn node(&self, object: usize) -> usize {
        object % self.size.nodes
    }

    /// A pod's name, by its number in the whole cluster: the nodes take turns.
    pub fn pod(&self, number: usize) -> String {
        let place = number % (self.size.nodes * self.size.pods);
        pod_name(place % self.size.nodes, place / self.size.nodes)
    }

    /// The addresses of a pod, IPv4 first.
    pub fn addresses(&self, pod: &str) -> &[IpAddr] {
        &self.addresses[pod]
    }
}

fn pod_name(node: usize, number: usize) -> String {
    format!("pod-{node}-{number}")
}

fn base(size: Size) -> Vec<Value> {
    let mut manifests = vec![
        json!({ "kind": "ClusterNetwork", "metadata": { "name": "default" }, "spec": {
            "clusterCIDRs": [{ "cidr": "10.0.0.0/12" }, { "cidr": "fd00:10::/48" }],
            "services": { "cidrs": ["172.24.0.0/16", "fd00:24::/112"] },
        } }),
        namespace("base", &json!({}), &json!({})),
    ];
    for number in 0..size.nodes {
        manifests.push(node(number, true));
        let name = |place| pod_name(number, place);
        manifests.extend((0..size.pods).map(|place| pod("base", &name(place), number, &json!({ "place": place.to_string() }))));
    }
    manifests
}

/// A node, and whether it may announce addresses of services.
pub fn node(number: usize, announces: bool) -> Value {
    let address = node_address(number);
    let sixth = format!("fd18::{:x}", number + 1);
    let gateway = json!({ "mac": format!("02:00:00:00:{:02x}:{:02x}", number >> 8, number & 255), "addresses": [format!("{address}/15"), format!("{sixth}/64")] });
    let labels = if announces {
        json!({})
    } else {
        json!({ "node.kubernetes.io/exclude-from-external-load-balancers": "" })
    };
    json!({
        "kind": "Node", "metadata": { "name": node_name(number), "labels": labels, "annotations": { "netloom.io/gateway": gateway.to_string() } },
        "status": { "addresses": [{ "type": "InternalIP", "address": address }, { "type": "InternalIP", "address": sixth }] },
    })
}

fn apply(planner: &mut Planner, manifests: &[Value]) {
    for manifest in manifests {
        for mut object in manifest::read(manifest).unwrap() {
            // What a real API server would give.
            match &mut object {
                Object::Pod(PodName { namespace, name }, pod) => pod.uid = format!("{namespace}/{name}"),
                Object::Service(name, service) => service.uid = name.to_string(),
                _ => {}
            }
            assert!(planner.apply(object), "this changes nothing: {manifest}");
        }
    }
}
