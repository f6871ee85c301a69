//! Mistakes in policies of the whole cluster: an Accept with one matches nothing, any other rule with one denies everything at its place.

use super::{answers, ask, cluster, cluster_policy, told};

const ALL: &str = "from: [{ namespaces: {} }]";

/// A rule with a mistake at port 80 would have let `b` in (Accept, Pass) or kept it out (Deny); a good one after it accepts port 7.
#[track_caller]
fn closes(rest: &str, message: &str) {
    let policy = |action: &str, rest: &str| {
        cluster_policy(
            "p",
            "Admin",
            5,
            &format!(
                "ingress: [{{ action: Accept, {ALL}, protocols: [{{ tcp: {{ destinationPort: {{ number: 6 }} }} }}] }}, {{ action: {action}, {rest} }}, \
                 {{ action: Accept, {ALL}, protocols: [{{ tcp: {{ destinationPort: {{ number: 7 }} }} }}] }}, {{ action: Deny, {ALL} }}]"
            ),
        )
    };
    let accept = cluster(&policy("Accept", rest));
    answers(&accept, &["b/web > a/web 6", "b/web > a/web 7"], &["b/web > a/web 80"]);
    assert_eq!(told(&accept), [format!("InvalidPolicy ClusterNetworkPolicy p: {message}")]);
    for action in ["Deny", "Pass", "Allow"] {
        let denies = cluster(&policy(action, rest));
        answers(
            &denies,
            &["b/web > a/web 6", "b/web > b/db 80"],
            &["b/web > a/web 7", "b/web > a/web 80", "198.51.100.1 > a/web 80"],
        );
        assert!(!ask(&denies, "b/web > a/web 80").unwrap().problems.is_empty());
    }
}

#[test]
fn peers() {
    let none = "names no peer; give at least one";
    closes("protocols: [{ destinationNamedPort: http }]", &format!("ingress[1].from: {none}"));
    closes("from: []", &format!("ingress[1].from: {none}"));
    let one = "has to have exactly one of namespaces, pods";
    closes("from: [{ namespaces: {} }, {}]", &format!("ingress[1].from[1]: {one}"));
    closes(
        "from: [{ namespaces: {}, pods: { podSelector: {} } }]",
        &format!("ingress[1].from[0]: {one}"),
    );
    // A peer this version does not know looks like one without fields once the API server dropped it.
    closes(
        "from: [{ services: {} }]",
        "ingress[1].from[0]: there is no field \"services\" here; correct its name or remove it",
    );
    closes(
        "from: [{ networks: [10.0.0.0/8] }]",
        "ingress[1].from[0]: there is no field \"networks\" here; correct its name or remove it",
    );
    closes(
        "from: [{ pods: { namespaceSelector: {} } }]",
        "ingress[1].from[0].pods.podSelector: is missing; write {} to select all",
    );
    closes(
        "from: [{ namespaces: { matchExpressions: [{ key: x, operator: Like }] } }]",
        "ingress[1].from[0].namespaces: \"Like\" of \"x\" is no operator; use In, NotIn, Exists or DoesNotExist",
    );
    closes(
        "from: [{ namespaces: { matchLabel: { a: b } } }]",
        "ingress[1].from[0].namespaces: there is no field \"matchLabel\" here; correct its name or remove it",
    );
}

#[test]
fn ports() {
    let rest = |protocols: &str| format!("{ALL}, protocols: [{protocols}]");
    for (protocols, message) in [
        (
            "{ tcp: { destinationPort: { number: 0 } } }",
            "port 0 is out of range; use 1 to 65535",
        ),
        (
            "{ tcp: { destinationPort: { number: 70000 } } }",
            "port 70000 is out of range; use 1 to 65535",
        ),
        (
            "{ tcp: { destinationPort: { range: { start: 80, end: 80 } } } }",
            "end 80 of the range is not above its start 80",
        ),
        (
            "{ tcp: { destinationPort: { range: { start: 80 } } } }",
            "the number of a port is missing; use 1 to 65535",
        ),
        ("{ tcp: { destinationPort: { } } }", "has to have exactly one of number, range"),
        ("{ tcp: { } }", "has to have exactly one of destinationPort"),
        (
            "{ tcp: { sourcePort: { number: 80 } } }",
            "has to have exactly one of destinationPort",
        ),
        ("{ icmp: { } }", "has to have exactly one of tcp, udp, sctp, destinationNamedPort"),
        ("{ }", "has to have exactly one of tcp, udp, sctp, destinationNamedPort"),
        ("{ destinationNamedPort: '' }", "the name of the port is missing"),
    ] {
        closes(&rest(protocols), &format!("ingress[1].protocols[0]: {message}"));
    }
    closes(&rest(""), "ingress[1].protocols: is empty; leave it out for all ports");
}

#[test]
fn egress_peers() {
    let read = |action: &str, to: &str, rest: &str| {
        cluster(&cluster_policy(
            "p",
            "Admin",
            5,
            &format!("egress: [{{ action: {action}, to: [{to}]{rest} }}, {{ action: Deny, to: [{{ networks: [198.51.100.0/24] }}] }}]"),
        ))
    };
    for (to, rest, message) in [
        (
            "{ domainNames: [example.com] }",
            "",
            "egress[0].to[0].domainNames: is not supported; use networks",
        ),
        (
            "{ networks: [] }",
            "",
            "egress[0].to[0].networks: names no range; give at least one",
        ),
        (
            "{ networks: [ten] }",
            "",
            "egress[0].to[0].networks[0]: \"ten\" is no range of addresses; write for example 192.0.2.0/24 or 2001:db8::/64",
        ),
        (
            "{ networks: [198.51.100.0/24] }",
            ", protocols: [{ destinationNamedPort: http }]",
            "egress[0]: names a port, but networks and nodes have no names for ports; make two rules of it",
        ),
        (
            "{ nodes: { matchExpressions: [{ key: x, operator: In }] } }",
            "",
            "egress[0].to[0].nodes: In of \"x\" has no values; give at least one",
        ),
    ] {
        let accept = read("Accept", to, rest);
        answers(&accept, &["a/web > b/web 80"], &["a/web > 198.51.100.1 443"]);
        assert_eq!(told(&accept), [format!("InvalidPolicy ClusterNetworkPolicy p: {message}")]);
        for action in ["Deny", "Pass"] {
            answers(
                &read(action, to, rest),
                &["b/web > a/web 80"],
                &["a/web > b/web 80", "a/web > 198.51.100.1 443"],
            );
        }
    }
}

#[test]
fn actions() {
    let kinds = [
        (
            "ClusterNetworkPolicy",
            "tier: Admin, priority: 5, ",
            "Allow",
            "Accept, Deny or Pass",
        ),
        ("AdminNetworkPolicy", "priority: 5, ", "Accept", "Allow, Deny or Pass"),
        ("BaselineAdminNetworkPolicy", "", "Pass", "Allow or Deny"),
    ];
    for (kind, head, action, actions) in kinds {
        let read = cluster(&format!(
            "---\nkind: {kind}\nmetadata: {{ name: p }}\nspec: {{ {head}subject: {{ namespaces: {{}} }}, ingress: [{{ action: {action}, {ALL} }}] }}\n"
        ));
        answers(
            &read,
            &["a/web > 198.51.100.1 80"],
            &["b/web > a/web 80", "198.51.100.1 > a/web 80"],
        );
        assert_eq!(
            told(&read),
            [format!(
                "InvalidPolicy {kind} p: ingress[0].action: use {actions}; until then it denies everything"
            )]
        );
    }
}

#[test]
fn subjects_select_more_and_their_rules_open_nothing() {
    let read = |subject: &str, action: &str| {
        cluster(&format!(
            "---\nkind: AdminNetworkPolicy\nmetadata: {{ name: p }}\nspec: {{ priority: 5, {subject} ingress: [{{ action: {action}, {ALL} }}, {{ action: Deny, {ALL} }}] }}\n"
        ))
    };
    let both = "give either namespaces or pods; until then it is about all pods";
    for (subject, message) in [
        ("", format!("subject: {both}")),
        ("subject: {},", format!("subject: {both}")),
        (
            "subject: { namespaces: {}, pods: { namespaceSelector: {}, podSelector: {} } },",
            format!("subject: {both}"),
        ),
        (
            "subject: { pods: { podSelector: {} } },",
            "subject.pods.namespaceSelector: is missing; write {} to select all".to_owned(),
        ),
    ] {
        for action in ["Allow", "Deny", "Pass"] {
            let read = read(subject, action);
            answers(
                &read,
                &["node/node1 > a/web 80"],
                &["b/web > a/web 80", "a/web > b/web 80", "b/web > c/plain 80"],
            );
            assert_eq!(told(&read), [format!("InvalidPolicy AdminNetworkPolicy p: {message}")]);
        }
    }
    let part = "subject: { namespaces: { matchLabels: { team: red }, matchExpressions: [{ key: x, operator: Like }] } },";
    answers(&read(part, "Allow"), &["a/web > b/web 80"], &["b/web > a/web 80"]);
}

#[test]
fn a_tier_or_priority_that_cannot_be_read_accepts_nothing_and_comes_first() {
    let open = cluster_policy("open", "Admin", 0, &format!("ingress: [{{ action: Accept, {ALL} }}]"));
    for head in [
        "tier: Middle, priority: 5",
        "priority: 5",
        "tier: Admin, priority: 1001",
        "tier: Admin, priority: -1",
        "tier: Admin",
    ] {
        for action in ["Accept", "Deny", "Pass"] {
            let bad = format!(
                "---\nkind: ClusterNetworkPolicy\nmetadata: {{ name: bad }}\nspec: {{ {head}, subject: {{ namespaces: {{}} }}, ingress: [{{ action: {action}, {ALL} }}] }}\n"
            );
            let read = cluster(&(open.clone() + &bad));
            assert_eq!(read.problems().len(), 1, "{head}");
            let verdict = ask(&cluster(&bad), "b/web > c/plain 80").unwrap();
            assert_eq!(verdict.allowed, action == "Accept", "{head} {action}");
            answers(&read, &["node/node1 > a/web 80"], &[]);
        }
    }
}

#[test]
fn more_changes_of_the_action_than_there_is_room_for() {
    let rule = |number: usize, action: &str| {
        format!("{{ action: {action}, {ALL}, ports: [{{ portNumber: {{ protocol: TCP, port: {number} }} }}] }}")
    };
    let policy = |count: usize| {
        let rules: Vec<String> = (1..=count)
            .map(|number| rule(number, if number % 2 == 0 { "Deny" } else { "Allow" }))
            .collect();
        format!(
            "---\nkind: AdminNetworkPolicy\nmetadata: {{ name: p }}\nspec: {{ priority: 5, subject: {{ namespaces: {{}} }}, ingress: [{}] }}\n",
            rules.join(", ")
        )
    };
    let fits = cluster(&policy(32));
    answers(&fits, &["b/web > a/web 31", "b/web > a/web 33"], &["b/web > a/web 32"]);
    assert_eq!(told(&fits), Vec::<String>::new());
    let read = cluster(&policy(34));
    answers(
        &read,
        &["b/web > a/web 31"],
        &[
            "b/web > a/web 32",
            "b/web > a/web 33",
            "b/web > a/web 100",
            "198.51.100.1 > a/web 80",
        ],
    );
    assert_eq!(
        told(&read),
        [
            "InvalidPolicy AdminNetworkPolicy p: ingress[31]: the action changes more than 31 times, so from here on everything is denied; put rules \
          with the same action together, or make two policies"
        ]
    );
    // Rules with the same action next to each other take one place, however many they are.
    let many: Vec<String> = (1..=100).map(|number| rule(number, "Deny")).collect();
    let many = format!(
        "---\nkind: AdminNetworkPolicy\nmetadata: {{ name: p }}\nspec: {{ priority: 5, subject: {{ namespaces: {{}} }}, ingress: [{}] }}\n",
        many.join(", ")
    );
    answers(&cluster(&many), &["b/web > a/web 101"], &["b/web > a/web 100"]);
}
