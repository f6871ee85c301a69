//! Restarts: every part may die and come back while packets flow; nodes and the whole cluster may be power-cycled.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::thread;

use netloom_lab::{Lab, Signal};
use netloom_lab_fixtures::world::{addresses, drift, failures, lab, pod, wait_ready};

const NODES: [&str; 3] = ["node1", "node2", "node3"];

#[test]
fn parts_nodes_and_the_whole_cluster_may_restart() {
    let lab = lab("restart");
    lab.apply(&NODES.map(|node| pod(&format!("pod-{node}"), node)).concat()).unwrap();
    wait_ready(&lab);
    let before = addresses(&lab);
    assert_eq!(unreachable(&lab), Vec::<String>::new());

    a_stream_survives_the_death_of_every_part(&lab);
    assert_eq!(addresses(&lab), before, "restarting parts changes no address");

    one_node_restarts_and_the_others_do_not_notice(&lab, &before);

    lab.restart_all().unwrap();
    wait_ready(&lab);
    assert_eq!(addresses(&lab), before, "a power-cycle changes no address");
    assert_eq!(unreachable(&lab), Vec::<String>::new());
    assert_eq!(drift(&lab), "None.\n");
}

/// One TCP connection between pods on two nodes carries a line every 50 ms while every part is killed in turn. Each is waited for by
/// giving it something to do: a new pod on that node that must become ready.
fn a_stream_survives_the_death_of_every_part(lab: &Lab) {
    let target = addresses(lab)["pod-node2"][0];
    let script = format!(
        "exec 3<>/dev/tcp/{target}/8080; echo start >&3; read -t 5 greeting <&3 || exit 1; read -t 5 start <&3 || exit 1\n\
         while [ ! -e /tmp/stream-may-end ]; do n=$((n+1)); echo line $n >&3; read -t 10 answer <&3 || {{ echo \"FAILED no answer to line $n\"; exit; }}\n\
         [ \"$answer\" = \"line $n\" ] || {{ echo \"FAILED line $n came back as $answer\"; exit; }}; sleep 0.05; done; echo \"passed $n lines\""
    );
    let parts = [
        ("control", "controller"),
        ("control", "northd"),
        ("node1", "agent"),
        ("node2", "agent"),
        ("node1", "ovn-controller"),
        ("node2", "ovn-controller"),
    ];
    thread::scope(|scope| {
        let stream = scope.spawn(|| lab.pod("default", "pod-node1").run(&["bash", "-c", &script]));
        for (number, (machine, part)) in parts.into_iter().enumerate() {
            lab.kill_part(machine, part, Signal::SIGKILL).unwrap();
            let node = if machine == "control" { "node1" } else { machine };
            let name = format!("after-{number}");
            lab.apply(&pod(&name, node)).unwrap();
            lab.kubectl(&["wait", "pod", &name, "--for=condition=Ready", "--timeout=60s"])
                .unwrap();
            lab.kubectl(&["delete", "pod", &name, "--wait=true"]).unwrap();
        }
        lab.node("node1").run(&["touch", "/tmp/stream-may-end"]).unwrap();
        let said = stream.join().unwrap().unwrap();
        assert!(said.starts_with("passed "), "the stream broke: {said}");
    });
}

fn one_node_restarts_and_the_others_do_not_notice(lab: &Lab, before: &BTreeMap<String, Vec<IpAddr>>) {
    let target = before["pod-node2"][0];
    let script = format!(
        "for n in {{1..400}}; do ping -n -q -c1 -W2 {target} >/dev/null || echo FAILED ping $n; [ -e /tmp/node3-is-back ] && exit; sleep 0.02; done"
    );
    thread::scope(|scope| {
        let pings = scope.spawn(|| lab.pod("default", "pod-node1").run(&["bash", "-c", &script]));
        lab.restart_node("node3").unwrap();
        wait_ready(lab);
        lab.node("node1").run(&["touch", "/tmp/node3-is-back"]).unwrap();
        assert_eq!(failures("pod-node1", &pings.join().unwrap().unwrap()), Vec::<String>::new());
    });
    assert_eq!(&addresses(lab), before);
    assert_eq!(unreachable(lab), Vec::<String>::new());
}

/// Pairs of pods that do not reach each other.
fn unreachable(lab: &Lab) -> Vec<String> {
    let pods = addresses(lab);
    let all: Vec<String> = pods.values().flatten().map(ToString::to_string).collect();
    let script = format!(
        "for ip in {}; do ping -n -q -c1 -W5 $ip >/dev/null || echo FAILED ping $ip; done",
        all.join(" ")
    );
    pods.keys()
        .flat_map(|name| failures(name, &lab.pod("default", name).run(&["bash", "-c", &script]).unwrap()))
        .collect()
}
