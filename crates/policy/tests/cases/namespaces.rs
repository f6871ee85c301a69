//! Isolated namespaces: rules (a) to (e) as they were asked for, then isolation with services, and annotations that cannot be read.
//! Namespace `a` is the isolated one; `b` and `c` are others.

use netloom_policy::{Crossing, Shut};

use super::{annotated, answers, ask, check, cluster, policy, told};

const ISOLATED: &str = "opencontrail.kubernetes.isolated: 'true'";

/// Services of `a` and `b`: `a/web` and `b/web` have their own pods, `b/mixed` leads to pods of both, `a/far` to a pod of `b`.
const SERVICES: &str = "
---
kind: Service
metadata: { name: web, namespace: a }
spec: { clusterIPs: [10.96.0.5], selector: { app: web, tier: front }, ports: [{ port: 8000, targetPort: 80 }] }
---
kind: Service
metadata: { name: names, namespace: a }
spec: { clusterIP: None, selector: { tier: front }, ports: [{ port: 80 }] }
---
kind: Service
metadata: { name: web, namespace: b }
spec: { clusterIPs: [10.96.0.6], selector: { app: web }, ports: [{ port: 8000, targetPort: 80 }] }
---
kind: Service
metadata: { name: mixed, namespace: b }
spec: { clusterIPs: [10.96.0.7], ports: [{ port: 8000 }] }
---
kind: EndpointSlice
metadata: { name: mixed-1, namespace: b, labels: { kubernetes.io/service-name: mixed } }
ports: [{ port: 80 }]
endpoints: [{ addresses: [10.0.1.10] }, { addresses: [10.0.1.11] }]
---
kind: Service
metadata: { name: far, namespace: a }
spec: { clusterIPs: [10.96.0.8], ports: [{ port: 8000 }] }
---
kind: EndpointSlice
metadata: { name: far-1, namespace: a, labels: { kubernetes.io/service-name: far } }
ports: [{ port: 80 }]
endpoints: [{ addresses: [10.0.1.11], targetRef: { kind: Pod, name: db, namespace: b } }]
";

fn isolated() -> String {
    annotated(ISOLATED) + SERVICES
}

fn with_services() -> String {
    annotated("netloom.io/isolation: services") + SERVICES
}

#[test]
fn a_pods_of_an_isolated_namespace_reach_each_other() {
    check(
        &isolated(),
        &["a/web > a/db 80", "a/db > a/web 53 UDP", "fd00:0:0:1::10 > a/db 9 SCTP"],
        &[],
    );
}

#[test]
fn b_pods_of_other_namespaces_do_not_reach_its_pods() {
    check(
        &isolated(),
        &[],
        &[
            "b/web > a/web 80",
            "c/plain > a/db 53 UDP",
            "b/db > fd00:0:0:1::10 80",
            "10.0.1.11 > 10.0.1.10 80",
            // A headless service has no address of its own.
            "b/web > svc/a/names 80",
        ],
    );
}

#[test]
fn c_its_pods_reach_pods_of_other_namespaces() {
    check(
        &isolated(),
        &["a/web > b/web 80", "a/db > c/plain 53 UDP", "a/web > 198.51.100.1 443"],
        &[],
    );
}

#[test]
fn d_its_pods_reach_all_services() {
    check(
        &isolated(),
        &[
            "a/db > svc/b/web 8000",
            "a/db > svc/a/web 8000",
            "a/db > 10.96.0.7 8000",
            "a/db > svc/a/far 8000",
        ],
        &[],
    );
    // Also those of another isolated namespace.
    let both = "---\nkind: Namespace\nmetadata: { name: b, annotations: { netloom.io/isolation: pods } }\n";
    check(
        &(isolated() + both),
        &["a/db > svc/b/web 8000", "b/db > svc/a/web 8000"],
        &["a/db > b/web 80", "b/db > a/web 80"],
    );
}

#[test]
fn e_its_pods_are_reached_through_services() {
    check(
        &isolated(),
        &[
            "b/web > svc/a/web 8000",
            "c/plain > 10.96.0.5 8000",
            "c/plain > svc/b/mixed 8000",
            "198.51.100.1 > svc/a/web 8000",
        ],
        &[],
    );
}

#[test]
fn nodes_and_pods_in_their_network_are_no_pods_of_other_namespaces() {
    check(
        &isolated(),
        &[
            "node/node2 > a/web 80",
            "192.0.2.1 > a/db 80",
            "a/host > a/db 80",
            "b/web > a/host 80",
            "198.51.100.1 > a/web 80",
        ],
        &[],
    );
    check(
        &with_services(),
        &["node/node2 > a/web 80", "node/node1 > svc/a/web 8000", "a/host > 10.96.0.5 8000"],
        &[],
    );
}

#[test]
fn policies_come_on_top() {
    let only = policy(
        "only",
        "{ podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }, { from: [{ namespaceSelector: {} }], ports: [{ port: 80 }] }] }",
    );
    check(
        &(isolated() + &only),
        &["a/db > a/web 7", "b/web > svc/a/web 8000"],
        &["b/web > a/web 80", "198.51.100.1 > a/web 80"],
    );
    let nobody = policy("nobody", "{ podSelector: {} }");
    check(
        &(isolated() + &nobody),
        &["node/node1 > a/web 80"],
        &["b/web > svc/a/web 8000", "a/db > a/web 80"],
    );
}

#[test]
fn with_services_nobody_else_gets_in_at_all() {
    check(
        &with_services(),
        &[
            "a/db > a/web 80",
            "a/db > svc/a/web 8000",
            "a/db > svc/a/far 8000",
            "a/db > svc/b/mixed 8000",
            "a/db > svc/b/web 8000",
            "a/db > b/web 80",
            "b/db > svc/b/web 8000",
            // It leads past the isolated one.
            "c/plain > svc/b/mixed 8000",
            "b/db > svc/b/mixed 8000",
        ],
        &[
            "b/web > a/web 80",
            "b/web > svc/a/web 8000",
            "b/web > 10.96.0.5 8000",
            // Whoever is behind it.
            "b/web > svc/a/far 8000",
            "198.51.100.1 > svc/a/web 8000",
        ],
    );
}

/// A service of others does not lead to its pods, whatever somebody wrote into its slices, but to those who are not isolated.
#[test]
fn services_of_others_do_not_lead_to_isolated_pods() {
    for isolation in [isolated(), with_services()] {
        let verdict = ask(&cluster(&isolation), "c/plain > svc/b/mixed 8000").unwrap();
        let flows: Vec<(String, bool)> = verdict.flows.iter().map(|flow| (flow.to.to_string(), flow.allowed)).collect();
        assert_eq!(flows, [("pod b/db".to_owned(), true)]);
    }
}

#[test]
fn with_services_none_is_published() {
    let shop = "
---
kind: Service
metadata: { name: shop, namespace: a }
spec: { type: NodePort, clusterIPs: [10.96.0.9], externalIPs: [203.0.113.9], selector: { tier: front }, ports: [{ port: 8000, targetPort: 80, nodePort: 30080 }] }
";
    let questions = [
        "198.51.100.1 > 192.0.2.1 30080",
        "b/web > 203.0.113.9 8000",
        "a/db > node/node2 30080",
        "node/node1 > 203.0.113.9 8000",
    ];
    check(&(isolated() + shop), &questions, &[]);
    let cluster = cluster(&(with_services() + shop));
    answers(&cluster, &["a/db > svc/a/shop 8000", "node/node1 > svc/a/shop 8000"], &questions);
    assert_eq!(
        told(&cluster),
        [
            "ServiceIsolated Service a/shop: spec.type: namespace a is isolated with its services, so node ports and addresses outside the cluster \
          are not published; use type ClusterIP without externalIPs, or isolate the namespace's pods only (netloom.io/isolation: pods)"
        ]
    );
    assert_eq!(ask(&cluster, questions[0]).unwrap().problems.len(), 1);
}

#[test]
fn both_annotations_mean_the_same() {
    for annotations in [
        ISOLATED,
        "netloom.io/isolation: pods",
        "netloom.io/isolation: pods, opencontrail.kubernetes.isolated: 'true'",
    ] {
        check(
            &(annotated(annotations) + SERVICES),
            &["b/web > svc/a/web 8000"],
            &["b/web > a/web 80"],
        );
    }
    for annotations in ["opencontrail.kubernetes.isolated: 'false'", "netloom.io/isolation: none", ""] {
        check(&annotated(annotations), &["b/web > a/web 80"], &[]);
    }
}

#[test]
fn the_stricter_holds_where_they_disagree() {
    let read = cluster(&annotated("netloom.io/isolation: none, opencontrail.kubernetes.isolated: 'true'"));
    answers(&read, &["a/db > a/web 80"], &["b/web > a/web 80"]);
    assert_eq!(
        told(&read),
        [
            "ConflictingIsolation Namespace a: annotation netloom.io/isolation: says none, but opencontrail.kubernetes.isolated says pods; the \
          stricter, pods, holds; remove one of them"
        ]
    );
    let read = cluster(&(annotated("netloom.io/isolation: services, opencontrail.kubernetes.isolated: 'false'") + SERVICES));
    answers(&read, &[], &["b/web > svc/a/web 8000"]);
    assert_eq!(read.problems().len(), 1);
}

#[test]
fn the_strictest_that_may_be_meant_holds_for_what_nobody_knows() {
    let read = cluster(&(annotated("netloom.io/isolation: Pods") + SERVICES));
    answers(&read, &[], &["b/web > a/web 80", "b/web > svc/a/web 8000"]);
    assert_eq!(
        told(&read),
        [
            "InvalidIsolation Namespace a: annotation netloom.io/isolation: \"Pods\" is no isolation, so its pods and services are isolated; use \
          none, pods or services"
        ]
    );
    let read = cluster(&(annotated("opencontrail.kubernetes.isolated: 'yes'") + SERVICES));
    answers(&read, &["b/web > svc/a/web 8000"], &["b/web > a/web 80"]);
    assert_eq!(
        told(&read),
        [
            "InvalidIsolation Namespace a: annotation opencontrail.kubernetes.isolated: \"yes\" is neither true nor false, so its pods are \
          isolated; use one of these"
        ]
    );
    assert_eq!(ask(&read, "b/web > a/web 80").unwrap().problems.len(), 1);
}

#[test]
fn it_is_told_apart_from_policies() {
    let read = cluster(&isolated());
    let crossing = |question: &str| ask(&read, question).unwrap().flows[0].isolation.clone();
    let into = || Shut::Namespace("a".to_owned());
    assert_eq!(crossing("b/web > a/web 80"), Some(Crossing::Direct { into: into() }));
    assert_eq!(crossing("b/web > svc/a/web 8000"), Some(Crossing::ThroughService { into: into() }));
    assert_eq!(crossing("a/web > b/web 80"), None);
    assert_eq!(crossing("a/db > a/web 80"), None);
}
