//! SecurityGroups: rules, remotes, how pods name them, and mistakes.

use netloom_policy::{Decision, Step};

use super::{answers, ask, check, cluster, policy, told};

/// The group `a/NAME` with these rules.
fn group(name: &str, rules: &str) -> String {
    format!(
        "---\napiVersion: netloom.io/v1alpha1\nkind: SecurityGroup\nmetadata: {{ name: {name}, namespace: a }}\nspec: {{ rules: [{rules}] }}\n"
    )
}

/// The pod `NAMESPACE/NAME` on node1, with more of its metadata.
fn pod(name: &str, namespace: &str, metadata: &str, ip: &str) -> String {
    format!(
        "---\nkind: Pod\nmetadata: {{ name: {name}, namespace: {namespace}, {metadata} }}\nspec: {{ nodeName: node1 }}\nstatus: {{ podIPs: [{{ ip: {ip} }}] }}\n"
    )
}

/// The pod `a/in`, in these groups.
fn member(groups: &str) -> String {
    pod(
        "in",
        "a",
        &format!("annotations: {{ netloom.io/security-groups: '{groups}' }}"),
        "10.0.1.31",
    )
}

#[test]
fn a_pod_in_a_group_is_shut_but_for_its_rules() {
    let none = "---\nkind: SecurityGroup\nmetadata: { name: web, namespace: a }\n";
    check(
        &(member("web") + none),
        &["node/node1 > a/in 80", "a/in > a/in 80", "a/web > a/db 80"],
        &[
            "a/web > a/in 80",
            "a/in > a/web 80",
            "node/node2 > a/in 80",
            "198.51.100.1 > a/in 80",
            "a/in > node/node1 22",
        ],
    );
    let rules = "{ direction: Ingress, protocol: TCP, port: 80, endPort: 90 }, { direction: Egress, protocol: UDP }";
    check(
        &(member("web") + &group("web", rules)),
        &[
            "a/web > a/in 80",
            "198.51.100.1 > a/in 90",
            "a/in > 198.51.100.1 53 UDP",
            "a/in > b/web 1 UDP",
        ],
        &["a/web > a/in 91", "a/web > a/in 79", "a/web > a/in 80 UDP", "a/in > b/web 80"],
    );
    // Without a protocol it is all of them; ICMP has no ports and is none of those one can ask about.
    check(
        &(member("web") + &group("web", "{ direction: Ingress }")),
        &["a/web > a/in 80", "a/web > a/in 9 SCTP"],
        &["a/in > a/web 80"],
    );
    check(
        &(member("web") + &group("web", "{ direction: Ingress, protocol: ICMP }")),
        &[],
        &["a/web > a/in 80"],
    );
}

#[test]
fn rules_of_all_its_groups_add_up() {
    let groups =
        group("web", "{ direction: Ingress, protocol: TCP, port: 80 }") + &group("ssh", "{ direction: Ingress, protocol: TCP, port: 22 }");
    check(
        &(member("web, ssh") + &groups),
        &["b/web > a/in 80", "b/web > a/in 22"],
        &["b/web > a/in 23"],
    );
    // By label too, and both together.
    let labelled = pod("in", "a", "labels: { netloom.io/security-group: web }", "10.0.1.31");
    check(&(labelled + &groups), &["b/web > a/in 80"], &["b/web > a/in 22"]);
    let both = pod(
        "in",
        "a",
        "labels: { netloom.io/security-group: web }, annotations: { netloom.io/security-groups: ' ssh,' }",
        "10.0.1.31",
    );
    check(&(both + &groups), &["b/web > a/in 80", "b/web > a/in 22"], &["b/web > a/in 23"]);
    // No name is no group.
    check(&(member(" , ") + &groups), &["b/web > a/in 23"], &[]);
}

#[test]
fn remotes_are_groups_or_ranges() {
    let peer = pod("peer", "a", "labels: { netloom.io/security-group: peers }", "10.0.1.32");
    let away = pod("peer", "b", "labels: { netloom.io/security-group: peers }", "10.0.1.33");
    let peers = group("peers", "{ direction: Egress }");
    let in_b = peers.replace("namespace: a", "namespace: b");
    let of = |remote: &str| {
        member("web") + &peer + &away + &peers + &in_b + &group("web", &format!("{{ direction: Ingress, remote: {{ {remote} }} }}"))
    };
    check(
        &of("group: { name: peers }"),
        &["a/peer > a/in 80"],
        &["b/peer > a/in 80", "a/web > a/in 80"],
    );
    check(
        &of("group: { name: peers, namespace: b }"),
        &["b/peer > a/in 80"],
        &["a/peer > a/in 80"],
    );
    check(&of("group: { name: nobody }"), &[], &["a/peer > a/in 80", "b/peer > a/in 80"]);
    check(
        &of("cidr: 10.0.1.0/28"),
        &["a/web > a/in 80"],
        &["a/peer > a/in 80", "a/db > a/in 80"],
    );
}

#[test]
fn policies_judge_what_groups_let_pass() {
    let groups = member("web") + &group("web", "{ direction: Ingress, protocol: TCP, port: 80 }");
    let only = policy(
        "only",
        "{ podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { app: web } } }] }] }",
    );
    let read = cluster(&(groups + &only));
    answers(&read, &["a/web > a/in 80"], &["a/db > a/in 80", "a/web > a/in 81"]);
    let side = ask(&read, "a/web > a/in 80").unwrap().flows.remove(0).ingress;
    assert!(
        matches!(&side.passed[..], [Step::SecurityGroups { rules }] if rules[0].to_string() == "a/web rules[0]"),
        "{side:?}"
    );
    let side = ask(&read, "a/web > a/in 81").unwrap().flows.remove(0).ingress;
    assert!(
        matches!(&side.decision, Decision::NoGroupRule { groups } if groups.len() == 1),
        "{side:?}"
    );
}

#[test]
fn through_a_service_the_backend_counts() {
    let service = "---\nkind: Service\nmetadata: { name: db, namespace: a }\nspec: { clusterIPs: [10.96.0.5], selector: { app: db }, ports: [{ port: 80, targetPort: 8080 }] }\n";
    let to = |text: &str| member("web") + service + &group("web", &format!("{{ direction: Egress, {text} }}"));
    check(
        &to("remote: { cidr: 10.0.2.0/24 }, protocol: TCP, port: 8080"),
        &["a/in > svc/a/db 80"],
        &[],
    );
    check(&to("remote: { cidr: 10.96.0.0/16 }"), &[], &["a/in > svc/a/db 80"]);
}

#[test]
fn a_group_that_is_not_there_allows_nothing_and_is_told() {
    let read = cluster(&(member("web, wbe") + &group("web", "{ direction: Ingress, protocol: TCP, port: 80 }")));
    answers(&read, &["b/web > a/in 80"], &["b/web > a/in 81"]);
    assert_eq!(
        told(&read),
        [
            "UnknownSecurityGroup Pod a/in: annotation netloom.io/security-groups: there is no SecurityGroup \"wbe\" in its namespace, so it allows \
          nothing; create it or correct the name"
        ]
    );
    let read = cluster(&member("wbe"));
    answers(&read, &[], &["b/web > a/in 80", "a/in > b/web 80"]);
}

#[test]
fn a_rule_that_cannot_be_read_allows_nothing() {
    for (rule, message) in [
        ("{ }", "rules[0].direction: use Ingress or Egress"),
        ("{ direction: ingress }", "rules[0].direction: use Ingress or Egress"),
        (
            "{ direction: Ingress, protocol: GRE }",
            "rules[0].protocol: \"GRE\" is no protocol; use TCP, UDP, SCTP or ICMP, or leave it out for all",
        ),
        (
            "{ direction: Ingress, protocol: TCP, port: 0 }",
            "rules[0].port: port 0 is out of range; use 1 to 65535",
        ),
        (
            "{ direction: Ingress, protocol: TCP, port: 90, endPort: 80 }",
            "rules[0].port: endPort 80 is below port 90; it is the last port of the range",
        ),
        (
            "{ direction: Ingress, protocol: TCP, endPort: 80 }",
            "rules[0].port: endPort without port; give the first port of the range",
        ),
        (
            "{ direction: Ingress, port: 80 }",
            "rules[0].port: port without a protocol that has ports; add protocol TCP, UDP or SCTP",
        ),
        (
            "{ direction: Ingress, protocol: ICMP, port: 80 }",
            "rules[0].port: port without a protocol that has ports; add protocol TCP, UDP or SCTP",
        ),
        (
            "{ direction: Ingress, remote: { } }",
            "rules[0].remote: names no peer; give group or cidr, or leave remote out to allow all",
        ),
        (
            "{ direction: Ingress, remote: { cidr: 10.0.0.0/8, group: { name: web } } }",
            "rules[0].remote: has group and cidr; make two rules of them",
        ),
        (
            "{ direction: Ingress, remote: { cidr: ten } }",
            "rules[0].remote.cidr: \"ten\" is no range of addresses; write for example 192.0.2.0/24 or 2001:db8::/64",
        ),
        (
            "{ direction: Ingress, remote: { group: { } } }",
            "rules[0].remote.group: names no group; give its name",
        ),
        (
            "{ direction: Ingress, ports: 80 }",
            "rules[0]: there is no field \"ports\" here; correct its name or remove it",
        ),
    ] {
        let read = cluster(&(member("web") + &group("web", &format!("{rule}, {{ direction: Ingress, protocol: TCP, port: 7 }}"))));
        answers(&read, &["b/web > a/in 7"], &["b/web > a/in 80", "b/web > a/in 85"]);
        assert_eq!(told(&read), [format!("InvalidSecurityGroup SecurityGroup a/web: {message}")]);
        assert_eq!(ask(&read, "b/web > a/in 80").unwrap().problems.len(), 1);
    }
}
