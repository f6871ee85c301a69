//! Backends that OVN watches itself, and the port by which load balancers outside ask a node whether it has any.

use std::net::IpAddr;

use netloom_lab::{Lab, Machine};

use crate::{POOL, backend, backends_are, field, service, settle, wait_for};
use netloom_lab_fixtures::ask::{Ask, Protocol, ask, names};
use netloom_lab_fixtures::world::{addresses, lab, pod, wait_ready};

#[test]
fn the_sick_are_taken_out_and_come_back() {
    let lab = lab("health");
    let checked = service("checked", "back", &[]).replace(
        "{ name: checked }",
        "{ name: checked, annotations: { netloom.io/health-check: \"interval=1,timeout=1,failures=1,successes=1\" } }",
    );
    let backends = backend("well", "node1", "back") + &backend("sick", "node2", "back");
    lab.apply(&(backends + &pod("client", "node3") + &checked)).unwrap();
    wait_ready(&lab);
    backends_are(&lab, "checked", "tcp", 8080, &["sick".to_owned(), "well".to_owned()]);
    let client = lab.pod("default", "client");
    let ask_both = || {
        let mut heard = std::collections::BTreeSet::new();
        for index in 0..2 {
            let address: IpAddr = field(&lab, "service/checked", &format!("{{.spec.clusterIPs[{index}]}}"))
                .parse()
                .unwrap();
            heard.extend(names(&ask(&client, &Ask::new(Protocol::Tcp, address, 80).count(24))));
        }
        heard.into_iter().collect::<Vec<_>>()
    };
    monitors_say(&lab, "sick", "online");
    assert_eq!(ask_both(), ["sick", "well"]);

    // It still runs and Kubernetes still lists it; it just does not answer any more.
    let sick = lab.pod("default", "sick");
    sick.run(&[
        "nft",
        "add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }; add rule inet deaf in tcp dport 8080 drop",
    ])
    .unwrap();
    monitors_say(&lab, "sick", "offline");
    settle(&lab);
    assert_eq!(ask_both(), ["well"]);
    assert_eq!(field(&lab, "pod/sick", "{.status.conditions[?(@.type=='Ready')].status}"), "True");
    let shown = std::process::Command::new(&lab.spec().binary)
        .args(["show", "services", "--name", &lab.spec().name])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("checked") && shown.contains("offline"), "{shown}");

    sick.run(&["nft", "delete table inet deaf"]).unwrap();
    monitors_say(&lab, "sick", "online");
    settle(&lab);
    assert_eq!(ask_both(), ["sick", "well"]);
}

/// Waits until OVN has found every check of a pod to end like this.
fn monitors_say(lab: &Lab, pod: &str, status: &str) {
    let port = format!("default/{pod}");
    for address in &addresses(lab)[pod] {
        let find = [
            "ovn-sbctl",
            "--bare",
            "--columns=_uuid",
            "find",
            "Service_Monitor",
            &format!("logical_port=\"{port}\""),
            &format!("ip=\"{address}\""),
            "protocol=tcp",
        ];
        let id = lab.control().run(&find).unwrap();
        assert!(!id.trim().is_empty(), "nothing watches {address} of {pod}");
        lab.control()
            .run(&[
                "ovn-sbctl",
                "--timeout=30",
                "wait-until",
                "Service_Monitor",
                id.trim(),
                &format!("status={status}"),
            ])
            .unwrap();
    }
}

#[test]
fn a_node_tells_how_many_backends_it_has() {
    let lab = lab("healthport");
    let back = backend("one", "node1", "back") + &backend("two", "node1", "back") + &backend("three", "node2", "back");
    lab.apply(&(POOL.to_owned() + &back + &service("web", "back", &["type: LoadBalancer", "externalTrafficPolicy: Local"])))
        .unwrap();
    wait_ready(&lab);
    wait_for(&lab, "service/web", "{.status.loadBalancer.ingress[0].ip}");
    backends_are(&lab, "web", "tcp", 8080, &["one", "two", "three"].map(str::to_owned));
    let port = field(&lab, "service/web", "{.spec.healthCheckNodePort}");
    for (number, status, count) in [(1, "200", 2), (2, "200", 1), (3, "503", 0)] {
        let url = format!("http://{}:{port}/", Machine::Node(number).v4());
        // The agent opens the port in its own time.
        let script = format!("until curl -s -m 5 -w ' %{{http_code}}' {url}; do [ $((++n)) -lt 100 ] || exit 1; sleep 0.1; done");
        let said = lab.outside().run(&["bash", "-c", &script]).unwrap();
        assert!(said.ends_with(status), "node{number}: {said}");
        assert!(
            said.contains(&format!("\"localEndpoints\":{count}")) || said.contains(&format!("\"localEndpoints\": {count}")),
            "node{number}: {said}"
        );
    }
}
