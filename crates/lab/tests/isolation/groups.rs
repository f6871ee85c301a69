//! Apps and security groups: closed by a label or an annotation, opened by policies and rules.

use netloom_lab_fixtures::ask::Protocol;

use crate::questions::{Probe, World, pod};

/// Pods of one app reach each other; others come in where a policy lets them, and nodes always do.
#[test]
fn apps_are_closed_until_a_policy_opens_them() {
    let world = World::up("apps");
    let (open, second) = (world.namespace("open"), world.namespace("second"));
    world.kubectl(&["label", "pod", "-n", &second, "example5", "netloom.io/app=billing"]);
    world.wait_row("Port_Group", &format!("app/{second}/billing"));
    world.check(
        "an app of one",
        &[
            ("second/example6", "second/example5", false),
            ("open/example1", "second/example5", false),
            ("open/example1", "service second/example5", false),
            ("second/example5", "second/example6", true),
            ("second/example5", "service second/example5", true),
            ("node1", "second/example5", true),
        ],
    );
    // The label of a service speaks for its pods.
    world.kubectl(&["label", "service", "-n", &second, "example6", "opencontrail.org/name=billing"]);
    world.wait_member(&format!("app/{second}/billing"), &world.addresses("second/example6")[0].to_string());
    world.check(
        "an app of two",
        &[
            ("second/example6", "second/example5", true),
            ("second/example5", "service second/example6", true),
            ("open/example2", "second/example6", false),
        ],
    );
    let policy = format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{ name: open, namespace: {second} }}\n\
         spec: {{ podSelector: {{ matchLabels: {{ run: example5 }} }}, ingress: [{{ from: [{{ namespaceSelector: {{ matchLabels: {{ kubernetes.io/metadata.name: {open} }} }} }}] }}] }}\n"
    );
    world.lab.apply(&policy).unwrap();
    world.wait_row("ACL", &format!("policy/{second}/open/ingress/0/4"));
    world.check(
        "a policy opens it",
        &[
            ("open/example1", "second/example5", true),
            ("open/example1", "second/example6", false),
            ("second/example6", "second/example5", true),
            ("isolated/example3", "second/example5", false),
        ],
    );
    world.kubectl(&["delete", "networkpolicy", "-n", &second, "open"]);
    world.kubectl(&["label", "pod", "-n", &second, "example5", "opencontrail.org/name=other"]);
    world.wait_event(&second, "example5", "ConflictingApp");
    world.check(
        "labels that disagree",
        &[("second/example6", "second/example5", false), ("node1", "second/example5", true)],
    );
    world.kubectl(&[
        "label",
        "pod",
        "-n",
        &second,
        "example5",
        "netloom.io/app-",
        "opencontrail.org/name-",
    ]);
    world.kubectl(&["label", "service", "-n", &second, "example6", "opencontrail.org/name-"]);
    world.wait_no_row("Port_Group", &format!("app/{second}/"));
    world.check(
        "without labels",
        &[
            ("open/example1", "second/example5", true),
            ("open/example1", "second/example6", true),
        ],
    );
}

/// A pod with a group is closed both ways but for the rules, and policies still have their say.
#[test]
fn security_groups_allow_what_their_rules_say() {
    let world = World::up("groups");
    let [open, isolated, second] = ["open", "isolated", "second"].map(|role| world.namespace(role));
    let groups = format!(
        "apiVersion: netloom.io/v1alpha1\nkind: SecurityGroup\nmetadata: {{ name: web, namespace: {open} }}\nspec:\n  rules:\n    \
         - {{ direction: Ingress, protocol: TCP, port: 8080, remote: {{ group: {{ name: clients, namespace: {second} }} }} }}\n    \
         - {{ direction: Egress, protocol: UDP, port: 9090 }}\n---\n\
         apiVersion: netloom.io/v1alpha1\nkind: SecurityGroup\nmetadata: {{ name: clients, namespace: {second} }}\nspec: {{ rules: [{{ direction: Egress }}, {{ direction: Ingress, protocol: ICMP }}] }}\n---\n{}{}",
        pod(&open, "guarded", "node1", ", annotations: { netloom.io/security-groups: \"web\" }"),
        pod(
            &second,
            "client",
            "node2",
            ", annotations: { netloom.io/security-groups: \"clients\" }"
        ),
    );
    world.lab.apply(&groups).unwrap();
    world.wait_ready();
    world.wait_row("ACL", &format!("security-group/{second}/clients/egress/0"));
    let (tcp, udp) = (Probe::Over(Protocol::Tcp, 8080), Probe::Over(Protocol::Udp, 9090));
    let table = [
        ("second/client", "open/guarded", tcp, true),
        ("second/client", "open/guarded", Probe::Over(Protocol::Tcp, 7000), false),
        ("second/client", "open/guarded", udp, false),
        ("second/client", "open/guarded", Probe::Ping, false),
        ("second/example5", "open/guarded", tcp, false),
        ("open/guarded", "open/example2", udp, true),
        ("open/guarded", "open/example2", tcp, false),
        ("open/guarded", "second/client", udp, false),
        ("open/example1", "second/client", Probe::Ping, true),
        ("open/example1", "second/client", tcp, false),
        ("second/client", "open/example1", tcp, true),
        ("node1", "open/guarded", tcp, true),
        ("node1", "open/guarded", Probe::Ping, true),
    ];
    world.check_by("rules", &table);
    // What a group allows, a policy may still forbid.
    let deny = format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{ name: deny, namespace: {open} }}\nspec: {{ podSelector: {{ matchLabels: {{ run: guarded }} }} }}\n"
    );
    world.lab.apply(&deny).unwrap();
    world.wait_row("Port_Group", &format!("subject/{open}/run=guarded"));
    world.check_by("a policy forbids", &[("second/client", "open/guarded", tcp, false)]);
    world.kubectl(&["delete", "networkpolicy", "-n", &open, "deny"]);
    // A name that no group has closes, also in a namespace that is isolated.
    world.kubectl(&["annotate", "pod", "-n", &isolated, "example3", "netloom.io/security-groups=wbe"]);
    world.wait_event(&isolated, "example3", "UnknownSecurityGroup");
    world.check_by(
        "an unknown name",
        &[
            ("isolated/example4", "isolated/example3", tcp, false),
            ("isolated/example3", "isolated/example4", tcp, false),
            ("node1", "isolated/example3", tcp, true),
        ],
    );
}
