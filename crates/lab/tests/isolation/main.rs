//! Isolation with real packets: of namespaces, their services, apps and security groups; TCP, UDP and ICMP, both families, on one node and
//! across nodes. What an operator types to see it is typed here.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod groups;
mod machines;
mod questions;

use std::net::IpAddr;

use netloom_lab::Machine;

use groups::{apps_are_closed_until_a_policy_opens_them, security_groups_allow_what_their_rules_say};
use machines::machines_are_what_pods_are;
use netloom_lab_fixtures::ask::Protocol;
use netloom_lab_fixtures::world::{echo_requests, ended};
use questions::{ISOLATED, NODE_PORT, Way, World};

#[test]
fn isolation_says_who_reaches_whom() {
    let world = World::up();
    an_operator_sees_it_with_kubectl(&world);
    rules_of_an_isolated_namespace(&world);
    a_living_namespace_is_isolated_and_its_pods_keep_their_addresses(&world);
    services_are_isolated_too(&world);
    mistakes_close_and_are_told(&world);
    without_annotations_all_is_open_again(&world);
    apps_are_closed_until_a_policy_opens_them(&world);
    security_groups_allow_what_their_rules_say(&world);
    machines_are_what_pods_are(&world);
    nobody_outside_is_taken_for_somebody_inside(&world);
    assert_eq!(ended(&world.lab), Vec::<String>::new(), "parts crashed");
}

/// How operators have always verified isolation, command by command.
fn an_operator_sees_it_with_kubectl(world: &World) {
    let address = |listing: &str, pod: &str| {
        let line = listing.lines().find(|line| line.starts_with(pod)).unwrap();
        line.split_whitespace().find(|word| word.starts_with("10.")).unwrap().to_owned()
    };
    let isolated = world.kubectl(&["get", "pod", "-n", ISOLATED, "-o", "wide"]);
    let open = world.kubectl(&["get", "pods", "-o", "wide"]);
    assert!(isolated.contains("example3") && open.contains("example1"), "{isolated}{open}");

    let ping = |command: &str| {
        let said = world
            .lab
            .kubectl(&["exec", "example1", "--", "sh", "-c", &format!("{command}; true")]);
        said.unwrap_or_else(|error| panic!("{error:#}"))
    };
    let denied = ping(&format!("ping -c 2 -W 1 {}", address(&isolated, "example3")));
    assert!(denied.contains("2 packets transmitted, 0 received, 100% packet loss"), "{denied}");

    let to = address(&open, "example1");
    let allowed = world.kubectl(&["exec", "example3", "-n", ISOLATED, "--", "ping", "-c", "2", &to]);
    assert!(allowed.contains("2 packets transmitted, 2 received, 0% packet loss"), "{allowed}");

    let described = world.kubectl(&["describe", "namespace", ISOLATED]);
    assert!(described.contains("opencontrail.kubernetes.isolated: true"), "{described}");

    let find = [
        "ovn-nbctl",
        "--bare",
        "--columns=ports",
        "find",
        "Port_Group",
        &format!("external_ids:\"netloom.io/key\"=\"network/{ISOLATED}-vn\""),
    ];
    let network = world.lab.control().run(&find).unwrap();
    assert_eq!(
        network.split_whitespace().count(),
        2,
        "the virtual network {ISOLATED}-vn has its pods: {network}"
    );
}

/// Rules (a) to (e) of an isolated namespace, and what a cluster takes for granted.
fn rules_of_an_isolated_namespace(world: &World) {
    world.check(
        "rules a to e",
        &[
            // a: its pods reach each other
            ("test-isolated-ns/example3", "test-isolated-ns/example4", true),
            // b: pods of other namespaces do not reach them
            ("default/example1", "test-isolated-ns/example3", false),
            ("default/example1", "test-isolated-ns/example4", false),
            ("second/example6", "test-isolated-ns/example3", false),
            // c: they reach pods of other namespaces
            ("test-isolated-ns/example3", "default/example1", true),
            ("test-isolated-ns/example3", "default/example2", true),
            // d: they reach all services
            ("test-isolated-ns/example3", "service default/example2", true),
            ("test-isolated-ns/example3", "service test-isolated-ns/example4", true),
            // e: pods of other namespaces reach them through services
            ("default/example1", "service test-isolated-ns/example3", true),
            ("default/example1", "service test-isolated-ns/example4", true),
            // a pod reaches itself through a service, nodes reach their pods and those of others
            ("test-isolated-ns/example3", "service test-isolated-ns/example3", true),
            ("node1", "test-isolated-ns/example3", true),
            ("node1", "test-isolated-ns/example4", true),
            ("node2", "service test-isolated-ns/example3", true),
            ("default/example1", "default/example2", true),
            ("default/example1", "second/example6", true),
        ],
    );
    assert!(from_outside(world, true), "it is reached from outside through its node port");

    // On one node's switch there are also addresses that every interface makes for itself, and one for all.
    let own = |pod: &str| {
        let shown = world
            .shell(pod)
            .run(&["ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "link"])
            .unwrap();
        let word = shown.split_whitespace().find(|word| word.starts_with("fe80:")).unwrap();
        word.split_once('/').unwrap().0.to_owned()
    };
    let answers = |from: &str, script: &str| world.shell(from).run(&["bash", "-c", script]).unwrap();
    let (open, isolated) = (own("default/example1"), own("test-isolated-ns/example3"));
    // A kernel gives up after three seconds on a neighbour that it has not found; on a busy machine that may be too early.
    let script = format!("for n in {{1..5}}; do ping -n -c1 -W8 {open}%eth0 && break; done; true");
    let said = answers("test-isolated-ns/example3", &script);
    assert!(said.contains(&format!("from {open}")), "outwards nothing is closed: {said}");
    for to in [isolated.as_str(), "ff02::1"] {
        let said = answers("default/example1", &format!("ping -n -c3 -i0.3 -W1 {to}%eth0; true"));
        assert!(
            !said.contains(&format!("from {isolated}")),
            "reached by its link-local address: {said}"
        );
    }
}

fn a_living_namespace_is_isolated_and_its_pods_keep_their_addresses(world: &World) {
    let before = world.pod_addresses();
    world.annotate("second", &["netloom.io/isolation=pods"]);
    world.check(
        "two isolated namespaces",
        &[
            ("default/example1", "second/example6", false),
            ("test-isolated-ns/example3", "second/example5", false),
            ("second/example6", "test-isolated-ns/example3", false),
            ("second/example5", "second/example6", true),
            ("second/example5", "default/example2", true),
            ("second/example6", "service test-isolated-ns/example3", true),
            ("test-isolated-ns/example4", "service second/example5", true),
            ("test-isolated-ns/example3", "service second/example5", true),
        ],
    );
    assert_eq!(world.pod_addresses(), before, "addresses are kept");
}

fn services_are_isolated_too(world: &World) {
    // A service of another namespace that leads to a pod of this one.
    let pod = world.addresses("test-isolated-ns/example4")[0];
    let foreign = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: foreign, namespace: second }}\nspec: {{ ipFamilyPolicy: PreferDualStack, ports: [{{ name: tcp, port: 8080 }}] }}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nmetadata: {{ name: foreign, namespace: second, labels: {{ kubernetes.io/service-name: foreign }} }}\n\
         ports: [{{ name: tcp, port: 8080 }}]\nendpoints: [{{ addresses: [\"{pod}\"], conditions: {{ ready: true }} }}]\n"
    );
    world.lab.apply(&foreign).unwrap();
    let through = |from: &str, expected| {
        let to = world.addresses("service second/foreign")[0];
        world.reaches(from, to, Way::Over(Protocol::Tcp, 8080), expected)
    };
    world.wait_row("Load_Balancer", "service/second/foreign/tcp");
    assert!(
        through("default/example1", true) && through("second/example5", true),
        "services lead to isolated pods"
    );

    world.annotate(ISOLATED, &["netloom.io/isolation=services"]);
    let table = [
        ("test-isolated-ns/example3", "test-isolated-ns/example4", true),
        ("test-isolated-ns/example3", "service test-isolated-ns/example4", true),
        ("test-isolated-ns/example3", "service test-isolated-ns/example3", true),
        ("test-isolated-ns/example3", "service default/example2", true),
        ("test-isolated-ns/example4", "service second/example5", true),
        ("test-isolated-ns/example3", "default/example2", true),
        ("default/example1", "test-isolated-ns/example4", false),
        ("default/example1", "service test-isolated-ns/example3", false),
        ("second/example5", "service test-isolated-ns/example4", false),
        ("default/example1", "service second/example6", true),
        ("node1", "service test-isolated-ns/example4", true),
        ("node2", "test-isolated-ns/example3", true),
    ];
    world.check("services are isolated", &table);
    assert!(
        !through("default/example1", false) && !through("second/example5", false),
        "another namespace's service leads there"
    );
    assert!(
        through("test-isolated-ns/example3", true) && through("node1", true),
        "its own pods and nodes may use it"
    );
    assert!(!from_outside(world, false), "a node port is published");
    wait_event(world, ISOLATED, "published", "ServiceIsolated");

    // Two of them, closed to each other.
    world.annotate("second", &["netloom.io/isolation=services"]);
    world.check(
        "two namespaces isolate their services",
        &[
            ("second/example5", "service test-isolated-ns/example3", false),
            ("test-isolated-ns/example3", "service second/example6", false),
            ("test-isolated-ns/example3", "second/example6", false),
            ("second/example5", "service second/example6", true),
            ("second/example6", "service default/example1", true),
        ],
    );
    assert!(!through("test-isolated-ns/example3", false), "the service is the other namespace's");
    assert!(
        !through("second/example5", false),
        "the service is its own, the pod behind it is not"
    );
}

/// What nobody knows, and what contradicts itself, isolates.
fn mistakes_close_and_are_told(world: &World) {
    world.annotate("second", &["netloom.io/isolation=sevrices"]);
    wait_event(world, "default", "second", "InvalidIsolation");
    world.check("an unknown value", &[("default/example1", "service second/example5", false)]);
    world.annotate("second", &["netloom.io/isolation=none", "opencontrail.kubernetes.isolated=true"]);
    wait_event(world, "default", "second", "ConflictingIsolation");
    world.check(
        "a contradiction",
        &[
            ("default/example1", "second/example5", false),
            ("default/example1", "service second/example5", true),
        ],
    );
}

fn without_annotations_all_is_open_again(world: &World) {
    let before = world.pod_addresses();
    for namespace in ["second", ISOLATED] {
        world.annotate(namespace, &["netloom.io/isolation-", "opencontrail.kubernetes.isolated-"]);
    }
    world.check(
        "without annotations",
        &[
            ("default/example1", "test-isolated-ns/example3", true),
            ("default/example1", "test-isolated-ns/example4", true),
            ("second/example5", "service test-isolated-ns/example4", true),
            ("test-isolated-ns/example3", "second/example6", true),
        ],
    );
    assert!(from_outside(world, true), "the node port is back");
    assert_eq!(world.pod_addresses(), before, "addresses are kept");
}

/// Pods are reached from outside by their addresses, if somebody leads there; but not from an address by which policies know a pod's node, or
/// another pod.
fn nobody_outside_is_taken_for_somebody_inside(world: &World) {
    let (pod, neighbour) = ("default/example1", world.addresses("default/example2"));
    let management = world
        .lab
        .node("node1")
        .run(&["ip", "-br", "addr", "show", "dev", "netloom0", "scope", "global"])
        .unwrap();
    let of_node = management
        .split_whitespace()
        .filter_map(|word| word.split_once('/')?.0.parse().ok());
    let inside = neighbour.into_iter().chain(of_node).collect::<Vec<IpAddr>>();
    assert_eq!(inside.len(), 4, "{management}");
    for (to, node) in world
        .addresses(pod)
        .into_iter()
        .zip([IpAddr::from(Machine::Node(1).v4()), Machine::Node(1).v6().into()])
    {
        let heard = |source: &str| {
            let before = echo_requests(&world.shell(pod), to.is_ipv6());
            let script = format!("ip route replace {to} via {node}; ping -n -q -c2 -i0.2 -W1 {source} {to}; true");
            let said = world.shell("outside").run(&["bash", "-c", &script]).unwrap();
            assert!(said.contains("2 packets transmitted"), "{said}");
            echo_requests(&world.shell(pod), to.is_ipv6()) - before
        };
        assert_eq!(heard(""), 2, "outside is heard by {to}");
        for source in inside.iter().filter(|source| source.is_ipv4() == to.is_ipv4()) {
            world
                .shell("outside")
                .run(&["bash", "-c", &format!("ip addr add {source} dev lo")])
                .unwrap();
            assert_eq!(heard(&format!("-I {source}")), 0, "outside is heard by {to} as {source}");
            world
                .shell("outside")
                .run(&["bash", "-c", &format!("ip addr del {source} dev lo")])
                .unwrap();
        }
    }
}

fn from_outside(world: &World, expected: bool) -> bool {
    let node = Machine::Node(1).v4();
    world.reaches("outside", node.into(), Way::Over(Protocol::Tcp, NODE_PORT), expected)
}

/// Waits until an object has been told.
fn wait_event(world: &World, namespace: &str, name: &str, reason: &str) {
    let watch =
        format!("kubectl get events -n {namespace} --watch --no-headers --field-selector involvedObject.name={name},reason={reason}");
    let script = format!("read -t 30 line < <(exec timeout 30 {watch}) || {{ echo 'no Event {reason} on {name}'; exit 1; }}");
    world.lab.control().run(&["bash", "-c", &script]).unwrap();
}
