//! The pure core: compiling and comparing a whole cluster, and one pod more at each size.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use netloom_network::cluster::ClusterNetwork;
use netloom_network::service::{Endpoint, EndpointSlice, Family, Service, ServicePort, SlicePort};
use netloom_network::settings::{ClusterCidrSpec, ClusterNetworkSpec, ServicesSpec};
use netloom_network::{Namespace, Node, Northbound, Object, Planner, Pod, PodName, Scope, diff, plan};

use crate::report::{Report, ratio, time};

const SIZES: [usize; 3] = [1_000, 10_000, 50_000];
const NAMESPACES: usize = 50;
const PODS_PER_NODE: usize = 100;
const CHANGES: usize = 500;

/// Measures and prints.
pub fn run() {
    let mut full = Report::new(
        "Compile and compare a whole cluster",
        &["pods", "rows", "compile", "compare with empty", "compare with equal", "per pod"],
    );
    let mut one = Report::new(
        "One pod more, one pod less (mean of 500 each)",
        &["pods present", "add", "against 1,000", "remove", "operations"],
    );
    let mut base = None;
    for size in SIZES {
        let mut planner = cluster(size);
        let started = Instant::now();
        planner.compile();
        let compile = started.elapsed();
        let started = Instant::now();
        let operations = diff(&Northbound::default(), planner.desired(), &Scope::All).len();
        let from_empty = started.elapsed();
        let (equal, _) = plan::compile(planner.cluster());
        let started = Instant::now();
        assert!(diff(&equal, planner.desired(), &Scope::All).is_empty());
        let from_equal = started.elapsed();
        full.row(&[
            size.to_string(),
            operations.to_string(),
            time(compile),
            time(from_empty),
            time(from_equal),
            time((compile + from_empty) / size as u32),
        ]);

        let (add, operations) = change(&mut planner, &equal, |planner, name, pod| {
            planner.apply(Object::Pod(name, pod));
        });
        let (remove, _) = change(&mut planner, &equal, |planner, name, _| {
            planner.remove(&Object::Pod(name, Pod::default()))
        });
        let base = *base.get_or_insert(add);
        one.row(&[size.to_string(), time(add), ratio(add, base), time(remove), operations.to_string()]);
    }
    full.print();
    one.print();
    services();
}

/// Services of five endpoints: all at once, and one endpoint more or less.
fn services() {
    let mut report = Report::new(
        "Services of 5 endpoints: compile all, and change one endpoint (mean of 500)",
        &["services", "compile", "one change", "against 2,000", "operations"],
    );
    let mut base = None;
    for size in [2_000, 10_000, 50_000] {
        let mut planner = cluster(1_000);
        for number in 0..size {
            planner.apply(Object::Service(name(number), service(number)));
            planner.apply(Object::EndpointSlice(name(number), slice(number, 5)));
        }
        let started = Instant::now();
        planner.compile();
        let compile = started.elapsed();
        let observed = planner.desired().clone();
        let mut operations = 0;
        let started = Instant::now();
        for number in 0..CHANGES {
            let endpoints = if number % 2 == 0 { 4 } else { 5 };
            planner.apply(Object::EndpointSlice(name(number / 2), slice(number / 2, endpoints)));
            let scope = planner.compile();
            operations = operations.max(diff(&observed, planner.desired(), &scope).len());
        }
        let one = started.elapsed() / CHANGES as u32;
        assert!(operations > 0, "an endpoint changed, and nothing is written");
        let base = *base.get_or_insert(one);
        report.row(&[size.to_string(), time(compile), time(one), ratio(one, base), operations.to_string()]);
    }
    report.print();
}

fn service(number: usize) -> Service {
    Service {
        uid: format!("1b4e28ba-2fa1-11d2-883f-{number:012}"),
        cluster_ips: vec![IpAddr::from([172, 24, (number >> 8) as u8, number as u8])],
        families: vec![Family::Ipv4],
        ports: vec![ServicePort {
            port: 80,
            ..ServicePort::default()
        }],
        ..Service::default()
    }
}

fn slice(number: usize, endpoints: usize) -> EndpointSlice {
    let endpoint = |n: usize| Endpoint {
        address: IpAddr::from([198, 18 + (number >> 13) as u8, (number >> 5) as u8, ((number & 31) << 3 | n) as u8]),
        ready: true,
        serving: true,
        terminating: false,
        node: Some(format!("node{}", (number + n) % 10)),
        zones: vec![],
        nodes: vec![],
        pod: true,
    };
    EndpointSlice {
        service: name(number),
        ports: vec![SlicePort {
            port: 8080,
            ..SlicePort::default()
        }],
        endpoints: (0..endpoints).map(endpoint).collect(),
    }
}

/// The mean cost of one change with its own compile and comparison.
fn change(planner: &mut Planner, observed: &Northbound, mut apply: impl FnMut(&mut Planner, PodName, Pod)) -> (Duration, usize) {
    let nodes = planner.cluster().nodes.len();
    let mut operations = 0;
    let started = Instant::now();
    for number in 0..CHANGES {
        apply(planner, name(1_000_000 + number), pod(1_000_000 + number, number % nodes));
        let scope = planner.compile();
        operations = diff(observed, planner.desired(), &scope).len();
    }
    (started.elapsed() / CHANGES as u32, operations)
}

fn cluster(pods: usize) -> Planner {
    let nodes = pods / PODS_PER_NODE;
    let mut planner = Planner::default();
    let cidrs = ["10.0.0.0/8", "fd00:10::/40"].map(|cidr| ClusterCidrSpec {
        cidr: cidr.to_owned(),
        node_prefix: None,
    });
    let spec = ClusterNetworkSpec {
        cluster_cidrs: cidrs.into(),
        services: ServicesSpec {
            mode: None,
            cidrs: vec!["172.24.0.0/16".to_owned()],
        },
        ..ClusterNetworkSpec::default()
    };
    planner.apply(Object::ClusterNetwork(ClusterNetwork { uid: String::new(), spec }));
    for namespace in (0..NAMESPACES).map(|number| name(number).namespace) {
        let object = Namespace::new(&namespace, String::new(), [].into());
        planner.apply(Object::Namespace(namespace, object));
    }
    for number in 0..nodes {
        let ip = IpAddr::from([172, 16, (number / 250) as u8, (number % 250) as u8]);
        let report = format!(r#"{{"mac":"02:00:00:00:00:01","addresses":["{ip}/12"]}}"#);
        let annotations = [("netloom.io/gateway".to_owned(), report)].into();
        planner.apply(Object::Node(
            format!("node{number}"),
            Node {
                uid: format!("node-{number}"),
                addresses: vec![ip],
                annotations,
                ..Node::default()
            },
        ));
    }
    for number in 0..pods {
        planner.apply(Object::Pod(name(number), pod(number, number % nodes)));
    }
    planner
}

fn name(number: usize) -> PodName {
    PodName {
        namespace: format!("namespace-{}", number % NAMESPACES),
        name: format!("some-deployment-5d4f8c7b9d-{number:06}"),
    }
}

fn pod(number: usize, node: usize) -> Pod {
    Pod {
        uid: format!("0f8fad5b-d9cb-469f-a165-{number:012}"),
        node: Some(format!("node{node}")),
        ..Pod::default()
    }
}
