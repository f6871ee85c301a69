//! Network policies with real packets: who reaches whom, as Kubernetes defines it, between pods of two nodes, in both families, over TCP
//! and UDP. Runs on the userspace datapath here and on the kernel's in `make test-kernel`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod connections;
mod logging;
mod operations;

use std::net::IpAddr;

use connections::{a_new_pod_is_isolated_from_its_first_packet, connections_end_with_what_allowed_them};
use netloom_lab::Machine;
use netloom_lab_fixtures::ask::{Ask, Protocol, answered, ask};
use netloom_lab_fixtures::policies::{Question, TCP, UDP, World, policy};
use netloom_lab_fixtures::world::{Target, ended, failures, probes};
use operations::every_operation_takes_hold_and_concerns_nobody_else;

/// 1500 of the underlay less Geneve.
const POD_MTU: u16 = 1442;

#[test]
fn policies_say_who_reaches_whom() {
    let world = World::up("policies");
    nothing_is_closed_without_a_policy(&world);
    a_denial_closes_and_its_end_opens(&world);
    a_node_port_is_no_side_door(&world);
    peers_are_chosen_by_labels(&world);
    addresses_are_chosen_without_some(&world);
    ports_are_chosen_by_number_range_and_name(&world);
    egress_is_judged_by_the_backend(&world);
    connections_end_with_what_allowed_them(&world);
    a_new_pod_is_isolated_from_its_first_packet(&world);
    every_operation_takes_hold_and_concerns_nobody_else(&world);
    assert_eq!(ended(&world.lab), Vec::<String>::new(), "parts crashed");
}

fn nothing_is_closed_without_a_policy(world: &World) {
    world.check(
        "without a policy",
        vec![
            world.all("shop/client", "shop/web-1", true),
            world.all("other/client", "shop/web-1", true),
            world.all("shop/client", "shop/web-2", true),
        ],
    );
}

/// Pods of another selection go on as before; replies, the own node and the pod itself are never shut out.
fn a_denial_closes_and_its_end_opens(world: &World) {
    world.apply(&policy("shop", "deny", "{ podSelector: { matchLabels: { app: web } } }"));
    those_whom_no_policy_concerns_notice_nothing(world);
    world.check(
        "ingress is denied",
        vec![
            world.all("shop/client", "shop/web-1", false),
            world.all("other/client", "shop/web-1", false),
            world.all("shop/client", "shop/web-2", false),
            world.all("shop/web-1", "shop/web-2", false),
            world.all("shop/web-1", "shop/db", true),
            world.all("shop/web-1", "other/client", true),
            world.all("node1", "shop/web-1", true),
            world.all("node2", "shop/web-2", true),
            world.all("node2", "shop/web-1", false),
        ],
    );
    world.apply(&policy("shop", "deny", "{ podSelector: {}, policyTypes: [Ingress, Egress] }"));
    let service = world.field("shop", "service/db", "{.spec.clusterIPs[*]}");
    assert_eq!(service.len(), 2);
    let through_service = |from: &'static str, answer| {
        let question = move |to: &IpAddr| Question {
            from,
            to: *to,
            protocol: Protocol::Tcp,
            port: 80,
            answer,
        };
        service.iter().map(question).collect()
    };
    world.check(
        "both directions are denied",
        vec![
            world.all("shop/web-1", "shop/db", false),
            world.all("shop/web-1", "other/client", false),
            world.all("other/client", "shop/web-1", false),
            world.all("node1", "shop/web-1", true),
            through_service("shop/db", true),
            through_service("node2", true),
            through_service("node1", false),
            through_service("other/client", false),
        ],
    );
    world.delete("shop", "deny");
    world.check(
        "the denial is gone",
        vec![
            world.all("shop/client", "shop/web-1", true),
            world.all("other/client", "shop/web-2", true),
        ],
    );
}

/// A pod's own node reaches it always. Whoever asks that node's port is translated by the node, and is not the node.
fn a_node_port_is_no_side_door(world: &World) {
    world
        .lab
        .apply(
            "apiVersion: v1\nkind: Service\nmetadata: { name: db-port, namespace: shop }\nspec:\n  type: NodePort\n  selector: { app: db }\n  \
             ipFamilyPolicy: PreferDualStack\n  ports: [{ name: http, port: 80, targetPort: http, nodePort: 30077 }]\n",
        )
        .unwrap();
    let addresses = [IpAddr::from(Machine::Node(2).v4()), IpAddr::from(Machine::Node(2).v6())];
    let asks = |from: &'static str, answer| {
        let question = move |to| Question {
            from,
            to,
            protocol: Protocol::Tcp,
            port: 30077,
            answer,
        };
        addresses.map(question).into()
    };
    for to in addresses {
        ask(&world.shell("node2"), &Ask::new(Protocol::Tcp, to, 30077).until_answered());
    }
    world.check(
        "a node port without a policy",
        vec![asks("shop/client", true), asks("other/client", true), asks("node2", true)],
    );
    world.apply(&policy("shop", "deny", "{ podSelector: { matchLabels: { app: db } } }"));
    world.check(
        "a node port of a pod that is isolated",
        vec![asks("shop/client", false), asks("other/client", false), asks("node2", true)],
    );
    world.delete("shop", "deny");
    world.lab.kubectl(&["delete", "service", "-n", "shop", "db-port"]).unwrap();
}

/// A switch with isolated pods follows every connection; that must cost the others nothing.
fn those_whom_no_policy_concerns_notice_nothing(world: &World) {
    let target = |pod: &str| {
        let name = pod.split_once('/').unwrap().1;
        let targets = world.addresses(pod).into_iter().map(|address| Target {
            name: name.to_owned(),
            address,
            port: TCP,
            udp: UDP,
            seen_as: None,
            mtu: POD_MTU,
        });
        targets.collect::<Vec<_>>()
    };
    for (from, to) in [
        ("shop/client", "shop/db"),
        ("node1", "shop/db"),
        ("shop/db", "other/client"),
        ("other/client", "shop/client"),
    ] {
        let said = world.shell(from).run(&["bash", "-c", &probes(&target(to))]).unwrap();
        assert_eq!(failures(from, &said), Vec::<String>::new());
    }
}

fn peers_are_chosen_by_labels(world: &World) {
    let by_pod = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }] }] }";
    world.apply(&policy("shop", "by-pod", by_pod));
    world.check(
        "by the labels of pods",
        vec![
            world.all("shop/client", "shop/web-1", true),
            world.all("shop/client", "shop/web-2", true),
            world.all("shop/db", "shop/web-1", false),
            world.all("other/client", "shop/web-1", false),
        ],
    );
    // Policies add up.
    let by_namespace =
        "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: other } } }] }] }";
    world.apply(&policy("shop", "by-namespace", by_namespace));
    world.check(
        "by the labels of namespaces",
        vec![
            world.all("shop/client", "shop/web-1", true),
            world.all("shop/db", "shop/web-1", false),
            world.all("other/client", "shop/web-1", true),
            world.all("other/client", "shop/web-2", true),
        ],
    );
    // Labels that change move their pods.
    world
        .lab
        .kubectl(&["label", "namespace", "other", "team=gone", "--overwrite"])
        .unwrap();
    let target = world.addresses("shop/web-1")[0];
    let lost = ask(&world.shell("other/client"), &Ask::new(Protocol::Tcp, target, TCP).until_lost());
    assert!(!answered(&lost), "a namespace that lost its label is still let in");
    world
        .lab
        .kubectl(&["label", "pod", "-n", "shop", "db", "app=client", "--overwrite"])
        .unwrap();
    let found = ask(&world.shell("shop/db"), &Ask::new(Protocol::Tcp, target, TCP).until_answered());
    assert!(answered(&found), "a pod that got the label is not let in");
    world
        .lab
        .kubectl(&["label", "pod", "-n", "shop", "db", "app=db", "--overwrite"])
        .unwrap();
    world
        .lab
        .kubectl(&["label", "namespace", "other", "team=other", "--overwrite"])
        .unwrap();
    let found = ask(&world.shell("other/client"), &Ask::new(Protocol::Tcp, target, TCP).until_answered());
    assert!(answered(&found), "a namespace that got its label back is not let in");
    world.delete("shop", "by-pod");
    world.delete("shop", "by-namespace");
}

fn addresses_are_chosen_without_some(world: &World) {
    let client = world.addresses("shop/client");
    let (outside4, outside6) = (Machine::Outside.v4(), Machine::Outside.v6());
    let spec = format!(
        "{{ podSelector: {{ matchLabels: {{ app: web }} }}, policyTypes: [Ingress, Egress], ingress: [{{ from: [{{ ipBlock: {{ cidr: 10.0.0.0/8, except: [{}/32] }} }}, \
         {{ ipBlock: {{ cidr: \"::/0\", except: [\"{}/128\"] }} }}] }}], egress: [{{ to: [{{ ipBlock: {{ cidr: {outside4}/32 }} }}, {{ ipBlock: {{ cidr: \"{outside6}/128\" }} }}] }}] }}",
        client[0], client[1]
    );
    world.apply(&policy("shop", "by-address", &spec));
    let outside = |to: IpAddr| Question {
        from: "shop/web-1",
        to,
        protocol: Protocol::Tcp,
        port: 80,
        answer: true,
    };
    world.check(
        "by address",
        vec![
            world.all("shop/client", "shop/web-1", false),
            world.all("other/client", "shop/web-1", true),
            world.all("shop/db", "shop/web-2", true),
            world.all("shop/web-1", "shop/db", false),
            vec![outside(outside4.into()), outside(outside6.into())],
        ],
    );
    world.delete("shop", "by-address");
}

/// The port `http` is 8080 of one pod and 8081 of the other.
fn ports_are_chosen_by_number_range_and_name(world: &World) {
    let spec = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ ports: [{ port: http }, { port: 7001, endPort: 7020 }] }] }";
    world.apply(&policy("shop", "by-port", spec));
    let udp = |questions: Vec<Question<'static>>| questions.into_iter().filter(|q| q.protocol == Protocol::Udp).collect();
    world.check(
        "by port",
        vec![
            world.tcp("shop/client", "shop/web-1", TCP, true),
            world.tcp("other/client", "shop/web-2", 8081, true),
            world.tcp("shop/client", "shop/web-1", 7000, false),
            world.tcp("shop/client", "shop/web-1", 7010, true),
            udp(world.all("shop/client", "shop/web-1", false)),
        ],
    );
    world.delete("shop", "by-port");

    let spec = "{ podSelector: { matchLabels: { app: client } }, policyTypes: [Egress], egress: [{ to: [{ podSelector: { matchLabels: { app: web } } }], ports: [{ port: http }] }] }";
    world.apply(&policy("shop", "by-port", spec));
    world.check(
        "by port, of the destination",
        vec![
            world.tcp("shop/client", "shop/web-1", TCP, true),
            world.tcp("shop/client", "shop/web-2", 8081, true),
            world.tcp("shop/client", "shop/web-1", 7000, false),
            world.tcp("shop/client", "shop/db", TCP, false),
        ],
    );
    world.delete("shop", "by-port");
}

fn egress_is_judged_by_the_backend(world: &World) {
    let spec = "{ podSelector: { matchLabels: { app: client } }, policyTypes: [Egress], egress: [{ to: [{ podSelector: { matchLabels: { app: web } } }] }] }";
    world.apply(&policy("shop", "egress", spec));
    let service = |name: &str, answer| -> Vec<Question<'static>> {
        let addresses = world.field("shop", &format!("service/{name}"), "{.spec.clusterIPs[*]}");
        assert_eq!(addresses.len(), 2);
        let question = |to| Question {
            from: "shop/client",
            to,
            protocol: Protocol::Tcp,
            port: 80,
            answer,
        };
        // More than once, so that both backends are met.
        addresses.into_iter().flat_map(|to| [to; 4]).map(question).collect()
    };
    world.check(
        "through services",
        vec![
            service("web", true),
            service("db", false),
            world.all("shop/client", "shop/web-2", true),
            world.all("shop/client", "shop/db", false),
            world.all("other/client", "shop/client", true),
        ],
    );
    world.delete("shop", "egress");
}
