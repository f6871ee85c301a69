//! Which policy and rule it was, or which isolate and why their rules do not match.

use netloom_policy::{Decision, Flow, Name, Why};

use super::{ask, cluster, policy};

fn only(policies: &str, question: &str) -> Flow {
    let mut verdict = ask(&cluster(policies), question).unwrap();
    assert_eq!(verdict.flows.len(), 1, "{verdict:#?}");
    verdict.flows.remove(0)
}

#[test]
fn nobody_isolates() {
    let flow = only("", "a/web > 198.51.100.1 80");
    assert_eq!(
        (flow.egress.decision, flow.ingress.decision),
        (Decision::NotIsolated, Decision::NotAPod)
    );
    let flow = only("", "a/host > a/web 80");
    assert_eq!(
        (flow.egress.decision, flow.ingress.decision),
        (Decision::NotAPod, Decision::NotIsolated)
    );
}

#[test]
fn every_rule_that_allows_is_named() {
    let one = policy(
        "one",
        "{ podSelector: {}, ingress: [{ ports: [{ port: 1 }] }, { ports: [{ port: 80 }] }] }",
    );
    let two = policy("two", "{ podSelector: {}, ingress: [{}] }");
    let Decision::Rules { rules, .. } = only(&(two + &one), "b/web > a/web 80").ingress.decision else {
        panic!("no rule")
    };
    let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["a/one ingress[1]", "a/two ingress[0]"]);
}

#[test]
fn every_rule_that_does_not_match_says_why() {
    let db = "from: [{ podSelector: { matchLabels: { app: db } } }]";
    let rules = format!("{{ {db} }}, {{ ports: [{{ port: 1 }}] }}, {{ {db}, ports: [{{ port: 1 }}] }}, {{ ports: [{{ port: 0 }}] }}");
    let one = policy("one", &format!("{{ podSelector: {{}}, ingress: [{rules}] }}"));
    let two = policy("two", "{ podSelector: {} }");
    let Decision::NoRule { policies, misses, .. } = only(&(two + &one), "b/web > a/web 80").ingress.decision else {
        panic!("allowed")
    };
    assert_eq!(policies, [Name::new("a", "one"), Name::new("a", "two")]);
    let why: Vec<(usize, Why)> = misses.iter().map(|miss| (miss.rule.index, miss.why)).collect();
    assert_eq!(why, [(0, Why::Peer), (1, Why::Port), (2, Why::PeerAndPort), (3, Why::Closed)]);
}

#[test]
fn exemptions_are_told_where_they_matter() {
    let deny = policy("deny", "{ podSelector: {}, policyTypes: [Ingress, Egress] }");
    assert_eq!(only(&deny, "10.0.1.2 > a/web 80").ingress.decision, Decision::OwnNode);
    assert_eq!(only("", "10.0.1.2 > a/web 80").ingress.decision, Decision::NotIsolated);
    let flow = only(&deny, "a/web > a/web 80");
    assert_eq!((flow.egress.decision, flow.ingress.decision), (Decision::Itself, Decision::Itself));
}

#[test]
fn pods_without_addresses_are_judged_by_name_and_that_is_told() {
    let new = "---\nkind: Deployment\nmetadata: { name: new, namespace: a }\nspec: { replicas: 2, template: { metadata: { labels: { app: new } } } }\n";
    let block = policy(
        "p",
        "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 0.0.0.0/0 } }] }, { from: [{ podSelector: {} }], ports: [{ port: 80 }] }] }",
    );
    let cluster = cluster(&(new.to_owned() + &block));
    assert!(ask(&cluster, "a/new-1 > a/web 80").unwrap().allowed);
    let verdict = ask(&cluster, "a/new-0 > a/web 81").unwrap();
    assert!(!verdict.allowed);
    assert_eq!(
        verdict.notes,
        ["pod a/new-0 has no address, so no range of addresses was taken to match it"]
    );
    let verdict = ask(&cluster, "node/node1 > a/new-0 81").unwrap();
    assert_eq!(
        verdict.notes,
        ["pod a/new-0 is on no node yet; the node it comes to will always reach it"]
    );
}
