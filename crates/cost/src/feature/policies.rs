//! Policies of Kubernetes: subjects and peers of one policy, many policies, named ports, and policies of the whole cluster.

use serde_json::{Value, json};

use crate::cluster::{Base, namespace, pod};

/// One policy; each object is a pod it selects and a pod it lets in.
pub fn peers(base: &Base) -> Vec<Value> {
    let mut manifests = subjects_and_peers(base, |_| Value::Null);
    manifests.push(policy(
        "shop",
        "web",
        &json!({ "app": "web" }),
        &json!([{ "port": 80 }, { "port": 443 }]),
    ));
    manifests
}

/// The same with a port that has a name, which half of the pods give to another number.
pub fn named_ports(base: &Base) -> Vec<Value> {
    let mut manifests = subjects_and_peers(base, |object| json!([{ "name": "http", "containerPort": 8080 + object / 3 % 2 }]));
    manifests.push(policy("shop", "web", &json!({ "app": "web" }), &json!([{ "port": "http" }])));
    manifests
}

/// Each object is a policy with the pod it selects. They let the same pods in, at ports of their own.
pub fn many(base: &Base) -> Vec<Value> {
    let client = |number: usize| pod("shop", &format!("client-{number}"), base.node(number), &json!({ "app": "client" }));
    let mut manifests: Vec<Value> = (0..3).map(client).collect();
    manifests.push(namespace("shop", &json!({}), &json!({})));
    for object in 0..base.size.objects {
        let app = format!("app-{object}");
        manifests.push(pod("shop", &app, base.node(object), &json!({ "app": app })));
        manifests.push(policy("shop", &app, &json!({ "app": app }), &json!([{ "port": 1000 + object }])));
    }
    manifests
}

/// Each object is a policy of the whole cluster, about all its pods.
pub fn cluster_wide(base: &Base) -> Vec<Value> {
    let mut manifests = vec![
        namespace("shop", &json!({ "team": "shop" }), &json!({})),
        pod("shop", "client", 0, &json!({ "app": "client" })),
    ];
    let policies = (0..base.size.objects).map(|object| {
        let port = json!([{ "tcp": { "destinationPort": { "number": 1000 + object } } }]);
        cluster_policy(object, &json!({ "namespaces": {} }), &port)
    });
    manifests.extend(policies);
    manifests
}

/// One policy of the whole cluster; each object is a pod it selects and a pod it is about.
pub fn cluster_wide_pods(base: &Base) -> Vec<Value> {
    let mut manifests = subjects_and_peers(base, |_| Value::Null);
    let subject = json!({ "pods": { "namespaceSelector": {}, "podSelector": { "matchLabels": { "app": "web" } } } });
    let ports = json!([{ "tcp": { "destinationPort": { "number": 80 } } }, { "udp": { "destinationPort": { "number": 53 } } }]);
    manifests.push(cluster_policy(0, &subject, &ports));
    manifests
}

fn subjects_and_peers(base: &Base, ports: fn(usize) -> Value) -> Vec<Value> {
    let mut manifests = vec![namespace("shop", &json!({ "team": "shop" }), &json!({}))];
    for object in 0..base.size.objects {
        let mut subject = pod("shop", &format!("web-{object}"), base.node(object), &json!({ "app": "web" }));
        subject["spec"]["containers"][0]["ports"] = ports(object);
        manifests.push(subject);
        manifests.push(pod(
            "shop",
            &format!("client-{object}"),
            base.node(object),
            &json!({ "app": "client" }),
        ));
    }
    manifests
}

fn policy(namespace: &str, name: &str, subjects: &Value, ports: &Value) -> Value {
    let from = json!([{ "podSelector": { "matchLabels": { "app": "client" } } }]);
    network_policy(
        namespace,
        name,
        &json!({ "podSelector": { "matchLabels": subjects }, "ingress": [{ "from": from, "ports": ports }] }),
    )
}

fn network_policy(namespace: &str, name: &str, spec: &Value) -> Value {
    let metadata = json!({ "name": name, "namespace": namespace });
    json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec })
}

fn cluster_policy(number: usize, subject: &Value, protocols: &Value) -> Value {
    let from = json!([{ "pods": { "namespaceSelector": { "matchLabels": { "team": "shop" } }, "podSelector": { "matchLabels": { "app": "client" } } } }]);
    json!({
        "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": { "name": format!("policy-{number}") },
        "spec": {
            "tier": "Admin", "priority": number, "subject": subject,
            "ingress": [{ "action": "Accept", "from": from, "protocols": protocols }],
        },
    })
}
