//! A pod, a user of a namespace and a host outside that talk to the tunnels between nodes: whatever they send to UDP 6081 of a node, by whatever way,
//! does not reach the node. The same to another port does, so the ways are open.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::thread;

use netloom_lab::Machine;

use crate::place::{WATCHER, tags};
use crate::{field, lab_with, namespace, network, pod};

const GENEVE: u16 = 6081;
const OTHER: u16 = 6082;
/// Addresses of node2 that its status does not show.
const HIDDEN: [&str; 2] = ["172.30.0.111", "fd30::111"];

/// A service of UDP ports 81 and 82 that leads to the tunnel port of a node and to the port beside it, by endpoints written by hand.
fn service(name: &str, to: IpAddr) -> String {
    let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
    let ports = |key: &str| {
        let port = |name: &str, port: u16, target: u16| {
            let number = if key == "spec" { port } else { target };
            format!("{{ name: {name}, port: {number}, protocol: UDP }}")
        };
        format!("[{}, {}]", port("tunnel", 81, GENEVE), port("beside", 82, OTHER))
    };
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name}, namespace: red-tunnels }}\nspec: {{ type: NodePort, ipFamilies: [{family}], ports: {} }}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: {name}-1, namespace: red-tunnels, labels: {{ kubernetes.io/service-name: {name} }} }}\n\
         addressType: {family}\nendpoints: [{{ addresses: [\"{to}\"] }}]\nports: {}\n---\n",
        ports("spec"),
        ports("slice"),
    )
}

#[test]
fn no_packet_reaches_the_tunnels_of_a_node() {
    let node = |number| [IpAddr::from(Machine::Node(number).v4()), Machine::Node(number).v6().into()];
    let objects = namespace("red-tunnels", "")
        + &network("red-tunnels", "192.168.67.0/24, \"fd01:67::/64\"")
        + &pod("red-tunnels", "attacker", "node1")
        + &namespace("red-tunnels-network", "netloom.io/network: red-tunnels")
        + &pod("red-tunnels-network", "attacker", "node1")
        + &service("four", node(2)[0])
        + &service("six", node(2)[1]);
    let lab = lab_with(&objects);
    for address in HIDDEN {
        let add = format!(
            "ip addr replace {address}/{} dev br-ex nodad",
            if address.contains(':') { 64 } else { 24 }
        );
        lab.node("node2").run(&["bash", "-c", &add]).unwrap();
    }
    let hidden = HIDDEN.map(|address| address.parse::<IpAddr>().unwrap());
    let mut ways: Vec<(String, IpAddr, u16, u16)> = Vec::new();
    for (what, to) in [("own_node", node(1)), ("other_node", node(2)), ("hidden", hidden)] {
        ways.extend(to.map(|ip| (format!("{what}{}", family(ip)), ip, GENEVE, OTHER)));
    }
    let mut outside = Vec::new();
    for name in ["four", "six"] {
        let object = format!("service/{name}");
        let address: IpAddr = field(&lab, "red-tunnels", &object, "{.spec.clusterIP}").parse().unwrap();
        ways.push((format!("service{}", family(address)), address, 81, 82));
        let ports: Vec<u16> = field(&lab, "red-tunnels", &object, "{.spec.ports[*].nodePort}")
            .split_whitespace()
            .map(|port| port.parse().unwrap())
            .collect();
        for number in [1, 2] {
            let at = node(number).into_iter().find(|ip| ip.is_ipv4() == address.is_ipv4()).unwrap();
            let way = (format!("node_port_of_node{number}{}", family(at)), at, ports[0], ports[1]);
            ways.push(way.clone());
            outside.push(way);
        }
    }
    let say = |ways: &[(String, IpAddr, u16, u16)], who: &str| {
        let line = |(what, to, bad, good): &(String, IpAddr, u16, u16)| {
            let to_port = |port: u16, tag: &str| format!("echo -n 'RED:{who}_{what}_{tag};' > /dev/udp/{to}/{port}\n");
            to_port(*bad, "tunnel") + &to_port(*good, "beside")
        };
        ways.iter().map(line).collect::<String>()
    };
    let end: String = [1, 2]
        .map(|number| format!("echo -n 'RED:tunnels_end;' > /dev/udp/{}/{OTHER}\n", node(number)[0]))
        .concat();
    let senders = [
        (lab.pod("red-tunnels", "attacker"), say(&ways, "pod") + &end),
        (lab.pod("red-tunnels-network", "attacker"), say(&ways, "network")),
        (lab.outside(), say(&outside, "outside")),
    ];
    let seen: BTreeSet<String> = thread::scope(|scope| {
        let watching = ["node1", "node2"]
            .map(|name| scope.spawn(|| lab.node(name).run(&["python3", "-c", WATCHER, "datagrams", "tunnels_end", "12"])));
        while !watching.iter().all(thread::ScopedJoinHandle::is_finished) {
            for (shell, script) in &senders {
                shell.run(&["bash", "-c", script]).unwrap();
            }
        }
        watching
            .into_iter()
            .flat_map(|watching| tags(&watching.join().unwrap().unwrap()))
            .collect()
    });
    let wanted = |who: &str, ways: &[(String, IpAddr, u16, u16)]| {
        let name = |way: &(String, IpAddr, u16, u16)| format!("{who}_{}_beside", way.0);
        ways.iter().map(name).collect::<Vec<_>>()
    };
    let wanted: BTreeSet<String> = [wanted("pod", &ways), wanted("network", &ways), wanted("outside", &outside)]
        .concat()
        .into_iter()
        .collect();
    assert_eq!(
        seen,
        wanted,
        "whatever is sent to port {OTHER} arrives, and nothing to port {GENEVE}: {:?}",
        SocketAddr::new(node(2)[0], GENEVE)
    );
    for address in HIDDEN {
        let delete = format!("ip addr del {address}/{} dev br-ex", if address.contains(':') { 64 } else { 24 });
        lab.node("node2").run(&["bash", "-c", &delete]).unwrap();
    }
}

fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "_v4" } else { "_v6" }
}
