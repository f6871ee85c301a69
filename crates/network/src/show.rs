//! What the network is, in the user's words: the tables behind `netloom show`. Values only; the command line lays them out.

mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;
pub use services::{BackendView, Health, ServiceView, services};

use crate::annotations;
use crate::cluster::Cluster;
use crate::ipam::{Assignment, Mac};
use netloom_contract::annotation;
use netloom_contract::name::management_port;

/// Name of the network every pod is in unless told otherwise.
pub const DEFAULT_NETWORK: &str = "cluster-network";

/// A node's part of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Node name.
    pub name: String,
    /// The node's own addresses.
    pub addresses: Vec<IpAddr>,
    /// Where its pods' addresses come from.
    pub subnets: Vec<IpNet>,
    /// Addresses pods leave the cluster with; empty until the agent reported its uplink.
    pub gateway: Vec<IpAddr>,
    /// Ports of pods on it.
    pub ports: usize,
    /// `Ready`, or what is missing.
    pub state: &'static str,
}

/// A virtual network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkView {
    /// Network name.
    pub name: String,
    /// Ranges its addresses come from.
    pub ranges: Vec<IpNet>,
    /// Nodes it spans.
    pub nodes: usize,
    /// Ports of pods in it.
    pub ports: usize,
    /// How pods are placed in it.
    pub topology: &'static str,
}

/// A pod's port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortView {
    /// Namespace.
    pub namespace: String,
    /// Pod.
    pub pod: String,
    /// Interface in the pod.
    pub interface: &'static str,
    /// Node.
    pub node: String,
    /// Network.
    pub network: String,
    /// Addresses, by which everybody knows it.
    pub addresses: Vec<IpAddr>,
    /// Addresses in its network, if that is not the cluster's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_addresses: Vec<IpAddr>,
    /// Ethernet address.
    pub mac: String,
    /// `Up` when OVN says so, `Down`, or `Pending` while it has no address.
    pub state: &'static str,
}

/// All nodes.
pub fn nodes(cluster: &Cluster, up: impl Fn(&str) -> bool) -> Vec<NodeView> {
    let mut ports: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, pod) in cluster.pods.iter() {
        if let Some(assignment) = cluster.records.assignment(name, &pod.uid) {
            *ports.entry(&assignment.node).or_default() += 1;
        }
    }
    let view = |(name, node): (&String, &crate::Node)| {
        let report = node
            .annotations
            .get(annotation::GATEWAY)
            .and_then(|text| annotations::gateway(text).ok());
        let subnets = cluster.records.subnets(name);
        let state = match (subnets.is_empty(), up(&management_port(name)), &report) {
            (true, _, _) => "NoSubnet",
            (_, false, _) => "ManagementPortDown",
            (_, _, None) => "NoGateway",
            _ => "Ready",
        };
        NodeView {
            name: name.clone(),
            addresses: node.addresses.clone(),
            subnets,
            gateway: report
                .map(|report| report.addresses.iter().map(IpNet::addr).collect())
                .unwrap_or_default(),
            ports: ports.get(name.as_str()).copied().unwrap_or_default(),
            state,
        }
    };
    cluster.nodes.iter().map(view).collect()
}

/// All networks.
pub fn networks(cluster: &Cluster) -> Vec<NetworkView> {
    let Some(settings) = cluster.records.settings() else {
        return Vec::new();
    };
    let own = NetworkView {
        name: DEFAULT_NETWORK.to_owned(),
        ranges: settings.cluster_cidrs.iter().map(|range| range.cidr).collect(),
        nodes: cluster.records.nodes().count(),
        ports: cluster.records.assignments().filter(|(_, pod)| pod.attachment.is_none()).count(),
        topology: "routed, a switch per node",
    };
    let recorded = cluster.records.networks().map(|(name, _)| name);
    let names: BTreeSet<&String> = cluster.custom_networks.keys().chain(recorded).collect();
    let custom = names.into_iter().map(|name| {
        let network = cluster.records.network(name).map(|record| &record.read);
        let on_it = |assignment: &&Assignment| assignment.attachment.as_ref().is_some_and(|on| on.network == *name);
        let ports: Vec<&Assignment> = cluster
            .records
            .assignments()
            .map(|(_, assignment)| assignment)
            .filter(on_it)
            .collect();
        NetworkView {
            name: name.clone(),
            ranges: network.map(|network| network.subnets.clone()).unwrap_or_default(),
            nodes: ports.iter().map(|port| &port.node).collect::<BTreeSet<_>>().len(),
            ports: ports.len(),
            topology: match network {
                Some(network) if network.isolated => "one switch, its own router, isolated",
                Some(_) => "one switch, its own router",
                None => "not in force",
            },
        }
    });
    std::iter::once(own).chain(custom).collect()
}

/// All ports of pods, those still without an address included.
pub fn ports(cluster: &Cluster, up: impl Fn(&str) -> bool) -> Vec<PortView> {
    let wanting: BTreeMap<_, _> = cluster.pods.iter().filter(|(_, pod)| pod.wants_port()).collect();
    let view = |(name, pod): (&crate::PodName, &crate::Pod)| {
        let assignment = cluster.records.assignment(name, &pod.uid);
        let state = match assignment {
            None => "Pending",
            Some(_) if up(&name.port()) => "Up",
            Some(_) => "Down",
        };
        let attachment = assignment.and_then(|assignment| assignment.attachment.as_ref());
        let wanted = || cluster.network_named(name, pod).filter(|_| assignment.is_none());
        let network = attachment.map(|on| on.network.as_str()).or_else(wanted).unwrap_or(DEFAULT_NETWORK);
        PortView {
            namespace: name.namespace.clone(),
            pod: name.name.clone(),
            interface: "eth0",
            node: pod.node.clone().unwrap_or_default(),
            network: network.to_owned(),
            network_addresses: attachment.into_iter().flat_map(|on| &on.addresses).map(IpNet::addr).collect(),
            addresses: assignment.map(|a| a.addresses.clone()).unwrap_or_default(),
            mac: assignment.map(|a| a.mac).as_ref().map(Mac::to_string).unwrap_or_default(),
            state,
        }
    };
    wanting.into_iter().map(view).collect()
}
