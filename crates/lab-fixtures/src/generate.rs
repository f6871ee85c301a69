//! Random clusters as Kubernetes objects, small enough that everything meets: the same few labels, ports and ranges on all sides.
//!
//! First come the objects pods depend on ([`objects`]); when their addresses are known, what says who may talk to whom ([`rules`]),
//! because ranges of addresses are chosen around those that are there. Each kind of rule is a [`Feature`] with a file of its own.

mod apps;
mod cluster;
mod cluster_policies;
mod isolation;
mod logs;
pub mod machines;
mod networks;
mod policies;
mod random;
mod security_groups;
mod selectors;

use std::net::IpAddr;

use serde_json::Value;

pub use random::Random;

/// What a cluster may have that decides who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `NetworkPolicy`.
    NetworkPolicies,
    /// `ClusterNetworkPolicy`, `AdminNetworkPolicy`, `BaselineAdminNetworkPolicy`.
    ClusterPolicies,
    /// Isolation annotations of namespaces.
    NamespaceIsolation,
    /// App labels of pods and services.
    Apps,
    /// `SecurityGroup`, and pods that name them.
    SecurityGroups,
    /// `Network`, and pods on them.
    Networks,
}

const FEATURES: [Feature; 6] = [
    Feature::NetworkPolicies,
    Feature::ClusterPolicies,
    Feature::NamespaceIsolation,
    Feature::Apps,
    Feature::SecurityGroups,
    Feature::Networks,
];
/// Every so many clusters one has networks.
const NETWORKED: u64 = 5;

/// How large and how wild.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The least and the greatest number of nodes.
    pub nodes: (u64, u64),
    /// Of namespaces.
    pub namespaces: (u64, u64),
    /// Of pods.
    pub pods: (u64, u64),
    /// Of services.
    pub services: (u64, u64),
    /// Of policies of each kind.
    pub policies: (u64, u64),
    /// Whether some objects have a mistake, as an API server would not let in.
    pub mistakes: bool,
    /// Whether pods may share their node's network or have ended, or be machines.
    pub odd_pods: bool,
    /// What decides who talks to whom.
    pub features: Vec<Feature>,
}

impl Shape {
    /// Every form there is.
    pub fn wild(seed: u64) -> Self {
        Self {
            nodes: (2, 3),
            namespaces: (3, 5),
            pods: (8, 14),
            services: (1, 4),
            policies: (2, 9),
            mistakes: true,
            odd_pods: true,
            features: features(seed),
        }
    }

    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// What decides in the cluster of a seed: mostly one feature or two, because what many forbid shows little about each. `NETLOOM_FEATURES` names
/// others.
fn features(seed: u64) -> Vec<Feature> {
    let [rest @ .., networks] = FEATURES;
    let one = |number: u64| rest[(number % 5) as usize];
    // The number of the cluster among those without networks.
    let place = seed - seed / NETWORKED;
    match std::env::var("NETLOOM_FEATURES") {
        Err(_) if seed.is_multiple_of(NETWORKED) => match seed / NETWORKED % 5 {
            0 => vec![networks],
            1 => vec![networks, Feature::NamespaceIsolation],
            2 => vec![networks, Feature::NetworkPolicies],
            3 => vec![networks, one(seed / 25)],
            _ => FEATURES.to_vec(),
        },
        Err(_) => match place / 2 % 4 {
            0 => vec![Feature::NetworkPolicies],
            1 => vec![one(place)],
            2 => vec![one(place), one(place / 5)],
            _ => rest.to_vec(),
        },
        Ok(wanted) => FEATURES
            .into_iter()
            .filter(|feature| wanted.split(',').any(|name| name == format!("{feature:?}")))
            .collect(),
    }
}

/// Addresses that are there when rules are made.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Of pods, in networks as well.
    pub pods: Vec<IpAddr>,
    /// Of nodes, all of them.
    pub nodes: Vec<IpAddr>,
    /// Of services.
    pub services: Vec<IpAddr>,
    /// Of nobody in the cluster.
    pub outside: Vec<IpAddr>,
}

/// Nodes, namespaces, pods and services, and networks of pods.
pub fn objects(random: &mut Random, shape: &Shape) -> Vec<Value> {
    let mut objects = cluster::objects(random, shape);
    if shape.has(Feature::NamespaceIsolation) {
        isolation::mark(random, shape, &mut objects);
    }
    if shape.has(Feature::Apps) {
        apps::mark(random, shape, &mut objects);
    }
    if shape.has(Feature::SecurityGroups) {
        security_groups::mark(random, shape, &mut objects);
    }
    if shape.has(Feature::Networks) {
        networks::add(random, shape, &mut objects);
    }
    // Of a copy, so that the rest is the same with and without.
    logs::mark(&mut random.clone(), &mut objects);
    if shape.odd_pods {
        machines::mark(&mut objects);
    }
    objects
}

/// What says who may talk to whom among these objects.
pub fn rules(random: &mut Random, shape: &Shape, objects: &[Value], known: &Known) -> Vec<Value> {
    let mut rules = Vec::new();
    if shape.has(Feature::NetworkPolicies) {
        rules.extend(policies::objects(random, shape, objects, known));
    }
    if shape.has(Feature::ClusterPolicies) {
        rules.extend(cluster_policies::objects(random, shape, known));
    }
    if shape.has(Feature::SecurityGroups) {
        rules.extend(security_groups::objects(random, shape, objects, known));
    }
    logs::mark(&mut random.clone(), &mut rules);
    rules
}

/// Endpoint slices of the services, as the endpoint controller would make them once pods have addresses.
pub fn slices(objects: &[Value]) -> Vec<Value> {
    cluster::slices(objects)
}

/// The objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

fn of_kind_mut<'a>(objects: &'a mut [Value], kind: &'a str) -> impl Iterator<Item = &'a mut Value> {
    objects.iter_mut().filter(move |object| object["kind"] == kind)
}

/// A text field of an object.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
