//! A host on the segment of the nodes' uplinks, which sends with addresses of the cluster.

use std::thread;

use crate::place::{VICTIM, tags};
use crate::{addresses, field, lab_with, namespace, pod};

/// Sends datagrams by a node port, from addresses as given. Each address is on the host only meanwhile.
const SENDER: &str = r#"
import json, socket, subprocess, sys
for tag, source, to, port in json.loads(sys.argv[1]):
    v6 = ":" in to
    if source:
        subprocess.run(["ip", "addr", "replace", f"{source}/{128 if v6 else 32}", "dev", "lo", "nodad"], check=True)
    it = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
    it.bind((source or ("::" if v6 else "0.0.0.0"), 0))
    it.sendto(f"RED:{tag};".encode(), (to, port))
    if source:
        subprocess.run(["ip", "addr", "del", f"{source}/{128 if v6 else 32}", "dev", "lo"], check=True)
"#;

/// Policies would take such a packet for one of a pod, or of a pod's own node.
#[test]
fn addresses_of_the_cluster_are_not_taken_from_outside() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: { name: web, namespace: red-outside }\nspec: { type: NodePort, selector: { run: victim }, \
        ipFamilyPolicy: PreferDualStack, ports: [{ name: udp, port: 9, protocol: UDP }] }\n---\n";
    let objects =
        namespace("red-outside", "") + &pod("red-outside", "victim", "node1") + &pod("red-outside", "neighbour", "node1") + service;
    let lab = lab_with(&objects);
    let port: u16 = field(&lab, "red-outside", "service/web", "{.spec.ports[0].nodePort}")
        .parse()
        .unwrap();
    let management = |family: &str| {
        let row = lab
            .control()
            .run(&["ovn-nbctl", "get", "Logical_Switch_Port", "management_node1", "addresses"])
            .unwrap();
        let words: Vec<&str> = row.split([' ', '"', '[', ']', '\n']).filter(|word| !word.is_empty()).collect();
        let of_family = |word: &&&str| word.contains(family);
        (**words.iter().skip(1).find(of_family).unwrap()).to_owned()
    };
    let neighbour = addresses(&lab, "red-outside", "neighbour").map(|ip| ip.to_string());
    let nodes = [
        netloom_lab::Machine::Node(1).v4().to_string(),
        netloom_lab::Machine::Node(1).v6().to_string(),
    ];
    let sources = [
        ("honest_v4", String::new(), &nodes[0]),
        ("honest_v6", String::new(), &nodes[1]),
        ("pod_v4", neighbour[0].clone(), &nodes[0]),
        ("pod_v6", neighbour[1].clone(), &nodes[1]),
        ("node_v4", management("."), &nodes[0]),
        ("node_v6", management(":"), &nodes[1]),
        ("end", String::new(), &nodes[0]),
    ];
    let told: Vec<_> = sources
        .iter()
        .map(|(tag, source, to)| serde_json::json!([tag, source, to, port]))
        .collect();
    let told = serde_json::json!(told).to_string();
    let seen = thread::scope(|scope| {
        let watching = scope.spawn(|| lab.pod("red-outside", "victim").run(&["python3", "-c", VICTIM, "eth0", "6"]));
        while !watching.is_finished() {
            lab.outside().run(&["python3", "-c", SENDER, &told]).unwrap();
        }
        tags(&watching.join().unwrap().unwrap())
    });
    let seen: std::collections::BTreeSet<String> = seen.into_iter().collect();
    assert_eq!(seen, ["honest_v4", "honest_v6"].map(str::to_owned).into(), "what the pod received");
}
