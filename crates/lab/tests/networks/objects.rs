//! Objects of these tests: networks, namespaces and pods that say who they are.

/// A port of every pod.
pub const TCP: u16 = 8080;
pub const UDP: u16 = 9090;
/// What most networks here have: the same, on purpose.
pub const SUBNETS: &str = "subnets: [192.168.10.0/24, \"fd01:10::/64\"]";

pub fn network(name: &str, spec: &str) -> String {
    format!("apiVersion: netloom.io/v1alpha1\nkind: Network\nmetadata: {{ name: {name} }}\nspec: {{ {spec} }}\n---\n")
}

/// A namespace with a label that has its name.
pub fn namespace(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {name}, labels: {{ team: {name} }}, annotations: {{ {annotations} }} }}\n---\n"
    )
}

/// A namespace whose pods are on a network.
pub fn namespace_on(name: &str, network: &str) -> String {
    namespace(name, &format!("netloom.io/network: {network}"))
}

/// A pod that answers over TCP and UDP, and has a label with its name.
pub fn pod(namespace: &str, name: &str, node: &str) -> String {
    pod_with(namespace, name, node, "", "")
}

/// The same with further labels and annotations.
pub fn pod_with(namespace: &str, name: &str, node: &str, labels: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, namespace: {namespace}, labels: {{ run: {name}, {labels} }}, annotations: {{ {annotations} }} }}\nspec:\n  \
         nodeName: {node}\n  terminationGracePeriodSeconds: 0\n  containers:\n    - name: echo\n      image: any\n      ports:\n        \
         - {{ name: http, containerPort: {TCP} }}\n        - {{ containerPort: 7000 }}\n        - {{ containerPort: {UDP}, protocol: UDP }}\n---\n"
    )
}

/// A service for pods with a label.
pub fn service(namespace: &str, name: &str, selector: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name}, namespace: {namespace} }}\nspec:\n  selector: {{ {selector} }}\n  ipFamilyPolicy: PreferDualStack\n{more}  \
         ports:\n    - {{ name: tcp, port: 80, targetPort: {TCP} }}\n    - {{ name: udp, port: 80, targetPort: {UDP}, protocol: UDP }}\n---\n"
    )
}

pub fn policy(namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{ name: {name}, namespace: {namespace} }}\nspec: {spec}\n---\n"
    )
}
