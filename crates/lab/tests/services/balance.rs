//! Which backend: spread over all, stickiness to one, oneself, those that are leaving, none at all, those nearby.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_lab::{Lab, Machine};

use crate::{POOL, backend, backends_are, field, service, steady_lab, wait_for};
use netloom_lab_fixtures::ask::{Ask, Protocol, ask, failed, kernel_datapath, names};
use netloom_lab_fixtures::world::{addresses, pod, wait_ready};

#[test]
fn connections_go_where_they_should() {
    let lab = steady_lab("balance");
    let backends: String = (1..=4)
        .map(|n| backend(&format!("back{n}"), &format!("node{}", n % 3 + 1), "back"))
        .collect();
    let more = service("spread", "back", &[])
        + &service(
            "sticky",
            "back",
            &[
                "type: LoadBalancer",
                "sessionAffinity: ClientIP",
                "sessionAffinityConfig: { clientIP: { timeoutSeconds: 1 } }",
            ],
        );
    lab.apply(&(POOL.to_owned() + &backends + &pod("client", "node1") + &more)).unwrap();
    wait_ready(&lab);
    let all: Vec<String> = (1..=4).map(|n| format!("back{n}")).collect();
    for name in ["spread", "sticky"] {
        backends_are(&lab, name, "tcp", 8080, &all);
    }

    a_thousand_connections_are_spread(&lab);
    one_client_stays_with_one_backend(&lab);
    a_datagram_may_be_larger_than_a_packet(&lab);
    a_pod_reaches_itself(&lab);
    the_node_itself_may_be_the_backend(&lab);
    if kernel_datapath() {
        // From here on it is about what is written into the database, which is the same for every datapath.
        return;
    }
    named_ports_may_differ_between_pods(&lab);
    nobody_left_means_refused_at_once(&lab);
    leaving_backends_are_the_last_resort(&lab);
    traffic_stays_in_its_zone(&lab);
}

fn cluster_ip(lab: &Lab, service: &str) -> IpAddr {
    field(lab, &format!("service/{service}"), "{.spec.clusterIP}").parse().unwrap()
}

/// It travels in pieces of which only the first says where it goes. Open vSwitch's userspace datapath does not put them together before a
/// backend is chosen, so there the first datagram of all has to fit.
fn a_datagram_may_be_larger_than_a_packet(lab: &Lab) {
    let (client, target) = (lab.pod("default", "client"), cluster_ip(lab, "spread"));
    let first = if kernel_datapath() { 9000 } else { 1000 };
    for size in [first, 9000] {
        let question = Ask::new(Protocol::Udp, target, 80).source_port(40_000).size(size);
        let answers = ask(&client, &question);
        assert!(failed(&answers).is_empty(), "{size} bytes: {answers:?}");
    }
}

/// 1,000 over 4: 250 each, give or take 82, which is six times the standard deviation.
fn a_thousand_connections_are_spread(lab: &Lab) {
    let question = Ask::new(Protocol::Tcp, cluster_ip(lab, "spread"), 80).count(1000);
    let answers = ask(&lab.pod("default", "client"), &question);
    assert!(failed(&answers).is_empty(), "{:?}", failed(&answers));
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    for answer in &answers {
        *shares.entry(&answer.pod).or_default() += 1;
    }
    println!("1,000 connections over 4 backends: {shares:?}");
    assert_eq!(shares.len(), 4);
    assert!(shares.values().all(|share| (168..=332).contains(share)), "{shares:?}");
}

/// Also after an idle time longer than the timeout, and from outside, where the gateway chooses.
fn one_client_stays_with_one_backend(lab: &Lab) {
    wait_for(lab, "service/sticky", "{.status.loadBalancer.ingress[0].ip}");
    let external: IpAddr = field(lab, "service/sticky", "{.status.loadBalancer.ingress[0].ip}")
        .parse()
        .unwrap();
    for (shell, address) in [(lab.pod("default", "client"), cluster_ip(lab, "sticky")), (lab.outside(), external)] {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let question = Ask::new(protocol, address, 80);
            ask(&shell, &question.clone().until_answered());
            let first = names(&ask(&shell, &question.clone().count(50)));
            assert_eq!(first.len(), 1, "{protocol:?}: 50 connections of one client went to {first:?}");
            // An idle time, as the client itself waits it out between two questions.
            let later = ask(&shell, &question.count(2).interval_ms(1500));
            assert_eq!(names(&later).len(), 1, "{later:?}");
        }
    }
}

fn a_pod_reaches_itself(lab: &Lab) {
    lab.apply(&service("self", "alone", &[])).unwrap();
    lab.apply(&backend("alone", "node2", "alone")).unwrap();
    wait_ready(lab);
    backends_are(lab, "self", "tcp", 8080, &["alone".to_owned()]);
    for index in 0..2 {
        let address: IpAddr = field(lab, "service/self", &format!("{{.spec.clusterIPs[{index}]}}"))
            .parse()
            .unwrap();
        for protocol in Protocol::available() {
            let answers = ask(&lab.pod("default", "alone"), &Ask::new(protocol, address, 80).count(10));
            assert_eq!(names(&answers).into_iter().collect::<Vec<_>>(), ["alone"], "{protocol:?} {address}");
        }
    }
}

fn named_ports_may_differ_between_pods(lab: &Lab) {
    let named = |name: &str, number: u16| {
        backend(name, "node1", "named").replace("containerPort: 8080 }", &format!("containerPort: {number}, name: web }}"))
    };
    let service = service("named", "named", &[]).replace("targetPort: 8080", "targetPort: web");
    lab.apply(&(named("eighty-one", 8081) + &named("eighty-two", 8082) + &service))
        .unwrap();
    wait_ready(lab);
    let pods = addresses(lab);
    let vip = format!("{}:80", cluster_ip(lab, "named"));
    let mut expected = [format!("{}:8081", pods["eighty-one"][0]), format!("{}:8082", pods["eighty-two"][0])];
    expected.sort();
    crate::vip_is(lab, "named", "tcp", &vip, &expected.join(","));
    let answers = ask(
        &lab.pod("default", "client"),
        &Ask::new(Protocol::Tcp, cluster_ip(lab, "named"), 80).count(24),
    );
    assert_eq!(names(&answers).into_iter().collect::<Vec<_>>(), ["eighty-one", "eighty-two"]);
}

/// Refused, as by a closed port: not a timeout. Over all families and protocols, from pods, nodes and outside.
fn nobody_left_means_refused_at_once(lab: &Lab) {
    lab.apply(&service("nobody", "nobody", &["type: LoadBalancer"])).unwrap();
    wait_for(lab, "service/nobody", "{.status.loadBalancer.ingress[0].ip}");
    crate::vip_is(lab, "nobody", "tcp", &format!("{}:80", cluster_ip(lab, "nobody")), "");
    let external: IpAddr = field(lab, "service/nobody", "{.status.loadBalancer.ingress[0].ip}")
        .parse()
        .unwrap();
    let second: IpAddr = field(lab, "service/nobody", "{.spec.clusterIPs[1]}").parse().unwrap();
    let places = [
        (lab.pod("default", "client"), cluster_ip(lab, "nobody")),
        (lab.pod("default", "client"), second),
        (lab.node("node3"), cluster_ip(lab, "nobody")),
        (lab.outside(), external),
    ];
    for (shell, address) in places {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let refused = ask(&shell, &Ask::new(protocol, address, 80).until_refused());
            assert_eq!(
                refused.last().map(|attempt| attempt.outcome.as_str()),
                Some("refused"),
                "{protocol:?} {address}"
            );
        }
    }
}

/// A pod that is being deleted serves on for its grace period, and gets new connections only when nobody else is left.
fn leaving_backends_are_the_last_resort(lab: &Lab) {
    let slow = |name: &str| {
        backend(name, "node3", "leaving")
            .replace("terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 60")
            .replace(
                "      image: any\n",
                "      image: any\n      lifecycle: { preStop: { sleep: { seconds: 60 } } }\n",
            )
    };
    lab.apply(&(slow("leaver") + &backend("stayer", "node1", "leaving") + &service("leaving", "leaving", &[])))
        .unwrap();
    wait_ready(lab);
    let (client, address) = (lab.pod("default", "client"), cluster_ip(lab, "leaving"));
    backends_are(lab, "leaving", "tcp", 8080, &["leaver".to_owned(), "stayer".to_owned()]);
    lab.kubectl(&["delete", "pod", "leaver", "--wait=false"]).unwrap();
    backends_are(lab, "leaving", "tcp", 8080, &["stayer".to_owned()]);
    let question = Ask::new(Protocol::Tcp, address, 80).count(24);
    assert_eq!(names(&ask(&client, &question)).into_iter().collect::<Vec<_>>(), ["stayer"]);
    lab.kubectl(&["delete", "pod", "stayer", "--wait=true"]).unwrap();
    backends_are(lab, "leaving", "tcp", 8080, &["leaver".to_owned()]);
    assert_eq!(names(&ask(&client, &question)).into_iter().collect::<Vec<_>>(), ["leaver"]);
    lab.kubectl(&["delete", "pod", "leaver", "--grace-period=0", "--force"]).unwrap();
}

/// A backend in the network of a node's host: from that node, from another, from a pod, and from outside by the node's port and by an
/// external address, wherever that is.
fn the_node_itself_may_be_the_backend(lab: &Lab) {
    let host = backend("host", "node1", "host").replace("spec:\n", "spec:\n  hostNetwork: true\n");
    lab.apply(
        &(host
            + &service("host", "host", &["type: LoadBalancer"])
            + &service("kept", "host", &["type: LoadBalancer", "externalTrafficPolicy: Local"])),
    )
    .unwrap();
    wait_ready(lab);
    for name in ["host", "kept"] {
        wait_for(lab, &format!("service/{name}"), "{.status.loadBalancer.ingress[1].ip}");
        backends_are(lab, name, "tcp", 8080, &["host".to_owned()]);
        let port: u16 = field(lab, &format!("service/{name}"), "{.spec.ports[0].nodePort}").parse().unwrap();
        for index in 0..2 {
            let get = |path: &str| -> IpAddr { field(lab, &format!("service/{name}"), path).parse().unwrap() };
            let inside = get(&format!("{{.spec.clusterIPs[{index}]}}"));
            let external = get(&format!("{{.status.loadBalancer.ingress[{index}].ip}}"));
            let node: IpAddr = if index == 0 {
                Machine::Node(1).v4().into()
            } else {
                Machine::Node(1).v6().into()
            };
            let questions = [
                (lab.node("node1"), inside, 80),
                (lab.node("node3"), inside, 80),
                (lab.pod("default", "client"), inside, 80),
                (lab.outside(), node, port),
                (lab.outside(), external, 80),
            ];
            for (shell, address, port) in questions {
                let answers = ask(&shell, &Ask::new(Protocol::Tcp, address, port).until_answered());
                assert_eq!(
                    names(&answers).into_iter().collect::<Vec<_>>(),
                    ["host"],
                    "{name} at {address}:{port}"
                );
            }
        }
    }
}

fn traffic_stays_in_its_zone(lab: &Lab) {
    for (node, zone) in [("node1", "east"), ("node2", "east"), ("node3", "west")] {
        lab.kubectl(&["label", "node", node, &format!("topology.kubernetes.io/zone={zone}")])
            .unwrap();
    }
    let backends = backend("east", "node2", "zoned") + &backend("west", "node3", "zoned");
    lab.apply(
        &(backends
            + &service("zoned", "zoned", &["trafficDistribution: PreferSameZone"])
            + &service("noded", "zoned", &["trafficDistribution: PreferSameNode"])
            + &pod("westerner", "node3")),
    )
    .unwrap();
    wait_ready(lab);
    for (client, service, view, wanted) in [
        ("client", "zoned", "zone_east", "east"),
        ("westerner", "zoned", "zone_west", "west"),
        ("client", "noded", "zone_east", "east"),
        ("westerner", "noded", "node_node3", "west"),
    ] {
        let question = Ask::new(Protocol::Tcp, cluster_ip(lab, service), 80);
        crate::view_is_in_place(lab, service, view);
        let answers = ask(&lab.pod("default", client), &question.count(24));
        assert_eq!(names(&answers).into_iter().collect::<Vec<_>>(), [wanted], "{service} from {client}");
    }
}
