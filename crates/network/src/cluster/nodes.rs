//! Nodes: what services see of them, whose an address is, and the sets of nodes that policies speak of.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netloom_contract::{Gateway, annotation};

use crate::annotations;
use crate::cluster::{Cluster, Node, NodeName, View};
use crate::facts::{self, Changes, Table};
use crate::policy::Selector;

/// What gateways and services see of a node: neither its labels nor other annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// UID.
    pub uid: String,
    /// Internal addresses.
    pub addresses: Vec<IpAddr>,
    /// Zone.
    pub zone: Option<String>,
    /// Its condition Ready is true.
    pub ready: bool,
    /// Announces no external addresses.
    pub excluded: bool,
    /// What its agent reports; the error says why it cannot be read.
    pub report: Option<Result<Gateway, String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    hosts: Table<facts::Hosts>,
    addresses: Table<facts::NodeAddresses>,
    pub(super) sets: Table<facts::NodeSets>,
}

impl Host {
    fn of(node: &Node) -> Self {
        let report = node.annotations.get(annotation::GATEWAY);
        Self {
            uid: node.uid.clone(),
            addresses: node.addresses.clone(),
            zone: node.zone.clone(),
            ready: node.ready,
            excluded: node.excluded,
            report: report.map(|text| annotations::gateway(text)),
        }
    }

    /// What its agent reports, if it can be read.
    pub(crate) fn gateway(&self) -> Option<&Gateway> {
        self.report.as_ref()?.as_ref().ok()
    }
}

impl Cluster {
    pub(super) fn set_node(&mut self, name: &str, node: Option<Node>, changes: &mut Changes) {
        let name = name.to_owned();
        let addresses =
            |node: Option<&Node>| -> BTreeSet<IpAddr> { node.into_iter().flat_map(|node| node.addresses.iter().copied()).collect() };
        let (before, after) = (addresses(self.nodes.get(&name)), addresses(node.as_ref()));
        self.of_nodes.addresses.move_element(&name, &before, &after, changes);
        self.of_nodes.hosts.set(&name, node.as_ref().map(Host::of), changes);
        let selectors = self.of_policies.node_selectors.keys();
        let sets: BTreeSet<Selector> = match &node {
            Some(node) => selectors.filter(|labels| labels.matches(&node.labels)).cloned().collect(),
            None => BTreeSet::new(),
        };
        self.of_nodes.sets.set(&name, Some(sets).filter(|sets| !sets.is_empty()), changes);
        self.nodes.set(&name, node, changes);
    }

    /// Nodes by name that have these labels.
    pub(super) fn nodes_with(&self, labels: &Selector) -> Vec<NodeName> {
        let nodes = self.nodes.iter().filter(|(_, node)| labels.matches(&node.labels));
        nodes.map(|(name, _)| name.clone()).collect()
    }
}

impl<'a> View<'a> {
    /// A node.
    pub(crate) fn node(&self, name: &str) -> Option<&'a Node> {
        self.get(&self.cluster.nodes, name)
    }

    /// Whether there is a node.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.has(&self.cluster.nodes, name)
    }

    /// What gateways and services see of a node.
    pub(crate) fn host(&self, name: &str) -> Option<&'a Host> {
        self.get(&self.cluster.of_nodes.hosts, name)
    }

    /// What services see of a node, and its name as it is kept.
    pub(crate) fn named_host(&self, name: &str) -> Option<(&'a NodeName, &'a Host)> {
        self.host(name)?;
        self.cluster.of_nodes.hosts.get_key_value(name)
    }

    /// What services see of all nodes.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (&'a NodeName, &'a Host)> + use<'a> {
        self.all(&self.cluster.of_nodes.hosts)
    }

    /// The gateway of a node: what its agent reports, once the node has subnets.
    pub(crate) fn gateway(&self, node: &str) -> Option<&'a Gateway> {
        let gateway = self.host(node)?.gateway()?;
        self.slot(node).map(|_| gateway)
    }

    /// A node that has an address.
    pub(crate) fn node_at(&self, address: IpAddr) -> Option<&'a NodeName> {
        self.get(&self.cluster.of_nodes.addresses, &address)?.first()
    }

    /// Addresses of nodes, while one that is free is looked for.
    pub(crate) fn node_addresses(&self) -> &'a Table<facts::NodeAddresses> {
        drop(self.keys(&self.cluster.of_nodes.addresses));
        &self.cluster.of_nodes.addresses
    }

    /// The sets of nodes a node is in.
    pub(crate) fn node_sets(&self, name: &str) -> impl Iterator<Item = &'a Selector> + use<'a> {
        self.get(&self.cluster.of_nodes.sets, name).into_iter().flatten()
    }
}
