//! podSelector, policyTypes, what adds up, and what policies never stop.

use super::{answers, check, cluster, policy};

#[test]
fn without_policies_all_is_allowed() {
    check("", &["a/web > a/db 80", "192.0.2.99 > a/web 80", "a/web > 198.51.100.1 443"], &[]);
}

#[test]
fn an_empty_pod_selector_selects_all_pods_of_its_namespace_alone() {
    check(
        &policy("deny", "{ podSelector: {} }"),
        &["a/web > b/web 80", "b/web > b/db 80"],
        &["b/web > a/web 80", "a/db > a/web 80", "a/web > a/db 80", "198.51.100.1 > a/db 80"],
    );
    // A selector that is left out is empty.
    check(&policy("deny", "{}"), &["a/web > b/web 80"], &["b/web > a/web 80"]);
    check(
        "---\nkind: NetworkPolicy\nmetadata: { name: deny, namespace: a }\n",
        &[],
        &["b/web > a/web 80"],
    );
}

#[test]
fn only_selected_pods_are_isolated() {
    check(
        &policy("deny", "{ podSelector: { matchLabels: { app: db } } }"),
        &["b/web > a/web 80"],
        &["b/web > a/db 80"],
    );
    check(
        &policy("deny", "{ podSelector: { matchLabels: { app: web, tier: back } } }"),
        &["b/web > a/web 80", "b/web > a/db 80"],
        &[],
    );
}

#[test]
fn policy_types_default_to_ingress_and_to_egress_where_it_has_rules() {
    // No types, no rules: ingress alone.
    check(&policy("p", "{ podSelector: {} }"), &["a/web > b/web 80"], &["b/web > a/web 80"]);
    // An empty list of egress rules is not a rule.
    check(
        &policy("p", "{ podSelector: {}, egress: [] }"),
        &["a/web > b/web 80"],
        &["b/web > a/web 80"],
    );
    check(
        &policy("p", "{ podSelector: {}, policyTypes: [] }"),
        &["a/web > b/web 80"],
        &["b/web > a/web 80"],
    );
    // An egress rule isolates both.
    let egress =
        "{ podSelector: {}, egress: [{ to: [{ ipBlock: { cidr: 10.0.2.11/32 } }, { ipBlock: { cidr: 'fd00:0:0:2::11/128' } }] }] }";
    check(
        &policy("p", egress),
        &["a/web > b/web 80"],
        &["a/web > b/db 80", "b/web > a/web 80"],
    );
}

#[test]
fn explicit_policy_types_are_all_there_is() {
    // Egress only: rules for ingress mean nothing, ingress is open.
    check(
        &policy("p", "{ podSelector: {}, policyTypes: [Egress], ingress: [] }"),
        &["b/web > a/web 80"],
        &["a/web > b/web 80"],
    );
    // Ingress only: rules for egress mean nothing, egress is open.
    check(
        &policy(
            "p",
            "{ podSelector: {}, policyTypes: [Ingress], egress: [{ to: [{ podSelector: {} }] }] }",
        ),
        &["a/web > b/web 80"],
        &["b/web > a/web 80"],
    );
    check(
        &policy("p", "{ podSelector: {}, policyTypes: [Ingress, Egress] }"),
        &["b/web > b/db 80"],
        &["a/web > b/web 80", "b/web > a/web 80", "a/web > 198.51.100.1 443"],
    );
}

#[test]
fn an_empty_rule_allows_all() {
    check(
        &policy(
            "p",
            "{ podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}] }",
        ),
        &[
            "b/web > a/web 80",
            "198.51.100.1 > a/web 9 UDP",
            "a/web > 198.51.100.1 443",
            "a/web > node/node2 22",
        ],
        &[],
    );
}

#[test]
fn policies_add_up() {
    let deny = policy("deny", "{ podSelector: {}, policyTypes: [Ingress, Egress] }");
    let web = policy(
        "web",
        "{ podSelector: { matchLabels: { app: web } }, ingress: [{ ports: [{ port: 80 }] }] }",
    );
    let more = policy(
        "more",
        "{ podSelector: { matchLabels: { tier: front } }, ingress: [{ ports: [{ port: 81 }] }] }",
    );
    check(
        &(deny + &web + &more),
        &["b/web > a/web 80", "b/web > a/web 81"],
        &["b/web > a/web 82", "b/web > a/db 80", "a/web > b/web 80"],
    );
}

#[test]
fn both_ends_must_allow() {
    let of_db = policy(
        "db",
        "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: web } } }] }] }",
    );
    let of_web = |port| {
        policy(
            "web",
            &format!(
                "{{ podSelector: {{ matchLabels: {{ app: web }} }}, policyTypes: [Egress], egress: [{{ ports: [{{ port: {port} }}] }}] }}"
            ),
        )
    };
    check(&(of_db.clone() + &of_web(8080)), &["a/web > a/db 8080"], &["a/web > a/db 8081"]);
    check(&(of_db + &of_web(8081)), &[], &["a/web > a/db 8080", "b/web > a/db 8081"]);
}

#[test]
fn a_pod_always_reaches_itself() {
    let deny = policy("deny", "{ podSelector: {}, policyTypes: [Ingress, Egress] }");
    check(
        &deny,
        &["a/web > a/web 80", "a/web > 10.0.1.10 80", "10.0.1.10 > a/web 80"],
        &["a/web > a/db 80"],
    );
}

#[test]
fn the_own_node_always_reaches_a_pod_and_no_other_node_does() {
    let deny = policy("deny", "{ podSelector: {}, policyTypes: [Ingress, Egress] }");
    check(
        &deny,
        &[
            "node/node1 > a/web 80",
            "192.0.2.1 > a/web 80",
            "10.0.1.2 > a/web 80",
            "10.0.1.3 > a/web 80",
            "fd00:0:0:1::2 > a/web 80",
            // A pod in the node's network is the node.
            "a/host > a/web 80",
        ],
        // The exemption is for what the node sends, not for what the pod sends.
        &[
            "node/node2 > a/web 80",
            "10.0.2.2 > a/web 80",
            "a/host > a/db 80",
            "a/web > node/node1 22",
        ],
    );
}

#[test]
fn pods_in_the_network_of_their_node_are_never_selected() {
    check(
        &policy(
            "deny",
            "{ podSelector: { matchLabels: { app: web } }, policyTypes: [Ingress, Egress] }",
        ),
        &[
            "b/web > a/host 80",
            "a/host > b/web 80",
            "a/host > 198.51.100.1 80",
            "198.51.100.1 > a/host 80",
        ],
        &["b/web > a/web 80"],
    );
}

#[test]
fn a_pod_that_has_ended_has_no_address_any_more() {
    // Its address is now that of c/plain.
    let only = policy("only", "{ podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }] }");
    let cluster = cluster(&only);
    answers(&cluster, &["a/db > a/web 80"], &["10.0.1.12 > a/web 80"]);
    let unknown = super::ask(&cluster, "a/done > a/web 80").unwrap_err().to_string();
    assert_eq!(
        unknown,
        "pod a/done has ended, so it neither sends nor receives; ask about one that runs"
    );
}
