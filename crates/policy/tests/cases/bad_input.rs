//! Mistakes close the rule they are in, are told, and touch nothing else.

use super::{answers, cluster, policy};

/// A rule with a mistake next to a good one: the policy still isolates, the bad rule allows nothing, the good one goes on.
#[track_caller]
fn closes(bad: &str, field: &str, message: &str) {
    let good = "{ ports: [{ port: 7 }] }";
    let cluster = cluster(&policy("p", &format!("{{ podSelector: {{}}, ingress: [{bad}, {good}] }}")));
    answers(
        &cluster,
        &["b/web > a/web 7"],
        &["b/web > a/web 80", "10.0.2.11 > a/web 80", "a/db > a/web 8080"],
    );
    let told: Vec<String> = cluster.problems().iter().map(ToString::to_string).collect();
    assert_eq!(told, [format!("NetworkPolicy a/p: {field}: {message}")]);
}

#[test]
fn ranges_of_addresses() {
    let block = |text: &str| format!("{{ from: [{{ ipBlock: {{ {text} }} }}, {{ namespaceSelector: {{}} }}] }}");
    let no_range = |text: &str| format!("{text:?} is no range of addresses; write for example 192.0.2.0/24 or 2001:db8::/64");
    closes(&block("cidr: ten"), "ingress[0].from[0]", &no_range("ten"));
    closes(&block("cidr: ''"), "ingress[0].from[0]", &no_range(""));
    closes(&block("cidr: 10.0.0.0/33"), "ingress[0].from[0]", &no_range("10.0.0.0/33"));
    closes(&block("cidr: 10.0.0.0/8, except: [ten]"), "ingress[0].from[0]", &no_range("ten"));
    let outside = |text: &str| format!("except {text} is not within 10.0.0.0/8; name a part of it");
    for except in ["11.0.0.0/16", "10.0.0.0/8", "0.0.0.0/0", "fd00::/64"] {
        closes(
            &block(&format!("cidr: 10.0.0.0/8, except: ['{except}']")),
            "ingress[0].from[0]",
            &outside(except),
        );
    }
}

#[test]
fn ports() {
    let port = |text: &str| format!("{{ ports: [{{ port: 80 }}, {{ {text} }}] }}");
    for (text, message) in [
        ("port: 0", "port 0 is out of range; use 1 to 65535"),
        ("port: 65536", "port 65536 is out of range; use 1 to 65535"),
        ("port: -1", "port -1 is out of range; use 1 to 65535"),
        ("port: 80, endPort: 65536", "port 65536 is out of range; use 1 to 65535"),
        (
            "port: 80, endPort: 79",
            "endPort 79 is below port 80; it is the last port of the range",
        ),
        ("endPort: 80", "endPort without port; give the first port of the range"),
        (
            "port: http, endPort: 80",
            "endPort with the named port \"http\"; a range needs numbers",
        ),
        (
            "port: 80, protocol: ICMP",
            "\"ICMP\" is no protocol with ports; use TCP, UDP or SCTP",
        ),
    ] {
        closes(&port(text), "ingress[0].ports[1]", message);
    }
    for name in ["80", "", "a-name-that-is-too-long", "HTTP", "a--b", "-a"] {
        closes(
            &port(&format!("port: '{name}'")),
            "ingress[0].ports[1]",
            &format!(
                "{name:?} is no name of a port; use up to 15 small letters, digits and single '-', with a letter among them, or a number without quotes"
            ),
        );
    }
}

#[test]
fn peers_and_selectors() {
    closes(
        "{ from: [{}] }",
        "ingress[0].from[0]",
        "names no peer; give podSelector, namespaceSelector or ipBlock",
    );
    closes(
        "{ from: [{ podSelector: {}, ipBlock: { cidr: 10.0.0.0/8 } }] }",
        "ingress[0].from[0]",
        "has ipBlock and a selector; make two peers of them",
    );
    let expression = |text: &str| format!("{{ from: [{{ namespaceSelector: {{ matchExpressions: [{{ {text} }}] }} }}] }}");
    for (text, message) in [
        ("key: app, operator: In", "In of \"app\" has no values; give at least one"),
        (
            "key: app, operator: NotIn, values: []",
            "NotIn of \"app\" has no values; give at least one",
        ),
        (
            "key: app, operator: DoesNotExist, values: [a]",
            "DoesNotExist of \"app\" has values; remove them, or use In or NotIn",
        ),
        (
            "key: app, operator: Like, values: [a]",
            "\"Like\" of \"app\" is no operator; use In, NotIn, Exists or DoesNotExist",
        ),
        (
            "key: 'a b', operator: DoesNotExist",
            "\"a b\" is no label key; write for example app or example.com/app",
        ),
        (
            "key: app, operator: NotIn, values: ['a b']",
            "\"a b\" is no label value; use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
        ),
    ] {
        closes(&expression(text), "ingress[0].from[0].namespaceSelector", message);
    }
}

#[test]
fn fields_that_do_not_exist() {
    let no_field = |name: &str| format!("there is no field {name:?} here; correct its name or remove it");
    closes("{ to: [{ podSelector: {} }] }", "ingress[0]", &no_field("to"));
    closes(
        "{ from: [{ namespaceSelector: {}, ports: [80] }] }",
        "ingress[0].from[0]",
        &no_field("ports"),
    );
    closes(
        "{ from: [{ ipBlock: { cidr: 0.0.0.0/0, excpt: [] } }] }",
        "ingress[0].from[0].ipBlock",
        &no_field("excpt"),
    );
    closes(
        "{ from: [{ namespaceSelector: { matchLabel: { a: b } } }] }",
        "ingress[0].from[0].namespaceSelector",
        &no_field("matchLabel"),
    );
    closes("{ ports: [{ ports: 80 }] }", "ingress[0].ports[0]", &no_field("ports"));
    // In the spec itself it may have chosen pods or directions.
    let cluster = cluster(&policy("p", "{ podSelector: {}, ingress: [{}], egres: [] }"));
    answers(&cluster, &["b/web > b/db 80"], &["a/web > b/web 80", "b/web > a/web 80"]);
    let told: Vec<String> = cluster.problems().iter().map(ToString::to_string).collect();
    assert_eq!(told, [format!("NetworkPolicy a/p: spec: {}", no_field("egres"))]);
}

#[test]
fn a_pod_selector_isolates_all_it_may_mean_and_opens_nothing() {
    let spec = "{ podSelector: { matchLabels: { app: db }, matchExpressions: [{ key: x, operator: Like }] }, ingress: [{}] }";
    let cluster = cluster(&policy("p", spec));
    answers(&cluster, &["b/web > a/web 80"], &["b/web > a/db 80"]);
    assert_eq!(cluster.problems().len(), 1);
}

#[test]
fn an_unknown_policy_type_isolates_both_directions_and_opens_nothing() {
    let cluster = cluster(&policy(
        "p",
        "{ podSelector: {}, policyTypes: [Ingres], ingress: [{}], egress: [{}] }",
    ));
    answers(&cluster, &["b/web > b/db 80"], &["a/web > b/web 80", "b/web > a/web 80"]);
    assert_eq!(
        cluster.problems()[0].message,
        "\"Ingres\" is no policy type, so both directions are isolated and no rule allows anything; use Ingress and Egress"
    );
}

#[test]
fn a_verdict_tells_the_mistakes_it_met_and_no_others() {
    let bad = policy(
        "p",
        "{ podSelector: { matchLabels: { app: db } }, ingress: [{ ports: [{ port: 0 }] }] }",
    );
    let cluster = cluster(&bad);
    let count = |question: &str| super::ask(&cluster, question).unwrap().problems.len();
    assert_eq!(count("b/web > a/db 80"), 1);
    assert_eq!(count("b/web > a/web 80"), 0);
    // Nothing was asked of its ingress rules.
    assert_eq!(count("a/db > b/web 80"), 0);
}

#[test]
fn malformed_manifests_are_named() {
    let read = |text: &str| {
        let value: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        netloom_policy::Cluster::default().add_manifest(&value)
    };
    assert_eq!(read("kind: Pod\n"), Err("Pod: metadata.name is missing".to_owned()));
    let error = read("kind: NetworkPolicy\nmetadata: { name: p }\nspec: { ingress: 7 }\n").unwrap_err();
    assert!(error.starts_with("NetworkPolicy/p: "), "{error}");
    assert_eq!(read("kind: ConfigMap\n"), Ok(()));
}
