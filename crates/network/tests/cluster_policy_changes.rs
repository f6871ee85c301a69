//! What a change costs where there are cluster-wide policies: a pod more, a node's label, a policy more; each touches what it concerns and
//! nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod changes;

use std::net::IpAddr;

use changes::{addresses, compile, planner};
use netloom_kubernetes::manifest;
use netloom_network::rows::Acl;
use netloom_network::{Namespace, Namespaced, Node, Object, Pod};
use serde_json::{Value, json};

fn node(number: u8, zone: &str) -> Object {
    let node = Node {
        addresses: vec![IpAddr::from([172, 30, 0, number])],
        labels: [("zone".to_owned(), zone.to_owned())].into(),
        ..Node::default()
    };
    Object::Node(format!("node{number}"), node)
}

fn namespace(name: &str) -> Object {
    Object::Namespace(name.to_owned(), Namespace::new(name, String::new(), [].into()))
}

fn pod(namespace: &str, name: &str) -> Object {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let pod = Pod {
        uid: name.clone(),
        node: Some("node1".to_owned()),
        ..Pod::default()
    };
    Object::Pod(Namespaced { namespace, name }, pod)
}

fn policy(name: &str, rules: &Value) -> Object {
    let spec = json!({ "tier": "Admin", "priority": 10, "subject": { "namespaces": {} }, "egress": rules });
    let manifest = json!({ "kind": "ClusterNetworkPolicy", "metadata": { "name": name }, "spec": spec });
    manifest::read(&manifest).unwrap().remove(0)
}

/// Pods of a namespace, then nodes of a zone, are accepted.
fn rules(namespace: &str, zone: &str) -> Value {
    json!([
        { "action": "Accept", "to": [{ "namespaces": { "matchLabels": { "kubernetes.io/metadata.name": namespace } } }] },
        { "action": "Deny", "to": [{ "nodes": { "matchLabels": { "zone": zone } } }] },
    ])
}

#[test]
fn a_pod_costs_the_same_however_many_pods_and_policies_there_are() {
    for count in [2, 100] {
        let pods = (0..count).map(|number| pod("shop", &format!("web-{number}")));
        let policies = (0..count).map(|number| policy(&format!("p{number}"), &rules("shop", &format!("zone{number}"))));
        let base = [node(1, "a"), namespace("shop"), namespace("test")];
        let mut planner = planner(base.into_iter().chain(pods).chain(policies));
        planner.apply(pod("test", "one-more"));
        assert_eq!(planner.marked(), 1);
        // Its port; that of the switch, of the isolated pods of the node, of the subject that all policies share.
        assert_eq!(compile(&mut planner), (1, 3));
        planner.remove(&pod("test", "one-more"));
        assert_eq!(compile(&mut planner), (1, 3));
    }
}

#[test]
fn a_nodes_label_moves_its_addresses_and_no_service_is_looked_at() {
    let mut planner = planner([
        node(1, "a"),
        node(2, "b"),
        namespace("shop"),
        policy("nodes", &rules("shop", "a")),
        policy("others", &rules("shop", "c")),
    ]);
    assert_eq!(addresses(&planner, "nodes/zone=a/4"), ["172.30.0.1".to_owned()].into());
    planner.apply(node(2, "a"));
    assert_eq!(planner.marked(), 1);
    assert_eq!(compile(&mut planner), (0, 1));
    assert_eq!(addresses(&planner, "nodes/zone=a/4").len(), 2);
    planner.remove(&node(1, "a"));
    compile(&mut planner);
    assert_eq!(addresses(&planner, "nodes/zone=a/4"), ["172.30.0.2".to_owned()].into());
}

#[test]
fn policies_share_sets_and_the_last_one_takes_them_along() {
    let mut planner = planner([node(1, "a"), namespace("shop"), pod("shop", "web")]);
    let before = planner.desired().clone();
    planner.apply(policy("first", &rules("shop", "a")));
    assert_eq!(
        compile(&mut planner).0,
        9,
        "a port group, two pairs of address sets, two pairs of ACLs"
    );
    planner.apply(policy("second", &rules("shop", "a")));
    // Itself; neither a set, a pod nor a node.
    assert_eq!(planner.marked(), 1);
    assert_eq!(compile(&mut planner), (4, 4), "two pairs of ACLs more");
    planner.remove(&policy("first", &json!([])));
    assert_eq!(compile(&mut planner), (4, 4));
    planner.remove(&policy("second", &json!([])));
    compile(&mut planner);
    assert_eq!(*planner.desired(), before);
}

#[test]
fn the_order_of_policies_and_rules_is_that_of_priorities() {
    let at = |kind: &str, name: &str, spec: Value| {
        let manifest = json!({ "kind": kind, "metadata": { "name": name }, "spec": spec });
        manifest::read(&manifest).unwrap().remove(0)
    };
    let rule = |action: &str| json!({ "action": action, "from": [{ "namespaces": {} }] });
    let subject = json!({ "namespaces": {} });
    let last = json!({ "subject": subject, "ingress": [rule("Allow"), rule("Deny")] });
    let two = |tier: &str, priority: u16| json!({ "tier": tier, "priority": priority, "subject": subject, "ingress": [rule("Deny"), rule("Deny"), rule("Accept"), rule("Pass")] });
    let planner = planner([
        at("BaselineAdminNetworkPolicy", "default", last),
        at("ClusterNetworkPolicy", "last", two("Baseline", 1000)),
        at("ClusterNetworkPolicy", "first", two("Baseline", 999)),
    ]);
    let mut found: Vec<(i64, String)> = planner
        .desired()
        .table::<Acl>()
        .map(|(_, acl)| (-acl.priority, acl.external_ids["netloom.io/key"].clone()))
        .collect();
    found.sort();
    let ranks: Vec<(i64, &str)> = found
        .iter()
        .filter_map(|(priority, key)| Some((-priority, key.strip_prefix("cluster-policy/")?.strip_suffix("/4")?)))
        .collect();
    assert_eq!(
        ranks,
        [
            (798, "ClusterNetworkPolicy/first/ingress/0"),
            (798, "ClusterNetworkPolicy/first/ingress/1"),
            (797, "ClusterNetworkPolicy/first/ingress/2"),
            (796, "ClusterNetworkPolicy/first/ingress/3"),
            (766, "ClusterNetworkPolicy/last/ingress/0"),
            (766, "ClusterNetworkPolicy/last/ingress/1"),
            (765, "ClusterNetworkPolicy/last/ingress/2"),
            (764, "ClusterNetworkPolicy/last/ingress/3"),
            (734, "BaselineAdminNetworkPolicy/default/ingress/0"),
            (733, "BaselineAdminNetworkPolicy/default/ingress/1"),
        ]
    );
}
