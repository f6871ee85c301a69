//! `netloom why` in a living cluster: its verdict is compared with `ovn-trace`, and a difference is told as the bug it is.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::process::{Command, Output};

use netloom_lab::{Lab, Signal};
use netloom_lab_fixtures::world::{lab_with, pod, wait_ready};
use serde_json::Value;

const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: { name: shut, annotations: { netloom.io/isolation: pods } }
---
apiVersion: netloom.io/v1alpha1
kind: Network
metadata: { name: blue }
spec: { subnets: [192.168.10.0/24, 'fd01:10::/64'], isolated: true }
---
";

const REST: &str = "
apiVersion: v1
kind: Service
metadata: { name: inside, namespace: shut }
spec: { selector: { app: inside }, ipFamilyPolicy: PreferDualStack, ports: [{ port: 80, targetPort: 8080 }] }
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: { name: far }
spec:
  tier: Admin
  priority: 7
  subject: { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: far } } } }
  egress: [{ action: Deny, to: [{ pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: near } } } }] }]
---
apiVersion: netloom.io/v1alpha1
kind: SecurityGroup
metadata: { name: web-only }
spec: { rules: [{ direction: Ingress, protocol: TCP, port: 8080 }] }
---
apiVersion: v1
kind: Service
metadata: { name: db }
spec: { selector: { app: db }, ipFamilyPolicy: PreferDualStack, ports: [{ port: 80, targetPort: 8080 }] }
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: db }
spec:
  podSelector: { matchLabels: { app: db } }
  ingress: [{ from: [{ podSelector: { matchLabels: { app: web } } }], ports: [{ port: 8080 }] }]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: web }
spec:
  podSelector: { matchLabels: { app: web } }
  policyTypes: [Egress]
  egress: [{ to: [{ podSelector: { matchLabels: { app: db } } }] }, { to: [{ ipBlock: { cidr: 198.51.100.0/24 } }] }]
";

fn why(lab: &Lab, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = Command::new(&lab.spec().binary)
        .arg("why")
        .args(arguments)
        .env("KUBECONFIG", lab.home().kubeconfig())
        .output()
        .unwrap();
    (
        status.code(),
        String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr),
    )
}

fn labelled(name: &str, node: &str) -> String {
    pod(name, node).replace("app: echo", &format!("app: {name}"))
}

#[test]
fn the_verdict_is_compared_with_a_trace() {
    let lab = lab_with("why", |spec| spec.nodes(2));
    let pods = [("web", "node1"), ("near", "node1"), ("db", "node2"), ("far", "node2")].map(|(name, node)| labelled(name, node));
    let inside = labelled("inside", "node2").replace("name: inside, labels", "name: inside, namespace: shut, labels");
    let guarded = labelled("guarded", "node2").replace("labels: {", "labels: { netloom.io/security-group: web-only,");
    let tenants = [("tenant", "node1"), ("other", "node2")].map(|(name, node)| {
        let on_blue = format!("name: {name}, annotations: {{ netloom.io/network: blue }}, labels");
        labelled(name, node).replace(&format!("name: {name}, labels"), &on_blue)
    });
    lab.apply(&(NAMESPACE.to_owned() + &pods.concat() + &tenants.concat() + &inside + &guarded + REST))
        .unwrap();
    wait_ready(&lab);
    lab.control().run(&["ovn-nbctl", "--wait=sb", "sync"]).unwrap();

    for (question, code, packets) in [
        (&["web", "db", "8080"][..], 0, 2),
        (&["near", "db", "8080"], 1, 2),
        (&["web", "db", "8081"], 1, 2),
        (&["web", "svc/db", "80"], 0, 2),
        (&["near", "svc/db", "80"], 1, 2),
        (&["near", "web", "9090", "--protocol", "udp"], 0, 2),
        (&["web", "near", "8080"], 1, 2),
        (&["web", "198.51.100.7", "443"], 0, 1),
        (&["web", "203.0.113.7", "443"], 1, 1),
        (&["near", "203.0.113.7", "443"], 0, 1),
        (&["node/node2", "db", "8080"], 0, 2),
        (&["node/node1", "db", "8080"], 1, 2),
        (&["node/node2", "svc/db", "80"], 0, 2),
        (&["node/node1", "svc/db", "80"], 1, 2),
        // Isolation of namespaces, cluster-wide policies and security groups are compared just so.
        (&["near", "shut/inside", "8080"], 1, 2),
        (&["shut/inside", "near", "8080"], 0, 2),
        (&["far", "near", "8080"], 1, 2),
        (&["near", "far", "8080"], 0, 2),
        (&["near", "guarded", "8080"], 0, 2),
        (&["near", "guarded", "9090", "--protocol", "udp"], 1, 2),
        (&["guarded", "near", "8080"], 1, 2),
        // From and to pods on a network, by the addresses everybody knows them by.
        (&["tenant", "other", "8080"], 0, 2),
        (&["near", "tenant", "8080"], 1, 2),
        (&["tenant", "near", "8080"], 0, 2),
        (&["tenant", "db", "8080"], 1, 2),
        (&["tenant", "svc/db", "80"], 1, 2),
        (&["node/node2", "tenant", "8080"], 0, 2),
        (&["tenant", "203.0.113.7", "443"], 0, 1),
    ] {
        let (exit, said) = why(&lab, question);
        assert_eq!(exit, Some(code), "{question:?}: {said}");
        let same = if packets == 1 {
            "(1 packet)".to_owned()
        } else {
            format!("({packets} packets)")
        };
        assert!(
            said.contains(&format!("trace: ovn-trace says the same {same}\n")),
            "{question:?}: {said}"
        );
    }
    let (exit, said) = why(&lab, &["198.51.100.7", "near", "8080"]);
    assert_eq!(exit, Some(0), "{said}");
    assert!(
        said.contains("note: not compared with ovn-trace: what address 198.51.100.7 sends has no port"),
        "{said}"
    );
    let (exit, said) = why(&lab, &["near", "svc/shut/inside", "80"]);
    assert_eq!(exit, Some(0), "{said}");
    assert!(
        said.contains("note: not compared with ovn-trace: ovn-trace translates a service's address"),
        "{said}"
    );
    let (_, said) = why(&lab, &["web", "db", "8080", "--no-trace"]);
    assert!(!said.contains("ovn-trace"), "{said}");

    // Somebody opens what policies deny, while nobody is there to mend it.
    lab.kill_part("control", "controller", Signal::SIGSTOP).unwrap();
    let open = "for acl in $(ovn-nbctl --bare --columns=_uuid find ACL action=drop); do ovn-nbctl set ACL $acl action=allow-related; done; ovn-nbctl --wait=sb sync";
    lab.control().run(&["bash", "-c", open]).unwrap();
    let (exit, said) = why(&lab, &["near", "db", "8080"]);
    assert_eq!(exit, Some(3), "{said}");
    assert!(
        said.contains("denied: pod default/near to pod default/db, TCP 8080")
            && said.contains("BUG: ovn-trace says allowed for pod default/near to pod default/db, TCP 8080"),
        "{said}"
    );
    let (exit, said) = why(&lab, &["near", "db", "8080", "-o", "json"]);
    assert_eq!(exit, Some(3), "{said}");
    let answer: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&answer["allowed"], &answer["trace"]["agrees"]), (&false.into(), &false.into()));
    assert_eq!(answer["trace"]["packets"][0]["allowed"], true);
    lab.kill_part("control", "controller", Signal::SIGCONT).unwrap();
}
