//! What a change of isolation costs, and whom it touches: a namespace's own pods, and others only where the first comes or the last goes.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod changes;

use changes::{addresses, compile, planner};
use netloom_kubernetes::manifest;
use netloom_network::rows::{Acl, LoadBalancer};
use netloom_network::{Key, Object, Planner, RowId};
use serde_json::{Value, json};

fn object(value: &Value) -> Object {
    manifest::read(value).unwrap().remove(0)
}

fn node() -> Object {
    object(
        &json!({ "kind": "Node", "metadata": { "name": "node1" }, "status": { "addresses": [{ "type": "InternalIP", "address": "172.30.0.1" }] } }),
    )
}

fn namespace(name: &str, isolation: &str) -> Object {
    object(&json!({ "kind": "Namespace", "metadata": { "name": name, "annotations": { "netloom.io/isolation": isolation } } }))
}

fn pod(namespace: &str, name: &str, labels: &Value) -> Object {
    let metadata = json!({ "name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "labels": labels });
    object(&json!({ "kind": "Pod", "metadata": metadata, "spec": { "nodeName": "node1" } }))
}

fn service(namespace: &str, name: &str, address: &str, labels: &Value) -> Object {
    let metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
    object(
        &json!({ "kind": "Service", "metadata": metadata, "spec": { "clusterIP": address, "selector": { "run": name }, "ports": [{ "port": 80 }] } }),
    )
}

fn group(name: &str, rules: &Value) -> Object {
    object(&json!({ "kind": "SecurityGroup", "metadata": { "name": name, "namespace": "shop" }, "spec": { "rules": rules } }))
}

fn ports(planner: &Planner, key: &str) -> usize {
    planner.desired().members(RowId::of("Port_Group", &Key::new(key)), "ports").count()
}

fn pods(namespace: &'static str) -> impl Iterator<Item = Object> {
    (0..20).map(move |number| pod(namespace, &format!("pod-{number}"), &json!({})))
}

#[test]
fn isolating_a_namespace_touches_its_own_pods_once_there_is_another() {
    let base = [
        node(),
        namespace("blue", "none"),
        namespace("green", "none"),
        namespace("grey", "none"),
    ];
    let mut planner = planner(base.into_iter().chain(pods("blue")).chain(pods("green")).chain(pods("grey")));
    let before = planner.desired().clone();
    // The first puts every pod into the group of those that are kept out.
    planner.apply(namespace("blue", "pods"));
    compile(&mut planner);
    assert_eq!((ports(&planner, "isolation/pods"), ports(&planner, "network/blue-vn")), (60, 20));
    assert_eq!(addresses(&planner, "isolation/pods/4").len(), 20);
    // The second touches 20 pods: each has a port in its network and two addresses in two sets. Its group, two sets, five ACLs.
    planner.apply(namespace("green", "pods"));
    assert_eq!(planner.marked(), 21);
    assert_eq!(compile(&mut planner), (8, 5 + 20 * 5));
    // One pod more in an open namespace: its port, on its switch, in one group.
    planner.apply(pod("grey", "more", &json!({})));
    assert_eq!(planner.marked(), 1);
    assert_eq!(compile(&mut planner), (1, 2));
    planner.remove(&pod("grey", "more", &json!({})));
    // Back again, nothing is left.
    planner.apply(namespace("green", "none"));
    planner.remove(&namespace("blue", "none"));
    planner.apply(namespace("blue", "none"));
    compile(&mut planner);
    assert!(*planner.desired() == before);
}

#[test]
fn isolating_services_hides_them_and_what_they_lead_to() {
    let base = [
        node(),
        namespace("blue", "services"),
        namespace("grey", "none"),
        pod("blue", "a", &json!({})),
        pod("grey", "b", &json!({})),
        service("blue", "web", "10.96.0.20", &json!({})),
        service("grey", "web", "10.96.0.21", &json!({})),
    ];
    let mut planner = planner(base);
    let all = |planner: &Planner, key: &str| addresses(planner, key).into_iter().collect::<Vec<_>>();
    assert_eq!(all(&planner, "isolation/services/4"), ["10.96.0.20"]);
    assert_eq!((ports(&planner, "isolation/outsiders"), ports(&planner, "isolation/pods")), (1, 2));
    assert_eq!(all(&planner, "isolation/closed/4").len(), 1);
    planner.apply(namespace("blue", "pods"));
    compile(&mut planner);
    assert_eq!(all(&planner, "isolation/services/4"), Vec::<String>::new());
    assert_eq!(ports(&planner, "isolation/outsiders"), 0);
    // A service that comes to a namespace whose services are isolated is never seen.
    planner.apply(namespace("blue", "services"));
    planner.apply(service("blue", "late", "10.96.0.22", &json!({})));
    compile(&mut planner);
    assert_eq!(all(&planner, "network/blue-vn/services/4"), ["10.96.0.20", "10.96.0.22"]);
}

#[test]
fn a_label_moves_one_pod_and_that_of_a_service_its_pods() {
    let base = [
        node(),
        namespace("shop", "none"),
        pod("shop", "web", &json!({ "run": "web" })),
        service("shop", "web", "10.96.0.20", &json!({})),
    ];
    let mut planner = planner(base.into_iter().chain(pods("shop")));
    let before = planner.desired().clone();
    planner.apply(service("shop", "web", "10.96.0.20", &json!({ "netloom.io/app": "billing" })));
    assert_eq!(planner.marked(), 3, "the service, the app and the one pod it selects");
    compile(&mut planner);
    assert_eq!((ports(&planner, "app/shop/billing"), ports(&planner, "isolated/node1")), (1, 1));
    planner.apply(pod("shop", "pod-1", &json!({ "opencontrail.org/name": "billing" })));
    assert_eq!(planner.marked(), 1);
    compile(&mut planner);
    assert_eq!(addresses(&planner, "app/shop/billing/4").len(), 2);
    planner.apply(service("shop", "web", "10.96.0.20", &json!({})));
    compile(&mut planner);
    assert_eq!(addresses(&planner, "app/shop/billing/4").len(), 1);
    planner.apply(pod("shop", "pod-1", &json!({})));
    compile(&mut planner);
    assert!(*planner.desired() == before, "nothing is left of the app");
}

#[test]
fn a_pod_that_names_a_group_is_closed_before_the_group_exists_and_after() {
    let named = |groups: &str| pod("shop", "web", &json!({ "netloom.io/security-group": groups }));
    let mut planner = planner([node(), namespace("shop", "none"), named("web")]);
    assert_eq!(ports(&planner, "security-groups"), 1);
    let problems = |planner: &Planner| planner.problems().iter().map(|problem| problem.reason).collect::<Vec<_>>();
    assert_eq!(problems(&planner), ["UnknownSecurityGroup"]);
    planner.apply(group(
        "web",
        &json!([{ "direction": "Ingress", "remote": { "group": { "name": "db" } } }]),
    ));
    compile(&mut planner);
    assert_eq!(problems(&planner), ["UnknownSecurityGroup"], "now it is the rule's");
    assert_eq!(
        (
            ports(&planner, "security-group/shop/web"),
            addresses(&planner, "security-group/shop/web/4").len()
        ),
        (1, 1)
    );
    let rules = |planner: &Planner| planner.desired().rows().filter(|(id, _)| id.table == "ACL").count();
    let without = rules(&planner);
    planner.apply(group("db", &json!([])));
    compile(&mut planner);
    assert_eq!((problems(&planner), rules(&planner)), (vec![], without + 2));
    planner.remove(&group("web", &json!([])));
    compile(&mut planner);
    assert_eq!(
        (ports(&planner, "security-groups"), ports(&planner, "isolated/node1")),
        (1, 1),
        "it stays closed"
    );
    planner.apply(named(""));
    compile(&mut planner);
    assert_eq!(ports(&planner, "security-groups"), 0);
}

#[test]
fn a_log_touches_what_decides_in_the_namespace_and_no_pod() {
    let asking = |log: &str| {
        let annotations = json!({ "netloom.io/isolation": "pods", "netloom.io/policy-log": log });
        object(&json!({ "kind": "Namespace", "metadata": { "name": "shop", "annotations": annotations } }))
    };
    let elsewhere = pod("other", "web", &json!({ "netloom.io/app": "billing" }));
    let base = [
        node(),
        asking("none"),
        pod("shop", "web", &json!({ "netloom.io/app": "billing" })),
        pod("shop", "db", &json!({ "netloom.io/security-group": "db" })),
        group("db", &json!([{ "direction": "Ingress" }])),
        elsewhere,
    ];
    let mut planner = planner(base.into_iter().chain(pods("shop")));
    let before = planner.desired().clone();
    let named = |planner: &Planner| {
        let logged = planner.desired().table::<Acl>().filter(|(_, acl)| acl.log);
        let mut names: Vec<_> = logged.filter_map(|(_, acl)| acl.name).collect();
        names.sort();
        names
    };
    assert_eq!(named(&planner), Vec::<String>::new());
    planner.apply(asking("dropped"));
    assert_eq!(planner.marked(), 4, "the log, the app, the group and the network of the namespace");
    // A meter and its band; denials that are logged: the app's, the isolation's for each family, and the group's for each direction.
    assert_eq!(compile(&mut planner), (2 + 1 + 2 + 2, 1 + 2 + 2));
    assert_eq!(
        named(&planner),
        [
            "app shop/billing",
            "namespace shop isolated",
            "namespace shop isolated",
            "security group shop/db",
            "security group shop/db"
        ]
    );
    planner.apply(asking("allowed"));
    compile(&mut planner);
    assert_eq!(named(&planner), ["app shop/billing", "app shop/billing"]);
    planner.apply(asking("none"));
    compile(&mut planner);
    assert!(*planner.desired() == before);
}

/// An endpoint slice of service `red/web` that names a pod of its own for an address.
fn slice(address: &str) -> Object {
    let metadata = json!({ "name": "web-1", "namespace": "red", "labels": { "kubernetes.io/service-name": "web" } });
    let endpoint = json!({ "addresses": [address], "targetRef": { "kind": "Pod", "namespace": "red", "name": "web" } });
    object(
        &json!({ "kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4", "ports": [{ "port": 80 }], "endpoints": [endpoint] }),
    )
}

#[test]
fn an_address_that_no_pod_has_is_no_endpoint_while_pods_are_isolated() {
    let mut planner = planner([
        node(),
        namespace("blue", "pods"),
        namespace("red", "none"),
        service("red", "web", "10.96.0.7", &json!({})),
        slice("10.244.0.5"),
    ]);
    let leads = |planner: &Planner| {
        let balancers = planner.desired().table::<LoadBalancer>();
        let backends: Vec<String> = balancers.flat_map(|(_, balancer)| balancer.vips.into_values()).collect();
        backends.concat()
    };
    assert_eq!(leads(&planner), "", "whoever gets the address next may be isolated");
    assert_eq!(planner.problems().len(), 0, "a pod that is being deleted is no mistake");
    planner.apply(pod("blue", "db", &json!({})));
    compile(&mut planner);
    assert_eq!(leads(&planner), "", "an isolated pod of another namespace has it");
    assert_eq!(planner.problems().first().map(|problem| problem.reason), Some("EndpointIsolated"));
    planner.remove(&pod("blue", "db", &json!({})));
    planner.apply(pod("red", "web", &json!({})));
    planner.apply(slice("10.244.0.6"));
    compile(&mut planner);
    assert_eq!(leads(&planner), "10.244.0.6:80", "the pod that is meant has it");
}

#[test]
fn an_address_that_a_service_was_refused_is_not_closed_to_others() {
    let planner = planner([
        node(),
        namespace("open", "none"),
        namespace("shut", "services"),
        service("open", "web", "10.96.0.7", &json!({})),
        service("shut", "thief", "10.96.0.7", &json!({})),
        service("shut", "stray", "172.30.0.1", &json!({})),
        service("shut", "own", "10.96.0.8", &json!({})),
    ]);
    assert_eq!(addresses(&planner, "isolation/services/4"), ["10.96.0.8".to_owned()].into());
}
