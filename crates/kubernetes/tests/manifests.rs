//! What a cluster adds to manifests before the network is asked, and what is said about those that cannot be read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use netloom_kubernetes::manifest;
use netloom_network::service::Family;
use netloom_network::{Object, Pod, Service};
use serde_json::{Value, json};

fn cluster(yaml: &str) -> Vec<Object> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    manifest::cluster(&documents).unwrap()
}

fn services(objects: &[Object]) -> Vec<(&str, &Service)> {
    let services = objects.iter().filter_map(|object| match object {
        Object::Service(name, service) => Some((name.name.as_str(), service)),
        _ => None,
    });
    services.collect()
}

fn pods(objects: &[Object]) -> Vec<(String, &Pod)> {
    let pods = objects.iter().filter_map(|object| match object {
        Object::Pod(name, pod) => Some((name.to_string(), pod)),
        _ => None,
    });
    pods.collect()
}

#[test]
fn services_get_addresses_unless_they_are_headless_or_mere_names() {
    let objects = cluster(
        "kind: Service\nmetadata: { name: plain }\n---\n\
         kind: Service\nmetadata: { name: both }\nspec: { ipFamilies: [IPv6, IPv4] }\n---\n\
         kind: Service\nmetadata: { name: fixed }\nspec: { clusterIP: 10.96.0.1 }\n---\n\
         kind: Service\nmetadata: { name: headless }\nspec: { clusterIP: None, ipFamilies: [IPv4] }\n---\n\
         kind: Service\nmetadata: { name: mere }\nspec: { type: ExternalName, externalName: a.example }\n",
    );
    let given: Vec<String> = services(&objects)
        .iter()
        .map(|(name, service)| format!("{name} {:?}", service.cluster_ips))
        .collect();
    assert_eq!(
        given,
        [
            "plain [10.96.0.2]",
            "both [fd00:10:96::1, 10.96.0.3]",
            "fixed [10.96.0.1]",
            "headless []",
            "mere []"
        ]
    );
    let headless = services(&objects)[3].1;
    assert_eq!(headless.families, [Family::Ipv4], "it keeps the families it has");
}

#[test]
fn services_of_another_proxy_are_left_out_with_their_slices() {
    let labels = "labels: { service.kubernetes.io/service-proxy-name: theirs, kubernetes.io/service-name: a }";
    let theirs = format!(
        "kind: Service\nmetadata: {{ name: a, {labels} }}\n---\nkind: EndpointSlice\nmetadata: {{ name: a-1, {labels} }}\naddressType: IPv4\n"
    );
    let objects = cluster(&theirs);
    assert!(objects.iter().all(|object| matches!(object, Object::Node(..))), "{objects:?}");
}

#[test]
fn pods_without_a_node_are_spread_over_the_nodes() {
    let objects = cluster(
        "kind: Node\nmetadata: { name: a }\n---\nkind: Node\nmetadata: { name: b }\nstatus: { conditions: [{ type: Ready, status: 'False' }] }\n---\n\
         kind: Pod\nmetadata: { name: bound }\nspec: { nodeName: b }\n---\nkind: Pod\nmetadata: { name: empty }\nspec: { nodeName: '' }\n---\n\
         kind: Deployment\nmetadata: { name: web, namespace: shop }\nspec: { replicas: 2, template: { metadata: { labels: { app: web } } } }\n",
    );
    let bound: Vec<String> = pods(&objects)
        .iter()
        .map(|(name, pod)| format!("{name} {}", pod.node.as_deref().unwrap()))
        .collect();
    assert_eq!(bound, ["default/bound b", "default/empty a", "shop/web-0 b", "shop/web-1 a"]);
    let ready = objects.iter().filter_map(|object| match object {
        Object::Node(name, node) => Some((name.as_str(), node.ready)),
        _ => None,
    });
    assert_eq!(
        ready.collect::<Vec<_>>(),
        [("a", true), ("b", false)],
        "a node is ready unless it says otherwise"
    );
    let namespaces = objects.iter().filter_map(|object| match object {
        Object::Namespace(name, _) => Some(name.as_str()),
        _ => None,
    });
    assert_eq!(namespaces.collect::<Vec<_>>(), ["default", "shop"]);
}

/// As `kubectl get -o json` and `kubectl get --raw` write lists; in the latter the items do not say what they are.
#[test]
fn lists_are_read_item_by_item() {
    let item = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "a", "creationTimestamp": null } });
    let written = manifest::read(&json!({ "kind": "List", "apiVersion": "v1", "items": [item] })).unwrap();
    let raw = manifest::read(&json!({ "kind": "PodList", "apiVersion": "v1", "items": [{ "metadata": { "name": "a" } }] })).unwrap();
    assert_eq!((pods(&written).len(), &written), (1, &raw));
    assert_eq!(manifest::read(&json!({ "kind": "List", "items": null })).unwrap(), []);
}

#[test]
fn what_cannot_be_read_is_named() {
    let said = |value: Value| manifest::read(&value).unwrap_err();
    assert_eq!(said(json!({ "kind": "Pod" })), "Pod: metadata.name is missing");
    let error = said(json!({ "kind": "Pod", "metadata": { "name": "a" }, "spec": { "hostNetwork": [] } }));
    assert!(error.starts_with("Pod/a: spec: invalid type"), "{error}");
    let error = said(
        json!({ "kind": "EndpointSlice", "metadata": { "name": "a", "labels": { "kubernetes.io/service-name": "a" } }, "endpoints": 1 }),
    );
    assert!(error.starts_with("EndpointSlice/a: endpoints: invalid type"), "{error}");
    let error = said(json!({ "kind": "ClusterNetwork", "metadata": { "name": "other" } }));
    assert_eq!(
        error,
        "ClusterNetwork/other: there is one cluster network and its name is \"default\"; rename it"
    );
}

/// Nothing that is written in the place of an object makes it more than unreadable.
#[test]
fn any_value_is_answered() {
    for kind in ["Node", "Pod", "Service", "Deployment", "ClusterNetwork", "List", "PodList"] {
        for value in [json!(null), json!(1), json!("x"), json!([]), json!([1]), json!({})] {
            for field in ["spec", "status", "metadata", "items"] {
                let mut manifest = json!({ "kind": kind, "metadata": { "name": "default" } });
                manifest[field] = value.clone();
                match manifest::cluster([&manifest]) {
                    Ok(objects) => assert!(objects.iter().any(|object| matches!(object, Object::Node(..))), "{manifest}"),
                    Err(error) => assert!(error.starts_with(kind) || error.starts_with("Pod"), "{manifest}: {error}"),
                }
            }
        }
    }
}
