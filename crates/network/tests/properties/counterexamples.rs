//! Sequences that once went wrong, each with what did. Every one runs through all checks of [`run`].

use std::collections::BTreeSet;
use std::net::IpAddr;

use netloom_contract::annotation::GATEWAY;
use netloom_network::annotations::ADDRESSES;
use netloom_network::cluster::ClusterNetwork;
use netloom_network::custom_network::NETWORK;
use netloom_network::policy::log::POLICY_LOG;
use netloom_network::service::{ExternalPoolSpec, Family, ServiceKind, ServicePort};
use netloom_network::settings::{ClusterCidrSpec, ClusterNetworkSpec};
use netloom_network::{
    ClusterPolicy, ClusterPolicyKind, ClusterPolicyName, CustomNetwork, ExternalPool, Namespace, Namespaced, Node, Object, Planner, Pod,
    Service,
};
use serde_json::{Value, json};

use crate::run::Step::{self, Apply, Compile, Idle, Remove, TakeOver};
use crate::run::run;

/// Everything that must hold does, after these steps.
fn holds(steps: impl IntoIterator<Item = Step>) {
    let steps: Vec<Step> = with_namespaces(steps.into_iter().collect());
    run(&steps).unwrap_or_else(|why| panic!("{why}"));
}

/// The same, after the namespaces of pods and services that none of the steps is about: without them nothing would come of these.
fn with_namespaces(steps: Vec<Step>) -> Vec<Step> {
    let applied = |step: &Step| if let Apply(object) = step { Some(object.clone()) } else { None };
    let mut missing: BTreeSet<String> = steps.iter().filter_map(applied).filter_map(namespace_of).collect();
    for object in steps.iter().filter_map(applied) {
        if let Object::Namespace(name, _) = object {
            missing.remove(&name);
        }
    }
    let first = missing.iter().map(|name| Apply(namespace(name, &[])));
    first.chain(steps.iter().cloned()).collect()
}

fn namespace_of(object: Object) -> Option<String> {
    match object {
        Object::Pod(name, _) => Some(name.namespace),
        Object::Service(name, _) => Some(name.namespace),
        _ => None,
    }
}

fn named(namespace: &str, name: &str) -> Namespaced {
    Namespaced {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn cluster_network(cidrs: &[&str]) -> Object {
    let cluster_cidrs = cidrs.iter().map(|cidr| ClusterCidrSpec {
        cidr: (*cidr).to_owned(),
        node_prefix: None,
    });
    let spec = ClusterNetworkSpec {
        cluster_cidrs: cluster_cidrs.collect(),
        ..Default::default()
    };
    Object::ClusterNetwork(ClusterNetwork { uid: String::new(), spec })
}

/// A node with an address, and with a gateway that has it too.
fn node(name: &str, address: &str, other_addresses: &[&str]) -> Object {
    let mac = format!("02:00:00:00:00:{:02x}", name.bytes().last().unwrap());
    let ip: IpAddr = address.parse().unwrap();
    let report = format!(r#"{{"mac":"{mac}","addresses":["{ip}/24"]}}"#);
    let node = Node {
        addresses: vec![ip],
        annotations: [(GATEWAY.to_owned(), report)].into(),
        ready: true,
        other_addresses: other_addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
        ..Node::default()
    };
    Object::Node(name.to_owned(), node)
}

fn pod(name: Namespaced, node: &str, annotations: &[(&str, &str)]) -> Object {
    let annotations = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let pod = Pod {
        uid: format!("{name}-on-{node}"),
        node: Some(node.to_owned()),
        annotations: annotations.collect(),
        ..Pod::default()
    };
    Object::Pod(name, pod)
}

fn namespace(name: &str, annotations: &[(&str, &str)]) -> Object {
    let annotations = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let namespace = Namespace::new(name, String::new(), [].into()).annotated(annotations.collect());
    Object::Namespace(name.to_owned(), namespace)
}

fn network(name: &str, spec: Value) -> Object {
    Object::CustomNetwork(name.to_owned(), CustomNetwork { uid: String::new(), spec })
}

fn pool(name: &str, cidr: &str) -> Object {
    let spec = ExternalPoolSpec {
        cidrs: vec![cidr.to_owned()],
        ..Default::default()
    };
    Object::ExternalPool(name.to_owned(), ExternalPool { uid: String::new(), spec })
}

fn load_balancer(number: u8, requested: &str) -> Object {
    let service = Service {
        uid: format!("service-{number}"),
        kind: ServiceKind::LoadBalancer,
        cluster_ips: vec![IpAddr::from([10, 96, 0, number])],
        families: vec![Family::Ipv4],
        ports: vec![ServicePort {
            port: 80,
            ..ServicePort::default()
        }],
        requested: Some(requested.to_owned()),
        ..Service::default()
    };
    Object::Service(named("default", &format!("web{number}")), service)
}

/// The refusal of a pod was decided once for its assignment and again for its message: `AddressRefused` stayed where it was `SubnetFull` by then.
#[test]
fn a_refusal_says_what_keeps_the_pod_waiting_now() {
    let asks = pod(named("guarded", "pod4"), "node0", &[(ADDRESSES, "10.244.0.14")]);
    holds([
        Apply(node("node1", "172.30.0.1", &[])),
        Apply(node("node3", "172.30.0.3", &[])),
        Apply(asks),
        Compile,
        Apply(node("node0", "172.30.0.10", &[])),
        Apply(namespace("guarded", &[(NETWORK, "n2")])),
        Apply(network("n2", json!({ "subnets": ["192.168.0.0/30"] }))),
        Compile,
        Apply(pod(named("guarded", "pod0").of_machine(), "node0", &[])),
    ]);
}

/// A machine's port went on saying `NodeUnknown` when its node was created and had no subnets yet.
#[test]
fn a_port_waits_for_a_node_that_is_known_and_has_no_subnets() {
    holds([
        Apply(cluster_network(&["broken"])),
        Apply(pod(named("default", "vm").of_machine(), "node0", &[])),
        Compile,
        Apply(node("node0", "172.30.0.1", &[])),
    ]);
}

/// The same where the subnets are all taken.
#[test]
fn a_port_waits_for_a_node_that_is_known_and_gets_no_subnets() {
    holds([
        Apply(cluster_network(&["10.9.0.0/24"])),
        Apply(node("node1", "172.30.0.1", &[])),
        Apply(pod(named("default", "vm").of_machine(), "node0", &[])),
        Compile,
        Apply(node("node0", "172.30.0.2", &[])),
    ]);
}

/// A machine's port did not say `NodeUnknown` when its node was deleted that had no subnets.
#[test]
fn a_port_says_that_its_node_is_gone_that_had_no_subnets() {
    holds([
        Apply(cluster_network(&["broken"])),
        Apply(node("node0", "172.30.0.1", &[])),
        Apply(pod(named("default", "vm").of_machine(), "node0", &[])),
        Compile,
        Remove(node("node0", "172.30.0.1", &[])),
    ]);
}

/// The problem of a namespace named the UID of the one that was there before, so that its Event went to an object that is gone.
#[test]
fn a_namespace_that_is_created_again_has_its_own_problems() {
    let again = |uid: &str| {
        let asks = [(POLICY_LOG.to_owned(), "nonsense".to_owned())].into();
        Object::Namespace("shop".to_owned(), Namespace::new("shop", uid.to_owned(), [].into()).annotated(asks))
    };
    holds([Apply(again("one")), Compile, Apply(again("two"))]);
}

/// Members of a set were not counted: with one of two nodes that share an address, the address was taken out of the set, and a Deny opened.
#[test]
fn a_node_that_goes_leaves_the_address_it_shares_in_the_sets_of_policies() {
    let name = ClusterPolicyName {
        kind: ClusterPolicyKind::Cluster,
        name: "closed".to_owned(),
    };
    let rule = json!({ "action": "Deny", "to": [{ "nodes": {} }] });
    let spec = json!({ "tier": "Admin", "priority": 1, "subject": { "namespaces": {} }, "egress": [rule] });
    let policy = ClusterPolicy {
        uid: String::new(),
        annotations: [].into(),
        spec,
    };
    let shared = |name, address| node(name, address, &["203.0.113.1"]);
    let settled = [
        Apply(Object::ClusterPolicy(name, policy)),
        Apply(shared("node1", "172.30.0.1")),
        Apply(shared("node2", "172.30.0.2")),
        Compile,
    ];
    holds(settled.clone().into_iter().chain([Remove(shared("node2", "172.30.0.2"))]));
    holds(settled.into_iter().chain([Apply(node("node2", "172.30.0.2", &[]))]));
}

/// A planner that stood by kept a mark for every pod that ever lived.
#[test]
fn a_planner_that_compiles_nothing_does_not_grow() {
    let mut standby = Planner::default();
    standby.apply(node("node1", "172.30.0.1", &[]));
    standby.compile();
    for number in 0..1000 {
        let passing = pod(named("default", &format!("pod{number}")), "node1", &[]);
        standby.apply(passing.clone());
        standby.remove(&passing);
    }
    assert!(
        standby.marked() < 10,
        "{} units are marked for 1,000 pods that are gone",
        standby.marked()
    );
}

/// Pods reached an address of two nodes through either of them by turns.
#[test]
fn two_nodes_with_one_address_have_one_route() {
    holds([Apply(node("node1", "172.30.0.1", &[])), Apply(node("node2", "172.30.0.1", &[]))]);
}

/// The Ethernet address of an IPv6 pod was made of the last four bytes of its address, which may be those of its router.
#[test]
fn a_pod_has_not_the_ethernet_address_of_its_router() {
    holds([
        Apply(cluster_network(&["fd00::/60"])),
        Apply(node("node1", "172.30.0.1", &[])),
        Apply(pod(named("default", "web"), "node1", &[(ADDRESSES, "fd00::1:0:1")])),
    ]);
}

/// And two IPv6 pods may have the same last four bytes.
#[test]
fn two_pods_of_a_node_have_not_the_same_ethernet_address() {
    holds([
        Apply(cluster_network(&["fd00::/60"])),
        Apply(node("node1", "172.30.0.1", &[])),
        Apply(pod(named("default", "web"), "node1", &[(ADDRESSES, "fd00::1:0:7")])),
        Apply(pod(named("default", "db"), "node1", &[(ADDRESSES, "fd00::2:0:7")])),
    ]);
}

/// The Ethernet address of an announcer was made of the last three bytes of its address, which two pools may have in common.
#[test]
fn two_announcers_have_not_the_same_ethernet_address() {
    holds([
        Apply(node("node1", "172.30.0.1", &[])),
        Apply(pool("one", "192.0.2.0/30")),
        Apply(pool("two", "198.0.2.0/30")),
        Apply(load_balancer(1, "192.0.2.1")),
        Apply(load_balancer(2, "198.0.2.1")),
    ]);
}

/// A decision that gave nothing had not read its own record, and did not notice one that another planner had left in the database.
#[test]
fn a_record_of_another_planner_is_given_back() {
    let web = |uid: &str, finished| {
        let pod = Pod {
            uid: uid.to_owned(),
            node: Some("node0".to_owned()),
            finished,
            ..Pod::default()
        };
        Apply(Object::Pod(named("shop", "web"), pod))
    };
    let first = [Apply(node("node0", "172.30.0.0", &[])), web("first", false), TakeOver];
    holds(first.into_iter().chain([web("second", true), Idle, TakeOver]));
}

/// A Network led the cluster addresses of pods to a pod of its author.
#[test]
fn a_route_of_a_network_leads_to_no_pod_of_the_cluster() {
    let routed = json!({ "subnets": ["192.168.0.0/24"], "routes": [{ "to": "10.244.0.5/32", "via": "192.168.0.2" }] });
    let reasons = problems([node("node0", "172.30.0.0", &[]), network("red", routed)]);
    assert_eq!(reasons, ["InvalidNetwork"]);
}

/// A pod on a network without a family of the cluster waited and nobody was told why.
#[test]
fn a_pod_says_that_its_network_has_no_family_of_the_cluster() {
    let objects = [
        cluster_network(&["10.244.0.0/16"]),
        node("node0", "172.30.0.0", &[]),
        namespace("shop", &[]),
        network("red", json!({ "subnets": ["fd01::/64"] })),
        pod(named("shop", "web"), "node0", &[(NETWORK, "red")]),
    ];
    assert_eq!(problems(objects), ["NetworkUnusable"]);
}

/// The Ethernet address of a network's router is made of its first gateway, and may have been that of a pod on it.
#[test]
fn a_pod_has_not_the_ethernet_address_of_the_router_of_its_network() {
    let red = json!({ "subnets": ["fd01::/64", "192.168.1.0/24"], "gateways": ["fd01::af4:5", "192.168.1.1"] });
    let objects = [
        node("node0", "172.30.0.0", &[]),
        namespace("shop", &[]),
        network("red", red),
        pod(named("shop", "web"), "node0", &[(NETWORK, "red")]),
    ];
    holds(objects.map(Apply));
}

/// What was refused to an object that is gone stayed in the records.
#[test]
fn a_refusal_goes_with_its_object() {
    let web = pod(named("shop", "web"), "node0", &[(ADDRESSES, "nonsense")]);
    let mut planner = Planner::default();
    planner.apply(node("node0", "172.30.0.0", &[]));
    planner.apply(namespace("shop", &[]));
    planner.compile();
    let before = planner.cluster().clone();
    planner.apply(web.clone());
    planner.compile();
    assert_eq!(planner.problems().len(), 1);
    planner.remove(&web);
    planner.compile();
    assert!(*planner.cluster() == before, "a refusal is left");
}

/// The reasons of all problems, once everything holds.
fn problems<const N: usize>(objects: [Object; N]) -> Vec<&'static str> {
    holds(objects.clone().map(Apply));
    let mut planner = Planner::default();
    for object in objects {
        planner.apply(object);
    }
    planner.compile();
    planner.problems().iter().map(|problem| problem.reason).collect()
}

/// The switch of a node has the node's name, which may be that of the switch between routers, or of the one that addresses are announced on.
#[test]
fn a_node_may_be_called_as_a_switch_of_ours_is() {
    holds([Apply(node("join", "172.30.0.1", &[])), Apply(node("announce", "172.30.0.2", &[]))]);
}

/// What a status showed was given back when a pool had a mistake and the records were lost.
#[test]
fn a_mistake_in_a_pool_takes_no_address_away_when_the_records_are_lost() {
    holds([
        Apply(node("node0", "172.30.0.1", &[])),
        Apply(pool("pool0", "192.0.2.0/30")),
        Apply(load_balancer(1, "192.0.2.1")),
        Compile,
        Apply(pool("pool0", "backwards")),
    ]);
}

/// A service that may have no address kept it when its namespace was gone.
#[test]
fn an_address_goes_with_the_load_balancer_although_its_namespace_is_gone() {
    let mut plain = load_balancer(1, "192.0.2.1");
    if let Object::Service(_, service) = &mut plain {
        service.kind = ServiceKind::ClusterIp;
    }
    holds([
        Apply(namespace("default", &[])),
        Apply(node("node0", "172.30.0.1", &[])),
        Apply(pool("pool0", "192.0.2.0/30")),
        Apply(load_balancer(1, "192.0.2.1")),
        Compile,
        Apply(plain),
        Remove(namespace("default", &[])),
    ]);
}
