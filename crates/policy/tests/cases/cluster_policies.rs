//! ClusterNetworkPolicy, AdminNetworkPolicy and BaselineAdminNetworkPolicy: subjects, peers, ports and actions of each form.

use super::{check, cluster_policy};

/// A ClusterNetworkPolicy of the Admin tier with these rules.
fn admin(rules: &str) -> String {
    cluster_policy("p", "Admin", 5, rules)
}

fn subject(subject: &str) -> String {
    format!(
        "---\nkind: ClusterNetworkPolicy\nmetadata: {{ name: p }}\nspec: {{ tier: Admin, priority: 5, subject: {{ {subject} }}, \
         ingress: [{{ action: Deny, from: [{{ namespaces: {{}} }}] }}] }}\n"
    )
}

#[test]
fn subjects_are_namespaces_or_pods_and_never_those_in_their_nodes_network() {
    check(
        &subject("namespaces: { matchLabels: { team: red } }"),
        &["a/web > b/web 80", "b/web > a/host 80"],
        &["b/web > a/web 80", "b/web > a/db 80"],
    );
    check(
        &subject("namespaces: {}"),
        &["198.51.100.1 > a/web 80"],
        &["a/web > b/web 80", "b/web > a/web 80", "b/web > c/plain 80"],
    );
    check(
        &subject("pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: db } } }"),
        &["b/web > a/web 80"],
        &["b/web > a/db 80", "a/web > b/db 80"],
    );
    check(
        &subject(
            "pods: { namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: b } }, podSelector: { matchLabels: { app: db } } }",
        ),
        &["b/web > a/db 80"],
        &["a/web > b/db 80"],
    );
    // The selector of namespaces may be left out.
    check(
        &subject("pods: { podSelector: { matchLabels: { app: db } } }"),
        &["b/web > a/web 80"],
        &["b/web > a/db 80", "a/web > b/db 80"],
    );
}

#[test]
fn a_direction_without_rules_is_not_affected() {
    check(
        &admin("ingress: [{ action: Deny, from: [{ namespaces: {} }] }]"),
        &["a/web > b/web 80"],
        &["b/web > a/web 80"],
    );
    check(
        &admin("egress: [{ action: Deny, to: [{ namespaces: {} }] }]"),
        &["b/web > a/web 80"],
        &["a/web > b/web 80"],
    );
    check(&admin("ingress: [], egress: []"), &["b/web > a/web 80", "a/web > b/web 80"], &[]);
}

#[test]
fn peers_are_pods_by_labels() {
    check(
        &admin("ingress: [{ action: Deny, from: [{ namespaces: { matchLabels: { team: blue } } }] }]"),
        &[
            "a/db > a/web 80",
            "c/plain > a/web 80",
            "node/node2 > a/web 80",
            "198.51.100.1 > a/web 80",
        ],
        &["b/web > a/web 80", "b/db > a/web 80"],
    );
    check(
        &admin(
            "egress: [{ action: Deny, to: [{ pods: { namespaceSelector: { matchLabels: { team: blue } }, podSelector: { matchLabels: { app: web } } } }, { namespaces: { matchLabels: { kubernetes.io/metadata.name: c } } }] }]",
        ),
        &["a/db > b/db 80", "a/db > a/web 80", "a/db > a/host 80"],
        &["a/db > b/web 80", "a/db > c/plain 80"],
    );
}

#[test]
fn networks_are_addresses_whoever_has_them() {
    check(
        &admin("egress: [{ action: Deny, to: [{ networks: [10.0.2.0/24, '2001:db8::/64', 198.51.100.1/32] }] }]"),
        &[
            "a/web > b/db 80",
            "a/web > 192.0.2.2 80",
            "a/web > 198.51.100.2 80",
            "b/db > b/web 80",
        ],
        &[
            "a/web > 10.0.2.11 80",
            "a/web > 198.51.100.1 80",
            "a/web > 2001:db8::2 80",
            "a/web > 2001:db8::99 80",
        ],
    );
}

#[test]
fn nodes_are_the_addresses_of_nodes_with_such_labels() {
    let node = "---\nkind: Node\nmetadata: { name: node2, labels: { role: edge }, annotations: { netloom.io/subnets: '10.0.2.0/24' } }\n\
                status: { addresses: [{ type: InternalIP, address: 192.0.2.2 }, { type: Hostname, address: node2 }] }\n";
    let to = |selector: &str| node.to_owned() + &admin(&format!("egress: [{{ action: Deny, to: [{{ nodes: {selector} }}] }}]"));
    check(
        &to("{ matchLabels: { role: edge } }"),
        &[
            "a/web > node/node1 22",
            "a/web > b/web 80",
            "a/web > 10.0.2.2 22",
            "a/web > 192.0.2.3 22",
        ],
        &["a/web > node/node2 22", "a/web > 192.0.2.2 53 UDP"],
    );
    check(
        &to("{}"),
        &["a/web > b/web 80"],
        &["a/web > node/node1 22", "a/web > node/node2 22", "a/web > a/host 80"],
    );
}

#[test]
fn ports_by_protocol_number_range_and_name() {
    let deny = |protocols: &str| {
        admin(&format!(
            "ingress: [{{ action: Deny, from: [{{ namespaces: {{}} }}], protocols: [{protocols}] }}]"
        ))
    };
    check(
        &deny("{ tcp: { destinationPort: { number: 80 } } }, { udp: { destinationPort: { range: { start: 50, end: 59 } } } }"),
        &[
            "b/web > a/web 81",
            "b/web > a/web 80 UDP",
            "b/web > a/web 60 UDP",
            "b/web > a/web 80 SCTP",
        ],
        &["b/web > a/web 80", "b/web > a/web 50 UDP", "b/web > a/web 59 UDP"],
    );
    check(
        &deny("{ sctp: { destinationPort: { number: 2905 } } }"),
        &["b/web > a/db 2905"],
        &["b/web > a/db 2905 SCTP"],
    );
    // Each pod's own number, of the protocol it declares.
    check(
        &deny("{ destinationNamedPort: http }, { destinationNamedPort: dns }, { destinationNamedPort: nobody }"),
        &["b/web > a/db 80", "b/web > a/web 8080", "b/web > a/web 53", "b/web > a/web 80 UDP"],
        &["b/web > a/web 80", "b/web > a/db 8080", "b/web > a/web 53 UDP"],
    );
    // For egress it is the receiver's.
    check(
        &admin("egress: [{ action: Deny, to: [{ namespaces: {} }], protocols: [{ destinationNamedPort: http }] }]"),
        &["a/db > a/web 8080", "a/db > 198.51.100.1 80"],
        &["a/db > a/web 80", "a/web > a/db 8080"],
    );
}

#[test]
fn admin_network_policies_say_the_same_in_other_words() {
    let anp = |rules: &str| {
        format!(
            "---\napiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {{ name: p }}\nspec: {{ priority: 5, \
             subject: {{ namespaces: {{ matchLabels: {{ team: red }} }} }}, {rules} }}\n"
        )
    };
    let ports = "ports: [{ portNumber: { protocol: UDP, port: 53 } }, { portRange: { start: 80, end: 82 } }, { namedPort: http }]";
    check(
        &anp(&format!("ingress: [{{ action: Deny, from: [{{ namespaces: {{}} }}], {ports} }}]")),
        &["b/web > a/web 53", "b/web > a/web 83", "b/web > a/web 81 UDP"],
        &["b/web > a/web 53 UDP", "b/web > a/web 82", "b/web > a/db 8080"],
    );
    check(
        &anp("egress: [{ action: Allow, to: [{ networks: [10.0.2.0/24] }] }, { action: Deny, to: [{ networks: [10.0.0.0/8] }] }]"),
        &["a/web > 10.0.2.11 80", "a/web > 198.51.100.1 80"],
        &["a/web > 10.0.1.11 80"],
    );
    let banp = |rules: &str| {
        anp(rules)
            .replace("AdminNetworkPolicy", "BaselineAdminNetworkPolicy")
            .replace("priority: 5, ", "")
    };
    check(
        &banp(
            "ingress: [{ action: Allow, from: [{ namespaces: { matchLabels: { team: blue } } }] }, { action: Deny, from: [{ namespaces: {} }] }]",
        ),
        &["b/web > a/web 80", "198.51.100.1 > a/web 80"],
        &["c/plain > a/web 80", "a/db > a/web 80"],
    );
}

#[test]
fn a_pod_and_its_own_node_are_always_let_through() {
    check(
        &admin(
            "ingress: [{ action: Deny, from: [{ namespaces: {} }] }], egress: [{ action: Deny, to: [{ networks: [0.0.0.0/0, '::/0'] }] }]",
        ),
        &["a/web > a/web 80", "node/node1 > a/web 80"],
        &["a/web > node/node1 22", "a/db > a/web 80"],
    );
}

#[test]
fn through_a_service_the_backend_is_judged() {
    let service = "---\nkind: Service\nmetadata: { name: web, namespace: b }\nspec: { clusterIPs: [10.96.0.5], selector: { app: web }, ports: [{ port: 8000, targetPort: http }] }\n";
    let deny = |to: &str, port: u16| {
        service.to_owned()
            + &admin(&format!(
                "egress: [{{ action: Deny, to: [{to}], protocols: [{{ tcp: {{ destinationPort: {{ number: {port} }} }} }}] }}]"
            ))
    };
    check(&deny("{ networks: [10.0.2.0/24] }", 80), &[], &["a/web > svc/b/web 8000"]);
    check(&deny("{ networks: [10.96.0.0/16] }", 8000), &["a/web > svc/b/web 8000"], &[]);
}
