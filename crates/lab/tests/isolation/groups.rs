//! Apps and security groups: closed by a label or an annotation, opened by policies and rules.

use crate::questions::{ISOLATED, Way, World, pod};
use crate::{Protocol, wait_event};
use netloom_lab_fixtures::world::wait_ready;

/// Pods of one app reach each other; others come in where a policy lets them, and nodes always do.
pub fn apps_are_closed_until_a_policy_opens_them(world: &World) {
    world.kubectl(&["label", "pod", "-n", "second", "example5", "netloom.io/app=billing"]);
    world.wait_row("Port_Group", "app/second/billing");
    world.check(
        "an app of one",
        &[
            ("second/example6", "second/example5", false),
            ("default/example1", "second/example5", false),
            ("default/example1", "service second/example5", false),
            ("second/example5", "second/example6", true),
            ("second/example5", "service second/example5", true),
            ("node1", "second/example5", true),
        ],
    );
    // The label of a service speaks for its pods.
    world.kubectl(&["label", "service", "-n", "second", "example6", "opencontrail.org/name=billing"]);
    world.wait_member("app/second/billing", &world.addresses("second/example6")[0].to_string());
    world.check(
        "an app of two",
        &[
            ("second/example6", "second/example5", true),
            ("second/example5", "service second/example6", true),
            ("default/example2", "second/example6", false),
        ],
    );
    let open = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: { name: open, namespace: second }\n\
        spec: { podSelector: { matchLabels: { run: example5 } }, ingress: [{ from: [{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: default } } }] }] }\n";
    world.lab.apply(open).unwrap();
    world.wait_row("ACL", "policy/second/open/ingress/0");
    world.check(
        "a policy opens it",
        &[
            ("default/example1", "second/example5", true),
            ("default/example1", "second/example6", false),
            ("second/example6", "second/example5", true),
            ("test-isolated-ns/example3", "second/example5", false),
        ],
    );
    world.kubectl(&["delete", "networkpolicy", "-n", "second", "open"]);
    world.kubectl(&["label", "pod", "-n", "second", "example5", "opencontrail.org/name=other"]);
    wait_event(world, "second", "example5", "ConflictingApp");
    world.check(
        "labels that disagree",
        &[("second/example6", "second/example5", false), ("node1", "second/example5", true)],
    );
    world.kubectl(&[
        "label",
        "pod",
        "-n",
        "second",
        "example5",
        "netloom.io/app-",
        "opencontrail.org/name-",
    ]);
    world.kubectl(&["label", "service", "-n", "second", "example6", "opencontrail.org/name-"]);
    world.wait_no_row("Port_Group", "app/second/");
    world.check(
        "without labels",
        &[
            ("default/example1", "second/example5", true),
            ("default/example1", "second/example6", true),
        ],
    );
}

/// A pod with a group is closed both ways but for the rules, and policies still have their say.
pub fn security_groups_allow_what_their_rules_say(world: &World) {
    let groups = format!(
        "apiVersion: netloom.io/v1alpha1\nkind: SecurityGroup\nmetadata: {{ name: web, namespace: default }}\nspec:\n  rules:\n    \
         - {{ direction: Ingress, protocol: TCP, port: 8080, remote: {{ group: {{ name: clients, namespace: second }} }} }}\n    \
         - {{ direction: Egress, protocol: UDP, port: 9090 }}\n---\n\
         apiVersion: netloom.io/v1alpha1\nkind: SecurityGroup\nmetadata: {{ name: clients, namespace: second }}\nspec: {{ rules: [{{ direction: Egress }}, {{ direction: Ingress, protocol: ICMP }}] }}\n---\n{}{}",
        pod(
            "default",
            "guarded",
            "node1",
            ", annotations: { netloom.io/security-groups: \"web\" }"
        ),
        pod(
            "second",
            "client",
            "node2",
            ", annotations: { netloom.io/security-groups: \"clients\" }"
        ),
    );
    world.lab.apply(&groups).unwrap();
    wait_ready(&world.lab);
    world.wait_row("ACL", "security-group/second/clients/egress/0");
    let (tcp, udp) = (Way::Over(Protocol::Tcp, 8080), Way::Over(Protocol::Udp, 9090));
    let table = [
        ("second/client", "default/guarded", tcp, true),
        ("second/client", "default/guarded", Way::Over(Protocol::Tcp, 7000), false),
        ("second/client", "default/guarded", udp, false),
        ("second/client", "default/guarded", Way::Ping, false),
        ("second/example5", "default/guarded", tcp, false),
        ("default/guarded", "default/example2", udp, true),
        ("default/guarded", "default/example2", tcp, false),
        ("default/guarded", "second/client", udp, false),
        ("default/example1", "second/client", Way::Ping, true),
        ("default/example1", "second/client", tcp, false),
        ("second/client", "default/example1", tcp, true),
        ("node1", "default/guarded", tcp, true),
        ("node1", "default/guarded", Way::Ping, true),
    ];
    world.check_by("rules", &table);
    // What a group allows, a policy may still forbid.
    let deny = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: { name: deny, namespace: default }\nspec: { podSelector: { matchLabels: { run: guarded } } }\n";
    world.lab.apply(deny).unwrap();
    world.wait_row("ACL", "deny/default/run=guarded/ingress");
    world.check_by("a policy forbids", &[("second/client", "default/guarded", tcp, false)]);
    world.kubectl(&["delete", "networkpolicy", "-n", "default", "deny"]);
    // A name of nobody closes, also in a namespace that is isolated.
    world.kubectl(&["annotate", "pod", "-n", ISOLATED, "example3", "netloom.io/security-groups=wbe"]);
    wait_event(world, ISOLATED, "example3", "UnknownSecurityGroup");
    world.check_by(
        "an unknown name",
        &[
            ("test-isolated-ns/example4", "test-isolated-ns/example3", tcp, false),
            ("test-isolated-ns/example3", "test-isolated-ns/example4", tcp, false),
            ("node1", "test-isolated-ns/example3", tcp, true),
        ],
    );
}
