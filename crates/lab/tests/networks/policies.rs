//! Policies between neighbours: by the addresses of their network and by those of the cluster, whoever judges.

use std::net::IpAddr;
use std::thread;

use netloom_lab::echo::client::Attempt;

use crate::link::heard_by_gateway;
use crate::objects::{SUBNETS, TCP, UDP, namespace_on, network, pod_with, policy, service};
use crate::questions::{Answer, Line, World};
use netloom_lab_fixtures::ask::{Ask, Protocol, answered, ask, failed};
use netloom_lab_fixtures::world::{ended, wait_ready};

use Answer::{Itself, Nobody, Pods};

#[test]
fn policies_hold_between_neighbours() {
    let manifest = [
        network("red", SUBNETS),
        namespace_on("shop", "red"),
        namespace_on("other", "red"),
        pod_with("shop", "web-1", "node1", "app: web", ""),
        pod_with("shop", "web-2", "node2", "app: web", ""),
        pod_with("shop", "client", "node1", "app: client", ""),
        pod_with("shop", "db", "node2", "app: db", ""),
        pod_with("other", "client", "node2", "app: client", ""),
        service("shop", "web", "app: web", ""),
        service("shop", "db", "app: db", ""),
    ];
    let world = World::up("policies", &manifest.concat());
    a_denial_leaves_the_own_node(&world);
    neighbours_are_chosen_by_labels(&world);
    ports_are_chosen_by_name(&world);
    egress_is_judged_too(&world);
    a_new_pod_is_isolated_from_its_first_packet(&world);
    apps_and_security_groups_hold(&world);
    cluster_wide_denials_hold(&world);
    assert_eq!(ended(&world.lab), Vec::<String>::new(), "parts crashed");
}

/// A pod by its address in the network and by that in the cluster.
const WEB_1: (&str, &str) = ("link shop/web-1", "shop/web-1");
const WEB_2: (&str, &str) = ("link shop/web-2", "shop/web-2");
const DB: (&str, &str) = ("link shop/db", "shop/db");
const OTHER: (&str, &str) = ("link other/client", "other/client");

/// Asks every target by both of its addresses, and some more.
fn check(world: &World, what: &str, table: &[(&'static str, (&'static str, &'static str), Answer)], more: &[(&str, &str, Answer)]) {
    let by_both = |(from, (link, to), answer): &(&'static str, (&'static str, &'static str), Answer)| {
        [(*from, *link, *answer), (*from, *to, *answer)]
    };
    let mut lines: Vec<(&str, &str, Answer)> = table.iter().flat_map(by_both).collect();
    lines.extend(more);
    world.check(what, &lines);
}

fn a_denial_leaves_the_own_node(world: &World) {
    world.apply(&policy("shop", "deny", "{ podSelector: { matchLabels: { app: web } } }"));
    check(
        world,
        "a denial",
        &[
            ("shop/client", WEB_1, Nobody),
            ("shop/client", WEB_2, Nobody),
            ("other/client", WEB_2, Nobody),
            ("shop/web-1", WEB_2, Nobody),
            ("shop/web-1", DB, Itself),
            ("shop/client", DB, Itself),
        ],
        &[
            ("node1", "shop/web-1", Itself),
            ("node2", "shop/web-2", Itself),
            ("node2", "shop/web-1", Nobody),
            ("node3", "shop/web-1", Nobody),
            ("shop/client", "service shop/web", Nobody),
        ],
    );
    for to in ["shop/web-1", "shop/web-2"] {
        nothing_comes_by_the_gateway(world, "shop/client", to);
    }
    world.delete(&["networkpolicy", "-n", "shop", "deny"]);
    check(
        world,
        "without it",
        &[("shop/client", WEB_1, Itself), ("other/client", WEB_2, Itself)],
        &[],
    );
}

fn nothing_comes_by_the_gateway(world: &World, from: &str, to: &str) {
    let heard = heard_by_gateway(world, "red", from, to);
    assert_eq!(heard, [0, 0], "{to} hears what {from} sends by the gateway");
}

fn neighbours_are_chosen_by_labels(world: &World) {
    let by_pod = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }] }] }";
    world.apply(&policy("shop", "chosen", by_pod));
    check(
        world,
        "by the labels of pods",
        &[
            ("shop/client", WEB_1, Itself),
            ("shop/client", WEB_2, Itself),
            ("shop/db", WEB_1, Nobody),
            ("shop/db", WEB_2, Nobody),
            ("other/client", WEB_1, Nobody),
            ("other/client", WEB_2, Nobody),
        ],
        &[
            ("shop/client", "service shop/web", Pods(&["shop/web-1", "shop/web-2"])),
            ("shop/db", "service shop/web", Nobody),
        ],
    );
    let by_namespace =
        "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: other } } }] }] }";
    world.apply(&policy("shop", "chosen", by_namespace));
    check(
        world,
        "by the labels of namespaces",
        &[
            ("other/client", WEB_1, Itself),
            ("other/client", WEB_2, Itself),
            ("shop/client", WEB_1, Nobody),
            ("shop/client", WEB_2, Nobody),
        ],
        &[],
    );
    world.delete(&["networkpolicy", "-n", "shop", "chosen"]);
}

/// To one port of a pod over one protocol, by both addresses.
fn to_port(world: &World, from: &str, to: (&str, &str), protocol: Protocol, port: u16, answer: Answer) -> Vec<Line> {
    let mut lines = [world.lines(from, to.0, answer), world.lines(from, to.1, answer)].concat();
    lines.retain(|line| line.protocol == protocol);
    lines.iter_mut().for_each(|line| line.port = port);
    assert_eq!(lines.len(), 4);
    lines
}

fn ports_are_chosen_by_name(world: &World) {
    use Protocol::{Tcp, Udp};
    let spec = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ namespaceSelector: {} }], ports: [{ port: http }] }] }";
    world.apply(&policy("shop", "port", spec));
    let lines = [
        to_port(world, "shop/client", WEB_1, Tcp, TCP, Itself),
        to_port(world, "other/client", WEB_1, Tcp, TCP, Itself),
        to_port(world, "shop/client", WEB_1, Tcp, 7000, Nobody),
        to_port(world, "other/client", WEB_2, Tcp, 7000, Nobody),
        to_port(world, "shop/client", WEB_1, Udp, UDP, Nobody),
    ];
    world.check_lines("by the name of a port", &lines.concat());
    world.delete(&["networkpolicy", "-n", "shop", "port"]);

    let spec = "{ podSelector: { matchLabels: { app: client } }, policyTypes: [Egress], egress: [{ to: [{ podSelector: { matchLabels: { app: web } } }], ports: [{ port: http }] }] }";
    world.apply(&policy("shop", "port", spec));
    let lines = [
        to_port(world, "shop/client", WEB_1, Tcp, TCP, Itself),
        to_port(world, "shop/client", WEB_2, Tcp, TCP, Itself),
        to_port(world, "shop/client", WEB_1, Tcp, 7000, Nobody),
        to_port(world, "shop/client", DB, Tcp, TCP, Nobody),
    ];
    world.check_lines("by the name of a port there", &lines.concat());
    world.delete(&["networkpolicy", "-n", "shop", "port"]);
}

fn egress_is_judged_too(world: &World) {
    let spec = "{ podSelector: { matchLabels: { app: client } }, policyTypes: [Egress], egress: [{ to: [{ podSelector: { matchLabels: { app: web } } }] }] }";
    world.apply(&policy("shop", "egress", spec));
    check(
        world,
        "egress",
        &[
            ("shop/client", WEB_1, Itself),
            ("shop/client", WEB_2, Itself),
            ("shop/client", DB, Nobody),
            ("shop/client", OTHER, Nobody),
            ("other/client", DB, Itself),
        ],
        &[
            ("shop/client", "service shop/web", Pods(&["shop/web-1", "shop/web-2"])),
            ("shop/client", "service shop/db", Nobody),
        ],
    );
    nothing_comes_by_the_gateway(world, "shop/client", "shop/db");
    world.delete(&["networkpolicy", "-n", "shop", "egress"]);
}

/// Neighbours on both nodes try without pause from before its birth; its addresses are given so that they are known before.
fn a_new_pod_is_isolated_from_its_first_packet(world: &World) {
    world.apply(&policy("shop", "late", "{ podSelector: { matchLabels: { app: late } } }"));
    let addresses: [IpAddr; 2] = ["192.168.10.200".parse().unwrap(), "fd01:10::200".parse().unwrap()];
    let born = "/tmp/born";
    let tries: Vec<(&str, IpAddr)> = ["shop/client", "shop/web-2"]
        .into_iter()
        .flat_map(|from| addresses.map(|to| (from, to)))
        .collect();
    let attempts: Vec<Vec<Attempt>> = thread::scope(|scope| {
        let flood = |(from, to): (&'static str, IpAddr)| {
            let flood = Ask::new(Protocol::Udp, to, UDP).timeout_ms(20).until_file(born);
            scope.spawn(move || ask(&world.shell(from), &flood))
        };
        let trying: Vec<_> = tries.iter().copied().map(flood).collect();
        let asked = "netloom.io/network-addresses: \"192.168.10.200,fd01:10::200\"";
        world.lab.apply(&pod_with("shop", "late", "node1", "app: late", asked)).unwrap();
        wait_ready(&world.lab);
        for to in addresses {
            let living = ask(
                &world.shell("shop/client"),
                &Ask::new(Protocol::Udp, to, UDP).count(3).timeout_ms(300),
            );
            assert_eq!(failed(&living).len(), 3, "it lives, and is reached");
        }
        for node in ["node1", "node2"] {
            world.shell(node).run(&["touch", born]).unwrap();
        }
        trying.into_iter().map(|trying| trying.join().unwrap()).collect()
    });
    for ((from, to), attempts) in tries.iter().zip(&attempts) {
        assert!(attempts.len() > 20, "{from} tried {to} {} times", attempts.len());
        let passed: Vec<_> = attempts.iter().filter(|attempt| attempt.outcome == "ok").collect();
        assert_eq!(passed, Vec::<&Attempt>::new(), "packets from {from} to {to} passed");
    }
    world.delete(&["networkpolicy", "-n", "shop", "late"]);
    for (from, to) in tries {
        let open = ask(&world.shell(from), &Ask::new(Protocol::Udp, to, UDP).until_answered());
        assert!(
            answered(&open) && open.last().unwrap().pod == "late",
            "without the policy {from} reaches {to}: {open:?}"
        );
    }
    world.kubectl(&["delete", "pod", "-n", "shop", "late"]);
}

fn apps_and_security_groups_hold(world: &World) {
    use Protocol::{Tcp, Udp};
    const ONE: (&str, &str) = ("link shop/app-1", "shop/app-1");
    const TWO: (&str, &str) = ("link shop/app-2", "shop/app-2");
    const GUARDED: (&str, &str) = ("link shop/guarded", "shop/guarded");
    const GUEST: (&str, &str) = ("link other/guest", "other/guest");
    let groups = "apiVersion: netloom.io/v1alpha1\nkind: SecurityGroup\nmetadata: { name: web, namespace: shop }\nspec:\n  rules:\n    \
         - { direction: Ingress, protocol: TCP, port: 8080, remote: { group: { name: guests, namespace: other } } }\n---\n\
         apiVersion: netloom.io/v1alpha1\nkind: SecurityGroup\nmetadata: { name: guests, namespace: other }\nspec: { rules: [{ direction: Egress, remote: { group: { name: web, namespace: shop } } }] }\n---\n";
    let manifest = [
        groups.to_owned(),
        pod_with("shop", "app-1", "node1", "netloom.io/app: billing", ""),
        pod_with("shop", "app-2", "node2", "netloom.io/app: billing", ""),
        pod_with("shop", "guarded", "node1", "", "netloom.io/security-groups: web"),
        pod_with("other", "guest", "node2", "", "netloom.io/security-groups: guests"),
    ];
    world.lab.apply(&manifest.concat()).unwrap();
    world.wait_row("ACL", "security-group/shop/web/ingress/0/4/tcp");
    world.wait_row("ACL", "security-group/other/guests/egress/0/4");
    wait_ready(&world.lab);
    world.sync();
    check(
        world,
        "an app",
        &[
            ("shop/app-1", TWO, Itself),
            ("shop/app-2", ONE, Itself),
            ("shop/client", ONE, Nobody),
            ("shop/client", TWO, Nobody),
            ("other/client", ONE, Nobody),
            ("shop/app-1", DB, Itself),
        ],
        &[("node1", "shop/app-1", Itself)],
    );
    nothing_comes_by_the_gateway(world, "shop/client", "shop/app-2");
    let lines = [
        to_port(world, "other/guest", GUARDED, Tcp, TCP, Itself),
        to_port(world, "other/guest", GUARDED, Tcp, 7000, Nobody),
        to_port(world, "other/guest", GUARDED, Udp, UDP, Nobody),
        to_port(world, "other/guest", DB, Tcp, TCP, Nobody),
        to_port(world, "other/client", GUARDED, Tcp, TCP, Nobody),
        to_port(world, "shop/client", GUARDED, Tcp, TCP, Nobody),
        to_port(world, "shop/guarded", DB, Tcp, TCP, Nobody),
        to_port(world, "shop/client", GUEST, Tcp, TCP, Nobody),
        world.lines("node1", "shop/guarded", Itself),
    ];
    world.check_lines("security groups", &lines.concat());
    world.kubectl(&["delete", "pod", "-n", "shop", "app-1", "app-2", "guarded"]);
    world.kubectl(&["delete", "pod", "-n", "other", "guest"]);
}

/// What is denied cluster-wide, towards a neighbour and from one.
fn cluster_wide_denials_hold(world: &World) {
    let pods = |namespace: &str, app: &str| {
        format!(
            "{{ pods: {{ namespaceSelector: {{ matchLabels: {{ team: {namespace} }} }}, podSelector: {{ matchLabels: {{ app: {app} }} }} }} }}"
        )
    };
    let judge = |name: &str, subject: String, rules: String| {
        let manifest = format!(
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {{ name: {name} }}\nspec: {{ tier: Admin, priority: 10, subject: {subject}, {rules} }}\n"
        );
        world.lab.apply(&manifest).unwrap();
        world.kubectl(&[
            "wait",
            &format!("clusternetworkpolicy/{name}"),
            "--for=condition=Accepted",
            "--timeout=30s",
        ]);
    };
    judge(
        "in",
        pods("shop", "web"),
        format!("ingress: [{{ action: Deny, from: [{}] }}]", pods("other", "client")),
    );
    judge(
        "out",
        pods("shop", "client"),
        format!("egress: [{{ action: Deny, to: [{}] }}]", pods("shop", "db")),
    );
    world.sync();
    check(
        world,
        "cluster-wide denials",
        &[
            ("other/client", WEB_1, Nobody),
            ("other/client", WEB_2, Nobody),
            ("shop/client", WEB_1, Itself),
            ("shop/client", WEB_2, Itself),
            ("shop/client", DB, Nobody),
            ("other/client", DB, Itself),
            ("shop/client", OTHER, Itself),
        ],
        &[
            ("shop/client", "service shop/db", Nobody),
            ("other/client", "service shop/web", Nobody),
        ],
    );
    nothing_comes_by_the_gateway(world, "shop/client", "shop/db");
    nothing_comes_by_the_gateway(world, "other/client", "shop/web-1");
}
