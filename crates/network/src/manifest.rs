//! Objects from manifests: Kubernetes JSON to [`Object`], for `netloom plan`, scenarios and tests. Workloads stand for the pods they
//! would create, and pods nobody bound are spread over the nodes, so that a plan needs no cluster.

mod policies;
mod services;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

pub use services::{NOT_OURS, SERVICE_NAME};

use crate::annotations;
use crate::cluster::{ClusterNetwork, Namespaced, Node, NodeName, Object, Pod};
use crate::custom_network::CustomNetwork;
use crate::isolation::ISOLATED;
use crate::port::{self, PortSpec, PortStatus};
use crate::security_group::{SecurityGroup, SecurityGroupSpec};
use crate::service::{ExternalPool, ExternalPoolSpec};
use crate::settings::ClusterNetworkSpec;

/// Label with a node's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of nodes that announce no external address.
pub const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Group of our own kinds; others have a kind of the same name.
const OURS: &str = "netloom.io/";

/// Kinds that must have a name.
const NAMED: &[&str] = &[
    "AdminNetworkPolicy",
    "BaselineAdminNetworkPolicy",
    "ClusterNetwork",
    "ClusterNetworkPolicy",
    "Deployment",
    "EndpointSlice",
    "ExternalPool",
    "Namespace",
    "Network",
    "NetworkPolicy",
    "Node",
    "Pod",
    "Port",
    "ReplicaSet",
    "SecurityGroup",
    "Service",
    "StatefulSet",
];

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: Option<String>,
    uid: String,
    creation_timestamp: String,
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
}

impl Metadata {
    fn namespaced(self) -> Namespaced {
        Namespaced {
            namespace: self.namespace.unwrap_or_else(|| "default".to_owned()),
            name: self.name,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    host_network: bool,
    containers: Vec<policies::Container>,
    init_containers: Vec<policies::Container>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodIp>,
    addresses: Vec<NodeAddress>,
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

#[derive(Deserialize)]
struct PodIp {
    ip: IpAddr,
}

#[derive(Deserialize)]
struct NodeAddress {
    r#type: String,
    address: String,
}

/// Reads one manifest. Kinds the network does not depend on give nothing; a malformed one gives a sentence naming it.
pub fn read(manifest: &Value) -> Result<Vec<Object>, String> {
    let kind = manifest.get("kind").and_then(Value::as_str).unwrap_or_default();
    let metadata: Metadata = part(manifest, "metadata", kind)?;
    if metadata.name.is_empty() && NAMED.contains(&kind) {
        return Err(format!("{kind}: metadata.name is missing"));
    }
    let named = format!("{kind}/{}", metadata.name);
    Ok(match kind {
        "List" => {
            let items = manifest.get("items").and_then(Value::as_array).into_iter().flatten();
            return items.map(read).collect::<Result<Vec<_>, _>>().map(|lists| lists.concat());
        }
        "ClusterNetwork" if metadata.name == "default" => {
            vec![Object::ClusterNetwork(ClusterNetwork {
                uid: metadata.uid,
                spec: part::<ClusterNetworkSpec>(manifest, "spec", &named)?,
            })]
        }
        "ClusterNetwork" => {
            return Err(format!(
                "{named}: there is one cluster network and its name is \"default\"; rename it"
            ));
        }
        "Node" => vec![node(metadata, part(manifest, "status", &named)?)],
        "Pod" => vec![pod(metadata, part(manifest, "spec", &named)?, part(manifest, "status", &named)?)],
        "Service" => services::service(metadata, part(manifest, "spec", &named)?, part(manifest, "status", &named)?)
            .into_iter()
            .collect(),
        "EndpointSlice" => {
            let slice = Deserialize::deserialize(manifest).map_err(|error| format!("{named}: {error}"))?;
            services::slice(metadata, slice).into_iter().collect()
        }
        "ExternalPool" => {
            let (uid, spec) = (metadata.uid, part::<ExternalPoolSpec>(manifest, "spec", &named)?);
            vec![Object::ExternalPool(metadata.name, ExternalPool { uid, spec })]
        }
        "SecurityGroup" => {
            let (uid, spec) = (metadata.uid.clone(), part::<SecurityGroupSpec>(manifest, "spec", &named)?);
            vec![Object::SecurityGroup(metadata.namespaced(), SecurityGroup { uid, spec })]
        }
        "Network" if is_ours(manifest) => {
            let (uid, spec) = (metadata.uid, part::<Value>(manifest, "spec", &named)?);
            vec![Object::CustomNetwork(metadata.name, CustomNetwork { uid, spec })]
        }
        "Port" if is_ours(manifest) => {
            let (spec, status): (PortSpec, PortStatus) = (part(manifest, "spec", &named)?, part(manifest, "status", &named)?);
            let (uid, annotations) = (metadata.uid.clone(), relevant(metadata.annotations.clone()));
            let pod = port::as_pod(uid, annotations, metadata.labels.clone(), spec, &status);
            vec![Object::Pod(metadata.namespaced().of_machine(), pod)]
        }
        "Namespace" => vec![policies::namespace(metadata)],
        "NetworkPolicy" => vec![policies::policy(metadata, part(manifest, "spec", &named)?)],
        "AdminNetworkPolicy" | "BaselineAdminNetworkPolicy" | "ClusterNetworkPolicy" => {
            policies::cluster_policy(kind, metadata, manifest).into_iter().collect()
        }
        "Deployment" | "ReplicaSet" | "StatefulSet" => workload(manifest, &metadata, &named)?,
        _ => Vec::new(),
    })
}

/// Does what a cluster would before the network is asked: binds pods that have no node to the nodes in turn (without any node there
/// is `node1`), gives services their cluster address and makes the namespaces that are only mentioned.
pub fn place(objects: Vec<Object>) -> Vec<Object> {
    let mut names: Vec<NodeName> = objects
        .iter()
        .filter_map(|o| if let Object::Node(name, _) = o { Some(name.clone()) } else { None })
        .collect();
    let mut placed = objects;
    if names.is_empty() {
        names.push("node1".to_owned());
        let addresses = vec![IpAddr::from([192, 0, 2, 1])];
        placed.insert(
            0,
            Object::Node(
                "node1".to_owned(),
                Node {
                    addresses,
                    ..Node::default()
                },
            ),
        );
    }
    services::number(&mut placed);
    policies::name_namespaces(&mut placed);
    let mut turn = names.iter().cycle();
    for object in &mut placed {
        if let Object::Pod(_, pod) = object
            && pod.node.is_none()
        {
            pod.node = turn.next().cloned();
        }
    }
    placed
}

/// Keeps the annotations the network reads.
pub fn relevant(mut annotations: BTreeMap<String, String>) -> BTreeMap<String, String> {
    annotations.retain(|name, _| name.starts_with(annotations::PREFIX) || name == ISOLATED);
    annotations
}

/// Others have kinds of the same name.
fn is_ours(manifest: &Value) -> bool {
    let version = manifest.get("apiVersion").and_then(Value::as_str);
    version.is_none_or(|version| version.starts_with(OURS))
}

fn workload(manifest: &Value, metadata: &Metadata, named: &str) -> Result<Vec<Object>, String> {
    let replicas = manifest.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    let template = manifest.pointer("/spec/template").cloned().unwrap_or_default();
    (0..replicas)
        .map(|number| {
            let mut inner: Metadata = part(&template, "metadata", named)?;
            inner.name = format!("{}-{number}", metadata.name);
            inner.namespace.clone_from(&metadata.namespace);
            Ok(pod(inner, part(&template, "spec", named)?, Status::default()))
        })
        .collect()
}

fn node(metadata: Metadata, status: Status) -> Object {
    let of_type = |internal: bool| {
        let addresses = status.addresses.iter().filter(move |a| (a.r#type == "InternalIP") == internal);
        addresses.filter_map(|a| a.address.parse().ok()).collect()
    };
    Object::Node(
        metadata.name,
        Node {
            uid: metadata.uid,
            addresses: of_type(true),
            other_addresses: of_type(false),
            annotations: relevant(metadata.annotations),
            zone: metadata.labels.get(ZONE).cloned(),
            ready: status.conditions.iter().all(|c| c.r#type != "Ready" || c.status == "True"),
            excluded: metadata.labels.contains_key(EXCLUDED),
            labels: metadata.labels,
        },
    )
}

fn pod(metadata: Metadata, spec: PodSpec, status: Status) -> Object {
    let pod = Pod {
        uid: metadata.uid.clone(),
        node: spec.node_name,
        host_network: spec.host_network,
        finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
        annotations: relevant(metadata.annotations.clone()),
        labels: metadata.labels.clone(),
        ports: policies::named_ports(spec.containers, spec.init_containers),
        addresses: status.pod_ips.into_iter().map(|entry| entry.ip).collect(),
    };
    Object::Pod(metadata.namespaced(), pod)
}

fn part<T: for<'de> Deserialize<'de> + Default>(manifest: &Value, field: &str, named: &str) -> Result<T, String> {
    match manifest.get(field) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => T::deserialize(value).map_err(|error| format!("{named}: {field}: {error}")),
    }
}
