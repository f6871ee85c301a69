//! Churn: pods come and go at random while controller and agents are killed at random. At the end nothing is lost, leaked or doubled.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use netloom_lab::{Lab, Signal};
use netloom_lab_fixtures::world::{addresses, drift, failures, lab, pod, wait_ready};

const NODES: [&str; 3] = ["node1", "node2", "node3"];
const ROUNDS: usize = 24;
const PER_ROUND: usize = 12;

#[test]
fn nothing_is_lost_leaked_or_doubled() {
    let lab = lab("churn");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let killer = scope.spawn(|| kill_at_random(&lab, &done));
        come_and_go(&lab);
        done.store(true, Ordering::Relaxed);
        let kills = killer.join().unwrap();
        assert!(kills >= 6, "only {kills} parts were killed");
        eprintln!("{} pods came and {kills} parts were killed meanwhile", ROUNDS * PER_ROUND);
    });
    wait_ready(&lab);
    let pods = addresses(&lab);
    assert!(!pods.is_empty());
    assert_eq!(drift(&lab), "None.\n", "the database is not what the cluster compiles to");
    no_address_is_used_twice_or_leaked(&lab, &pods);
    everyone_is_reachable(&lab, &pods);

    lab.kubectl(&["delete", "pods", "--all", "--wait=true"]).unwrap();
    lab.apply(&pod("last", "node1")).unwrap();
    wait_ready(&lab);
    assert_eq!(
        ports(&lab).into_keys().collect::<Vec<_>>(),
        ["default/last"],
        "ports are left behind"
    );
}

/// Creates a dozen pods a round and deletes a random part of what is there. A fixed sequence of numbers, so a failure can be repeated.
fn come_and_go(lab: &Lab) {
    let mut random = Random(7);
    let mut living: BTreeSet<String> = BTreeSet::new();
    for round in 0..ROUNDS {
        let mut manifest = String::new();
        for number in 0..PER_ROUND {
            // A third of the names come back: the same name is another pod.
            let name = if random.below(3) == 0 {
                format!("again-{number}")
            } else {
                format!("pod-{round}-{number}")
            };
            if living.insert(name.clone()) {
                manifest += &pod(&name, NODES[random.below(3)]);
            }
        }
        lab.apply(&manifest).unwrap();
        let leaving: Vec<String> = living.iter().filter(|_| random.below(2) == 0).cloned().collect();
        if !leaving.is_empty() {
            let names = leaving.iter().map(|name| format!("pod/{name}"));
            lab.kubectl(
                &["delete".to_owned(), "--wait=true".to_owned()]
                    .into_iter()
                    .chain(names)
                    .collect::<Vec<_>>(),
            )
            .unwrap();
            living.retain(|name| !leaving.contains(name));
        }
    }
}

fn kill_at_random(lab: &Lab, done: &AtomicBool) -> usize {
    let mut random = Random(11);
    let mut kills = 0;
    while !done.load(Ordering::Relaxed) {
        let (machine, part) = [
            ("control", "controller"),
            ("node1", "agent"),
            ("node2", "agent"),
            ("node3", "agent"),
        ][random.below(4)];
        // A part that is just being restarted has no process to kill.
        if lab.kill_part(machine, part, Signal::SIGKILL).is_ok() {
            kills += 1;
        }
        thread::sleep(std::time::Duration::from_millis(300 + random.below(700) as u64));
    }
    kills
}

fn no_address_is_used_twice_or_leaked(lab: &Lab, pods: &BTreeMap<String, Vec<IpAddr>>) {
    let mut owners: BTreeMap<IpAddr, &str> = BTreeMap::new();
    for (name, ips) in pods {
        assert_eq!(ips.len(), 2, "{name} has {ips:?}");
        for ip in ips {
            if let Some(other) = owners.insert(*ip, name) {
                panic!("{ip} belongs to {name} and to {other}");
            }
        }
    }
    let ports = ports(lab);
    let expected: BTreeMap<String, Vec<IpAddr>> = pods.iter().map(|(name, ips)| (format!("default/{name}"), ips.clone())).collect();
    assert_eq!(ports, expected, "ports and pods differ");
}

/// Ports of pods in the Northbound database, with their addresses.
fn ports(lab: &Lab) -> BTreeMap<String, Vec<IpAddr>> {
    let text = lab
        .control()
        .run(&[
            "ovn-nbctl",
            "--format=csv",
            "--no-headings",
            "--data=bare",
            "--columns=name,addresses",
            "find",
            "Logical_Switch_Port",
            "port_security!=[]",
        ])
        .unwrap();
    let port = |line: &str| {
        let (name, addresses) = line.split_once(',').unwrap();
        (
            name.to_owned(),
            addresses.split_whitespace().skip(1).map(|ip| ip.parse().unwrap()).collect(),
        )
    };
    text.lines().map(port).collect()
}

fn everyone_is_reachable(lab: &Lab, pods: &BTreeMap<String, Vec<IpAddr>>) {
    let all: Vec<String> = pods.values().flatten().map(ToString::to_string).collect();
    let script = format!(
        "for ip in {}; do ping -n -q -c1 -W5 $ip >/dev/null || echo FAILED ping $ip; done",
        all.join(" ")
    );
    for node in NODES {
        assert_eq!(
            failures(node, &lab.node(node).run(&["bash", "-c", &script]).unwrap()),
            Vec::<String>::new()
        );
    }
    let first = pods.keys().next().unwrap();
    assert_eq!(
        failures(first, &lab.pod("default", first).run(&["bash", "-c", &script]).unwrap()),
        Vec::<String>::new()
    );
}

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
}
