//! Random namespaces, labels and policies, few enough to meet; and which pods a set must have, found by looking at all of them.

mod membership;

use std::collections::{BTreeMap, BTreeSet};

pub use membership::wrong_groups;

use netloom_network::app::{APP, NAME};
use netloom_network::cluster::NamedPort;
use netloom_network::custom_network::NETWORK;
use netloom_network::isolation::{ISOLATED, ISOLATION};
use netloom_network::policy::log::POLICY_LOG;
use netloom_network::policy::{
    BlockSpec, Expression, LabelSelector, NetworkPolicySpec, NumberOrName, PeerSpec, PortSpec, Role, RuleSpec, Selection,
};
use netloom_network::security_group::{SECURITY_GROUP, SecurityGroupSpec};
use netloom_network::service::Protocol;
use netloom_network::{
    Cluster, ClusterPolicy, ClusterPolicyName, CustomNetwork, Key, Namespace, NetworkPolicy, Object, Planner, PolicyName, RowId,
    SecurityGroup, SecurityGroupName,
};
use proptest::prelude::*;
use serde_json::{Value, json};

pub const NAMESPACES: [&str; 2] = ["default", "guarded"];

/// The namespaces and policies of an API server.
#[derive(Default)]
pub struct Objects {
    namespaces: BTreeMap<String, Namespace>,
    policies: BTreeMap<PolicyName, NetworkPolicy>,
    cluster_policies: BTreeMap<ClusterPolicyName, ClusterPolicy>,
    groups: BTreeMap<SecurityGroupName, SecurityGroup>,
    networks: BTreeMap<String, CustomNetwork>,
}

impl Objects {
    pub fn insert(&mut self, object: Object) {
        match object {
            Object::Namespace(name, namespace) => drop(self.namespaces.insert(name, namespace)),
            Object::NetworkPolicy(name, policy) => drop(self.policies.insert(name, policy)),
            Object::ClusterPolicy(name, policy) => drop(self.cluster_policies.insert(name, policy)),
            Object::SecurityGroup(name, group) => drop(self.groups.insert(name, group)),
            Object::CustomNetwork(name, network) => drop(self.networks.insert(name, network)),
            other => unreachable!("{other:?} is none of these"),
        }
    }

    pub fn remove(&mut self, object: &Object) {
        match object {
            Object::Namespace(name, _) => drop(self.namespaces.remove(name)),
            Object::NetworkPolicy(name, _) => drop(self.policies.remove(name)),
            Object::ClusterPolicy(name, _) => drop(self.cluster_policies.remove(name)),
            Object::SecurityGroup(name, _) => drop(self.groups.remove(name)),
            Object::CustomNetwork(name, _) => drop(self.networks.remove(name)),
            other => unreachable!("{other:?} is none of these"),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = Object> {
        let namespaces = self
            .namespaces
            .clone()
            .into_iter()
            .map(|(name, object)| Object::Namespace(name, object));
        let policies = self
            .policies
            .clone()
            .into_iter()
            .map(|(name, object)| Object::NetworkPolicy(name, object));
        let cluster_policies = self.cluster_policies.clone().into_iter();
        let cluster_policies = cluster_policies.map(|(name, object)| Object::ClusterPolicy(name, object));
        let groups = self
            .groups
            .clone()
            .into_iter()
            .map(|(name, object)| Object::SecurityGroup(name, object));
        let networks = self.networks.clone().into_iter();
        let networks = networks.map(|(name, object)| Object::CustomNetwork(name, object));
        namespaces.chain(policies).chain(cluster_policies).chain(groups).chain(networks)
    }
}

pub fn object() -> impl Strategy<Value = Object> {
    let namespace =
        (0..2usize, labels(), isolation(), network_named(), logged()).prop_map(|(number, labels, mut annotations, network, log)| {
            annotations.extend(network.into_iter().chain(log));
            let name = NAMESPACES[number];
            let namespace = Namespace::new(name, String::new(), labels).annotated(annotations);
            Object::Namespace(name.to_owned(), namespace)
        });
    let policy = (0..6usize, spec()).prop_map(|(number, spec)| {
        let name = PolicyName {
            namespace: NAMESPACES[number % 2].to_owned(),
            name: format!("policy{number}"),
        };
        Object::NetworkPolicy(name, NetworkPolicy { uid: String::new(), spec })
    });
    let group = (0..4usize, prop::collection::vec(group_rule(), 0..3)).prop_map(|(number, rules)| {
        let (spec, uid) = (SecurityGroupSpec { rules: Some(rules) }, String::new());
        Object::SecurityGroup(group_name(number), SecurityGroup { uid, spec })
    });
    prop_oneof![3 => namespace, 5 => policy, 2 => group, 2 => network()]
}

/// Networks that meet and that do not, roomy and full, and some that are none.
fn network() -> impl Strategy<Value = Object> {
    let spec = prop_oneof![
        3 => Just(json!({ "subnets": ["192.168.0.0/29"] })),
        2 => Just(json!({ "subnets": ["192.168.0.0/29"], "isolated": true })),
        2 => Just(json!({ "subnets": ["192.168.0.0/24", "fd01::/64"], "gateways": ["192.168.0.9"] })),
        1 => Just(json!({ "subnets": ["fd01::/64"], "isolated": true })),
        1 => Just(json!({ "subnets": ["192.168.0.0/30"] })),
        1 => Just(json!({ "subnets": ["192.168.0.0/24"], "routes": [{ "to": "203.0.113.0/24", "via": "192.168.0.2" }] })),
        2 => Just(json!({ "subnets": ["192.168.0.0/24"], "namespaceSelector": { "matchLabels": { "app": "v0" } } })),
        1 => Just(json!({ "subnets": ["10.244.0.0/24"] })),
        1 => Just(json!({ "subnets": "nonsense" })),
    ];
    (0..3u8, spec).prop_map(|(number, spec)| Object::CustomNetwork(format!("n{number}"), CustomNetwork { uid: String::new(), spec }))
}

/// An annotation that names one of them, or one that never is.
pub fn network_named() -> impl Strategy<Value = Option<(String, String)>> {
    prop::option::weighted(0.3, (0..4u8).prop_map(|number| (NETWORK.to_owned(), format!("n{number}"))))
}

fn group_name(number: usize) -> SecurityGroupName {
    SecurityGroupName {
        namespace: NAMESPACES[number % 2].to_owned(),
        name: format!("v{}", number / 2),
    }
}

fn group_rule() -> impl Strategy<Value = Value> {
    let remote = prop_oneof![
        1 => Just(Value::Null),
        1 => Just(json!({ "cidr": "10.0.0.0/8" })),
        3 => (0..4usize).prop_map(|number| json!({ "group": { "name": group_name(number).name, "namespace": NAMESPACES[number % 2] } })),
        1 => Just(json!("nonsense")),
    ];
    (remote, any::<bool>(), prop::option::of(79..90i64)).prop_map(|(remote, ingress, port)| {
        json!({ "direction": if ingress { "Ingress" } else { "Egress" }, "protocol": "TCP", "port": port, "remote": remote })
    })
}

/// Annotations of a namespace.
fn isolation() -> impl Strategy<Value = BTreeMap<String, String>> {
    let ours = prop_oneof![
        6 => Just(None),
        1 => Just(Some("none")),
        2 => Just(Some("pods")),
        3 => Just(Some("services")),
        1 => Just(Some("nonsense"))
    ];
    let theirs = prop_oneof![4 => Just(None), 2 => Just(Some("true")), 1 => Just(Some("false"))];
    (ours, theirs).prop_map(|(ours, theirs)| {
        let pairs = [(ISOLATION, ours), (ISOLATED, theirs)];
        let given = pairs
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        given.collect()
    })
}

/// The annotation that asks for a log, of a namespace or a cluster-wide policy.
pub fn logged() -> impl Strategy<Value = Option<(String, String)>> {
    let asked = prop_oneof![
        2 => Just("dropped"),
        2 => Just("allowed"),
        2 => Just("all"),
        1 => Just("none"),
        1 => Just("nonsense")
    ];
    prop::option::weighted(0.4, asked.prop_map(|asked| (POLICY_LOG.to_owned(), asked.to_owned())))
}

pub fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let label = (
        prop_oneof![4 => Just("app"), 4 => Just("tier"), 1 => Just(APP), 1 => Just(NAME), 1 => Just(SECURITY_GROUP)],
        0..2u8,
    );
    prop::collection::vec(label, 0..3).prop_map(|all| all.into_iter().map(|(key, value)| (key.to_owned(), format!("v{value}"))).collect())
}

pub fn ports() -> impl Strategy<Value = Vec<NamedPort>> {
    let port = (0..2u16, any::<bool>()).prop_map(|(number, udp)| NamedPort {
        name: "http".to_owned(),
        protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
        number: 80 + number,
    });
    prop::collection::vec(port, 0..2)
}

fn spec() -> impl Strategy<Value = NetworkPolicySpec> {
    let types = prop_oneof![
        Just(vec![]),
        Just(vec!["Ingress"]),
        Just(vec!["Egress"]),
        Just(vec!["Ingress", "Egress"]),
        Just(vec!["Nonsense"])
    ];
    (
        selector(),
        types,
        prop::collection::vec(rule(true), 0..3),
        prop::collection::vec(rule(false), 0..3),
    )
        .prop_map(|(pod_selector, types, ingress, egress)| NetworkPolicySpec {
            pod_selector,
            policy_types: types.into_iter().map(str::to_owned).collect(),
            ingress,
            egress,
            ..NetworkPolicySpec::default()
        })
}

pub fn selector() -> impl Strategy<Value = LabelSelector> {
    let operator = prop_oneof![
        4 => Just(("In", vec!["v0".to_owned()])),
        2 => Just(("In", vec!["v0".to_owned(), "v1".to_owned()])),
        2 => Just(("NotIn", vec!["v1".to_owned()])),
        2 => Just(("Exists", vec![])),
        2 => Just(("DoesNotExist", vec![])),
        1 => Just(("Nonsense", vec![])),
    ];
    let expression = (prop_oneof![Just("app"), Just("tier")], operator).prop_map(|(key, (operator, values))| Expression {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values,
        ..Expression::default()
    });
    (labels(), prop::collection::vec(expression, 0..2)).prop_map(|(match_labels, match_expressions)| LabelSelector {
        match_labels,
        match_expressions,
        ..LabelSelector::default()
    })
}

fn rule(ingress: bool) -> impl Strategy<Value = RuleSpec> {
    (prop::collection::vec(peer(), 0..3), prop::collection::vec(port(), 0..3)).prop_map(move |(peers, ports)| {
        let (from, to) = if ingress { (peers, vec![]) } else { (vec![], peers) };
        RuleSpec {
            from,
            to,
            ports,
            ..RuleSpec::default()
        }
    })
}

fn peer() -> impl Strategy<Value = PeerSpec> {
    let block = prop_oneof![Just(("10.244.0.0/27", "10.244.0.8/30")), Just(("fd00::/60", "10.0.0.0/8"))];
    let block = block.prop_map(|(cidr, except)| BlockSpec {
        cidr: cidr.to_owned(),
        except: vec![except.to_owned()],
        ..BlockSpec::default()
    });
    prop_oneof![
        4 => (prop::option::of(selector()), prop::option::of(selector())).prop_map(|(pod_selector, namespace_selector)| PeerSpec {
            pod_selector,
            namespace_selector,
            ..PeerSpec::default()
        }),
        1 => block.prop_map(|block| PeerSpec { ip_block: Some(block), ..PeerSpec::default() }),
    ]
}

fn port() -> impl Strategy<Value = PortSpec> {
    let number = prop_oneof![
        3 => Just(Some(NumberOrName::Name("http".to_owned()))),
        2 => (0..70_000i64).prop_map(|number| Some(NumberOrName::Number(number))),
        1 => Just(None),
    ];
    (number, any::<bool>()).prop_map(|(port, udp)| PortSpec {
        protocol: udp.then(|| "UDP".to_owned()),
        port,
        ..PortSpec::default()
    })
}

/// Every set has the pods it must have and no other.
pub fn wrong_sets(planner: &Planner) -> Vec<String> {
    let cluster = planner.cluster();
    let members = |table: &'static str, key: &str, column| -> BTreeSet<String> {
        let row = RowId::of(table, &Key::new(key));
        let values = planner.desired().members(row, column);
        values
            .map(|value| value.as_str().map_or_else(|| value.as_uuid().unwrap().to_string(), str::to_owned))
            .collect()
    };
    let mut wrong = Vec::new();
    for (selection, role) in cluster.selections() {
        let mut expected: BTreeMap<(&str, String, &'static str), BTreeSet<String>> = BTreeMap::new();
        match role {
            Role::Subject | Role::ClusterSubject => drop(expected.insert(("Port_Group", group(role, selection), "ports"), BTreeSet::new())),
            Role::Peers => {
                for kind in ["4", "6", "link"] {
                    expected.insert(("Address_Set", format!("peers/{selection}/{kind}"), "addresses"), BTreeSet::new());
                }
            }
            Role::Port(..) => {}
        }
        for (name, pod) in cluster
            .pods
            .iter()
            .filter(|(name, pod)| is_in(cluster, selection, &name.namespace, &pod.labels))
        {
            let Some(assignment) = cluster.records.assignment(name, &pod.uid).filter(|_| pod.wants_port()) else {
                continue;
            };
            if matches!(role, Role::Subject | Role::ClusterSubject) {
                let port = Key::new(format!("port/{}/{}/eth0", name.namespace, name.name)).uuid("Logical_Switch_Port");
                expected
                    .entry(("Port_Group", group(role, selection), "ports"))
                    .or_default()
                    .insert(port.to_string());
                continue;
            }
            let addresses = assignment
                .addresses
                .iter()
                .map(|ip| (if ip.is_ipv4() { "4" } else { "6" }, ip.to_string()));
            let link = assignment.attachment.iter().map(|_| ("link", assignment.mac.to_string()));
            for (kind, address) in addresses.chain(link) {
                let keys = match role {
                    Role::Port(wanted, protocol) => {
                        let ports = pod.ports.iter().filter(|port| port.name == *wanted && port.protocol == *protocol);
                        ports
                            .map(|port| format!("named-port/{wanted}/{protocol}/{}/{selection}/{kind}", port.number))
                            .collect()
                    }
                    _ => vec![format!("peers/{selection}/{kind}")],
                };
                for key in keys {
                    expected
                        .entry(("Address_Set", key, "addresses"))
                        .or_default()
                        .insert(address.clone());
                }
            }
        }
        for ((table, key, column), expected) in expected {
            let table = if table == "Port_Group" { "Port_Group" } else { "Address_Set" };
            if members(table, &key, column) != expected {
                wrong.push(format!("{table} {key}: {:?} instead of {expected:?}", members(table, &key, column)));
            }
        }
    }
    wrong
}

fn group(role: &Role, selection: &Selection) -> String {
    let cluster = if *role == Role::ClusterSubject { "cluster-" } else { "" };
    format!("{cluster}subject/{selection}")
}

fn is_in(cluster: &Cluster, selection: &Selection, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
    let known = cluster.namespaces.get(namespace).map(|namespace| &namespace.labels);
    selection.pods.matches(labels) && selection.reaches(namespace, known)
}
