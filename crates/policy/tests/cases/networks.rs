//! Networks that users define: who is on one, what an isolated one keeps out, and what has a mistake.
//! In all of it `a/web` and `b/web` are on network blue by their own annotation.

use netloom_policy::{Crossing, Shut, words};
use serde_json::json;

use super::{annotated, answers, ask, check, cluster, policy, told};

const ON_BLUE: &str = "
---
kind: Pod
metadata: { name: web, namespace: a, labels: { app: web, tier: front }, annotations: { netloom.io/network: blue } }
spec: { nodeName: node1 }
status: { podIPs: [{ ip: 10.0.1.10 }] }
---
kind: Pod
metadata: { name: web, namespace: b, labels: { app: web }, annotations: { netloom.io/network: ' blue ' } }
spec: { nodeName: node2 }
status: { podIPs: [{ ip: 10.0.2.11 }] }
---
kind: Service
metadata: { name: web, namespace: a }
spec: { clusterIPs: [10.96.0.5], selector: { tier: front }, ports: [{ port: 8000, targetPort: 80 }] }
---
kind: Service
metadata: { name: names, namespace: a }
spec: { clusterIP: None, selector: { tier: front }, ports: [{ port: 80 }] }
";

fn blue(spec: &str) -> String {
    format!("{ON_BLUE}---\napiVersion: netloom.io/v1alpha1\nkind: Network\nmetadata: {{ name: blue }}\nspec: {spec}\n")
}

fn isolated() -> String {
    blue("{ subnets: [192.168.10.0/24], isolated: true }")
}

#[test]
fn a_network_alone_keeps_nobody_out() {
    check(
        &blue("{ subnets: [192.168.10.0/24, 'fd01:10::/64'] }"),
        &[
            "a/web > b/web 80",
            "a/db > a/web 80",
            "a/web > c/plain 80",
            "198.51.100.1 > a/web 80",
        ],
        &[],
    );
}

#[test]
fn pods_that_are_not_on_an_isolated_network_do_not_reach_those_that_are() {
    check(
        &isolated(),
        &["a/web > b/web 80", "b/web > a/web 53 UDP", "10.0.1.10 > 10.0.2.11 80"],
        &[
            "a/db > a/web 80",
            "c/plain > b/web 80",
            "10.0.2.10 > 10.0.1.10 80",
            // A headless service has no address of its own.
            "a/db > svc/a/names 80",
        ],
    );
}

#[test]
fn pods_on_it_reach_everybody() {
    check(
        &isolated(),
        &[
            "a/web > a/db 80",
            "b/web > c/plain 80",
            "a/web > 198.51.100.1 443",
            "a/web > node/node1 22",
        ],
        &[],
    );
}

#[test]
fn it_is_reached_through_services_by_nodes_and_from_outside() {
    check(
        &isolated(),
        &[
            "a/db > svc/a/web 8000",
            "c/plain > 10.96.0.5 8000",
            "node/node2 > a/web 80",
            "a/host > b/web 80",
            "198.51.100.1 > a/web 80",
        ],
        &[],
    );
}

#[test]
fn pods_of_one_isolated_network_do_not_reach_those_of_another() {
    let red = "
---
kind: Network
metadata: { name: red }
spec: { subnets: [192.168.10.0/24], isolated: true }
---
kind: Pod
metadata: { name: plain, namespace: c, annotations: { netloom.io/network: red } }
spec: { nodeName: node1 }
status: { podIPs: [{ ip: 10.0.1.12 }] }
";
    check(
        &(isolated() + red),
        &["a/web > b/web 80", "c/plain > a/db 80", "c/plain > svc/a/web 8000"],
        &["c/plain > a/web 80", "b/web > c/plain 80", "a/db > c/plain 80"],
    );
}

#[test]
fn a_pods_own_annotation_goes_before_that_of_its_namespace() {
    let of_namespace = annotated("netloom.io/network: green");
    let green = "---\nkind: Network\nmetadata: { name: green }\nspec: { subnets: [192.168.10.0/24], isolated: true }\n";
    check(
        &(isolated() + &of_namespace + green),
        &["a/web > b/web 80", "node/node1 > a/db 80"],
        &["a/web > a/db 80", "a/db > a/web 80", "c/plain > a/db 80"],
    );
}

#[test]
fn where_the_namespace_is_isolated_too_its_isolation_counts() {
    check(
        &(isolated() + &annotated("netloom.io/isolation: pods")),
        &["a/db > a/web 80", "b/web > svc/a/web 8000", "a/web > b/web 80"],
        &["b/web > a/web 80", "c/plain > a/web 80", "a/db > b/web 80"],
    );
    check(
        &(isolated() + &annotated("netloom.io/isolation: services")),
        &["a/db > a/web 80", "a/db > svc/a/web 8000"],
        &["b/web > a/web 80", "b/web > svc/a/web 8000"],
    );
}

#[test]
fn policies_come_on_top() {
    let only = policy("only", "{ podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }] }");
    check(
        &(isolated() + &only),
        &["a/web > a/db 80", "a/db > svc/a/web 8000"],
        &["b/web > a/web 80", "a/db > a/web 80", "c/plain > svc/a/web 8000"],
    );
}

#[test]
fn it_is_told_which_network_keeps_out() {
    let read = cluster(&isolated());
    let said = |question: &str| {
        let (from, to) = question.split_once(" > ").unwrap();
        words(&ask(&read, question).unwrap(), from, to)
    };
    let into = || Shut::Network("blue".to_owned());
    let crossing = |question: &str| ask(&read, question).unwrap().flows[0].isolation.clone();
    assert_eq!(crossing("a/db > a/web 80"), Some(Crossing::Direct { into: into() }));
    assert_eq!(crossing("a/db > svc/a/web 8000"), Some(Crossing::ThroughService { into: into() }));
    assert_eq!(crossing("b/web > a/web 80"), None);
    assert_eq!(
        serde_json::to_value(crossing("a/db > a/web 80")).unwrap(),
        json!({ "reason": "direct", "network": "blue" })
    );
    assert_eq!(
        said("a/db > a/web 80"),
        "denied: pod a/db to pod a/web, TCP 80\n  \
         isolated denied   network blue is isolated: pods that are not on it reach pods on it through services only\n  \
         egress   allowed  no policy isolates pod a/db for egress\n  \
         ingress  allowed  no policy isolates pod a/web for ingress\n"
    );
    assert!(said("a/db > svc/a/web 8000").contains("isolated allowed  network blue is isolated, but reached through a service\n"));
}

/// Neighbours know each other by other addresses as well, which are in other ranges.
#[test]
fn a_note_tells_where_ranges_of_addresses_may_mean_others() {
    let range = policy(
        "range",
        "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 10.0.0.0/8 } }] }] }",
    );
    let read = cluster(&(isolated() + &range));
    assert_eq!(
        ask(&read, "b/web > a/web 80").unwrap().notes,
        [
            "pod b/web and pod a/web are on network blue: between their addresses there, ranges of addresses are compared with those, which was not \
          judged"
        ]
    );
    assert_eq!(ask(&read, "b/web > a/db 80").unwrap().notes, [""; 0]);
}

/// What a pod says of itself that waits for its network.
fn waits(more: &str) -> String {
    let read = cluster(more);
    let unknown = ask(&read, "a/db > a/web 80").unwrap_err().to_string();
    for question in ["a/web > a/db 80", "a/db > 10.0.1.10 80", "10.0.1.10 > a/db 80"] {
        assert_eq!(ask(&read, question).unwrap_err().to_string(), unknown, "{question}");
    }
    // No service leads there either.
    let unknown_backend = ask(&read, "a/db > svc/a/web 8000").unwrap_err().to_string();
    assert!(unknown_backend.contains("has no backend"), "{unknown_backend}");
    let why = unknown.strip_prefix("pod a/web is on no network, so it neither sends nor receives: ");
    why.unwrap().to_owned()
}

#[test]
fn a_pod_without_its_network_neither_sends_nor_receives() {
    assert_eq!(waits(ON_BLUE), "there is no Network \"blue\"; create it or correct the name");
    assert_eq!(
        waits(&blue(
            "{ subnets: [192.168.10.0/24], namespaceSelector: { matchLabels: { team: blue } } }"
        )),
        "the namespaceSelector of Network blue does not match namespace a; label the namespace, or name another Network"
    );
    assert_eq!(
        waits(&blue("{ subnets: [192.168.10.0/31] }")),
        "Network blue cannot be read: subnets[0]: 192.168.10.0/31 has no room for pods; give a larger one"
    );
    // A kind of the same name is none of ours.
    let other = ON_BLUE.to_owned() + "---\napiVersion: config.openshift.io/v1\nkind: Network\nmetadata: { name: blue }\nspec: {}\n";
    assert_eq!(waits(&other), "there is no Network \"blue\"; create it or correct the name");
    // The others go on.
    let read = cluster(ON_BLUE);
    answers(&read, &["a/db > c/plain 80"], &[]);
    assert_eq!(
        told(&read),
        ["a", "b"].map(|namespace| format!(
            "NetworkUnusable Pod {namespace}/web: annotation netloom.io/network: there is no Network \"blue\"; create it or correct the name"
        ))
    );
}

#[test]
fn every_mistake_of_a_network_is_told() {
    let mistakes = [
        ("{}", "subnets: has none; give one of each family, for example 192.168.10.0/24"),
        ("{ subnets: 192.168.10.0/24 }", "subnets: has to be a list"),
        ("{ subnets: [7] }", "subnets[0]: 7 is no text"),
        (
            "{ subnets: [192.168.10.1/24] }",
            "subnets[0]: 192.168.10.1/24 has host bits set; write 192.168.10.0/24",
        ),
        (
            "{ subnets: [10.0.0.0/24, 10.1.0.0/24] }",
            "subnets[1]: is the second of its family; give one of each",
        ),
        (
            "{ subnets: ['fd01::/127'] }",
            "subnets[0]: fd01::/127 has no room for pods; give a larger one",
        ),
        (
            "{ subnets: [10.0.0.0/24], gateways: [10.0.1.1] }",
            "gateways[0]: 10.0.1.1 is no address in the subnets; choose one that is",
        ),
        (
            "{ subnets: [10.0.0.0/24], gateways: [10.0.0.255] }",
            "gateways[0]: 10.0.0.255 is no address in the subnets; choose one that is",
        ),
        (
            "{ subnets: [10.0.0.0/24], gateways: [10.0.0.1, 10.0.0.2] }",
            "gateways[1]: is the second of its family; give one of each",
        ),
        ("{ subnets: [10.0.0.0/24], isolated: 'yes' }", "isolated: use true or false"),
        (
            "{ subnets: [10.0.0.0/24], isolate: true }",
            "spec: there is no field \"isolate\" here; correct its name or remove it",
        ),
        (
            "{ subnets: [10.0.0.0/24], routes: [{ to: 10.9.0.0/16, via: 10.0.0.1 }] }",
            "routes[0].via: \"10.0.0.1\" is no address a pod of the network can have",
        ),
        (
            "{ subnets: [10.0.0.0/24], routes: [{ to: 10.0.0.0/8, via: 10.0.0.9 }] }",
            "routes[0].to: 10.0.0.0/8 is not behind 10.0.0.0/24; give a range of its family outside of it",
        ),
        (
            "{ subnets: [10.0.0.0/24], namespaceSelector: { matchLabels: { team: 'no value!' } } }",
            "namespaceSelector: \"no value!\" is no label value; use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
        ),
    ];
    for (spec, wanted) in mistakes {
        let read = cluster(&blue(spec));
        let told: Vec<String> = read.networks["blue"].problems.iter().map(ToString::to_string).collect();
        assert_eq!(told, [format!("Network blue: {wanted}")], "{spec}");
        assert!(ask(&read, "a/web > b/web 80").is_err(), "{spec}");
    }
    let right = "{ subnets: [10.0.0.0/24, 'fd01::/64'], gateways: ['fd01::7'], routes: [{ to: 10.9.0.0/16, via: 10.0.0.9 }], \
                 namespaceSelector: { matchExpressions: [{ key: team, operator: Exists }] } }";
    check(&blue(right), &["a/web > b/web 80"], &[]);
}
