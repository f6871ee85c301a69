//! Decisions about the network, nodes and pods: first what is no longer wanted is given back, then what is undecided is decided.
//! Whoever found nothing left waits, and is looked at again when something is given back.

use crate::annotations::SUBNETS;
use crate::cluster::{NodeName, PodName};
use crate::ipam;
use crate::plan::Planner;
use crate::unit::Unit;

impl Planner {
    /// Pods that no longer want their addresses give them back; pods and nodes that waited for that are looked at again.
    pub(super) fn release_pods(&mut self) {
        for name in self.dirty_pods() {
            let pod = self.cluster.pods.get(&name).filter(|pod| pod.wants_port());
            if pod.is_none_or(|pod| self.cluster.records.assignment(&name, &pod.uid).is_none()) {
                let released = self.release_pod(&name);
                self.mark_on_addresses(&released);
            }
        }
        for node in std::mem::take(&mut self.left) {
            let waiting = self.waiting_pods.remove(&node).unwrap_or_default();
            self.dirty.extend(waiting.into_iter().map(Unit::Pod));
            if !self.cluster.nodes.contains_key(&node) {
                self.mark_node(&node);
            }
        }
    }

    pub(super) fn decide_network(&mut self) {
        if !self.dirty.contains(&Unit::Network) {
            return;
        }
        let Ok(settings) = ipam::decide_settings(&self.cluster) else {
            return;
        };
        if self.cluster.records.settings.as_ref() != Some(&settings) {
            self.cluster.records.settings = Some(settings);
            self.dirty.extend(Unit::all(&self.cluster));
        }
    }

    /// A node that is gone gives its subnets back with its last port. With the last node, the addressing is free to change.
    pub(super) fn release_nodes(&mut self) {
        for name in self
            .dirty_nodes()
            .into_iter()
            .filter(|name| !self.cluster.nodes.contains_key(name))
            .collect::<Vec<_>>()
        {
            let in_use = |pod: &PodName| {
                self.cluster
                    .pods
                    .get(pod)
                    .is_some_and(|p| self.cluster.records.assignment(pod, &p.uid).is_some())
            };
            if !self.cluster.pods_on(&name).any(in_use) && self.cluster.records.release_node(&name) {
                self.dirty.extend(self.cluster.pods_on(&name).cloned().map(Unit::Pod));
                self.dirty
                    .extend(std::mem::take(&mut self.waiting_nodes).into_iter().map(Unit::Node));
                if self.cluster.records.nodes().next().is_none() {
                    self.mark(Unit::Network);
                }
            }
        }
    }

    /// Nodes whose annotation remembers subnets come first, so subnets in use are never given to another.
    pub(super) fn decide_nodes(&mut self) {
        let mut names = self.dirty_nodes();
        names.retain(|name| self.cluster.nodes.contains_key(name));
        let remembers = |name: &NodeName| {
            self.cluster
                .nodes
                .get(name)
                .is_some_and(|node| node.annotations.contains_key(SUBNETS))
        };
        names.sort_by_key(|name| !remembers(name));
        for name in names {
            match ipam::decide_slot(&self.cluster, &name) {
                Ok(Some(slot)) if self.cluster.records.slot(&name).is_none() => {
                    self.cluster.records.record_node(&name, slot);
                    self.mark_node(&name);
                    self.dirty.extend(self.cluster.pods_on(&name).cloned().map(Unit::Pod));
                }
                Ok(_) => {}
                Err(_) => {
                    self.waiting_nodes.insert(name);
                }
            }
        }
    }

    /// Pods whose status already shows addresses come first, so an address in use is never given to another.
    pub(super) fn decide_pods(&mut self) {
        let mut names = self.dirty_pods();
        names.sort_by_key(|name| self.cluster.pods.get(name).is_none_or(|pod| pod.addresses.is_empty()));
        for name in names {
            match ipam::decide_addresses(&self.cluster, &name) {
                Ok(Some(assignment)) => {
                    let addresses = assignment.addresses.clone();
                    if ipam::record(&mut self.cluster, &name, assignment) {
                        self.mark_on_addresses(&addresses);
                    }
                }
                Ok(None) => {}
                Err(_) => {
                    let pod = self.cluster.pods.get(&name);
                    let network = pod.and_then(|pod| self.cluster.network_named(&name, pod)).map(str::to_owned);
                    if let Some(network) = network {
                        self.waiting_networked.entry(network).or_default().insert(name.clone());
                    }
                    let node = self.cluster.pods.get(&name).and_then(|pod| pod.node.clone()).unwrap_or_default();
                    self.waiting_pods.entry(node).or_default().insert(name);
                }
            }
        }
    }

    pub(super) fn dirty_pods(&self) -> Vec<PodName> {
        self.dirty
            .iter()
            .filter_map(|unit| if let Unit::Pod(name) = unit { Some(name.clone()) } else { None })
            .collect()
    }

    pub(super) fn dirty_nodes(&self) -> Vec<NodeName> {
        self.dirty
            .iter()
            .filter_map(|unit| if let Unit::Node(name) = unit { Some(name.clone()) } else { None })
            .collect()
    }
}
