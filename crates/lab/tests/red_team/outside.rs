//! A host on the segment of the nodes' uplinks, which sends with addresses of the cluster, or to them.

use std::collections::BTreeSet;
use std::thread;

use netloom_lab_fixtures::world::Checked;

use crate::place::{VICTIM, tags};
use crate::{addresses, field, lab_with, namespace, pod};

/// Sends datagrams from addresses and by routes as given. Each address and each route is on the host only meanwhile.
const SENDER: &str = r#"
import json, socket, subprocess, sys
for tag, source, to, port, *via in json.loads(sys.argv[1]):
    v6 = ":" in to
    if source:
        subprocess.run(["ip", "addr", "replace", f"{source}/{128 if v6 else 32}", "dev", "lo", "nodad"], check=True)
    for node in via:
        subprocess.run(["ip", "route", "replace", f"{to}/{128 if v6 else 32}", "via", node], check=True)
    it = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
    it.bind((source or ("::" if v6 else "0.0.0.0"), 0))
    it.sendto(f"RED:{tag};".encode(), (to, port))
    if source:
        subprocess.run(["ip", "addr", "del", f"{source}/{128 if v6 else 32}", "dev", "lo"], check=True)
    for node in via:
        subprocess.run(["ip", "route", "del", f"{to}/{128 if v6 else 32}"], check=True)
"#;

/// A service with a node port that leads to the pod `victim`.
fn service(namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: web, namespace: {namespace} }}\nspec: {{ type: NodePort, selector: {{ run: victim }}, \
         ipFamilyPolicy: PreferDualStack, ports: [{{ name: udp, port: 9, protocol: UDP }}] }}\n---\n"
    )
}

/// Lets the host outside send these again and again until the victim has seen some rounds; whose tags it has seen.
fn seen_by_victim(lab: &Checked, namespace: &str, told: &[serde_json::Value]) -> BTreeSet<String> {
    let told = serde_json::json!(told).to_string();
    thread::scope(|scope| {
        let watching = scope.spawn(|| lab.pod(namespace, "victim").run(&["python3", "-c", VICTIM, "eth0", "6"]));
        while !watching.is_finished() {
            lab.outside().run(&["python3", "-c", SENDER, &told]).unwrap();
        }
        tags(&watching.join().unwrap().unwrap()).into_iter().collect()
    })
}

/// Policies would take such a packet for one of a pod, or of a pod's own node.
#[test]
fn addresses_of_the_cluster_are_not_taken_from_outside() {
    let objects = namespace("red-outside", "")
        + &pod("red-outside", "victim", "node1")
        + &pod("red-outside", "neighbour", "node1")
        + &service("red-outside");
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
    let seen = seen_by_victim(&lab, "red-outside", &told);
    assert_eq!(seen, ["honest_v4", "honest_v6"].map(str::to_owned).into(), "what the pod received");
}

/// A host on the segment needs no more than a route to a node, whose kernel forwards. What is published is reached; what is not, is not.
#[test]
fn pods_and_cluster_addresses_are_not_reached_by_a_route_to_a_node() {
    let objects = namespace("red-routed", "") + &pod("red-routed", "victim", "node1") + &service("red-routed");
    let lab = lab_with(&objects);
    let port: u16 = field(&lab, "red-routed", "service/web", "{.spec.ports[0].nodePort}")
        .parse()
        .unwrap();
    let inside = field(&lab, "red-routed", "service/web", "{.spec.clusterIPs[*]}");
    let inside: Vec<&str> = inside.split_whitespace().collect();
    let pod = addresses(&lab, "red-routed", "victim").map(|ip| ip.to_string());
    let mut told = Vec::new();
    for number in [1, 2] {
        let node = netloom_lab::Machine::Node(number);
        let nodes = [node.v4().to_string(), node.v6().to_string()];
        let family = |ip: &str| usize::from(ip.contains(':'));
        let tag = |what: &str, ip: &str| format!("{what}_v{}_by_node{number}", [4, 6][family(ip)]);
        let by = |ip: &str| &nodes[family(ip)];
        told.extend(nodes.iter().map(|ip| serde_json::json!([tag("published", ip), "", ip, port])));
        told.extend(inside.iter().map(|ip| serde_json::json!([tag("cluster", ip), "", ip, 9, by(ip)])));
        told.extend(pod.iter().map(|ip| serde_json::json!([tag("pod", ip), "", ip, 9090, by(ip)])));
    }
    told.push(serde_json::json!(["end", "", netloom_lab::Machine::Node(1).v4().to_string(), port]));
    let seen = seen_by_victim(&lab, "red-routed", &told);
    let published = |tag: &&String| tag.starts_with("published_");
    assert_eq!(seen.iter().filter(published).count(), 4, "{seen:?}");
    assert_eq!(seen.iter().find(|tag| !published(tag)), None, "what the pod received");
}
