//! The reachability matrix, with real packets: every pod, node and the host outside, both families, ICMP, TCP, UDP, 60 kB and a packet
//! of full size. Runs on the userspace datapath here and on the kernel's in `make test-kernel`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::net::IpAddr;
use std::thread;

use netloom_lab::{Lab, Machine};
use netloom_lab_fixtures::world::{Target, addresses, ended, failures, host_pod, lab, pod, probes, wait_ready};

const NODES: [&str; 3] = ["node1", "node2", "node3"];
/// 1500 of the underlay less Geneve.
const POD_MTU: u16 = 1442;

#[test]
fn everyone_reaches_everyone_and_nobody_pretends_to_be_another() {
    let lab = lab("packets");
    let mut manifest = String::new();
    for node in NODES {
        manifest += &pod(&format!("a-{node}"), node);
        manifest += &pod(&format!("b-{node}"), node);
        manifest += &host_pod(&format!("host-{node}"), node);
    }
    lab.apply(&manifest).unwrap();
    wait_ready(&lab);

    assert_eq!(matrix(&lab), Vec::<String>::new());
    spoofed_sources_are_dropped(&lab);
    assert_eq!(ended(&lab), Vec::<String>::new(), "parts crashed");
}

/// Asks everything from everywhere, each place on its own thread.
fn matrix(lab: &Lab) -> Vec<String> {
    let pods = addresses(lab);
    let target = |name: &str, address: IpAddr, seen_as: Option<IpAddr>| Target {
        name: name.to_owned(),
        address,
        port: 8080,
        udp: 9090,
        seen_as,
        mtu: POD_MTU,
    };
    let same_family = |of: &[IpAddr], like: IpAddr| of.iter().copied().find(|ip| ip.is_ipv4() == like.is_ipv4());

    thread::scope(|scope| {
        let mut asked = Vec::new();
        for (source, own) in pods.iter().filter(|(name, _)| !name.starts_with("host-")) {
            let node: usize = source.chars().last().unwrap().to_digit(10).unwrap() as usize;
            let mut targets: Vec<Target> = Vec::new();
            for (name, ips) in pods.iter().filter(|(name, _)| *name != source) {
                targets.extend(ips.iter().map(|ip| target(name, *ip, same_family(own, *ip))));
            }
            for outside in [IpAddr::from(Machine::Outside.v4()), IpAddr::from(Machine::Outside.v6())] {
                let gateway = if outside.is_ipv4() {
                    IpAddr::from(Machine::Node(node).v4())
                } else {
                    IpAddr::from(Machine::Node(node).v6())
                };
                targets.push(Target {
                    port: 80,
                    udp: 7,
                    ..target("outside", outside, Some(gateway))
                });
            }
            asked.push((
                source.clone(),
                scope.spawn(move || lab.pod("default", source).run(&["bash", "-c", &probes(&targets)])),
            ));
        }
        for node in NODES {
            let targets: Vec<Target> = pods
                .iter()
                .filter(|(name, _)| !name.starts_with("host-"))
                .flat_map(|(name, ips)| ips.iter().map(|ip| target(name, *ip, None)))
                .collect();
            asked.push((
                node.to_owned(),
                scope.spawn(move || lab.node(node).run(&["bash", "-c", &probes(&targets)])),
            ));
        }
        assert_eq!(asked.len(), 9, "six pods and three nodes ask");
        asked
            .into_iter()
            .flat_map(|(place, answer)| failures(&place, &answer.join().unwrap().unwrap()))
            .collect()
    })
}

/// A pod that takes another address or MAC, even on its own interface, is heard by nobody. What counts is what the target's kernel
/// received: an answer would not come back to the liar in any case.
fn spoofed_sources_are_dropped(lab: &Lab) {
    let pods = addresses(lab);
    let liar = lab.pod("default", "a-node1");
    let heard = |target: &str, ping: &str| {
        let ip = if ping.contains("ping -6") { 6 } else { 4 };
        let before = echo_requests(lab, target, ip);
        let script = format!("{ping} >/dev/null; true");
        liar.run(&["bash", "-c", &script]).unwrap();
        echo_requests(lab, target, ip) - before
    };
    for (family, victim, target, prefix) in [
        (4, pods["b-node1"][0], pods["a-node2"][0], 32),
        (6, pods["b-node1"][1], pods["a-node2"][1], 128),
    ] {
        let ping = format!("ping -{family} -n -q -c2 -i0.2 -W1");
        assert_eq!(
            heard("a-node2", &format!("{ping} {target}")),
            2,
            "the honest address of family {family} is heard"
        );
        let lie =
            format!("ip addr add {victim}/{prefix} dev eth0 nodad; {ping} -I {victim} {target}; ip addr del {victim}/{prefix} dev eth0");
        assert_eq!(heard("a-node2", &lie), 0, "packets with {victim}'s address passed");
    }

    let neighbour = pods["b-node1"][0];
    let own = liar.run(&["bash", "-c", "ip -br link show eth0 | awk '{print $3}'"]).unwrap();
    let ping = format!("ping -4 -n -q -c2 -i0.2 -W1 {neighbour}");
    assert_eq!(heard("b-node1", &ping), 2, "the honest MAC is heard");
    // The neighbour's own MAC is known already, so only the source is false.
    let lie = format!(
        "ip link set eth0 address 0a:4e:66:66:66:66; {ping}; ip link set eth0 address {}",
        own.trim()
    );
    assert_eq!(heard("b-node1", &lie), 0, "packets with a foreign MAC passed");
}

/// How many echo requests a pod's kernel has received.
fn echo_requests(lab: &Lab, pod: &str, family: u8) -> u64 {
    let script = match family {
        4 => r#"awk '/^Icmp:/ { if (!n) { for (i = 1; i <= NF; i++) if ($i == "InEchos") n = i } else print $n }' /proc/net/snmp"#,
        _ => "awk '/^Icmp6InEchos / { print $2 }' /proc/net/snmp6",
    };
    lab.pod("default", pod)
        .run(&["bash", "-c", script])
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}
