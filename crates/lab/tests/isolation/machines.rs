//! A machine that is no pod, plugged into a node's switch by hand: what isolates pods isolates it.

use netloom_lab_fixtures::ask::Protocol;

use crate::questions::{MACHINE, MACHINE_FILE, MACHINE_NODE, Probe, TCP, UDP, World, pod};

/// A machine, a pod that its group lets in, and a machine of a node that does not exist.
fn objects(namespace: &str) -> String {
    let client = pod(
        namespace,
        "client",
        "node2",
        ", annotations: { netloom.io/security-groups: clients }",
    );
    format!(
        r#"
apiVersion: netloom.io/v1alpha1
kind: SecurityGroup
metadata: {{ name: clients, namespace: {namespace} }}
spec: {{ rules: [{{ direction: Egress }}, {{ direction: Ingress, protocol: ICMP }}] }}
---
apiVersion: netloom.io/v1alpha1
kind: SecurityGroup
metadata: {{ name: machines, namespace: {namespace} }}
spec:
  rules:
    - {{ direction: Ingress, protocol: TCP, port: 8080, remote: {{ group: {{ name: clients }} }} }}
    - {{ direction: Ingress, protocol: ICMP }}
    - {{ direction: Egress, protocol: UDP, port: 9090 }}
---
apiVersion: netloom.io/v1alpha1
kind: Port
metadata: {{ name: machine, namespace: {namespace}, labels: {{ run: machine }}, annotations: {{ netloom.io/security-groups: machines }} }}
spec: {{ node: node1, mac: "52:54:00:12:34:56", ports: [{{ name: web, port: 8080 }}] }}
---
apiVersion: netloom.io/v1alpha1
kind: Port
metadata: {{ name: lost, namespace: {namespace} }}
spec: {{ node: node9 }}
---
{client}"#
    )
}

/// Makes the port and plugs a machine in as whoever runs machines would.
fn plug(world: &World) {
    let namespace = world.namespace("second");
    world.lab.apply(&objects(&namespace)).unwrap();
    world.wait_ready();
    let status = |path: &str| {
        world.kubectl(&[
            "get",
            "port",
            "machine",
            "-n",
            &namespace,
            "-o",
            &format!("jsonpath={{.status.{path}}}"),
        ])
    };
    world.kubectl(&[
        "wait",
        "port/machine",
        "-n",
        &namespace,
        &format!("--for=jsonpath={{.status.interfaceID}}={namespace}/port_machine"),
        "--timeout=30s",
    ]);
    assert_eq!(status("mac"), "52:54:00:12:34:56");
    let (addresses, gateways) = (status("addresses[*]"), status("gateways[*]"));
    let words = |list: &str| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (addresses, gateways) = (words(&addresses), words(&gateways));
    assert_eq!((addresses.len(), gateways.len()), (2, 2), "both families");
    let script = format!(
        "set -e\ntouch {MACHINE_FILE}\nunshare --net={MACHINE_FILE} true\n\
         ip link add tap-machine type veth peer name eth0 netns {MACHINE_FILE}\nip link set tap-machine up\n\
         nsenter --net={MACHINE_FILE} bash -e <<'END'\n\
         ip link set lo up\nip link set eth0 address 52:54:00:12:34:56 mtu 1400 up\nethtool -K eth0 tx off > /dev/null\n\
         ip addr add {} dev eth0\nip addr add {} dev eth0 nodad\nip route add default via {}\nip -6 route add default via {}\nEND\n\
         ovs-vsctl --timeout=10 add-port br-int tap-machine -- set Interface tap-machine external_ids:iface-id={namespace}/port_machine\n\
         ovs-vsctl --timeout=30 wait-until Interface tap-machine external_ids:ovn-installed=true\n",
        addresses[0], addresses[1], gateways[0], gateways[1]
    );
    world.lab.node(MACHINE_NODE).run(&["bash", "-c", &script]).unwrap();
    let serve = format!(
        "setsid netloom lab container --name machine --port {TCP}/TCP --port 7000/TCP --port {UDP}/UDP < /dev/null > /dev/null 2>&1 &"
    );
    world.shell(MACHINE).run(&["bash", "-c", &serve]).unwrap();
}

/// Its groups, policies, the isolation of namespaces and its node: all as for a pod.
#[test]
fn machines_are_what_pods_are() {
    let world = World::up("machines");
    let (open, second) = (world.namespace("open"), world.namespace("second"));
    plug(&world);
    let (tcp, udp) = (Probe::Over(Protocol::Tcp, TCP), Probe::Over(Protocol::Udp, UDP));
    world.check_by(
        "the groups of a machine",
        &[
            ("second/client", MACHINE, tcp, true),
            ("second/client", MACHINE, Probe::Over(Protocol::Tcp, 7000), false),
            ("second/client", MACHINE, udp, false),
            ("second/example6", MACHINE, tcp, false),
            ("open/example1", MACHINE, Probe::Ping, true),
            (MACHINE, "open/example2", udp, true),
            (MACHINE, "open/example2", tcp, false),
            (MACHINE, "service open/example2", udp, true),
            (MACHINE, "service open/example2", tcp, false),
            ("node1", MACHINE, tcp, true),
            ("node2", MACHINE, tcp, false),
        ],
    );
    // Its addresses are its own: others are dropped on the way in.
    let spoofed = world
        .shell(MACHINE)
        .run(&["bash", "-c", "ip addr add 10.244.0.200/32 dev eth0; ping -n -q -c1 -W1 -I 10.244.0.200 $(ip route | awk '/default/ {print $3}') > /dev/null && echo answered; ip addr del 10.244.0.200/32 dev eth0"])
        .unwrap();
    assert!(!spoofed.contains("answered"), "{spoofed}");

    // A group is given and taken while it runs; without one it is open, and a policy selects it by its labels.
    world.kubectl(&["annotate", "port", "machine", "-n", &second, "netloom.io/security-groups-"]);
    let web = format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{ name: machine, namespace: {second} }}\n\
         spec: {{ podSelector: {{ matchLabels: {{ run: machine }} }}, ingress: [{{ from: [{{ podSelector: {{}} }}], ports: [{{ port: web }}] }}] }}\n"
    );
    world.lab.apply(&web).unwrap();
    world.wait_row("ACL", &format!("policy/{second}/machine/ingress/0/web/tcp/8080/4/tcp"));
    world.check_by(
        "a policy selects it, and its port by name",
        &[
            ("second/example6", MACHINE, tcp, true),
            ("second/example6", MACHINE, Probe::Over(Protocol::Tcp, 7000), false),
            ("open/example1", MACHINE, tcp, false),
            (MACHINE, "open/example2", tcp, true),
        ],
    );
    world.kubectl(&["delete", "networkpolicy", "machine", "-n", &second]);
    world.annotate("second", &["netloom.io/isolation=pods"]);
    world.check_by(
        "its namespace is isolated",
        &[
            ("second/example6", MACHINE, tcp, true),
            ("open/example1", MACHINE, tcp, false),
            (MACHINE, "open/example1", tcp, true),
        ],
    );
    world.annotate("second", &["netloom.io/isolation-"]);

    let why = world
        .lab
        .control()
        .try_run(&[
            "netloom",
            "why",
            &format!("{open}/example1"),
            &format!("port/{second}/machine"),
            "web",
        ])
        .unwrap();
    assert!(
        why.stdout
            .starts_with(&format!("allowed: pod {open}/example1 to port {second}/machine, TCP 8080")),
        "{why:?}"
    );
    world.wait_event(&second, "lost", "NodeUnknown");

    // Unplugged, the interface is the node's own again; the kernel tells when the fence goes.
    let unplug = "ovs-vsctl --timeout=10 del-port tap-machine\n\
        fenced() { nft list table netdev netloom | grep -q 'chain tap-machine '; }\n\
        while fenced; do read -t 10 line || break; done < <(exec nft monitor)\n! fenced";
    world.lab.node(MACHINE_NODE).run(&["bash", "-c", unplug]).unwrap();
    world.kubectl(&["delete", "port", "machine", "lost", "-n", &second]);
    world.wait_no_row("Logical_Switch_Port", &format!("port/{second}/port_"));
    assert!(
        !world.reaches("second/example6", world.addresses(MACHINE)[0], tcp, false),
        "its port is gone"
    );
}
