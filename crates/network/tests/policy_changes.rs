//! What a change costs where there are policies: a pod more, a label, a port's number; each touches the sets it concerns and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod changes;

use std::net::IpAddr;

use changes::{addresses, compile, planner};
use netloom_kubernetes::manifest;
use netloom_network::cluster::NamedPort;
use netloom_network::rows::Acl;
use netloom_network::service::Protocol;
use netloom_network::{Namespace, Namespaced, Node, Object, Planner, Pod};
use serde_json::json;

fn named(namespace: &str, name: &str) -> Namespaced {
    Namespaced {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn node() -> Object {
    let node = Node {
        addresses: vec![IpAddr::from([172, 30, 0, 1])],
        ..Node::default()
    };
    Object::Node("node1".to_owned(), node)
}

fn namespace(name: &str, stage: &str) -> Object {
    let labels = [("stage".to_owned(), stage.to_owned())].into();
    Object::Namespace(name.to_owned(), Namespace::new(name, String::new(), labels))
}

fn pod(namespace: &str, name: &str, app: &str) -> Object {
    let pod = Pod {
        uid: name.to_owned(),
        node: Some("node1".to_owned()),
        labels: [("app".to_owned(), app.to_owned())].into(),
        ..Pod::default()
    };
    Object::Pod(named(namespace, name), pod)
}

fn with(object: Object, change: impl FnOnce(&mut Pod)) -> Object {
    let Object::Pod(name, mut pod) = object else { unreachable!() };
    change(&mut pod);
    Object::Pod(name, pod)
}

fn policy(name: &str, spec: &serde_json::Value) -> Object {
    let manifest = json!({ "kind": "NetworkPolicy", "metadata": { "name": name, "namespace": "shop" }, "spec": spec });
    manifest::read(&manifest).unwrap().remove(0)
}

/// Pods labelled `app` may be reached by pods labelled `peer` of namespaces that are live.
fn allow(app: &str, peer: &str) -> serde_json::Value {
    json!({
        "podSelector": { "matchLabels": { "app": app } },
        "ingress": [{ "from": [{
            "podSelector": { "matchLabels": { "app": peer } },
            "namespaceSelector": { "matchLabels": { "stage": "live" } },
        }] }],
    })
}

fn conditions(planner: &Planner) -> Vec<String> {
    let allowed = planner.desired().table::<Acl>().filter(|(_, acl)| {
        let key = acl.external_ids.get("netloom.io/key");
        key.is_some_and(|key| key.starts_with("policy/"))
    });
    allowed.map(|(_, acl)| acl.match_).collect()
}

#[test]
fn a_pod_costs_the_same_however_many_pods_and_policies_there_are() {
    for (pods, policies) in [(3, 2), (150, 100)] {
        let others = (0..pods).map(|number| pod("shop", &format!("web-{number}"), "web"));
        let more = (0..policies).map(|number| policy(&format!("p{number}"), &allow(&format!("app-{number}"), "web")));
        let base = [
            node(),
            namespace("shop", "live"),
            policy("web", &allow("web", "client")),
            policy("db", &allow("db", "web")),
        ];
        let mut planner = planner(base.into_iter().chain(others).chain(more));
        planner.apply(pod("shop", "one-more", "web"));
        assert_eq!(planner.marked(), 1);
        // Its port; that of the switch, the isolated and the denied pods of the node, the subject of one policy, and its two addresses in the
        // peers of others.
        assert_eq!(compile(&mut planner), (1, 6));
        planner.remove(&pod("shop", "one-more", "web"));
        assert_eq!(compile(&mut planner), (1, 6));
    }
}

#[test]
fn a_namespace_that_changes_its_labels_moves_only_its_own_pods() {
    let pods = |namespace: &'static str| (0..20).map(move |number| pod(namespace, &format!("{namespace}-{number}"), "web"));
    let others = (0..20).map(|number| pod("test", &format!("other-{number}"), "other"));
    let base = [
        node(),
        namespace("shop", "live"),
        namespace("test", "test"),
        policy("db", &allow("db", "web")),
    ];
    let mut planner = planner(base.into_iter().chain(pods("shop")).chain(pods("test")).chain(others));
    let set = "peers/(stage=live)/app=web/4";
    assert_eq!(addresses(&planner, set).len(), 20);
    planner.apply(namespace("test", "live"));
    assert_eq!(planner.marked(), 20);
    assert_eq!(compile(&mut planner), (0, 40));
    assert_eq!(addresses(&planner, set).len(), 40);
    // A label nobody asks for moves nothing.
    let labels = [("stage".to_owned(), "live".to_owned()), ("cost".to_owned(), "low".to_owned())].into();
    planner.apply(Object::Namespace("test".to_owned(), Namespace::new("test", String::new(), labels)));
    assert_eq!((planner.marked(), compile(&mut planner)), (0, (0, 0)));
    // Of a namespace that is gone nobody knows the labels.
    planner.remove(&namespace("test", ""));
    compile(&mut planner);
    assert_eq!(addresses(&planner, set).len(), 20);
}

#[test]
fn policies_share_sets_and_the_last_one_takes_them_along() {
    let base = [
        node(),
        namespace("shop", "live"),
        pod("shop", "web", "web"),
        pod("shop", "client", "client"),
    ];
    let mut planner = planner(base);
    let before = planner.desired().clone();
    planner.apply(policy("first", &allow("web", "client")));
    let (rows, _) = compile(&mut planner);
    assert_eq!(rows, 5, "a port group, two address sets, an exception of each family");
    planner.apply(policy("second", &allow("web", "client")));
    assert_eq!(compile(&mut planner), (2, 2), "an exception more of each family");
    planner.remove(&policy("first", &json!({})));
    assert_eq!(compile(&mut planner), (2, 2));
    planner.remove(&policy("second", &json!({})));
    compile(&mut planner);
    assert_eq!(*planner.desired(), before);
}

#[test]
fn an_address_that_goes_from_one_pod_to_another_stays_in_the_set() {
    let at = |object: Object| {
        with(object, |pod| {
            pod.annotations.insert("netloom.io/addresses".to_owned(), "10.244.0.77".to_owned());
        })
    };
    for (old, new) in [("a", "b"), ("b", "a")] {
        let base = [
            node(),
            namespace("shop", "live"),
            policy("db", &allow("db", "web")),
            at(pod("shop", old, "web")),
        ];
        let mut planner = planner(base);
        planner.remove(&pod("shop", old, "web"));
        planner.apply(at(pod("shop", new, "web")));
        compile(&mut planner);
        assert!(addresses(&planner, "peers/(stage=live)/app=web/4").contains("10.244.0.77"));
    }
}

#[test]
fn a_named_port_has_the_numbers_its_pods_give_it() {
    let offering = |name: &str, number| {
        with(pod("shop", name, "web"), |pod| {
            pod.ports = vec![NamedPort {
                name: "http".to_owned(),
                protocol: Protocol::Tcp,
                number,
            }];
        })
    };
    let spec = json!({ "podSelector": { "matchLabels": { "app": "web" } }, "ingress": [{ "ports": [{ "port": "http" }] }] });
    let mut planner = planner([node(), namespace("shop", "live"), policy("web", &spec), offering("a", 80)]);
    assert_eq!(conditions(&planner).len(), 2);
    planner.apply(offering("b", 8080));
    compile(&mut planner);
    assert_eq!(conditions(&planner).len(), 4, "of each family");
    // A number that is known costs the pod alone.
    planner.apply(offering("c", 8080));
    assert_eq!(planner.marked(), 1);
    compile(&mut planner);
    planner.apply(offering("b", 80));
    assert_eq!(planner.marked(), 1);
    compile(&mut planner);
    planner.remove(&offering("c", 0));
    compile(&mut planner);
    assert_eq!(conditions(&planner).len(), 2);
    assert_eq!(addresses(&planner, "named-port/http/tcp/80/shop/app=web/4").len(), 2);
}

#[test]
fn a_pod_of_a_namespace_nobody_told_about_is_no_peer_by_what_labels_are_not() {
    let spec = json!({
        "podSelector": {},
        "ingress": [{ "from": [{ "namespaceSelector": { "matchExpressions": [{ "key": "stage", "operator": "DoesNotExist" }] } }] }],
    });
    let mut planner = planner([node(), policy("open", &spec), pod("unknown", "a", "web")]);
    let set = "peers/(!stage)/*/4";
    assert_eq!(addresses(&planner, set).len(), 0);
    planner.apply(Object::Namespace(
        "unknown".to_owned(),
        Namespace::new("unknown", String::new(), [].into()),
    ));
    compile(&mut planner);
    assert_eq!(addresses(&planner, set).len(), 1);
}
