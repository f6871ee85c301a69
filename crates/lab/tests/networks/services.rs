//! What every pod takes for granted, from and to pods on networks: services of every kind, names, the API server, nodes, the world outside.

use std::net::IpAddr;

use netloom_lab::Machine;

use crate::objects::{SUBNETS, namespace_on, network, pod, pod_with, service};
use crate::questions::{Answer, Line, World};
use netloom_lab_fixtures::ask::Protocol;
use netloom_lab_fixtures::world::{announced_by, ended};

const HOST_PORT: u16 = 18080;
const WEB: &[&str] = &["red/web-1", "red/web-2"];
/// Addresses of LoadBalancer services: part of the network outside.
const POOL: &str = "apiVersion: netloom.io/v1alpha1\nkind: ExternalPool\nmetadata: { name: pool }\nspec: { cidrs: [172.30.0.192/28, \"fd30::c0/124\"] }\n---\n";
const LOCAL: &str = "  type: LoadBalancer\n  externalTrafficPolicy: Local\n  internalTrafficPolicy: Local\n";

#[test]
fn what_pods_take_for_granted_works_on_networks() {
    let probed = |manifest: String| {
        manifest.replace(
            "      image: any\n",
            "      image: any\n      readinessProbe: { httpGet: { port: http, path: / }, periodSeconds: 1 }\n",
        )
    };
    let published = pod("red", "web-1", "node1").replace(
        "name: http, containerPort: 8080 }",
        &format!("name: http, containerPort: 8080, hostPort: {HOST_PORT} }}"),
    );
    let manifest = [
        POOL.to_owned(),
        network("red", SUBNETS),
        network("blue", SUBNETS),
        namespace_on("red", "red"),
        namespace_on("blue", "blue"),
        probed(published).replace("run: web-1", "run: web-1, app: web"),
        probed(pod_with("red", "web-2", "node2", "app: web", "")),
        pod("red", "client", "node3"),
        pod("blue", "client", "node1"),
        pod("default", "near", "node1"),
        pod("default", "far", "node3"),
        service("red", "web", "app: web", "  type: LoadBalancer\n"),
        service("red", "local", "app: web", LOCAL),
        service("red", "one", "run: web-1", ""),
        service("default", "plain", "run: near", ""),
    ];
    let world = World::up("services", &manifest.concat());
    world
        .lab
        .control()
        .run(&["ovn-nbctl", "set", "NB_Global", ".", "options:bfd-mult=100"])
        .unwrap();
    services_have_their_backends(&world);
    a_pod_reaches_itself_through_a_service(&world);
    names_and_the_api_server_are_reached(&world);
    nodes_and_the_world_outside_are_reached(&world);
    node_ports_lead_to_a_network(&world);
    external_addresses_lead_to_a_network(&world);
    a_port_of_the_node_leads_to_a_network(&world);
    assert_eq!(ended(&world.lab), Vec::<String>::new(), "parts crashed");
}

fn services_have_their_backends(world: &World) {
    use Answer::Pods;
    world.check(
        "services",
        &[
            ("red/client", "service red/web", Pods(WEB)),
            ("blue/client", "service red/web", Pods(WEB)),
            ("default/near", "service red/web", Pods(WEB)),
            ("default/far", "service red/web", Pods(WEB)),
            ("node1", "service red/web", Pods(WEB)),
            ("node3", "service red/web", Pods(WEB)),
            ("red/client", "service default/plain", Pods(&["default/near"])),
            ("red/web-1", "service default/plain", Pods(&["default/near"])),
            ("blue/client", "service default/plain", Pods(&["default/near"])),
            // A node has backends of its own, a network spans nodes and has them all.
            ("default/near", "service red/local", Pods(&["red/web-1"])),
            ("default/far", "service red/local", Answer::Nobody),
            ("red/client", "service red/local", Pods(WEB)),
            ("blue/client", "service red/local", Pods(WEB)),
        ],
    );
}

/// It sees an address that leads the answer back through the service.
fn a_pod_reaches_itself_through_a_service(world: &World) {
    let mut lines = world.lines("red/web-1", "service red/one", Answer::Pods(&["red/web-1"]));
    lines.iter_mut().for_each(|line| line.seen = None);
    world.check_lines("a pod and itself", &lines);
}

fn names_and_the_api_server_are_reached(world: &World) {
    for pod in ["red/client", "blue/client"] {
        let page = world.shell(pod).run(&["curl", "-s", "-m", "5", "http://web.red/"]).unwrap();
        assert!(page.contains("pod: web-") && page.contains("namespace: red"), "{pod}: {page}");
        let version = world
            .shell(pod)
            .run(&["curl", "-s", "-m", "5", "http://kubernetes.default:6443/version"])
            .unwrap();
        assert!(version.contains("gitVersion"), "{pod}: {version}");
    }
}

fn nodes_and_the_world_outside_are_reached(world: &World) {
    use Answer::Itself;
    let nodes = [
        ("node1", "red/web-1", Itself),
        ("node2", "red/web-1", Itself),
        ("node3", "red/client", Itself),
    ];
    world.check("nodes", &nodes);
    let mut lines = Vec::new();
    for (pod, number) in [("red/client", 3), ("red/web-1", 1), ("blue/client", 1)] {
        lines.extend(world.lines_to(pod, "outside", &world.addresses("outside"), (80, 7), &["/outside"], &node(number)));
    }
    world.check_lines("the world outside", &lines);
}

fn node(number: usize) -> [IpAddr; 2] {
    [Machine::Node(number).v4().into(), Machine::Node(number).v6().into()]
}

fn node_ports_lead_to_a_network(world: &World) {
    let port = |service: &str, protocol: Protocol| -> u16 {
        let path = format!("jsonpath={{.spec.ports[?(@.name==\"{}\")].nodePort}}", protocol.name());
        world
            .kubectl(&["get", "service", service, "-n", "red", "-o", &path])
            .parse()
            .unwrap()
    };
    let ports = |service: &str| (port(service, Protocol::Tcp), port(service, Protocol::Udp));
    let lines = |from: &str, service: &str, number: usize, by: &[&str], seen: &[IpAddr]| -> Vec<Line> {
        world.lines_to(from, &format!("node port of {service}"), &node(number), ports(service), by, seen)
    };
    let outside = world.addresses("outside");
    let table = [
        lines("outside", "web", 1, WEB, &world.addresses("gateway node1")),
        lines("outside", "web", 3, WEB, &world.addresses("gateway node3")),
        lines("outside", "local", 1, &["red/web-1"], &outside),
        lines("outside", "local", 2, &["red/web-2"], &outside),
        lines("outside", "local", 3, &[], &outside),
        lines("red/client", "web", 1, WEB, &world.addresses("services node1")),
        lines("red/client", "web", 3, WEB, &world.addresses("services node3")),
        lines("blue/client", "local", 2, &["red/web-2"], &world.addresses("blue/client")),
        lines("default/near", "web", 3, WEB, &world.addresses("services node3")),
    ];
    world.check_lines("node ports", &table.concat());
}

fn external_addresses_lead_to_a_network(world: &World) {
    let mut lines = Vec::new();
    for service in ["web", "local"] {
        let (object, path) = (format!("service/{service}"), "jsonpath={.status.loadBalancer.ingress[1].ip}");
        world.kubectl(&["wait", &object, "-n", "red", &format!("--for={path}"), "--timeout=30s"]);
        let path = "jsonpath={.status.loadBalancer.ingress[*].ip}";
        let shown = world.kubectl(&["get", &object, "-n", "red", "-o", path]);
        let addresses: Vec<IpAddr> = shown.split_whitespace().map(|ip| ip.parse().unwrap()).collect();
        let host = announced_by(&world.lab, "red", service);
        let own: &[&str] = match host {
            1 => &["red/web-1"],
            _ => &["red/web-2"],
        };
        let (by, seen) = match service {
            "web" => (WEB, world.addresses(&format!("gateway node{host}"))),
            _ => (own, world.addresses("outside")),
        };
        let what = format!("external address of {service}");
        lines.extend(world.lines_to("outside", &what, &addresses, (80, 80), by, &seen));
        for from in ["red/client", "blue/client", "default/far"] {
            lines.extend(world.lines_to(from, &what, &addresses, (80, 80), WEB, &world.addresses(from)));
        }
    }
    world.check_lines("external addresses", &lines);
}

fn a_port_of_the_node_leads_to_a_network(world: &World) {
    let mut lines = Vec::new();
    let seen = world.addresses("node1");
    for from in ["outside", "node1"] {
        lines.extend(world.lines_to(from, "port of the node", &node(1), (HOST_PORT, HOST_PORT), &["red/web-1"], &seen));
    }
    lines.retain(|line| line.protocol == Protocol::Tcp);
    assert_eq!(lines.len(), 4);
    world.check_lines("ports of the node", &lines);
}
