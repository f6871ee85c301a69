//! Cluster-wide policies with real packets: what each tier decides before and after network policies, in both directions, between pods of
//! two nodes, in both families, over TCP and UDP. Runs on the userspace datapath here and on the kernel's in `make test-kernel`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod judges;

use std::net::IpAddr;

use judges::Judges;
use netloom_lab::Machine;
use netloom_lab_fixtures::ask::Protocol;
use netloom_lab_fixtures::policies::{Question, TCP, are_cut_but_for_the_allowed, policy};
use netloom_lab_fixtures::world::{ended, host_pod, wait_ready};

const WEB: &str = "{ pods: { namespaceSelector: { matchLabels: { team: shop } }, podSelector: { matchLabels: { app: web } } } }";
const CLIENTS: &str = "{ pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: client } } } }";
const SHOP: &str = "{ namespaces: { matchLabels: { team: shop } } }";
const OTHER: &str = "{ namespaces: { matchLabels: { team: other } } }";
const ALL: &str = "{ namespaces: {} }";

#[test]
fn cluster_policies_come_before_and_after_network_policies() {
    let judges = Judges::up();
    judges
        .world
        .lab
        .apply(&(host_pod("host-1", "node1") + &host_pod("host-2", "node2")))
        .unwrap();
    judges.world.lab.kubectl(&["label", "node", "node1", "zone=a"]).unwrap();
    wait_ready(&judges.world.lab);
    an_admin_overrides_network_policies(&judges);
    passing_on_leaves_it_to_the_next_tier(&judges);
    the_first_rule_that_matches_counts(&judges);
    a_baseline_is_overridden(&judges);
    a_denial_cuts_connections_that_last(&judges);
    egress_knows_nodes_networks_and_backends(&judges);
    the_older_kinds_do_the_same(&judges);
    assert_eq!(ended(&judges.world.lab), Vec::<String>::new(), "parts crashed");
}

/// In the tier before network policies as in that after them.
fn a_denial_cuts_connections_that_last(judges: &Judges) {
    let rules = format!("ingress: [{{ action: Accept, from: [{SHOP}] }}, {{ action: Deny, from: [{ALL}] }}]");
    for tier in ["Admin", "Baseline"] {
        are_cut_but_for_the_allowed(&judges.world, || judges.cluster("tighter", tier, 10, WEB, &rules));
        judges.forget_cluster(&["tighter"]);
    }
}

/// Accept over a denial, Deny over a permission; the own node is never shut out.
fn an_admin_overrides_network_policies(judges: &Judges) {
    let world = &judges.world;
    world.apply(&policy("shop", "deny", "{ podSelector: { matchLabels: { app: web } } }"));
    let rules = format!("ingress: [{{ action: Accept, from: [{OTHER}] }}]");
    judges.cluster("accept", "Admin", 10, WEB, &rules);
    world.check(
        "accepted although denied",
        vec![
            world.all("other/client", "shop/web-1", true),
            world.all("other/client", "shop/web-2", true),
            world.all("shop/client", "shop/web-1", false),
            world.all("shop/web-1", "other/client", true),
        ],
    );
    judges.forget_cluster(&["accept"]);
    world.apply(&policy(
        "shop",
        "deny",
        "{ podSelector: { matchLabels: { app: web } }, ingress: [{}] }",
    ));
    judges.cluster("deny", "Admin", 10, WEB, &format!("ingress: [{{ action: Deny, from: [{ALL}] }}]"));
    world.check(
        "denied although allowed",
        vec![
            world.all("other/client", "shop/web-1", false),
            world.all("shop/client", "shop/web-2", false),
            world.all("shop/client", "shop/db", true),
            world.all("shop/web-1", "shop/db", true),
            world.all("node1", "shop/web-1", true),
            world.all("node2", "shop/web-1", true), // no pod
        ],
    );
    judges.forget_cluster(&["deny"]);
    world.delete("shop", "deny");
    world.check("nothing is left", vec![world.all("other/client", "shop/web-1", true)]);
}

/// Also when nobody comes after it: the connection is followed, so its replies come back although the other direction is denied.
fn passing_on_leaves_it_to_the_next_tier(judges: &Judges) {
    let world = &judges.world;
    let spec = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }] }] }";
    world.apply(&policy("shop", "clients", spec));
    let pass = format!("ingress: [{{ action: Pass, from: [{SHOP}] }}]");
    judges.cluster("pass", "Admin", 5, SHOP, &pass);
    let deny = format!("ingress: [{{ action: Deny, from: [{ALL}] }}], egress: [{{ action: Deny, to: [{ALL}] }}]");
    judges.cluster("deny", "Admin", 10, SHOP, &deny);
    judges.cluster("client", "Admin", 0, CLIENTS, &format!("egress: [{{ action: Pass, to: [{ALL}] }}]"));
    world.check(
        "passed on",
        vec![
            world.all("shop/client", "shop/web-1", true),
            world.all("shop/client", "shop/web-2", true),
            world.all("shop/client", "shop/db", true),
            world.all("shop/db", "shop/client", false),
            world.all("shop/web-1", "shop/db", false),
            world.all("other/client", "shop/web-1", false),
            world.all("other/client", "shop/db", false),
            world.all("shop/client", "other/client", true),
        ],
    );
    judges.forget_cluster(&["client", "pass", "deny"]);
    world.delete("shop", "clients");
}

fn the_first_rule_that_matches_counts(judges: &Judges) {
    let world = &judges.world;
    let port = |number: &str| format!("protocols: [{{ tcp: {{ destinationPort: {number} }} }}]");
    let rules = format!(
        "ingress: [{{ action: Deny, from: [{ALL}], {} }}, {{ action: Accept, from: [{ALL}], {} }}, {{ action: Deny, from: [{ALL}], {} }}]",
        port("{ number: 7000 }"),
        port("{ range: { start: 7000, end: 7020 } }"),
        port("{ range: { start: 1, end: 65535 } }")
    );
    judges.cluster("second", "Admin", 2, SHOP, &rules);
    world.check(
        "within a policy",
        vec![
            world.tcp("shop/client", "shop/db", 7000, false),
            world.tcp("shop/client", "shop/db", 7010, true),
            world.tcp("shop/client", "shop/db", TCP, false),
        ],
    );
    let named = format!("ingress: [{{ action: Accept, from: [{CLIENTS}], protocols: [{{ destinationNamedPort: http }}] }}]");
    judges.cluster("first", "Admin", 1, SHOP, &named);
    judges.cluster("third", "Admin", 3, SHOP, &format!("ingress: [{{ action: Deny, from: [{ALL}] }}]"));
    let udp = |questions: Vec<Question<'static>>| questions.into_iter().filter(|q| q.protocol == Protocol::Udp).collect();
    world.check(
        "between policies",
        vec![
            world.tcp("shop/client", "shop/web-1", TCP, true),
            world.tcp("other/client", "shop/web-2", 8081, true),
            world.tcp("shop/db", "shop/web-1", TCP, false),
            world.tcp("shop/client", "shop/web-1", 7000, false),
            world.tcp("shop/client", "shop/web-1", 7010, true),
            udp(world.all("shop/client", "shop/web-1", false)),
        ],
    );
    judges.forget_cluster(&["first", "second", "third"]);
}

fn a_baseline_is_overridden(judges: &Judges) {
    let world = &judges.world;
    let rules = format!("ingress: [{{ action: Accept, from: [{OTHER}] }}, {{ action: Deny, from: [{ALL}] }}]");
    judges.cluster("baseline", "Baseline", 0, SHOP, &rules);
    let spec = "{ podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }] }] }";
    world.apply(&policy("shop", "clients", spec));
    world.check(
        "a baseline",
        vec![
            world.all("shop/client", "shop/web-1", true),
            world.all("shop/client", "shop/db", false),
            world.all("other/client", "shop/db", true),
            world.all("other/client", "shop/web-1", false), // by the network policy
            world.all("shop/web-1", "other/client", true),
            world.all("node2", "shop/db", true),
        ],
    );
    world.delete("shop", "clients");
    // A policy before it that passes on what it denies opens it.
    judges.cluster("baseline", "Baseline", 1, SHOP, &rules);
    judges.cluster(
        "before",
        "Baseline",
        0,
        WEB,
        &format!("ingress: [{{ action: Pass, from: [{CLIENTS}] }}]"),
    );
    world.check(
        "without the network policy",
        vec![
            world.all("shop/client", "shop/web-1", true),
            world.all("shop/db", "shop/web-1", false),
            world.all("other/client", "shop/web-2", true),
        ],
    );
    judges.forget_cluster(&["baseline", "before"]);
}

fn egress_knows_nodes_networks_and_backends(judges: &Judges) {
    let world = &judges.world;
    let (outside4, outside6) = (Machine::Outside.v4(), Machine::Outside.v6());
    let rules = format!(
        "egress: [{{ action: Accept, to: [{{ nodes: {{ matchLabels: {{ zone: a }} }} }}, {{ networks: [\"{outside4}/32\", \"{outside6}/128\"] }}] }}, \
         {{ action: Pass, to: [{WEB}] }}, {{ action: Deny, to: [{{ nodes: {{}} }}, {{ networks: [0.0.0.0/0, \"::/0\"] }}] }}]"
    );
    judges.cluster("egress", "Admin", 100, CLIENTS, &rules);
    let questions = |from: &'static str, addresses: Vec<IpAddr>, port: u16, answer: bool| -> Vec<Question<'static>> {
        assert_eq!(addresses.len(), 2);
        let question = |to| Question {
            from,
            to,
            protocol: Protocol::Tcp,
            port,
            answer,
        };
        addresses.into_iter().map(question).collect()
    };
    let node = |name: &str| {
        world.field(
            "default",
            &format!("node/{name}"),
            "{.status.addresses[?(@.type==\"InternalIP\")].address}",
        )
    };
    let service = |name: &str| world.field("shop", &format!("service/{name}"), "{.spec.clusterIPs[*]}");
    let outside = || vec![outside4.into(), outside6.into()];
    world.check(
        "egress",
        vec![
            questions("shop/client", node("node1"), TCP, true),
            questions("shop/client", node("node2"), TCP, false),
            questions("other/client", node("node1"), TCP, true),
            questions("shop/db", node("node2"), TCP, true),
            questions("shop/client", outside(), 80, true),
            questions("shop/client", service("web"), 80, true),
            questions("shop/client", service("db"), 80, false),
            world.all("shop/client", "shop/web-2", true),
            world.all("shop/client", "shop/db", false),
            world.all("shop/db", "shop/client", true), // replies are no egress
        ],
    );
    world.lab.kubectl(&["label", "node", "node2", "zone=a"]).unwrap();
    judges.settle();
    world.check("a node's label", vec![questions("shop/client", node("node2"), TCP, true)]);
    judges.forget_cluster(&["egress"]);
    world.check("egress is open again", vec![world.all("shop/client", "shop/db", true)]);
}

fn the_older_kinds_do_the_same(judges: &Judges) {
    let world = &judges.world;
    let baseline = format!("{{ subject: {SHOP}, ingress: [{{ action: Deny, from: [{ALL}] }}] }}");
    judges.older("BaselineAdminNetworkPolicy", "default", &baseline);
    let admin = format!(
        "{{ priority: 1, subject: {WEB}, ingress: [{{ action: Allow, from: [{CLIENTS}], ports: [{{ namedPort: http }}, {{ portRange: {{ protocol: TCP, start: 7005, end: 7010 }} }}] }}] }}"
    );
    judges.older("AdminNetworkPolicy", "http", &admin);
    world.apply(&policy(
        "shop",
        "db",
        "{ podSelector: { matchLabels: { app: db } }, ingress: [{}] }",
    ));
    world.check(
        "the older kinds",
        vec![
            world.tcp("shop/client", "shop/web-1", TCP, true),
            world.tcp("other/client", "shop/web-2", 8081, true),
            world.tcp("other/client", "shop/web-1", 7010, true),
            world.tcp("shop/client", "shop/web-1", 7000, false),
            world.tcp("shop/db", "shop/web-1", TCP, false),
            world.all("other/client", "shop/db", true),
            world.all("other/client", "shop/client", false),
            world.all("shop/client", "other/client", true),
        ],
    );
}
