//! Through a service: the backend is judged, with its own port.

use super::{answers, ask, check, cluster, policy};

const WEB: &str = "
---
kind: Service
metadata: { name: web, namespace: a }
spec:
  clusterIP: 10.96.0.5
  clusterIPs: [10.96.0.5, 'fd00:96::5']
  selector: { app: web }
  ports: [{ name: http, port: 8000, targetPort: http, nodePort: 30080 }]
---
kind: Service
metadata: { name: all, namespace: a }
spec:
  clusterIP: 10.96.0.6
  ports: [{ name: http, port: 8000 }, { name: dns, port: 53, protocol: UDP }]
---
kind: EndpointSlice
metadata: { name: all-1, namespace: a, labels: { kubernetes.io/service-name: all } }
addressType: IPv4
ports: [{ name: http, port: 8080 }]
endpoints:
  - { addresses: [10.0.1.10], targetRef: { kind: Pod, name: web, namespace: a }, nodeName: node1 }
  - { addresses: [10.0.2.10], nodeName: node2 }
  - { addresses: [10.0.2.11], conditions: { ready: false } }
  - { addresses: [192.0.2.2], nodeName: node2 }
  - { addresses: [198.51.100.9] }
---
kind: Service
metadata: { name: names, namespace: a }
spec: { clusterIP: None, selector: { app: db }, ports: [{ port: 9000, targetPort: 1 }] }
";

#[test]
fn the_backend_and_its_port_are_judged() {
    let only = policy(
        "p",
        "{ podSelector: { matchLabels: { app: db } }, policyTypes: [Egress], egress: [{ to: [{ podSelector: {} }], ports: [{ port: 80 }] }] }",
    );
    // The selector takes a/host too, which is a node to policies.
    let verdict = ask(&cluster(&(WEB.to_owned() + &only)), "a/db > svc/a/web 8000").unwrap();
    let told: Vec<(String, u16, bool)> = verdict
        .flows
        .iter()
        .map(|flow| (flow.to.to_string(), flow.port, flow.allowed))
        .collect();
    assert_eq!(
        told,
        [
            ("pod a/web".to_owned(), 80, true),
            ("pod a/host in the network of node node1".to_owned(), 80, false)
        ]
    );
    assert!(!verdict.allowed);
}

#[test]
fn the_address_of_a_service_is_in_no_range() {
    let vip = policy(
        "p",
        "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 10.96.0.0/16 } }] }] }",
    );
    check(&(WEB.to_owned() + &vip), &[], &["a/db > 10.96.0.5 8000", "a/db > svc/a/web 8000"]);
    let backend = policy(
        "p",
        "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 10.0.1.10/32 } }, { ipBlock: { cidr: 192.0.2.1/32 } }] }] }",
    );
    // One address is one family.
    check(
        &(WEB.to_owned() + &backend),
        &["a/db > 10.96.0.5 8000"],
        &["a/db > fd00:96::5 8000", "a/db > svc/a/web 8000"],
    );
}

#[test]
fn slices_say_who_the_backends_are() {
    let deny = policy("p", "{ podSelector: {} }");
    let cluster = cluster(&(WEB.to_owned() + &deny));
    let verdict = ask(&cluster, "b/web > 10.96.0.6 8000").unwrap();
    let told: Vec<(String, u16, bool)> = verdict
        .flows
        .iter()
        .map(|flow| (flow.to.to_string(), flow.port, flow.allowed))
        .collect();
    let one = |text: &str, allowed| (text.to_owned(), 8080, allowed);
    assert_eq!(
        told,
        [
            one("pod a/db", false),
            one("pod a/web", false),
            one("node node2", true),
            one("address 198.51.100.9", true)
        ]
    );
}

#[test]
fn a_node_port_leads_to_the_backends() {
    let deny = policy("p", "{ podSelector: { matchLabels: { app: web } } }");
    let cluster = cluster(&(WEB.to_owned() + &deny));
    answers(
        &cluster,
        &["b/web > node/node2 22"],
        &["b/web > node/node2 30080", "b/web > 192.0.2.1 30080"],
    );
    let verdict = ask(&cluster, "198.51.100.1 > node/node2 30080").unwrap();
    assert_eq!(
        verdict.notes,
        [
            "TCP 30080 is a node port: if the node itself translates it, the backend sees the node's service port instead of address 198.51.100.1, which label selectors never match",
            "service a/web has externalTrafficPolicy Cluster: its backends see the address of a node's gateway, not address 198.51.100.1, which \
             was used here",
        ]
    );
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    let deny = policy("p", "{ podSelector: {}, policyTypes: [Ingress, Egress] }");
    let verdict = ask(&cluster(&(WEB.to_owned() + &deny)), "a/web > svc/a/web 8000").unwrap();
    assert!(
        verdict.flows.iter().any(|flow| flow.to.to_string() == "pod a/web" && flow.allowed),
        "{verdict:#?}"
    );
}

#[test]
fn a_headless_service_is_its_pods() {
    let port = policy("p", "{ podSelector: {}, ingress: [{ ports: [{ port: 9000 }] }] }");
    check(&(WEB.to_owned() + &port), &["b/web > svc/a/names 9000"], &["b/web > svc/a/names 1"]);
}

#[test]
fn a_headless_service_with_slices_translates_no_port_either() {
    let slice = "
---
kind: EndpointSlice
metadata: { name: names-1, namespace: a, labels: { kubernetes.io/service-name: names } }
addressType: IPv4
ports: [{ name: '', port: 1 }]
endpoints: [{ addresses: [10.0.2.10], targetRef: { kind: Pod, name: db, namespace: a } }]
";
    let port = policy("p", "{ podSelector: {}, ingress: [{ ports: [{ port: 9000 }] }] }");
    let cluster = cluster(&(WEB.to_owned() + slice + &port));
    answers(&cluster, &["b/web > svc/a/names 9000"], &["b/web > svc/a/names 1"]);
}

#[test]
fn local_services_have_the_backends_of_the_clients_node() {
    let local = WEB.replace("clusterIP: 10.96.0.6\n", "clusterIP: 10.96.0.6\n  internalTrafficPolicy: Local\n");
    let deny = policy("p", "{ podSelector: { matchLabels: { app: web } } }");
    let cluster = cluster(&(local + &deny));
    answers(&cluster, &["b/web > svc/a/all 8000"], &["b/db > svc/a/all 8000"]);
}

#[test]
fn what_cannot_be_told_says_what_there_is() {
    let more = "
---
kind: Service
metadata: { name: elsewhere, namespace: a }
spec: { type: ExternalName, externalName: example.com }
---
kind: Service
metadata: { name: nobody, namespace: a }
spec: { selector: { app: none }, ports: [{ port: 80 }] }
";
    let cluster = cluster(&(WEB.to_owned() + more));
    for (question, answer) in [
        ("a/web > svc/a/web 9999", "service a/web has no port TCP 9999; it has: TCP 8000"),
        (
            "a/web > svc/a/wbe 80",
            "there is no service a/wbe; services of namespace a: all, elsewhere, names, nobody, web",
        ),
        (
            "a/web > svc/a/elsewhere 80",
            "service a/elsewhere stands for example.com, which is outside; ask about its address",
        ),
        (
            "a/web > svc/a/nobody 80",
            "service a/nobody has no backend that could answer, so no policy is asked; see whether its selector matches ready pods",
        ),
        ("a/wbe > a/db 80", "there is no pod a/wbe; pods of namespace a: db, host, web"),
        (
            "web > a/db 80",
            "there is no pod default/web; namespace default has no pods; is the namespace right (-n)?",
        ),
        ("node/node9 > a/db 80", "there is no node node9; there are: node1, node2"),
    ] {
        assert_eq!(ask(&cluster, question).unwrap_err().to_string(), answer, "{question}");
    }
}
