//! What Netloom adds to Kubernetes: isolated namespaces, apps, security groups and Networks.

use serde_json::{Value, json};

use crate::cluster::{Base, namespace, pod};

/// Namespaces whose pods others reach through services only.
pub fn namespaces(base: &Base) -> Vec<Value> {
    isolated(base, "pods")
}

/// Namespaces whose pods others do not reach at all.
pub fn closed_namespaces(base: &Base) -> Vec<Value> {
    isolated(base, "services")
}

fn isolated(base: &Base, isolation: &str) -> Vec<Value> {
    let of = |object: usize| {
        let name = format!("isolated-{object}");
        [
            namespace(&name, &json!({}), &json!({ "netloom.io/isolation": isolation })),
            pod(&name, &name, base.node(object), &json!({})),
        ]
    };
    (0..base.size.objects).flat_map(of).collect()
}

/// Apps of one namespace.
pub fn apps(base: &Base) -> Vec<Value> {
    let app = |object: usize| {
        pod(
            "shop",
            &format!("app-{object}"),
            base.node(object),
            &json!({ "netloom.io/app": format!("app-{object}") }),
        )
    };
    let apps = (0..base.size.objects).map(app);
    [namespace("shop", &json!({}), &json!({}))].into_iter().chain(apps).collect()
}

/// Groups, each of which lets the one before it in.
pub fn security_groups(base: &Base) -> Vec<Value> {
    let mut manifests = vec![namespace("shop", &json!({}), &json!({}))];
    for object in 0..base.size.objects {
        manifests.push(group(&format!("group-{object}"), &format!("group-{}", object.saturating_sub(1))));
        manifests.push(pod(
            "shop",
            &format!("member-{object}"),
            base.node(object),
            &json!({ "netloom.io/security-group": format!("group-{object}") }),
        ));
    }
    manifests
}

/// One group, whose members let each other in.
pub fn group_members(base: &Base) -> Vec<Value> {
    let labels = json!({ "netloom.io/security-group": "all" });
    let member = |object: usize| pod("shop", &format!("member-{object}"), base.node(object), &labels);
    let members = (0..base.size.objects).map(member);
    [namespace("shop", &json!({}), &json!({})), group("all", "all")]
        .into_iter()
        .chain(members)
        .collect()
}

/// Networks, each with a namespace, a pod and a route.
pub fn networks(base: &Base) -> Vec<Value> {
    let of = |object: usize| {
        let name = format!("tenant-{object}");
        [
            network(&name, &json!([{ "to": "203.0.113.0/24", "via": "192.168.10.9" }])),
            namespace(&name, &json!({}), &json!({ "netloom.io/network": name })),
            pod(&name, &name, base.node(object), &json!({})),
        ]
    };
    (0..base.size.objects).flat_map(of).collect()
}

/// One Network with many routes, to ranges that have nothing in common.
pub fn routes(base: &Base) -> Vec<Value> {
    let to = |object: usize| {
        let [.., a, b] = object.wrapping_mul(40_503).to_be_bytes();
        json!({ "to": format!("{}.{a}.{b}.0/24", 20 + object % 80), "via": "192.168.10.9" })
    };
    let routes: Vec<Value> = (0..base.size.objects).map(to).collect();
    vec![
        network("tenant", &json!(routes)),
        namespace("tenant", &json!({}), &json!({ "netloom.io/network": "tenant" })),
        pod("tenant", "tenant", 0, &json!({})),
    ]
}

fn network(name: &str, routes: &Value) -> Value {
    let spec = json!({ "subnets": ["192.168.10.0/24", "fd01:10::/64"], "routes": routes });
    json!({ "apiVersion": "netloom.io/v1alpha1", "kind": "Network", "metadata": { "name": name }, "spec": spec })
}

fn group(name: &str, remote: &str) -> Value {
    let rules = json!([
        { "direction": "Ingress", "protocol": "TCP", "port": 80, "remote": { "group": { "name": remote } } },
        { "direction": "Egress" },
    ]);
    let metadata = json!({ "name": name, "namespace": "shop" });
    json!({ "apiVersion": "netloom.io/v1alpha1", "kind": "SecurityGroup", "metadata": metadata, "spec": { "rules": rules } })
}
