//! Isolated namespaces and their services.

use netloom_lab::Machine;
use netloom_lab_fixtures::ask::Protocol;

use crate::questions::{Probe, World};

/// How operators have always verified isolation, command by command.
#[test]
fn an_operator_sees_it_with_kubectl() {
    let world = World::up("operator");
    let address = |listing: &str, pod: &str| {
        let line = listing.lines().find(|line| line.starts_with(pod)).unwrap();
        line.split_whitespace().find(|word| word.starts_with("10.")).unwrap().to_owned()
    };
    let (in_open, in_isolated) = (world.namespace("open"), world.namespace("isolated"));
    let isolated = world.kubectl(&["get", "pod", "-n", &in_isolated, "-o", "wide"]);
    let open = world.kubectl(&["get", "pods", "-n", &in_open, "-o", "wide"]);
    assert!(isolated.contains("example3") && open.contains("example1"), "{isolated}{open}");

    let ping = |command: &str| {
        let said = world
            .lab
            .kubectl(&["exec", "example1", "-n", &in_open, "--", "sh", "-c", &format!("{command}; true")]);
        said.unwrap_or_else(|error| panic!("{error:#}"))
    };
    let denied = ping(&format!("ping -c 2 -W 1 {}", address(&isolated, "example3")));
    assert!(denied.contains("2 packets transmitted, 0 received, 100% packet loss"), "{denied}");

    let to = address(&open, "example1");
    let allowed = world.kubectl(&["exec", "example3", "-n", &in_isolated, "--", "ping", "-c", "2", &to]);
    assert!(allowed.contains("2 packets transmitted, 2 received, 0% packet loss"), "{allowed}");

    let described = world.kubectl(&["describe", "namespace", &in_isolated]);
    assert!(described.contains("opencontrail.kubernetes.isolated: true"), "{described}");

    let find = [
        "ovn-nbctl",
        "--bare",
        "--columns=ports",
        "find",
        "Port_Group",
        &format!("external_ids:\"netloom.io/key\"=\"network/{in_isolated}-vn\""),
    ];
    let network = world.lab.control().run(&find).unwrap();
    assert_eq!(
        network.split_whitespace().count(),
        2,
        "the virtual network {in_isolated}-vn has its pods: {network}"
    );
}

/// Rules (a) to (e) of an isolated namespace, and what a cluster takes for granted.
#[test]
fn rules_of_an_isolated_namespace() {
    let world = World::up("rules");
    world.check(
        "rules a to e",
        &[
            // a: its pods reach each other
            ("isolated/example3", "isolated/example4", true),
            // b: pods of other namespaces do not reach them
            ("open/example1", "isolated/example3", false),
            ("open/example1", "isolated/example4", false),
            ("second/example6", "isolated/example3", false),
            // c: they reach pods of other namespaces
            ("isolated/example3", "open/example1", true),
            ("isolated/example3", "open/example2", true),
            // d: they reach all services
            ("isolated/example3", "service open/example2", true),
            ("isolated/example3", "service isolated/example4", true),
            // e: pods of other namespaces reach them through services
            ("open/example1", "service isolated/example3", true),
            ("open/example1", "service isolated/example4", true),
            // a pod reaches itself through a service, nodes reach their pods and those of others
            ("isolated/example3", "service isolated/example3", true),
            ("node1", "isolated/example3", true),
            ("node1", "isolated/example4", true),
            ("node2", "service isolated/example3", true),
            ("open/example1", "open/example2", true),
            ("open/example1", "second/example6", true),
        ],
    );
    assert!(from_outside(&world, true), "it is reached from outside through its node port");

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
    let (open, isolated) = (own("open/example1"), own("isolated/example3"));
    // A kernel gives up after three seconds on a neighbour that it has not found; on a busy machine that may be too early.
    let script = format!("for n in {{1..5}}; do ping -n -c1 -W8 {open}%eth0 && break; done; true");
    let said = answers("isolated/example3", &script);
    let state = |pod: &str| answers(pod, "ip -6 -o address show dev eth0; ip -6 neighbour; true");
    assert!(
        said.contains(&format!("from {open}")),
        "outwards nothing is closed: {said}\nasking:\n{}\nasked:\n{}",
        state("isolated/example3"),
        state("open/example1")
    );
    for to in [isolated.as_str(), "ff02::1"] {
        let said = answers("open/example1", &format!("ping -n -c3 -i0.3 -W1 {to}%eth0; true"));
        assert!(
            !said.contains(&format!("from {isolated}")),
            "reached by its link-local address: {said}"
        );
    }
}

#[test]
fn a_living_namespace_is_isolated_and_its_pods_keep_their_addresses() {
    let world = World::up("living");
    let before = world.pod_addresses();
    world.annotate("second", &["netloom.io/isolation=pods"]);
    world.check(
        "two isolated namespaces",
        &[
            ("open/example1", "second/example6", false),
            ("isolated/example3", "second/example5", false),
            ("second/example6", "isolated/example3", false),
            ("second/example5", "second/example6", true),
            ("second/example5", "open/example2", true),
            ("second/example6", "service isolated/example3", true),
            ("isolated/example4", "service second/example5", true),
            ("isolated/example3", "service second/example5", true),
        ],
    );
    assert_eq!(world.pod_addresses(), before, "addresses are kept");
}

#[test]
fn services_are_isolated_too() {
    let world = World::up("services");
    world.annotate("second", &["netloom.io/isolation=pods"]);
    // A service of another namespace that would lead to a pod of this one: nobody of this one made it.
    let pod = world.addresses("isolated/example4")[0];
    let second = world.namespace("second");
    let foreign = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: foreign, namespace: {second} }}\nspec: {{ ipFamilyPolicy: PreferDualStack, ports: [{{ name: tcp, port: 8080 }}] }}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nmetadata: {{ name: foreign, namespace: {second}, labels: {{ kubernetes.io/service-name: foreign }} }}\n\
         ports: [{{ name: tcp, port: 8080 }}]\nendpoints: [{{ addresses: [\"{pod}\"], conditions: {{ ready: true }} }}]\n"
    );
    world.lab.apply(&foreign).unwrap();
    let through = |from: &str, expected| {
        let to = world.addresses("service second/foreign")[0];
        world.reaches(from, to, Probe::Over(Protocol::Tcp, 8080), expected)
    };
    world.wait_row("Load_Balancer", &format!("service/{second}/foreign/tcp"));
    world.wait_event(&second, "foreign", "EndpointIsolated");
    assert!(
        !through("open/example1", false) && !through("second/example5", false),
        "a service of another namespace leads to isolated pods"
    );

    world.annotate("isolated", &["netloom.io/isolation=services"]);
    let table = [
        ("isolated/example3", "isolated/example4", true),
        ("isolated/example3", "service isolated/example4", true),
        ("isolated/example3", "service isolated/example3", true),
        ("isolated/example3", "service open/example2", true),
        ("isolated/example4", "service second/example5", true),
        ("isolated/example3", "open/example2", true),
        ("open/example1", "isolated/example4", false),
        ("open/example1", "service isolated/example3", false),
        ("second/example5", "service isolated/example4", false),
        ("open/example1", "service second/example6", true),
        ("node1", "service isolated/example4", true),
        ("node2", "isolated/example3", true),
    ];
    world.check("services are isolated", &table);
    assert!(
        !through("open/example1", false) && !through("second/example5", false),
        "another namespace's service leads there"
    );
    assert!(!from_outside(&world, false), "a node port is published");
    world.wait_event(&world.namespace("isolated"), "published", "ServiceIsolated");

    // Two of them, closed to each other.
    world.annotate("second", &["netloom.io/isolation=services"]);
    world.check(
        "two namespaces isolate their services",
        &[
            ("second/example5", "service isolated/example3", false),
            ("isolated/example3", "service second/example6", false),
            ("isolated/example3", "second/example6", false),
            ("second/example5", "service second/example6", true),
            ("second/example6", "service open/example1", true),
        ],
    );
    for from in ["isolated/example3", "second/example5"] {
        assert!(
            !through(from, false),
            "the service is the other namespace's, or the pod behind it is"
        );
    }
}

/// What nobody knows, and what contradicts itself, isolates.
#[test]
fn mistakes_close_and_are_reported() {
    let world = World::up("mistakes");
    world.annotate("second", &["netloom.io/isolation=sevrices"]);
    world.wait_event("default", &world.namespace("second"), "InvalidIsolation");
    world.check("an unknown value", &[("open/example1", "service second/example5", false)]);
    world.annotate("second", &["netloom.io/isolation=none", "opencontrail.kubernetes.isolated=true"]);
    world.wait_event("default", &world.namespace("second"), "ConflictingIsolation");
    world.check(
        "a contradiction",
        &[
            ("open/example1", "second/example5", false),
            ("open/example1", "service second/example5", true),
        ],
    );
}

#[test]
fn without_annotations_all_is_open_again() {
    let world = World::up("reopened");
    let before = world.pod_addresses();
    for role in ["second", "isolated"] {
        world.annotate(role, &["netloom.io/isolation=services"]);
    }
    world.check(
        "both are isolated",
        &[
            ("open/example1", "isolated/example3", false),
            ("second/example5", "service isolated/example4", false),
        ],
    );
    for role in ["second", "isolated"] {
        world.annotate(role, &["netloom.io/isolation-", "opencontrail.kubernetes.isolated-"]);
    }
    world.check(
        "without annotations",
        &[
            ("open/example1", "isolated/example3", true),
            ("open/example1", "isolated/example4", true),
            ("second/example5", "service isolated/example4", true),
            ("isolated/example3", "second/example6", true),
        ],
    );
    assert!(from_outside(&world, true), "the node port is back");
    assert_eq!(world.pod_addresses(), before, "addresses are kept");
}

/// Whether the published service answers outside at a node's port.
fn from_outside(world: &World, expected: bool) -> bool {
    let path = "jsonpath={.spec.ports[0].nodePort}";
    let port = world.kubectl(&["get", "service", "published", "-n", &world.namespace("isolated"), "-o", path]);
    let way = Probe::Over(Protocol::Tcp, port.parse().unwrap());
    world.reaches("outside", Machine::Node(1).v4().into(), way, expected)
}
