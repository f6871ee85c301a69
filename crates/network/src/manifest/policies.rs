//! Namespaces, network policies, cluster-wide policies and the names of containers' ports from manifests.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::{Metadata, relevant};
use crate::cluster::{NamedPort, Object};
use crate::policy::cluster::GROUP;
use crate::policy::{ClusterPolicy, ClusterPolicyKind, ClusterPolicyName, Namespace, NetworkPolicy, NetworkPolicySpec};
use crate::service::Protocol;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    restart_policy: String,
    ports: Vec<ContainerPort>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerPort {
    name: String,
    protocol: String,
    container_port: u16,
}

pub(super) fn namespace(metadata: Metadata) -> Object {
    let namespace = Namespace::new(&metadata.name, metadata.uid, metadata.labels).annotated(relevant(metadata.annotations));
    Object::Namespace(metadata.name, namespace)
}

pub(super) fn policy(metadata: Metadata, spec: NetworkPolicySpec) -> Object {
    let uid = metadata.uid.clone();
    Object::NetworkPolicy(metadata.namespaced(), NetworkPolicy { uid, spec })
}

/// None for a kind of another group that is called the same.
pub(super) fn cluster_policy(kind: &str, metadata: Metadata, manifest: &Value) -> Option<Object> {
    let version = manifest["apiVersion"].as_str();
    let ours = version.is_none_or(|version| version.split('/').next() == Some(GROUP));
    let name = ClusterPolicyName {
        kind: ClusterPolicyKind::parse(kind).filter(|_| ours)?,
        name: metadata.name,
    };
    let policy = ClusterPolicy {
        uid: metadata.uid,
        annotations: relevant(metadata.annotations),
        spec: manifest["spec"].clone(),
    };
    Some(Object::ClusterPolicy(name, policy))
}

/// Ports with a name, of the containers that run as long as the pod does.
pub(super) fn named_ports(containers: Vec<Container>, init: Vec<Container>) -> Vec<NamedPort> {
    let sidecars = init.into_iter().filter(|container| container.restart_policy == "Always");
    let ports = containers.into_iter().chain(sidecars).flat_map(|container| container.ports);
    let named = ports.filter(|port| !port.name.is_empty()).filter_map(|port| {
        Some(NamedPort {
            name: port.name,
            protocol: Protocol::parse(&port.protocol)?,
            number: port.container_port,
        })
    });
    named.collect()
}

/// Makes the namespaces of objects whose manifests nobody gave, with no label but their name.
pub(super) fn name_namespaces(objects: &mut Vec<Object>) {
    let given: BTreeSet<&String> = objects
        .iter()
        .filter_map(|object| {
            if let Object::Namespace(name, _) = object {
                Some(name)
            } else {
                None
            }
        })
        .collect();
    let mentioned: BTreeSet<&String> = objects
        .iter()
        .filter_map(|object| match object {
            Object::Pod(name, _) | Object::NetworkPolicy(name, _) => Some(&name.namespace),
            _ => None,
        })
        .collect();
    let missing: Vec<String> = mentioned.difference(&given).map(|name| (*name).clone()).collect();
    objects.extend(missing.into_iter().map(|name| {
        let namespace = Namespace::new(&name, String::new(), BTreeMap::new());
        Object::Namespace(name, namespace)
    }));
}
