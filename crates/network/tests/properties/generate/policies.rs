//! Namespaces, networks, policies and security groups, few enough to meet.

use std::collections::BTreeMap;

use netloom_network::app::{APP, NAME};
use netloom_network::custom_network::NETWORK;
use netloom_network::isolation::{ISOLATED, ISOLATION};
use netloom_network::policy::log::POLICY_LOG;
use netloom_network::policy::{BlockSpec, Expression, LabelSelector, NetworkPolicySpec, NumberOrName, PeerSpec, PortSpec, RuleSpec};
use netloom_network::security_group::{SECURITY_GROUP, SecurityGroupSpec};
use netloom_network::{CustomNetwork, Namespace, NetworkPolicy, Object, PolicyName, SecurityGroup, SecurityGroupName};
use proptest::prelude::*;
use serde_json::{Value, json};

pub const NAMESPACES: [&str; 2] = ["default", "guarded"];

/// Those there are, with nothing to say: without its namespace a pod has no port.
pub fn namespaces() -> impl Iterator<Item = Object> + Clone + std::fmt::Debug {
    let all = NAMESPACES.map(|name| Object::Namespace(name.to_owned(), Namespace::new(name, "namespace-0".to_owned(), [].into())));
    all.into_iter()
}

pub fn namespace() -> BoxedStrategy<Object> {
    (0..2usize, 0..2u8, labels(), isolation(), network_named(), logged())
        .prop_map(|(number, generation, labels, mut annotations, network, log)| {
            annotations.extend(network.into_iter().chain(log));
            let name = NAMESPACES[number];
            let namespace = Namespace::new(name, format!("namespace-{generation}"), labels).annotated(annotations);
            Object::Namespace(name.to_owned(), namespace)
        })
        .boxed()
}

pub fn network_policy() -> BoxedStrategy<Object> {
    (0..4usize, 0..2u8, spec())
        .prop_map(|(number, generation, spec)| {
            let name = PolicyName {
                namespace: NAMESPACES[number % 2].to_owned(),
                name: format!("policy{number}"),
            };
            let uid = format!("policy-{generation}");
            Object::NetworkPolicy(name, NetworkPolicy { uid, spec })
        })
        .boxed()
}

pub fn security_group() -> BoxedStrategy<Object> {
    (0..4usize, 0..2u8, prop::collection::vec(group_rule(), 0..3))
        .prop_map(|(number, generation, rules)| {
            let (spec, uid) = (SecurityGroupSpec { rules: Some(rules) }, format!("group-{generation}"));
            Object::SecurityGroup(group_name(number), SecurityGroup { uid, spec })
        })
        .boxed()
}

/// Networks that meet and that do not, roomy and full, and some that are none.
pub fn network() -> BoxedStrategy<Object> {
    let spec = prop_oneof![
        3 => Just(json!({ "subnets": ["192.168.0.0/29"] })),
        2 => Just(json!({ "subnets": ["192.168.0.0/29"], "isolated": true })),
        2 => Just(json!({ "subnets": ["192.168.0.0/24", "fd01::/64"], "gateways": ["192.168.0.9"] })),
        1 => Just(json!({ "subnets": ["fd01::/64"], "isolated": true })),
        2 => Just(json!({ "subnets": ["192.168.0.0/30"] })),
        1 => Just(json!({ "subnets": ["192.168.0.0/30"], "gateways": ["192.168.0.2"] })),
        1 => Just(json!({ "subnets": ["192.168.0.0/24"], "routes": [{ "to": "203.0.113.0/24", "via": "192.168.0.2" }] })),
        1 => Just(json!({ "subnets": ["192.168.0.0/24"], "routes": [
            { "to": "203.0.113.0/24", "via": "192.168.0.2" }, { "to": "203.0.113.0/24", "via": "192.168.0.3" },
        ] })),
        1 => Just(json!({ "subnets": ["192.168.0.0/24"], "routes": [{ "to": "10.244.0.5/32", "via": "192.168.0.2" }] })),
        2 => Just(json!({ "subnets": ["192.168.0.0/24"], "namespaceSelector": { "matchLabels": { "app": "v0" } } })),
        1 => Just(json!({ "subnets": ["10.244.0.0/24"] })),
        1 => Just(json!({ "subnets": "nonsense" })),
    ];
    (0..3u8, 0..2u8, spec)
        .prop_map(|(number, generation, spec)| {
            let uid = format!("network-{generation}");
            Object::CustomNetwork(format!("n{number}"), CustomNetwork { uid, spec })
        })
        .boxed()
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
    let protocol = prop_oneof![4 => Just(json!("TCP")), 1 => Just(json!("UDP")), 1 => Just(json!("ICMP")), 1 => Just(Value::Null)];
    (remote, any::<bool>(), protocol, prop::option::of(79..90i64)).prop_map(|(remote, ingress, protocol, port)| {
        json!({ "direction": if ingress { "Ingress" } else { "Egress" }, "protocol": protocol, "port": port, "remote": remote })
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
        let (from, to) = if ingress { (Some(peers), None) } else { (None, Some(peers)) };
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
