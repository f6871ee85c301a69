//! What people and machines read.

use netloom_policy::{Declared, Protocol, Source, Target, declared, port_to_ask, words};

use super::{ask, cluster, policy};

fn said(policies: &str, question: &str) -> String {
    let verdict = ask(&cluster(policies), question).unwrap();
    let (from, to) = question.split_once(" > ").unwrap();
    words(&verdict, from, to)
}

#[test]
fn allowed_and_by_what() {
    let db = policy(
        "db",
        "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ podSelector: {} }] }] }",
    );
    assert_eq!(
        said(&db, "a/web > a/db 8080"),
        "allowed: pod a/web to pod a/db, TCP 8080\n  \
         egress   allowed  no policy isolates pod a/web for egress\n  \
         ingress  allowed  by NetworkPolicy a/db ingress[0]\n"
    );
}

#[test]
fn denied_and_why_no_rule_matches() {
    let db = policy(
        "db",
        "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ podSelector: {} }] }, { ports: [{ port: 70000 }] }] }",
    );
    let deny = policy("deny", "{ podSelector: {} }");
    assert_eq!(
        said(&(db + &deny), "b/web > a/db 8080"),
        "denied: pod b/web to pod a/db, TCP 8080\n  \
         egress   allowed  no policy isolates pod b/web for egress\n  \
         ingress  denied   pod a/db is isolated by NetworkPolicies a/db, a/deny, and no rule matches\n                    \
         a/db ingress[0]: pod b/web is not in its \"from\"\n                    \
         a/db ingress[1]: it has a mistake, so it allows nothing\n                    \
         a/deny has no ingress rule, so it allows nothing\n\
         problem: NetworkPolicy a/db: ingress[1].ports[0]: port 70000 is out of range; use 1 to 65535\n"
    );
}

#[test]
fn several_ways_are_told_one_by_one() {
    let four = policy(
        "four",
        "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 10.0.0.0/8 } }] }] }",
    );
    assert_eq!(
        said(&four, "b/web > a/web 80"),
        "denied in part (1 of 2 ways allowed): b/web to a/web 80\n  \
         pod a/web, TCP 80 (10.0.2.11 to 10.0.1.10): allowed\n    \
         egress   allowed  no policy isolates pod b/web for egress\n    \
         ingress  allowed  by NetworkPolicy a/four ingress[0]\n  \
         pod a/web, TCP 80 (fd00:0:0:2::11 to fd00:0:0:1::10): denied\n    \
         egress   allowed  no policy isolates pod b/web for egress\n    \
         ingress  denied   pod a/web is isolated by NetworkPolicy a/four, and no rule matches\n                      \
         a/four ingress[0]: pod b/web is not in its \"from\"\n"
    );
}

#[test]
fn machines_read_the_same() {
    let deny = policy("deny", "{ podSelector: {}, ingress: [{ ports: [{ port: 1 }] }] }");
    let verdict = ask(&cluster(&deny), "198.51.100.1 > a/web 80").unwrap();
    assert_eq!(
        serde_json::to_value(&verdict).unwrap(),
        serde_json::json!({
            "allowed": false,
            "flows": [{
                "allowed": false,
                "from": { "kind": "external", "addresses": ["198.51.100.1"] },
                "to": { "kind": "pod", "namespace": "a", "name": "web", "addresses": ["10.0.1.10"] },
                "protocol": "TCP",
                "port": 80,
                "egress": { "reason": "notAPod" },
                "ingress": {
                    "reason": "noRule",
                    "policies": [{ "namespace": "a", "name": "deny" }],
                    "misses": [{
                        "policy": { "namespace": "a", "name": "deny" },
                        "direction": "ingress",
                        "index": 0,
                        "why": "port"
                    }]
                }
            }],
            "problems": [],
            "notes": []
        })
    );
}

#[test]
fn names_as_people_write_them() {
    let pod = |namespace, name| Ok(Target::Pod(netloom_policy::Name::new(namespace, name)));
    let service = |namespace, name| Ok(Target::Service(netloom_policy::Name::new(namespace, name)));
    let read = |text| Target::parse(text, "shop");
    assert_eq!(read("web"), pod("shop", "web"));
    assert_eq!(read("pod/web"), pod("shop", "web"));
    assert_eq!(read("a/web"), pod("a", "web"));
    assert_eq!(read("pod/svc/web"), pod("svc", "web"));
    assert_eq!(read("svc/web"), service("shop", "web"));
    assert_eq!(read("service/a/web"), service("a", "web"));
    assert_eq!(read("node/n"), Ok(Target::Node("n".to_owned())));
    assert_eq!(read("[fd00::1]"), Ok(Target::Address("fd00::1".parse().unwrap())));
    assert!(read("a//b").is_err());
    assert!(read("a/b/c").is_err());
    assert!(Source::parse("svc/web", "shop").unwrap_err().contains("sends nothing"));
}

#[test]
fn ports_as_people_write_them() {
    let cluster = cluster("");
    let ports = declared(&cluster, &Target::parse("a/web", "default").unwrap()).unwrap();
    let ask = |port, protocol| port_to_ask(&ports, port, protocol);
    assert_eq!(ask(Some("443"), None), Ok(vec![(Protocol::Tcp, 443)]));
    assert_eq!(ask(Some("443"), Some(Protocol::Sctp)), Ok(vec![(Protocol::Sctp, 443)]));
    assert_eq!(ask(Some("dns"), None), Ok(vec![(Protocol::Udp, 53)]));
    assert_eq!(ask(None, Some(Protocol::Udp)), Ok(vec![(Protocol::Udp, 53)]));
    assert_eq!(ask(None, None).unwrap().len(), 3);
    assert_eq!(
        ask(Some("dns"), Some(Protocol::Tcp)).unwrap_err(),
        "TO has no port of TCP called \"dns\"; it has: UDP 53 dns, TCP 80 http, TCP 15001 proxy"
    );
    assert!(ask(Some("70000"), None).unwrap_err().contains("out of range"));
    assert!(
        port_to_ask(&Vec::<Declared>::new(), None, None)
            .unwrap_err()
            .contains("give the PORT")
    );
    assert!(declared(&cluster, &Target::parse("a/nobody", "default").unwrap()).is_err());
}

#[test]
fn tiers_leave_a_trail() {
    let pass = super::cluster_policy(
        "guard",
        "Admin",
        5,
        "ingress: [{ name: to-owners, action: Pass, from: [{ namespaces: {} }] }]",
    );
    let deny = super::cluster_policy(
        "base",
        "Baseline",
        5,
        "ingress: [{ action: Deny, from: [{ namespaces: { matchLabels: { team: blue } } }] }]",
    );
    assert_eq!(
        said(&(pass + &deny), "b/web > a/web 80"),
        "denied: pod b/web to pod a/web, TCP 80\n  \
         egress   allowed  no policy isolates pod b/web for egress\n  \
         ingress  denied   ClusterNetworkPolicy guard ingress[0] \"to-owners\" passes it on; by ClusterNetworkPolicy base ingress[0]\n"
    );
}

#[test]
fn isolation_has_a_line_of_its_own() {
    let service = "---\nkind: Service\nmetadata: { name: web, namespace: a }\nspec: { clusterIPs: [10.96.0.5], selector: { tier: front }, ports: [{ port: 80 }] }\n";
    let isolated = super::annotated("netloom.io/isolation: pods") + service;
    assert_eq!(
        said(&isolated, "b/web > a/web 80"),
        "denied: pod b/web to pod a/web, TCP 80\n  \
         isolated denied   namespace a is isolated: pods of other namespaces reach its pods through services only, if at all\n  \
         egress   allowed  no policy isolates pod b/web for egress\n  \
         ingress  allowed  no policy isolates pod a/web for ingress\n"
    );
    let through = said(&isolated, "b/web > svc/a/web 80");
    assert!(
        through.contains("isolated allowed  namespace a is isolated, but reached through a service\n"),
        "{through}"
    );
    let strict = super::annotated("netloom.io/isolation: services") + service;
    let through = said(&strict, "b/web > svc/a/web 80");
    assert!(
        through.contains("isolated denied   namespace a is isolated with its services: pods of other namespaces do not reach them\n"),
        "{through}"
    );
}

#[test]
fn apps_and_groups_are_named() {
    let pods = "---\nkind: Pod\nmetadata: { name: in, namespace: a, labels: { netloom.io/app: shop, netloom.io/security-group: web } }\nspec: { nodeName: node1 }\nstatus: { podIPs: [{ ip: 10.0.1.31 }] }\n\
                ---\nkind: Pod\nmetadata: { name: fellow, namespace: a, labels: { netloom.io/app: shop } }\nspec: { nodeName: node1 }\nstatus: { podIPs: [{ ip: 10.0.1.32 }] }\n\
                ---\nkind: SecurityGroup\nmetadata: { name: web, namespace: a }\nspec: { rules: [{ direction: Ingress, protocol: TCP }] }\n";
    let line = |question: &str| said(pods, question).lines().nth(2).unwrap().to_owned();
    assert_eq!(
        line("a/fellow > a/in 80"),
        "  ingress  allowed  SecurityGroup a/web rules[0] lets it pass; in app network shop"
    );
    assert_eq!(
        line("a/web > a/in 80"),
        "  ingress  denied   SecurityGroup a/web rules[0] lets it pass; pod a/in is isolated by app network shop, and no rule matches"
    );
    assert_eq!(
        line("a/fellow > a/in 80 UDP"),
        "  ingress  denied   pod a/in is in SecurityGroup a/web, and no rule matches"
    );
}

#[test]
fn machines_read_tiers_too() {
    let deny = super::cluster_policy(
        "p",
        "Admin",
        5,
        "ingress: [{ name: none, action: Deny, from: [{ namespaces: {} }] }]",
    );
    let verdict = ask(&cluster(&deny), "b/web > a/web 80").unwrap();
    assert_eq!(
        serde_json::to_value(&verdict.flows[0].ingress).unwrap(),
        serde_json::json!({
            "reason": "denied",
            "rule": {
                "policy": { "kind": "ClusterNetworkPolicy", "name": "p" },
                "priority": 5,
                "direction": "ingress",
                "index": 0,
                "name": "none",
                "action": "Deny"
            }
        })
    );
    let isolated = super::annotated("netloom.io/isolation: pods");
    let verdict = ask(&cluster(&isolated), "b/web > a/web 80").unwrap();
    assert_eq!(
        serde_json::to_value(&verdict.flows[0].isolation).unwrap(),
        serde_json::json!({ "reason": "direct", "namespace": "a" })
    );
    let problem = ask(&cluster(&super::annotated("netloom.io/isolation: x")), "b/web > a/web 80")
        .unwrap()
        .problems;
    assert_eq!(
        serde_json::to_value(&problem[0]).unwrap()["object"],
        serde_json::json!({ "kind": "Namespace", "name": "a" })
    );
}
