//! What a change costs and what it moves: an endpoint, a node, a pod, a pool, each touches what depends on it and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_network::cluster::ClusterNetwork;
use netloom_network::rows::{LoadBalancer, LogicalRouterPolicy};
use netloom_network::service::{Endpoint, ExternalPoolSpec, Family, Protocol, ServiceKind, ServicePort, SlicePort};
use netloom_network::settings::{ClusterCidrSpec, ClusterNetworkSpec, ServicesSpec};
use netloom_network::{EndpointSlice, ExternalPool, Namespace, Namespaced, Node, Object, Planner, Pod, Scope, Service, check, plan, show};

fn named(name: &str) -> Namespaced {
    Namespaced {
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

fn node(number: u8) -> Object {
    let ip = IpAddr::from([172, 30, 0, number]);
    let report = format!(r#"{{"mac":"02:00:00:00:00:{number:02x}","addresses":["{ip}/24"]}}"#);
    let node = Node {
        uid: format!("node-{number}"),
        addresses: vec![ip],
        annotations: [("netloom.io/gateway".to_owned(), report)].into(),
        ready: true,
        ..Node::default()
    };
    Object::Node(format!("node{number}"), node)
}

fn pod(name: &str, address: &str) -> Object {
    let pod = Pod {
        uid: name.to_owned(),
        node: Some("node1".to_owned()),
        annotations: [("netloom.io/addresses".to_owned(), address.to_owned())].into(),
        ..Pod::default()
    };
    Object::Pod(named(name), pod)
}

fn service(number: u32) -> Service {
    let [_, _, high, low] = number.to_be_bytes();
    Service {
        uid: format!("service-{number}"),
        created: format!("2026-01-01T00:00:{number:05}Z"),
        cluster_ips: vec![IpAddr::from([10, 96, high, low])],
        families: vec![Family::Ipv4],
        ports: vec![ServicePort {
            port: 80,
            ..ServicePort::default()
        }],
        ..Service::default()
    }
}

fn load_balancer(number: u32) -> Service {
    Service {
        kind: ServiceKind::LoadBalancer,
        ..service(number)
    }
}

fn slice(service: &str, hosts: std::ops::Range<u32>) -> Object {
    let endpoint = |host: u32| {
        let [_, a, b, c] = host.to_be_bytes();
        Endpoint {
            address: IpAddr::from([198, 18 + a, b, c]),
            ready: true,
            serving: true,
            terminating: false,
            node: None,
            zones: vec![],
            nodes: vec![],
            pod: false,
        }
    };
    let slice = EndpointSlice {
        service: named(service),
        ports: vec![SlicePort {
            name: String::new(),
            protocol: Protocol::Tcp,
            port: 8080,
        }],
        endpoints: hosts.map(endpoint).collect(),
    };
    Object::EndpointSlice(named(&format!("{service}-1")), slice)
}

fn pool(name: &str, range: &str) -> Object {
    let spec = ExternalPoolSpec {
        ranges: vec![range.to_owned()],
        ..ExternalPoolSpec::default()
    };
    Object::ExternalPool(name.to_owned(), ExternalPool { uid: String::new(), spec })
}

fn namespace() -> Object {
    Object::Namespace("default".to_owned(), Namespace::new("default", String::new(), [].into()))
}

fn planner(objects: impl IntoIterator<Item = Object>) -> Planner {
    let mut planner = Planner::default();
    planner.apply(namespace());
    objects.into_iter().for_each(|object| assert!(planner.apply(object)));
    compile(&mut planner);
    planner
}

/// Compiles, and sees that it comes to the same as compiling everything.
fn compile(planner: &mut Planner) -> Scope {
    let scope = planner.compile();
    let (full, problems) = plan::compile(planner.cluster());
    assert!(*planner.desired() == full, "incremental and full differ");
    assert_eq!(planner.problems().iter().cloned().collect::<Vec<_>>(), problems);
    assert_eq!(check::check(&full), []);
    scope
}

fn vips(planner: &Planner, name: &str) -> BTreeMap<String, String> {
    let mut rows = planner.desired().table::<LoadBalancer>();
    rows.find(|(_, row)| row.name == name).map(|(_, row)| row.vips).unwrap_or_default()
}

fn reasons(planner: &Planner) -> Vec<&'static str> {
    planner.problems().iter().map(|problem| problem.reason).collect()
}

fn given(planner: &Planner, name: &str) -> Vec<String> {
    planner
        .cluster()
        .records
        .external(&named(name))
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn an_endpoint_costs_one_row_however_many_services_and_nodes_there_are() {
    for (services, nodes) in [(10, 1), (500, 40)] {
        let all = (0..services).flat_map(|number| {
            let name = format!("web-{number}");
            [Object::Service(named(&name), service(number)), slice(&name, 0..5)]
        });
        let mut planner = planner((1..=nodes).map(node).chain(all));
        assert!(planner.apply(slice("web-7", 1..6)));
        assert_eq!(planner.marked(), 1);
        let Scope::Some { rows, members } = compile(&mut planner) else {
            panic!("everything may differ")
        };
        assert_eq!((rows.len(), members.len()), (1, 0));
        assert!(!planner.apply(slice("web-7", 1..6)), "nothing changed");
        assert!(compile(&mut planner).is_empty());
    }
}

#[test]
fn a_node_touches_only_services_that_depend_on_nodes() {
    let local = Service {
        internal_local: true,
        ..service(1)
    };
    let (plain, local) = (Object::Service(named("plain"), service(2)), Object::Service(named("local"), local));
    let mut planner = planner([node(1), plain, local, slice("plain", 0..1), slice("local", 0..1)]);
    planner.apply(node(2));
    let Scope::Some { members, .. } = compile(&mut planner) else {
        panic!("everything may differ")
    };
    let local = "service_default_local_tcp_elsewhere";
    let (held, _) = planner
        .desired()
        .table::<LoadBalancer>()
        .find(|(_, row)| row.name == local)
        .unwrap();
    let touched = members.iter().filter(|member| member.column == "load_balancer");
    assert_eq!(touched.map(|member| member.value.as_uuid().unwrap()).collect::<Vec<_>>(), [held]);
}

#[test]
fn a_freed_address_goes_to_the_service_that_waits() {
    let mut planner = planner([
        node(1),
        pool("public", "192.0.2.1-192.0.2.1"),
        Object::Service(named("first"), load_balancer(1)),
        Object::Service(named("second"), load_balancer(2)),
    ]);
    assert_eq!(
        (given(&planner, "first"), given(&planner, "second")),
        (vec!["192.0.2.1".to_owned()], vec![])
    );
    assert_eq!(reasons(&planner), ["NoExternalAddress"]);

    planner.remove(&Object::Service(named("first"), Service::default()));
    compile(&mut planner);
    assert_eq!(given(&planner, "second"), ["192.0.2.1"]);
    assert_eq!(reasons(&planner), Vec::<&str>::new());

    // A new service of the same name is another service.
    let mut successor = load_balancer(3);
    successor.uid = "another".to_owned();
    planner.apply(Object::Service(named("first"), successor));
    compile(&mut planner);
    assert_eq!(given(&planner, "first"), Vec::<String>::new());
    planner.apply(pool("public", "192.0.2.1-192.0.2.2"));
    compile(&mut planner);
    assert_eq!(
        (given(&planner, "first"), given(&planner, "second")),
        (vec!["192.0.2.2".to_owned()], vec!["192.0.2.1".to_owned()])
    );

    // What a pool has no more, nobody keeps; what it still has, its owner does.
    planner.apply(pool("public", "192.0.2.2-192.0.2.3"));
    compile(&mut planner);
    assert_eq!(
        (given(&planner, "first"), given(&planner, "second")),
        (vec!["192.0.2.2".to_owned()], vec!["192.0.2.3".to_owned()])
    );
}

#[test]
fn a_restarted_planner_keeps_external_addresses() {
    let objects = || {
        [
            node(1),
            pool("public", "192.0.2.1-192.0.2.9"),
            Object::Service(named("b"), load_balancer(2)),
            Object::Service(named("a"), load_balancer(9)),
        ]
    };
    let mut first = Planner::default();
    let [node, pool, b, a] = objects();
    for object in [namespace(), node, pool, b] {
        first.apply(object);
    }
    compile(&mut first);
    first.apply(a);
    compile(&mut first);
    let mut second = Planner::default();
    second.restore(first.desired());
    objects().into_iter().rev().for_each(|object| assert!(second.apply(object)));
    // Of the namespace nothing is known yet; what is recorded stays.
    compile(&mut second);
    assert_eq!(second.desired(), first.desired());
    second.apply(namespace());
    compile(&mut second);
    assert_eq!(second.desired(), first.desired());
    assert_eq!(
        (given(&second, "b"), given(&second, "a")),
        (vec!["192.0.2.1".to_owned()], vec!["192.0.2.2".to_owned()])
    );
}

#[test]
fn an_endpoint_of_nobody_is_served_once_a_pod_has_its_address() {
    let Object::EndpointSlice(name, mut stray) = slice("web", 0..1) else {
        unreachable!()
    };
    stray.endpoints[0].address = IpAddr::from([10, 244, 0, 77]);
    let mut planner = planner([
        node(1),
        Object::Service(named("web"), service(1)),
        Object::EndpointSlice(name, stray),
    ]);
    assert_eq!(vips(&planner, "service_default_web_tcp")["10.96.0.1:80"], "");
    assert_eq!(reasons(&planner), ["EndpointWithoutPod"]);
    planner.apply(pod("late", "10.244.0.77"));
    compile(&mut planner);
    assert_eq!(vips(&planner, "service_default_web_tcp")["10.96.0.1:80"], "10.244.0.77:8080");
    planner.remove(&pod("late", ""));
    compile(&mut planner);
    assert_eq!(reasons(&planner), ["EndpointWithoutPod"]);
}

#[test]
fn a_service_serves_five_hundred_endpoints_and_says_once_that_it_leaves_some_out() {
    let mut planner = planner([node(1), Object::Service(named("crowded"), service(1)), slice("crowded", 0..5000)]);
    let served = &vips(&planner, "service_default_crowded_tcp")["10.96.0.1:80"];
    assert_eq!(served.split(',').count(), 500);
    let problem = planner.problems().first().unwrap().clone();
    assert_eq!(problem.reason, "TooManyEndpoints");
    planner.apply(slice("crowded", 0..4999));
    compile(&mut planner);
    assert_eq!(
        planner.problems().first(),
        Some(&problem),
        "every endpoint that goes would be an Event"
    );
}

#[test]
fn many_ports_share_what_a_service_may_cost_a_node() {
    let ports = |count: u16| {
        let port = |number| ServicePort {
            name: format!("p{number}"),
            port: number,
            ..ServicePort::default()
        };
        (1..=count).map(port).collect::<Vec<_>>()
    };
    let mut endpoints = slice("crowded", 0..500);
    if let Object::EndpointSlice(_, slice) = &mut endpoints {
        let of_port = |port: ServicePort| SlicePort {
            name: port.name,
            ..slice.ports[0].clone()
        };
        slice.ports = ports(200).into_iter().map(of_port).collect();
    }
    let crowded = Service {
        ports: ports(200),
        ..service(1)
    };
    let planner = planner([node(1), Object::Service(named("crowded"), crowded), endpoints]);
    let served = vips(&planner, "service_default_crowded_tcp");
    let backends: usize = served.values().map(|backends| backends.split(',').count()).sum();
    assert_eq!((served.len(), backends), (200, 30_000));
    assert_eq!(reasons(&planner), ["TooManyEndpoints"]);
}

#[test]
fn the_mode_changes_at_any_time_and_leaves_nothing_behind() {
    let network = |mode: &str| {
        let cidr = ClusterCidrSpec {
            cidr: "10.244.0.0/16".to_owned(),
            node_prefix: None,
        };
        let services = ServicesSpec {
            mode: Some(mode.to_owned()),
            cidrs: vec![],
        };
        Object::ClusterNetwork(ClusterNetwork {
            uid: String::new(),
            spec: ClusterNetworkSpec {
                cluster_cidrs: vec![cidr],
                services,
                ..ClusterNetworkSpec::default()
            },
        })
    };
    let mut planner = planner([
        network("native"),
        node(1),
        pool("public", "192.0.2.1-192.0.2.9"),
        Object::Service(named("web"), load_balancer(1)),
        slice("web", 0..2),
    ]);
    let native = planner.desired().clone();
    let policies = |planner: &Planner| {
        let all = planner.desired().table::<LogicalRouterPolicy>();
        all.filter(|(_, policy)| policy.action == "reroute").count()
    };
    let balancers = |planner: &Planner| planner.desired().table::<LoadBalancer>().count();
    assert_eq!((policies(&planner), balancers(&planner)), (0, 2));
    planner.apply(network("kube-proxy"));
    compile(&mut planner);
    assert_eq!((policies(&planner), balancers(&planner)), (1, 0));
    assert_eq!(given(&planner, "web"), ["192.0.2.1"]);
    planner.apply(network("native"));
    compile(&mut planner);
    assert_eq!(*planner.desired(), native);
    planner.apply(network("iptables"));
    compile(&mut planner);
    assert_eq!(*planner.desired(), native);
    assert_eq!(reasons(&planner), ["InvalidNetwork"]);
}

#[test]
fn who_has_an_address_keeps_it_and_the_other_gets_it_when_that_is_gone() {
    let wants = |number, port| {
        let mut service = Service {
            external_ips: vec![IpAddr::from([198, 51, 100, 1])],
            families: vec![Family::Ipv4],
            ..service(number)
        };
        service.ports[0].port = port;
        service
    };
    let served = |planner: &Planner, name: &str, at: &str| vips(planner, &format!("service_default_{name}_tcp")).contains_key(at);
    let mut planner = planner([
        node(1),
        pool("public", "198.51.100.1-198.51.100.9"),
        Object::Service(named("a"), wants(2, 80)),
    ]);
    assert!(served(&planner, "a", "198.51.100.1:80"));
    // Neither is it older nor is a port free that the other does not use.
    planner.apply(Object::Service(named("b"), wants(1, 81)));
    compile(&mut planner);
    assert!(served(&planner, "a", "198.51.100.1:80") && !served(&planner, "b", "198.51.100.1:81"));
    assert_eq!(reasons(&planner), ["ExternalAddressRefused"]);
    planner.remove(&Object::Service(named("a"), Service::default()));
    compile(&mut planner);
    assert!(served(&planner, "b", "198.51.100.1:81"));
    assert_eq!(reasons(&planner), Vec::<&str>::new());
}

#[test]
fn a_mistake_in_a_pool_takes_no_address_away() {
    let waits = Service {
        external_ips: vec![IpAddr::from([198, 51, 100, 1])],
        ..service(1)
    };
    let mut planner = planner([
        node(1),
        pool("public", "198.51.100.1-198.51.100.9"),
        Object::Service(named("a"), load_balancer(2)),
    ]);
    planner.apply(Object::Service(named("b"), waits));
    compile(&mut planner);
    let holder = |planner: &Planner| {
        let has = |name: &&str| vips(planner, &format!("service_default_{name}_tcp")).contains_key("198.51.100.1:80");
        ["a", "b"].into_iter().filter(has).collect::<Vec<_>>()
    };
    assert_eq!(holder(&planner), ["a"]);
    planner.apply(pool("public", "198.51.100.1-198.51.100.999"));
    compile(&mut planner);
    assert_eq!(holder(&planner), ["a"], "with the mistake");
    planner.apply(pool("public", "198.51.100.1-198.51.100.9"));
    compile(&mut planner);
    assert_eq!(holder(&planner), ["a"], "without it");
    planner.apply(pool("public", "198.51.100.2-198.51.100.9"));
    compile(&mut planner);
    assert_eq!(
        holder(&planner),
        Vec::<&str>::new(),
        "a pool that is read and does not have it takes it back"
    );
}

#[test]
fn an_address_of_no_pool_that_allows_the_namespace_is_refused() {
    let wants = |address: [u8; 4]| Service {
        external_ips: vec![IpAddr::from(address)],
        families: vec![Family::Ipv4],
        ..service(1)
    };
    let mut others = pool("others", "198.51.100.1-198.51.100.9");
    if let Object::ExternalPool(_, pool) = &mut others {
        pool.spec.namespaces = vec!["others".to_owned()];
    }
    let mut planner = planner([node(1), others]);
    // That of the control plane, that of a node, that of a pool of others, any other, and those of the cluster.
    for address in [
        [172, 30, 0, 1],
        [172, 30, 0, 11],
        [198, 51, 100, 1],
        [203, 0, 113, 7],
        [10, 244, 0, 1],
        [10, 96, 0, 9],
    ] {
        planner.apply(Object::Service(named("a"), wants(address)));
        compile(&mut planner);
        assert_eq!(reasons(&planner), ["ExternalAddressRefused"], "{address:?}");
        assert_eq!(
            vips(&planner, "service_default_a_tcp").len(),
            1,
            "{address:?}: its own address only"
        );
    }
}

#[test]
fn a_service_has_sixteen_of_its_external_ips_at_most() {
    let wants = Service {
        external_ips: (1..=20).map(|host| IpAddr::from([198, 51, 100, host])).collect(),
        ..service(1)
    };
    let planner = planner([
        node(1),
        pool("public", "198.51.100.1-198.51.100.99"),
        Object::Service(named("a"), wants),
    ]);
    assert_eq!(vips(&planner, "service_default_a_tcp").len(), 1 + 16);
    assert_eq!(reasons(&planner), ["ExternalAddressRefused"]);
}

#[test]
fn an_address_inside_the_cluster_belongs_to_one_service_and_lies_in_the_ranges_of_services() {
    let mut planner = planner([node(1), Object::Service(named("a"), service(1))]);
    let mut thief = service(2);
    thief.cluster_ips = service(1).cluster_ips;
    planner.apply(Object::Service(named("b"), thief));
    compile(&mut planner);
    assert_eq!(reasons(&planner), ["AddressInUse"]);
    assert_eq!(vips(&planner, "service_default_a_tcp").len(), 1);
    let mut stray = service(2);
    stray.cluster_ips = vec![IpAddr::from([172, 30, 0, 1])];
    planner.apply(Object::Service(named("b"), stray));
    compile(&mut planner);
    assert_eq!(reasons(&planner), ["OutsideServiceRange"]);
    let balancers = planner.desired().table::<LoadBalancer>();
    assert_eq!(balancers.filter(|(_, balancer)| balancer.name.contains("_b_")).count(), 0);
}

#[test]
fn services_are_shown_with_their_addresses_backends_and_announcer() {
    let mut web = load_balancer(1);
    web.ports[0].node_port = Some(30080);
    let planner = planner([
        node(1),
        pool("public", "192.0.2.1-192.0.2.1"),
        Object::Service(named("web"), web),
        slice("web", 1..3),
    ]);
    let hosting = |port: &str| (port == "announcer_default_web_port").then(|| "node1".to_owned());
    let health = |ip: IpAddr, port, protocol| {
        let checked = ip == IpAddr::from([198, 18, 0, 2]) && (port, protocol) == (8080, Protocol::Tcp);
        checked.then_some(show::Health::Offline)
    };
    let shown = show::services(planner.cluster(), hosting, health);
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].addresses, ["10.96.0.1:80/tcp", "192.0.2.1:80/tcp", "*:30080/tcp"]);
    let states: Vec<_> = shown[0].backends.iter().map(|b| (b.address.to_string(), b.state)).collect();
    assert_eq!(
        states,
        [("198.18.0.1:8080".to_owned(), "ready"), ("198.18.0.2:8080".to_owned(), "offline")]
    );
    assert_eq!((shown[0].kind, shown[0].announced.as_deref()), ("LoadBalancer", Some("node1")));
}
