//! ports: numbers, names, ranges, protocols.

use super::{check, policy};

fn ingress(ports: &str) -> String {
    policy("p", &format!("{{ podSelector: {{}}, ingress: [{{ ports: {ports} }}] }}"))
}

fn egress(ports: &str) -> String {
    policy(
        "p",
        &format!("{{ podSelector: {{}}, policyTypes: [Egress], egress: [{{ ports: {ports} }}] }}"),
    )
}

#[test]
fn missing_and_empty_ports_are_all_ports_of_all_protocols() {
    for ports in ["null", "[]"] {
        check(
            &ingress(ports),
            &["b/web > a/web 1", "b/web > a/web 65535 UDP", "b/web > a/web 9 SCTP"],
            &[],
        );
        check(
            &egress(ports),
            &["a/web > b/web 1", "a/web > b/web 65535 UDP", "a/web > b/web 9 SCTP"],
            &[],
        );
    }
}

#[test]
fn the_protocol_is_tcp_unless_said() {
    check(
        &ingress("[{ port: 80 }]"),
        &["b/web > a/web 80"],
        &["b/web > a/web 80 UDP", "b/web > a/web 80 SCTP", "b/web > a/web 81"],
    );
    check(
        &ingress("[{ port: 53, protocol: UDP }]"),
        &["b/web > a/web 53 UDP"],
        &["b/web > a/web 53"],
    );
    check(
        &ingress("[{ port: 2905, protocol: SCTP }]"),
        &["b/web > a/db 2905 SCTP"],
        &["b/web > a/db 2905", "b/web > a/db 2905 UDP"],
    );
}

#[test]
fn a_protocol_without_port_is_all_its_ports() {
    check(&ingress("[{ protocol: UDP }]"), &["b/web > a/web 1 UDP"], &["b/web > a/web 1"]);
    check(&ingress("[{}]"), &["b/web > a/web 1"], &["b/web > a/web 1 UDP"]);
}

#[test]
fn several_ports_widen() {
    check(
        &ingress("[{ port: 80 }, { port: 53, protocol: UDP }]"),
        &["b/web > a/web 80", "b/web > a/web 53 UDP"],
        &["b/web > a/web 53", "b/web > a/web 80 UDP"],
    );
}

#[test]
fn ranges_have_both_ends() {
    check(
        &ingress("[{ port: 8000, endPort: 8002 }]"),
        &["b/web > a/web 8000", "b/web > a/web 8001", "b/web > a/web 8002"],
        &["b/web > a/web 7999", "b/web > a/web 8003", "b/web > a/web 8001 UDP"],
    );
    check(
        &ingress("[{ port: 80, endPort: 80 }]"),
        &["b/web > a/web 80"],
        &["b/web > a/web 81"],
    );
    check(
        &egress("[{ port: 1, endPort: 65535, protocol: SCTP }]"),
        &["a/web > 198.51.100.1 65535 SCTP"],
        &["a/web > 198.51.100.1 65535"],
    );
}

#[test]
fn a_name_is_each_receiving_pods_own_number() {
    // It is 80 at a/web and 8080 at a/db.
    check(
        &ingress("[{ port: http }]"),
        &["b/web > a/web 80", "b/web > a/db 8080"],
        &["b/web > a/web 8080", "b/web > a/db 80", "b/web > a/web 80 UDP"],
    );
    // In egress rules too: the receiver's names, not the sender's.
    check(
        &egress("[{ port: http }]"),
        &["a/web > a/db 8080", "a/db > a/web 80", "a/db > b/web 80"],
        // Neither an address outside nor a node has names, also where a pod in the node's network has one.
        &[
            "a/web > a/db 80",
            "a/web > b/db 80",
            "a/web > 198.51.100.1 80",
            "a/web > node/node1 80",
            "a/web > a/host 80",
        ],
    );
}

#[test]
fn a_name_goes_with_its_protocol() {
    check(
        &ingress("[{ port: dns, protocol: UDP }]"),
        &["b/web > a/web 53 UDP"],
        &["b/web > a/web 53"],
    );
    check(&ingress("[{ port: dns }]"), &[], &["b/web > a/web 53 UDP", "b/web > a/web 53"]);
    check(
        &ingress("[{ port: signal, protocol: SCTP }]"),
        &["b/web > a/db 2905 SCTP"],
        &["b/web > a/web 2905 SCTP"],
    );
}

#[test]
fn init_containers_have_names_while_they_run() {
    check(&ingress("[{ port: proxy }]"), &["b/web > a/web 15001"], &["b/web > a/db 15001"]);
    check(&ingress("[{ port: once }]"), &[], &["b/web > a/web 15002"]);
}

#[test]
fn a_rule_wants_peer_and_port() {
    let rule = "{ from: [{ podSelector: { matchLabels: { app: db } } }], ports: [{ port: 80 }] }";
    let other = "{ from: [{ namespaceSelector: { matchLabels: { team: blue } } }], ports: [{ port: 81 }] }";
    check(
        &policy("p", &format!("{{ podSelector: {{}}, ingress: [{rule}, {other}] }}")),
        &["a/db > a/web 80", "b/web > a/web 81"],
        &["a/db > a/web 81", "b/web > a/web 80"],
    );
}
