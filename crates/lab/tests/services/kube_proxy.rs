//! The mode in which a node's own rules translate: services leave the switch by the node's service port and come back into it. Rules of the
//! form kube-proxy writes stand in for kube-proxy. The mode changes while the cluster runs, and nothing of the other is left behind.

use std::net::IpAddr;

use netloom_lab::{Lab, Machine};

use crate::{POOL, backend, backends_are, field, service, settle};
use netloom_lab_fixtures::ask::{Ask, Protocol, ask, names};
use netloom_lab_fixtures::world::{addresses, drift, lab, pod, wait_ready};

const NODES: [&str; 3] = ["node1", "node2", "node3"];

#[test]
fn services_may_go_through_the_nodes_own_rules() {
    let lab = lab("kubeproxy");
    let backends = backend("back1", "node1", "back") + &backend("back2", "node2", "back");
    let outward = service("outward", "x", &[]).replace("  selector: { app: x }\n", "");
    let slice = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: outward, labels: {{ kubernetes.io/service-name: outward }} }}\naddressType: IPv4\n\
         endpoints: [{{ addresses: [\"{}\"] }}]\nports: [{{ name: tcp, port: 80 }}]\n---\n",
        Machine::Outside.v4()
    );
    lab.apply(
        &(POOL.to_owned() + &backends + &pod("near", "node1") + &pod("far", "node3") + &service("web", "back", &[]) + &outward + &slice),
    )
    .unwrap();
    wait_ready(&lab);
    backends_are(&lab, "web", "tcp", 8080, &["back1", "back2"].map(str::to_owned));
    works(&lab, "in the switch");
    let native = rows(&lab);

    mode(&lab, "kube-proxy");
    lab.control()
        .run(&[
            "ovn-nbctl",
            "--timeout=30",
            "wait-until",
            "Logical_Switch_Port",
            "service_node3",
            "external_ids:\"netloom.io/service-gateway\"=kube-proxy",
        ])
        .unwrap();
    settle(&lab);
    assert_eq!(
        lab.control()
            .run(&["ovn-nbctl", "--bare", "--columns=name", "list", "Load_Balancer"])
            .unwrap()
            .trim(),
        "",
        "load balancers are left"
    );
    let client = lab.pod("default", "near");
    let address: IpAddr = field(&lab, "service/web", "{.spec.clusterIP}").parse().unwrap();
    let without = ask(&client, &Ask::new(Protocol::Tcp, address, 80).count(1).timeout_ms(500));
    assert_ne!(without[0].outcome, "ok", "without rules nobody translates, and yet: {without:?}");
    for node in NODES {
        lab.node(node).run_with_input(&["nft", "-f", "-"], &rules(&lab)).unwrap();
    }
    works(&lab, "through the nodes' rules");

    for node in NODES {
        lab.node(node).run(&["nft", "delete table inet kube-proxy-form"]).unwrap();
    }
    mode(&lab, "native");
    lab.control()
        .run(&[
            "ovn-nbctl",
            "--timeout=30",
            "wait-until",
            "Logical_Switch_Port",
            "service_node3",
            "external_ids:\"netloom.io/service-gateway\"=native",
        ])
        .unwrap();
    settle(&lab);
    works(&lab, "in the switch again");
    // Each agent follows in its own time.
    let settled = (0..60).map(|_| rows(&lab)).find(|rows| *rows == native);
    assert_eq!(
        settled.unwrap_or_else(|| rows(&lab)),
        native,
        "the other mode left something behind, or took something away"
    );
    assert_eq!(drift(&lab), "None.\n");
}

fn mode(lab: &Lab, mode: &str) {
    lab.kubectl(&[
        "patch",
        "clusternetwork",
        "default",
        "--type=merge",
        "-p",
        &format!(r#"{{"spec":{{"services":{{"mode":"{mode}"}}}}}}"#),
    ])
    .unwrap();
}

/// All names in the Northbound database and all our rules on the nodes.
fn rows(lab: &Lab) -> String {
    let northbound = [
        "Load_Balancer",
        "Load_Balancer_Group",
        "Logical_Router_Policy",
        "Logical_Switch_Port",
    ]
    .map(|table| {
        lab.control()
            .run(&[
                "sh",
                "-c",
                &format!("ovn-nbctl --bare --columns=external_ids list {table} | tr ' ' '\\n' | grep netloom.io/key= | sort"),
            ])
            .unwrap()
    });
    let nodes = NODES.map(|node| lab.node(node).run(&["sh", "-c", "nft -s list table inet netloom; ip route | sort; ip rule; ip -6 route | sort; ip -6 rule; ovs-ofctl dump-flows --no-stats br-ex | sort"]).unwrap());
    northbound.concat() + &nodes.concat()
}

/// Pods, nodes and a service that leads outside, in both families where there is one.
fn works(lab: &Lab, how: &str) {
    let external: IpAddr = field(lab, "service/outward", "{.spec.clusterIP}").parse().unwrap();
    for place in [
        lab.pod("default", "near"),
        lab.pod("default", "far"),
        lab.node("node1"),
        lab.node("node2"),
        lab.node("node3"),
    ] {
        for index in 0..2 {
            let address: IpAddr = field(lab, "service/web", &format!("{{.spec.clusterIPs[{index}]}}"))
                .parse()
                .unwrap();
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let question = Ask::new(protocol, address, 80);
                ask(&place, &question.clone().until_answered());
                let answers = ask(&place, &question.count(24));
                assert_eq!(
                    names(&answers).into_iter().collect::<Vec<_>>(),
                    ["back1", "back2"],
                    "{how}: {protocol:?} {address}: {answers:?}"
                );
            }
        }
        let answers = ask(&place, &Ask::new(Protocol::Tcp, external, 80).until_answered());
        assert_eq!(
            names(&answers).into_iter().collect::<Vec<_>>(),
            ["outside"],
            "{how}: service to an address outside"
        );
    }
}

/// Rules of kube-proxy's form: what is addressed to a service is translated to one of its backends by chance, for whoever passes and for the node itself.
fn rules(lab: &Lab) -> String {
    let pods = addresses(lab);
    let mut lines = String::new();
    for (index, family) in [(0, "ip"), (1, "ip6")] {
        let address = field(lab, "service/web", &format!("{{.spec.clusterIPs[{index}]}}"));
        for (protocol, port) in [("tcp", 8080), ("udp", 9090)] {
            let (one, two) = (pods["back1"][index], pods["back2"][index]);
            lines += &format!(
                "    {family} daddr {address} {protocol} dport 80 dnat {family} to numgen random mod 2 map {{ 0 : {one}, 1 : {two} }} : {port}\n"
            );
        }
    }
    let outward = field(lab, "service/outward", "{.spec.clusterIP}");
    lines += &format!("    ip daddr {outward} tcp dport 80 dnat ip to {}:80\n", Machine::Outside.v4());
    format!(
        "table inet kube-proxy-form {{\n  chain services {{\n{lines}  }}\n  chain prerouting {{ type nat hook prerouting priority dstnat; jump services; }}\n  chain output {{ type nat hook output priority -100; jump services; }}\n}}\n"
    )
}
