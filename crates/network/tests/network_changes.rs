//! Networks that users define: who gets on them and who waits, what a change touches, and what a planner that starts anew reads back.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod changes;

use changes::{compile, planner};
use netloom_kubernetes::manifest;
use netloom_network::ipam::Attachment;
use netloom_network::plan::read_records;
use netloom_network::rows::LogicalRouter;
use netloom_network::{Key, Object, Planner, PodName, RowId};
use netloom_ovsdb::Table as _;
use serde_json::{Value, json};

fn object(value: &Value) -> Object {
    manifest::read(value).unwrap().remove(0)
}

fn node(number: u8) -> Object {
    let addresses = json!([{ "type": "InternalIP", "address": format!("172.30.0.{number}") }]);
    object(&json!({ "kind": "Node", "metadata": { "name": format!("node{number}") }, "status": { "addresses": addresses } }))
}

fn namespace(name: &str, network: &str, labels: &Value) -> Object {
    let annotations = if network.is_empty() {
        json!({})
    } else {
        json!({ "netloom.io/network": network })
    };
    object(&json!({ "kind": "Namespace", "metadata": { "name": name, "annotations": annotations, "labels": labels } }))
}

fn network(name: &str, spec: &Value) -> Object {
    object(&json!({ "apiVersion": "netloom.io/v1alpha1", "kind": "Network", "metadata": { "name": name }, "spec": spec }))
}

fn pod(namespace: &str, name: &str, annotations: &Value) -> Object {
    let metadata = json!({ "name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "annotations": annotations });
    object(&json!({ "kind": "Pod", "metadata": metadata, "spec": { "nodeName": "node1" } }))
}

fn name(namespace: &str, name: &str) -> PodName {
    PodName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn attachment(planner: &Planner, namespace: &str, pod: &str) -> Option<String> {
    let on = planner.cluster().records.attachment(&name(namespace, pod))?;
    let addresses: Vec<String> = on.addresses.iter().map(ToString::to_string).collect();
    Some(format!("{} {}", on.network, addresses.join(" ")))
}

/// Who has to mend what.
fn problems(planner: &Planner) -> Vec<String> {
    let problems = planner.problems().iter();
    problems.map(|problem| format!("{} {}", problem.object, problem.reason)).collect()
}

fn small() -> Value {
    json!({ "subnets": ["192.168.0.0/24"] })
}

#[test]
fn a_pod_waits_for_its_network_and_for_leave_to_be_on_it() {
    let mut planner = planner([node(1), namespace("shop", "blue", &json!({})), pod("shop", "web", &json!({}))]);
    assert_eq!(problems(&planner), ["Pod/shop/web NetworkUnusable"]);
    assert!(
        planner.cluster().records.assignment(&name("shop", "web"), "shop-web").is_none(),
        "it has no port anywhere"
    );
    let of_blue = json!({ "subnets": ["192.168.0.0/24"], "namespaceSelector": { "matchLabels": { "tenant": "blue" } } });
    planner.apply(network("blue", &of_blue));
    compile(&mut planner);
    assert_eq!(problems(&planner), ["Pod/shop/web NetworkForbidden"]);
    planner.apply(namespace("shop", "blue", &json!({ "tenant": "blue" })));
    compile(&mut planner);
    assert_eq!(problems(&planner), Vec::<String>::new());
    assert_eq!(attachment(&planner, "shop", "web").as_deref(), Some("blue 192.168.0.2/24"));
    // Leave once given is not taken back from who is on it; the next one is refused.
    planner.apply(namespace("shop", "blue", &json!({})));
    planner.apply(pod("shop", "late", &json!({})));
    compile(&mut planner);
    assert_eq!(problems(&planner), ["Pod/shop/late NetworkForbidden"]);
    assert!(attachment(&planner, "shop", "web").is_some());
}

#[test]
fn a_pod_waits_for_its_namespace_which_says_how_it_is_isolated() {
    let mut planner = planner([
        node(1),
        network("blue", &small()),
        pod("shop", "web", &json!({})),
        pod("shop", "db", &json!({})),
    ]);
    assert_eq!(planner.cluster().records.assignments().count(), 0);
    assert_eq!(problems(&planner), Vec::<String>::new(), "there is nothing to mend");
    planner.apply(namespace("shop", "blue", &json!({})));
    compile(&mut planner);
    assert!(attachment(&planner, "shop", "web").is_some() && attachment(&planner, "shop", "db").is_some());
    // Without a network it may still be isolated, or judged by the labels of the namespace.
    let mut planner = changes::planner([node(1), pod("shop", "web", &json!({}))]);
    assert_eq!(planner.cluster().records.assignments().count(), 0);
    planner.apply(namespace("shop", "", &json!({})));
    compile(&mut planner);
    assert_eq!(planner.cluster().records.assignments().count(), 1);
}

#[test]
fn a_pod_stays_where_it_is_and_is_told_when_another_network_is_named() {
    let mut planner = planner([
        node(1),
        namespace("shop", "", &json!({})),
        network("blue", &small()),
        network("green", &small()),
        pod("shop", "plain", &json!({})),
        pod("shop", "own", &json!({ "netloom.io/network": "green" })),
    ]);
    assert_eq!(attachment(&planner, "shop", "plain"), None);
    planner.apply(namespace("shop", "blue", &json!({})));
    compile(&mut planner);
    assert_eq!(problems(&planner), ["Pod/shop/plain NetworkNeedsNewPod"]);
    planner.apply(pod("shop", "new", &json!({})));
    compile(&mut planner);
    assert_eq!(attachment(&planner, "shop", "new").as_deref(), Some("blue 192.168.0.2/24"));
    assert_eq!(
        attachment(&planner, "shop", "own").as_deref(),
        Some("green 192.168.0.2/24"),
        "networks may overlap"
    );
    // Without its network it goes on, and without the last pod the network is gone.
    planner.remove(&network("green", &small()));
    compile(&mut planner);
    assert_eq!(
        problems(&planner),
        ["Pod/shop/own NetworkNeedsNewPod", "Pod/shop/plain NetworkNeedsNewPod"]
    );
    assert!(attachment(&planner, "shop", "own").is_some());
    planner.remove(&pod("shop", "own", &json!({})));
    compile(&mut planner);
    assert_eq!(planner.cluster().records.network("green"), None);
    assert_eq!(problems(&planner), ["Pod/shop/plain NetworkNeedsNewPod"]);
}

#[test]
fn what_pods_have_does_not_change_under_them() {
    let other = json!({ "subnets": ["192.168.7.0/24"], "isolated": true });
    let mut planner = planner([
        node(1),
        namespace("shop", "blue", &json!({})),
        network("blue", &small()),
        pod("shop", "web", &json!({})),
    ]);
    let before = planner.desired().clone();
    planner.apply(network("blue", &other));
    planner.apply(pod("shop", "late", &json!({})));
    compile(&mut planner);
    assert_eq!(problems(&planner), ["Network/blue InvalidNetwork", "Pod/shop/late NetworkUnusable"]);
    assert!(*planner.desired() == before, "it is as it was");
    planner.remove(&pod("shop", "web", &json!({})));
    compile(&mut planner);
    assert_eq!(problems(&planner), Vec::<String>::new());
    assert_eq!(attachment(&planner, "shop", "late").as_deref(), Some("blue 192.168.7.2/24"));
    // The rest may change at any time.
    planner.apply(network("blue", &json!({ "subnets": ["192.168.7.0/24"] })));
    compile(&mut planner);
    assert_eq!(problems(&planner), Vec::<String>::new());
}

#[test]
fn one_pod_more_on_a_network_costs_as_much_as_the_first() {
    let pods = |numbers: std::ops::Range<u32>| numbers.map(|number| pod("shop", &format!("p{number}"), &json!({})));
    let base = [node(1), namespace("shop", "blue", &json!({})), network("blue", &small())];
    let mut planner = planner(base.into_iter().chain(pods(0..50)));
    for number in 50..53 {
        pods(number..number + 1).for_each(|pod| assert!(planner.apply(pod)));
        assert_eq!(planner.marked(), 1);
        // Its port, and a route of its own in each of two routers, as rows and as members of switch and routers.
        assert_eq!(compile(&mut planner), (3, 3));
    }
    planner.apply(network("red", &small()));
    assert_eq!(planner.marked(), 1, "another network is nobody else's business");
    compile(&mut planner);
}

#[test]
fn a_freed_address_is_for_who_waits() {
    let tiny = json!({ "subnets": ["192.168.0.0/30"] });
    let all = [node(1), namespace("shop", "blue", &json!({})), network("blue", &tiny)];
    let mut planner = planner(all.into_iter().chain([pod("shop", "a", &json!({})), pod("shop", "b", &json!({}))]));
    assert_eq!(problems(&planner), ["Pod/shop/b SubnetFull"]);
    planner.remove(&pod("shop", "a", &json!({})));
    compile(&mut planner);
    assert_eq!(problems(&planner), Vec::<String>::new());
    assert_eq!(attachment(&planner, "shop", "b").as_deref(), Some("blue 192.168.0.2/30"));
}

#[test]
fn addresses_that_are_asked_for_are_given_once() {
    let asks = |ip: &str| json!({ "netloom.io/network": "blue", "netloom.io/network-addresses": ip });
    let spec = json!({ "subnets": ["192.168.0.0/24"], "routes": [{ "to": "203.0.113.0/24", "via": "192.168.0.2" }] });
    let mut planner = planner([
        node(1),
        namespace("shop", "", &json!({})),
        network("blue", &spec),
        pod("shop", "a-router", &asks("192.168.0.2")),
        pod("shop", "b-twice", &asks("192.168.0.2")),
        pod("shop", "c-gateway", &asks("192.168.0.1")),
        pod("shop", "d-stray", &asks("10.0.0.1")),
        pod(
            "shop",
            "e-mac",
            &json!({ "netloom.io/network": "blue", "netloom.io/mac": "0a:00:00:00:00:01" }),
        ),
        pod("shop", "f-nowhere", &json!({ "netloom.io/network-addresses": "192.168.0.7" })),
        pod("shop", "g-any", &json!({ "netloom.io/network": "blue" })),
    ]);
    let refused = [
        ("b-twice", "AddressRefused"),
        ("c-gateway", "AddressRefused"),
        ("d-stray", "AddressRefused"),
    ];
    let refused = refused
        .into_iter()
        .chain([("e-mac", "InvalidAnnotation"), ("f-nowhere", "AddressRefused")]);
    let refused: Vec<String> = refused.map(|(pod, reason)| format!("Pod/shop/{pod} {reason}")).collect();
    assert_eq!(problems(&planner), refused);
    assert_eq!(
        attachment(&planner, "shop", "g-any").as_deref(),
        Some("blue 192.168.0.3/24"),
        "not that of the way out"
    );
    compile(&mut planner);
}

#[test]
fn pods_of_several_nodes_have_ethernet_addresses_of_their_own_whatever_the_family() {
    let six = json!({ "subnets": ["fd01::/64"] });
    let on = |number: u8| {
        let metadata = json!({ "name": format!("p{number}"), "namespace": "shop", "uid": format!("{number}") });
        object(&json!({ "kind": "Pod", "metadata": metadata, "spec": { "nodeName": format!("node{number}") } }))
    };
    let planner = planner([
        node(1),
        node(2),
        namespace("shop", "blue", &json!({})),
        network("blue", &six),
        on(1),
        on(2),
    ]);
    let records = &planner.cluster().records;
    let mac = |number: &str| records.assignment(&name("shop", &format!("p{number}")), number).unwrap().mac;
    assert_eq!(records.assignments().count(), 2);
    assert_ne!(mac("1"), mac("2"));
}

#[test]
fn without_a_database_pods_keep_what_their_annotations_show() {
    let shows = |namespace: &str, pod: &str, ip: &str, in_network: &str| {
        let metadata =
            json!({ "name": pod, "namespace": namespace, "uid": pod, "annotations": { "netloom.io/network-addresses": in_network } });
        object(&json!({ "kind": "Pod", "metadata": metadata, "spec": { "nodeName": "node1" }, "status": { "podIPs": [{ "ip": ip }] } }))
    };
    let planner = planner([
        node(1),
        namespace("shop", "blue", &json!({})),
        namespace("default", "", &json!({})),
        network("blue", &small()),
        shows("shop", "web", "10.244.0.9", "192.168.0.40"),
        shows("default", "left", "10.244.0.10", "192.168.0.40"),
        pod("shop", "new", &json!({})),
    ]);
    assert_eq!(problems(&planner), Vec::<String>::new());
    assert_eq!(attachment(&planner, "shop", "web").as_deref(), Some("blue 192.168.0.40/24"));
    assert_eq!(attachment(&planner, "default", "left"), None, "nobody names its network any more");
    assert_ne!(attachment(&planner, "shop", "new").as_deref(), Some("blue 192.168.0.40/24"));
}

#[test]
fn the_records_are_read_back() {
    let dual = json!({ "subnets": ["192.168.0.0/24", "fd01::/64"] });
    let all = [
        node(1),
        node(2),
        namespace("default", "", &json!({})),
        namespace("shop", "blue", &json!({})),
        network("blue", &dual),
        network("red", &dual),
    ];
    let planner = planner(
        all.into_iter()
            .chain([pod("shop", "web", &json!({})), pod("default", "plain", &json!({}))]),
    );
    let records = read_records(planner.desired());
    let web = records.assignment(&name("shop", "web"), "shop-web").unwrap();
    let addresses = ["192.168.0.2/24", "fd01::2/64"].map(|text| text.parse().unwrap()).to_vec();
    let network = "blue".to_owned();
    assert_eq!(web.attachment, Some(Attachment { network, addresses }));
    assert_eq!(
        records.assignment(&name("default", "plain"), "default-plain").unwrap().attachment,
        None
    );
    let slot = |name| records.network(name).map(|record| record.slot);
    assert_eq!((slot("blue"), slot("red")), (Some(0), Some(1)));
}

#[test]
fn a_network_does_not_hide_a_node_from_its_pods() {
    let behind = json!({ "subnets": ["192.168.0.0/24"], "routes": [{ "to": "172.30.0.0/24", "via": "192.168.0.9" }] });
    let mut planner = planner([
        node(1),
        network("blue", &behind),
        network("green", &json!({ "subnets": ["172.30.0.0/24"] })),
    ]);
    assert_eq!(problems(&planner), ["Network/blue InvalidNetwork", "Network/green InvalidNetwork"]);
    planner.remove(&node(1));
    compile(&mut planner);
    assert_eq!(problems(&planner), Vec::<String>::new(), "no node has an address there");
    // What is in force stays, with the problem: its pods would lose their addresses.
    planner.apply(node(1));
    compile(&mut planner);
    assert_eq!(problems(&planner), ["Network/blue InvalidNetwork", "Network/green InvalidNetwork"]);
}

#[test]
fn a_network_that_waits_for_a_place_on_the_join_switch_gets_the_next_one_that_is_free() {
    let spec = json!({ "clusterCIDRs": [{ "cidr": "10.244.0.0/23" }], "joinCIDRs": ["100.64.0.0/28"] });
    let settings =
        json!({ "apiVersion": "netloom.io/v1alpha1", "kind": "ClusterNetwork", "metadata": { "name": "default" }, "spec": spec });
    let mut planner = planner([object(&settings), node(1)]);
    let named = |number: u8| network(&format!("n{number}"), &small());
    planner.apply(named(0));
    let (of_one, _) = compile(&mut planner);
    let waiting = (1..).find(|number| {
        planner.apply(named(*number));
        compile(&mut planner);
        !problems(&planner).is_empty()
    });
    let waiting = waiting.unwrap();
    assert_eq!(problems(&planner), [format!("Network/n{waiting} JoinRangeFull")]);

    planner.remove(&named(1));
    let (rows, _) = compile(&mut planner);
    assert_eq!(problems(&planner), [""; 0]);
    let router = RowId::of(LogicalRouter::TABLE, &Key::new(format!("router/network/n{waiting}")));
    assert!(planner.desired().row(&router).is_some());
    // The rows of one network less, of one more, and nothing of the others.
    assert!(rows <= 2 * of_one, "{rows} rows, {of_one} for one network");
}
