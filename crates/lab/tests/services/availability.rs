//! Services while things change: endpoints come and go under load, and the node that answers for an address dies.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread;

use netloom_lab::{Lab, Signal};

use crate::{POOL, backend, backends_are, field, service, settle, steady_lab, vip_is, wait_for};
use netloom_lab_fixtures::ask::{Ask, Protocol, answered, ask, failed, names};
use netloom_lab_fixtures::world::{addresses, announced_by, drift, lab, pod, wait_ready};

const CHANGES: usize = 200;

/// A service whose endpoints the test writes itself.
fn manual(lab: &Lab, chosen: &[usize]) -> String {
    let pods = addresses(lab);
    let list: Vec<String> = chosen
        .iter()
        .map(|n| format!("{{ addresses: [\"{}\"] }}", pods[&format!("back{n}")][0]))
        .collect();
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: manual, labels: {{ kubernetes.io/service-name: manual }} }}\naddressType: IPv4\n\
         endpoints: [{}]\nports: [{{ name: tcp, port: 8080 }}, {{ name: udp, port: 9090, protocol: UDP }}]\n",
        list.join(", ")
    )
}

#[test]
fn endpoints_come_and_go_under_load_and_no_connection_fails() {
    let lab = steady_lab("endpoints");
    let backends: String = (1..=4)
        .map(|n| backend(&format!("back{n}"), &format!("node{}", n % 3 + 1), "back"))
        .collect();
    let without_selector = service("manual", "x", &["type: LoadBalancer"]).replace("  selector: { app: x }\n", "");
    lab.apply(&(POOL.to_owned() + &backends + &pod("client", "node1") + &without_selector))
        .unwrap();
    wait_ready(&lab);
    let pods = addresses(&lab);
    let address: IpAddr = field(&lab, "service/manual", "{.spec.clusterIP}").parse().unwrap();
    wait_for(&lab, "service/manual", "{.status.loadBalancer.ingress[0].ip}");
    let external: IpAddr = field(&lab, "service/manual", "{.status.loadBalancer.ingress[0].ip}")
        .parse()
        .unwrap();
    let settled = |chosen: &[usize]| {
        let mut backends: Vec<IpAddr> = chosen.iter().map(|n| pods[&format!("back{n}")][0]).collect();
        backends.sort();
        let text: Vec<String> = backends.iter().map(|ip| format!("{ip}:8080")).collect();
        vip_is(&lab, "manual", "tcp", &format!("{address}:80"), &text.join(","));
        settle(&lab);
    };
    lab.apply(&manual(&lab, &[1, 2, 3, 4])).unwrap();
    settled(&[1, 2, 3, 4]);
    let places = [
        ("client", lab.pod("default", "client"), address),
        ("node2", lab.node("node2"), address),
        ("outside", lab.outside(), external),
    ];
    for (_, shell, to) in &places {
        ask(shell, &Ask::new(Protocol::Tcp, *to, 80).until_answered());
    }
    // From here on the external address stays where it is.
    announced_by(&lab, "default", "manual");

    thread::scope(|scope| {
        let load: Vec<_> = places
            .iter()
            .map(|(place, shell, to)| {
                let question = Ask::new(Protocol::Tcp, *to, 80)
                    .interval_ms(5)
                    // On a starved machine a SYN may have to be sent again; what is stuck stays stuck.
                    .timeout_ms(20_000)
                    .until_file("/tmp/load-may-end");
                (*place, scope.spawn(move || ask(shell, &question)))
            })
            .collect();
        for change in 0..CHANGES {
            // Two or three of four, never the same twice in a row.
            let chosen: Vec<usize> = (1..=4)
                .filter(|n| n % 4 != change % 4 && (change % 3 == 0 || n % 4 != (change + 2) % 4))
                .collect();
            lab.apply(&manual(&lab, &chosen)).unwrap();
        }
        for machine in ["node1", "node2"] {
            lab.node(machine).run(&["touch", "/tmp/load-may-end"]).unwrap();
        }
        lab.outside().run(&["touch", "/tmp/load-may-end"]).unwrap();
        for (place, load) in load {
            let answers = load.join().unwrap();
            let failed = failed(&answers);
            println!(
                "{place}: {} connections during {CHANGES} endpoint changes, {} failed",
                answers.len(),
                failed.len()
            );
            assert!(answers.len() > 100, "{place} asked too little: {}", answers.len());
            assert!(failed.is_empty(), "{place}: {failed:?}");
        }
    });

    lab.apply(&manual(&lab, &[1, 2])).unwrap();
    settled(&[1, 2]);
    for (place, shell, to) in &places {
        let heard = names(&ask(shell, &Ask::new(Protocol::Tcp, *to, 80).count(40)));
        assert_eq!(
            heard,
            BTreeSet::from(["back1".to_owned(), "back2".to_owned()]),
            "{place} after backends were removed"
        );
    }
    udp_does_not_stick(&lab, &places.map(|(_, shell, to)| (shell, to)), &settled);
    assert_eq!(drift(&lab), "None.\n");
}

/// A client that keeps its port follows when its backend is removed.
fn udp_does_not_stick(lab: &Lab, places: &[(netloom_lab::Shell<'_>, IpAddr)], settled: &dyn Fn(&[usize])) {
    for (shell, to) in places {
        let question = Ask::new(Protocol::Udp, *to, 80).count(3).source_port(5555);
        lab.apply(&manual(lab, &[1, 2])).unwrap();
        settled(&[1, 2]);
        let before = names(&ask(shell, &question));
        assert_eq!(before.len(), 1, "one flow has one backend: {before:?}");
        let left = if before.contains("back1") { 2 } else { 1 };
        lab.apply(&manual(lab, &[left])).unwrap();
        settled(&[left]);
        let after = names(&ask(shell, &question));
        assert_eq!(
            after,
            BTreeSet::from([format!("back{left}")]),
            "the flow stuck to a removed backend"
        );
    }
}

/// The node that answers for an address is gone without a word; another answers.
#[test]
fn an_address_moves_when_its_node_dies() {
    let lab = lab("failover");
    // Three seconds without a word instead of a third of one: on a busy machine a living node must not be taken for a dead one.
    lab.control()
        .run(&["ovn-nbctl", "set", "NB_Global", ".", "options:bfd-mult=30"])
        .unwrap();
    // Backends where the address is not, so that only the way to them is lost.
    let backends: String = (1..=3).map(|n| backend(&format!("back{n}"), &format!("node{n}"), "back")).collect();
    lab.apply(&(POOL.to_owned() + &backends + &service("web", "back", &["type: LoadBalancer"])))
        .unwrap();
    wait_ready(&lab);
    wait_for(&lab, "service/web", "{.status.loadBalancer.ingress[1].ip}");
    let ips: Vec<IpAddr> = field(&lab, "service/web", "{.status.loadBalancer.ingress[*].ip}")
        .split_whitespace()
        .map(|ip| ip.parse().unwrap())
        .collect();
    let outside = lab.outside();
    for ip in &ips {
        ask(&outside, &Ask::new(Protocol::Tcp, *ip, 80).until_answered());
    }
    let host = announced_by(&lab, "default", "web");
    let node = format!("node{host}");
    lab.kubectl(&["delete", "pod", &format!("back{host}"), "--wait=true"]).unwrap();
    let left: Vec<String> = (1..=3).filter(|n| *n != host).map(|n| format!("back{n}")).collect();
    backends_are(&lab, "web", "tcp", 8080, &left);

    thread::scope(|scope| {
        let watched: Vec<_> = ips
            .iter()
            .map(|ip| {
                let question = Ask::new(Protocol::Tcp, *ip, 80)
                    .interval_ms(10)
                    .timeout_ms(50)
                    .until_file("/tmp/moved");
                let outside = lab.outside();
                (ip, scope.spawn(move || ask(&outside, &question)))
            })
            .collect();
        // Two seconds of undisturbed answers: the watchers are under way, and BFD has come from its first second to its working pace.
        let before = ask(&outside, &Ask::new(Protocol::Tcp, ips[0], 80).count(200).interval_ms(10));
        assert!(failed(&before).is_empty(), "{:?}", failed(&before));
        assert_eq!(announced_by(&lab, "default", "web"), host, "the address moved without need");
        lab.kill_machine(&node, Signal::SIGKILL).unwrap();
        moved_from(&lab, "web", &node);
        for ip in &ips {
            ask(&outside, &Ask::new(Protocol::Tcp, *ip, 80).until_answered());
            ask(&outside, &Ask::new(Protocol::Tcp, *ip, 80).count(20).interval_ms(10));
        }
        outside.run(&["touch", "/tmp/moved"]).unwrap();
        for (ip, watched) in watched {
            let answers = watched.join().unwrap();
            let good: Vec<f64> = answers
                .iter()
                .filter(|attempt| attempt.outcome == "ok")
                .map(|attempt| attempt.at + attempt.took)
                .collect();
            let gap = good.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
            println!(
                "{ip}: {node} killed, service resumed after {gap:.0} ms ({} attempts, {} failed)",
                answers.len(),
                failed(&answers).len()
            );
            assert!(
                !failed(&answers).is_empty(),
                "{node} was killed and nothing was felt: was the address there?"
            );
            assert!(answered(&answers), "{ip} is not answered for");
        }
    });
}

/// Waits until OVN says that another node has the address.
fn moved_from(lab: &Lab, service: &str, node: &str) {
    let port = format!("announcer_default_{service}_port");
    let other = format!("status:hosting-chassis!={node}");
    lab.control()
        .run(&["ovn-nbctl", "--timeout=30", "wait-until", "Logical_Router_Port", &port, &other])
        .unwrap();
}
