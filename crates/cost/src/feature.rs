//! What a cluster can have, one feature at a time: the objects, and what a node may have to carry for those of other nodes.

mod isolation;
mod policies;
mod services;

use serde_json::{Value, json};

use crate::Measure;
use crate::cluster::{Base, pod};

/// One feature.
pub struct Feature {
    /// How people call it.
    pub name: &'static str,
    /// What one object is.
    pub object: &'static str,
    /// The objects that `Size` asks for.
    pub objects: fn(&Base) -> Vec<Value>,
    /// How many of them the benchmark has for each node.
    pub per_node: usize,
    /// How many OpenFlow flows a node may have for an object of another node.
    pub elsewhere: usize,
    /// What multiplies today, and why.
    pub multiplied: &'static [(Measure, &'static str)],
}

/// Why logical flows grow with the square of what is on the join switch.
pub const JOINED: &str = "routers on the join switch resolve each other (decision 22)";
const LINKED: &str = "each isolated namespace of the node is paired with each pod of the node";
const A_MEMBER_FOR_EACH_NODE: &str = "every gateway has the service, whether it has pods of it or not";

/// All of them.
pub const FEATURES: &[Feature] = &[
    Feature {
        name: "pods",
        object: "a pod",
        objects: pods,
        per_node: 10,
        elsewhere: 2,
        multiplied: &[],
    },
    Feature {
        name: "ClusterIP services",
        object: "a service of 3 pods",
        objects: services::cluster_ip,
        per_node: 10,
        elsewhere: 12,
        multiplied: &[],
    },
    Feature {
        name: "NodePort services",
        object: "a service of 3 pods",
        objects: services::node_port,
        per_node: 10,
        elsewhere: 26,
        multiplied: &[],
    },
    Feature {
        name: "LoadBalancer services, announced by others",
        object: "a service of 3 pods",
        objects: services::load_balancer,
        per_node: 2,
        elsewhere: 42,
        multiplied: &[],
    },
    Feature {
        name: "LoadBalancer services, announced by the node",
        object: "a service of 3 pods",
        objects: services::announcers,
        per_node: 2,
        elsewhere: 182,
        multiplied: &[],
    },
    Feature {
        name: "loadBalancerSourceRanges",
        object: "a service with 4 ranges",
        objects: services::source_ranges,
        per_node: 2,
        elsewhere: 56,
        multiplied: &[],
    },
    Feature {
        name: "loadBalancerSourceRanges of one service",
        object: "a range",
        objects: services::ranges,
        per_node: 1,
        elsewhere: 2,
        multiplied: &[],
    },
    Feature {
        name: "Local services",
        object: "a service of 3 pods",
        objects: services::local,
        per_node: 2,
        elsewhere: 44,
        multiplied: &[(Measure::Rows, A_MEMBER_FOR_EACH_NODE)],
    },
    Feature {
        name: "NetworkPolicy with peers",
        object: "a subject and a peer",
        objects: policies::peers,
        per_node: 5,
        elsewhere: 8,
        multiplied: &[],
    },
    Feature {
        name: "NetworkPolicies",
        object: "a policy of one rule, with its pod",
        objects: policies::many,
        per_node: 5,
        elsewhere: 2,
        multiplied: &[],
    },
    Feature {
        name: "named ports",
        object: "a subject and a peer",
        objects: policies::named_ports,
        per_node: 5,
        elsewhere: 16,
        multiplied: &[],
    },
    Feature {
        name: "cluster-wide policies",
        object: "a policy of one rule",
        objects: policies::cluster_wide,
        per_node: 1,
        elsewhere: 12,
        multiplied: &[],
    },
    Feature {
        name: "pods of a cluster-wide policy",
        object: "a subject and a peer",
        objects: policies::cluster_wide_pods,
        per_node: 5,
        elsewhere: 12,
        multiplied: &[],
    },
    Feature {
        name: "isolated namespaces",
        object: "a namespace of one pod",
        objects: isolation::namespaces,
        per_node: 5,
        elsewhere: 10,
        multiplied: &[(Measure::OpenFlow, LINKED)],
    },
    Feature {
        name: "closed namespaces",
        object: "a namespace of one pod",
        objects: isolation::closed_namespaces,
        per_node: 1,
        elsewhere: 26,
        multiplied: &[(Measure::OpenFlow, LINKED)],
    },
    Feature {
        name: "apps",
        object: "an app of one pod",
        objects: isolation::apps,
        per_node: 5,
        elsewhere: 2,
        multiplied: &[],
    },
    Feature {
        name: "security groups",
        object: "a group of one pod that lets another in",
        objects: isolation::security_groups,
        per_node: 5,
        elsewhere: 2,
        multiplied: &[],
    },
    Feature {
        name: "members of a security group",
        object: "a pod that lets its group in",
        objects: isolation::group_members,
        per_node: 5,
        elsewhere: 4,
        multiplied: &[],
    },
    Feature {
        name: "Networks",
        object: "a network of one pod and one route",
        objects: isolation::networks,
        per_node: 1,
        elsewhere: 570,
        multiplied: &[(Measure::Logical, JOINED), (Measure::OpenFlow, JOINED)],
    },
    Feature {
        name: "routes of one Network",
        object: "a route",
        objects: isolation::routes,
        per_node: 1,
        elsewhere: 4,
        multiplied: &[],
    },
];

fn pods(base: &Base) -> Vec<Value> {
    let more = |object: usize| pod("base", &format!("more-{object}"), base.node(object), &json!({}));
    (0..base.size.objects).map(more).collect()
}
