//! from and to: selectors, namespaces, ranges of addresses, both families.

use super::{check, policy};

fn from(peers: &str) -> String {
    policy("p", &format!("{{ podSelector: {{}}, ingress: [{{ from: {peers} }}] }}"))
}

fn to(peers: &str) -> String {
    policy(
        "p",
        &format!("{{ podSelector: {{}}, policyTypes: [Egress], egress: [{{ to: {peers} }}] }}"),
    )
}

#[test]
fn missing_and_empty_peers_are_everybody() {
    for peers in ["null", "[]"] {
        check(
            &from(peers),
            &["b/web > a/web 80", "198.51.100.1 > a/web 80", "node/node2 > a/web 80"],
            &[],
        );
        check(
            &to(peers),
            &["a/web > b/web 80", "a/web > 198.51.100.1 80", "a/web > node/node2 80"],
            &[],
        );
    }
}

#[test]
fn a_pod_selector_alone_is_about_the_own_namespace() {
    check(
        &from("[{ podSelector: { matchLabels: { app: web } } }]"),
        &["a/web > a/db 80"],
        &[
            "b/web > a/db 80",
            "a/db > a/web 80",
            "198.51.100.1 > a/db 80",
            "node/node1 > a/db 80",
            "a/host > a/db 80",
        ],
    );
    check(
        &to("[{ podSelector: { matchLabels: { app: db } } }]"),
        &["a/web > a/db 80", "a/web > 10.0.2.10 80"],
        &["a/web > b/db 80", "a/db > a/web 80", "a/web > 198.51.100.1 80"],
    );
    check(&from("[{ podSelector: {} }]"), &["a/web > a/db 80"], &["b/web > a/db 80"]);
}

#[test]
fn a_namespace_selector_alone_is_about_all_their_pods() {
    check(
        &from("[{ namespaceSelector: { matchLabels: { team: blue } } }]"),
        &["b/web > a/db 80", "b/db > a/db 80"],
        &["a/web > a/db 80", "c/plain > a/db 80", "198.51.100.1 > a/db 80"],
    );
    // Empty: pods of all namespaces, but nobody else.
    check(
        &from("[{ namespaceSelector: {} }]"),
        &["a/web > a/db 80", "b/web > a/db 80", "c/plain > a/db 80"],
        &["198.51.100.1 > a/db 80", "node/node1 > a/db 80", "a/host > a/db 80"],
    );
    check(
        &from("[{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: c } } }]"),
        &["c/plain > a/db 80"],
        &["b/web > a/db 80"],
    );
}

#[test]
fn both_selectors_in_one_peer_narrow_and_in_two_peers_widen() {
    check(
        &from("[{ namespaceSelector: { matchLabels: { team: blue } }, podSelector: { matchLabels: { app: web } } }]"),
        &["b/web > a/db 80"],
        &["b/db > a/db 80", "a/web > a/db 80"],
    );
    check(
        &from("[{ namespaceSelector: { matchLabels: { team: blue } } }, { podSelector: { matchLabels: { app: web } } }]"),
        &["b/web > a/db 80", "b/db > a/db 80", "a/web > a/db 80"],
        &["c/plain > a/db 80", "a/db > a/web 80"],
    );
}

#[test]
fn match_expressions() {
    let expression = |text: &str| {
        from(&format!(
            "[{{ namespaceSelector: {{}}, podSelector: {{ matchExpressions: [{text}] }} }}]"
        ))
    };
    check(
        &expression("{ key: app, operator: In, values: [web, other] }"),
        &["a/web > a/db 80", "b/web > a/db 80"],
        &["b/db > a/db 80", "c/plain > a/db 80"],
    );
    // A pod without the label is not in the set.
    check(
        &expression("{ key: app, operator: NotIn, values: [web] }"),
        &["b/db > a/db 80", "c/plain > a/db 80"],
        &["a/web > a/db 80"],
    );
    check(
        &expression("{ key: app, operator: Exists }"),
        &["a/web > a/db 80"],
        &["c/plain > a/db 80"],
    );
    check(
        &expression("{ key: app, operator: DoesNotExist }"),
        &["c/plain > a/db 80"],
        &["a/web > a/db 80"],
    );
    // All must hold.
    check(
        &expression("{ key: app, operator: Exists }, { key: tier, operator: DoesNotExist }"),
        &["b/web > a/db 80"],
        &["a/web > a/db 80", "c/plain > a/db 80"],
    );
    check(
        &from("[{ namespaceSelector: { matchExpressions: [{ key: team, operator: NotIn, values: [red] }] } }]"),
        &["b/web > a/db 80", "c/plain > a/db 80"],
        &["a/web > a/db 80"],
    );
    check(
        &policy(
            "p",
            "{ podSelector: { matchLabels: { app: web }, matchExpressions: [{ key: tier, operator: Exists }] } }",
        ),
        &["b/web > a/db 80"],
        &["b/web > a/web 80"],
    );
}

#[test]
fn ranges_are_about_addresses_whoever_has_them() {
    check(
        &from("[{ ipBlock: { cidr: 198.51.100.0/24, except: [198.51.100.64/26, 198.51.100.1/32] } }]"),
        &["198.51.100.2 > a/web 80", "198.51.100.128 > a/web 80"],
        &[
            "198.51.100.1 > a/web 80",
            "198.51.100.65 > a/web 80",
            "198.51.101.1 > a/web 80",
            "a/db > 10.0.1.10 80",
        ],
    );
    check(
        &from("[{ ipBlock: { cidr: 10.0.2.0/24 } }]"),
        &["10.0.2.11 > a/web 80", "10.0.2.10 > a/web 80"],
        &["10.0.1.12 > a/web 80"],
    );
    check(
        &to("[{ ipBlock: { cidr: 0.0.0.0/0, except: [10.0.0.0/8] } }]"),
        &["a/web > 198.51.100.1 443", "a/web > 192.0.2.2 22"],
        &["a/web > 10.0.2.10 80", "a/web > 2001:db8::99 443"],
    );
    // Host bits are allowed, and mean nothing.
    check(
        &from("[{ ipBlock: { cidr: 198.51.100.7/24 } }]"),
        &["198.51.100.200 > a/web 80"],
        &["198.51.101.1 > a/web 80"],
    );
}

#[test]
fn nodes_are_peers_by_their_addresses_alone() {
    check(
        &from("[{ ipBlock: { cidr: 192.0.2.2/32 } }]"),
        &["192.0.2.2 > a/web 80"],
        &["10.0.2.2 > a/web 80", "2001:db8::2 > a/web 80"],
    );
    check(
        &to("[{ ipBlock: { cidr: 192.0.2.1/32 } }]"),
        &["a/web > 192.0.2.1 80"],
        &["a/web > 192.0.2.2 80", "a/web > a/host 80"],
    );
    check(
        &to("[{ ipBlock: { cidr: 192.0.2.1/32 } }, { ipBlock: { cidr: '2001:db8::1/128' } }]"),
        &["a/web > a/host 80"],
        &[],
    );
    // Labels of a pod in the node's network mean nothing.
    check(&to("[{ podSelector: { matchLabels: { app: web } } }]"), &[], &["a/web > a/host 80"]);
}

#[test]
fn families_are_judged_apart() {
    let four = from("[{ ipBlock: { cidr: 10.0.2.0/24 } }]");
    check(&four, &["10.0.2.11 > a/web 80"], &["fd00:0:0:2::11 > a/web 80", "b/web > a/web 80"]);
    let verdict = super::ask(&super::cluster(&four), "b/web > a/web 80").unwrap();
    let states: Vec<(bool, String)> = verdict
        .flows
        .iter()
        .map(|flow| (flow.allowed, flow.from.addresses[0].to_string()))
        .collect();
    assert_eq!(states, [(true, "10.0.2.11".to_owned()), (false, "fd00:0:0:2::11".to_owned())]);
    check(
        &from("[{ ipBlock: { cidr: 10.0.2.0/24 } }, { ipBlock: { cidr: 'fd00:0:0:2::/64', except: ['fd00:0:0:2::10/128'] } }]"),
        &["b/web > a/web 80"],
        &["a/db > a/web 80", "fd00:0:0:2::10 > a/web 80"],
    );
    // What is judged alike is told once, with all addresses.
    let verdict = super::ask(&super::cluster(""), "b/web > a/web 80").unwrap();
    assert_eq!(verdict.flows.len(), 1);
    assert_eq!(verdict.flows[0].to.addresses.len(), 2);
    let unknown = super::ask(&super::cluster(""), "198.51.100.1 > fd00:0:0:1::10 80").unwrap_err();
    assert!(unknown.to_string().contains("no address of the same family"), "{unknown}");
}
