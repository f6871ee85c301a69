//! Choices made so far, by everything they are looked up by. Noting one refuses what another has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use crate::cluster::{NodeName, PodName};
use crate::custom_network::{self, Read};
use crate::ipam::Mac;
use crate::service::ServiceName;
use crate::settings::{Settings, host_number};

/// The recorded addresses of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// UID of the pod they belong to.
    pub uid: String,
    /// Ethernet address.
    pub mac: Mac,
    /// One address of each family, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// The `Network` it is on, if it is on one.
    pub attachment: Option<Attachment>,
}

impl Assignment {
    /// The Ethernet address by which others in its network know it.
    pub(crate) fn link(&self) -> Option<Mac> {
        self.attachment.is_some().then_some(self.mac)
    }
}

/// A pod's place in a `Network`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The network's name.
    pub network: String,
    /// Addresses with the prefix of their subnet, one of each family of the network.
    pub addresses: Vec<IpNet>,
}

/// All recorded choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Addressing in force.
    pub settings: Option<Settings>,
    pub(super) nodes: BTreeMap<NodeName, u64>,
    pub(super) slots: BTreeSet<u64>,
    pods: HashMap<PodName, Assignment>,
    owners: HashMap<IpAddr, PodName>,
    /// Ethernet addresses that were asked for.
    macs: HashMap<Mac, BTreeSet<PodName>>,
    pub(super) cursors: HashMap<IpNet, u64>,
    external: BTreeMap<ServiceName, External>,
    external_owners: HashMap<IpAddr, ServiceName>,
    pub(super) networks: BTreeMap<String, Members>,
    network_slots: BTreeMap<String, u64>,
    network_specs: BTreeMap<String, (Value, Read)>,
    isolated_networks: BTreeSet<String>,
}

/// Who is on a `Network`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    owners: HashMap<IpAddr, PodName>,
    pub(super) cursors: HashMap<IpNet, u64>,
}

/// The recorded external addresses of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// UID of the service they belong to.
    pub uid: String,
    /// At most one address of each family, IPv4 first.
    pub addresses: Vec<IpAddr>,
}

impl Records {
    /// External addresses of a service, given from pools; they are what its status shows.
    pub fn external(&self, service: &ServiceName) -> &[IpAddr] {
        self.external.get(service).map_or(&[], |external| &external.addresses)
    }

    /// External addresses recorded for a service, if they belong to this `uid`.
    pub fn external_of(&self, service: &ServiceName, uid: &str) -> &[IpAddr] {
        let recorded = self.external.get(service).filter(|external| external.uid == uid);
        recorded.map_or(&[], |external| &external.addresses)
    }

    /// Everything recorded for services.
    pub fn externals(&self) -> impl Iterator<Item = (&ServiceName, &External)> {
        self.external.iter()
    }

    /// Notes a service's external addresses, less those that belong to another; none of them: it gives back what it had.
    pub fn record_external(&mut self, service: &ServiceName, mut external: External) {
        for ip in self.external.remove(service).into_iter().flat_map(|old| old.addresses) {
            self.external_owners.remove(&ip);
        }
        external.addresses.retain(|ip| !self.external_owners.contains_key(ip));
        for ip in &external.addresses {
            self.external_owners.insert(*ip, service.clone());
        }
        if !external.addresses.is_empty() {
            self.external.insert(service.clone(), external);
        }
    }

    /// The service an external address was given to.
    pub fn external_owner(&self, ip: IpAddr) -> Option<&ServiceName> {
        self.external_owners.get(&ip)
    }

    /// The slot of a node.
    pub fn slot(&self, node: &str) -> Option<u64> {
        self.nodes.get(node).copied()
    }

    /// Subnets of a node, one of each family; empty while it has no slot.
    pub fn subnets(&self, node: &str) -> Vec<IpNet> {
        match (&self.settings, self.slot(node)) {
            (Some(settings), Some(slot)) => settings.subnets(slot),
            _ => Vec::new(),
        }
    }

    /// Nodes that have a slot.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.keys()
    }

    /// The addresses recorded for a pod, if they belong to this `uid`.
    pub fn assignment(&self, pod: &PodName, uid: &str) -> Option<&Assignment> {
        self.pods.get(pod).filter(|assignment| assignment.uid == uid)
    }

    /// Everything recorded for pods.
    pub fn assignments(&self) -> impl Iterator<Item = (&PodName, &Assignment)> {
        self.pods.iter()
    }

    /// Networks with pods on them.
    pub fn networks(&self) -> impl Iterator<Item = &String> {
        self.networks
            .iter()
            .filter(|(_, members)| !members.owners.is_empty())
            .map(|(name, _)| name)
    }

    /// A pod's place in a network, whatever its UID.
    pub fn attachment(&self, pod: &PodName) -> Option<&Attachment> {
        self.pods.get(pod)?.attachment.as_ref()
    }

    /// Networks whose routers have an address on the join switch.
    pub fn joined_networks(&self) -> impl Iterator<Item = &String> {
        self.network_slots.keys()
    }

    /// Pods on a network.
    pub fn attached(&self, network: &str) -> BTreeSet<&PodName> {
        self.networks
            .get(network)
            .into_iter()
            .flat_map(|members| members.owners.values())
            .collect()
    }

    /// The pod that has an address of a network.
    pub fn network_owner(&self, network: &str, ip: IpAddr) -> Option<&PodName> {
        self.networks.get(network)?.owners.get(&ip)
    }

    /// The slot of a network.
    pub fn network_slot(&self, network: &str) -> Option<u64> {
        self.network_slots.get(network).copied()
    }

    /// The lowest slot no network has.
    pub fn free_network_slot(&self) -> u64 {
        let taken: BTreeSet<u64> = self.network_slots.values().copied().collect();
        (0..).find(|slot| !taken.contains(slot)).unwrap_or_default()
    }

    /// Notes a network's slot; refused (false) when another network has it.
    pub fn record_network(&mut self, network: &str, slot: u64) -> bool {
        let free = self.network_slots.iter().all(|(name, taken)| name == network || *taken != slot);
        free && self.network_slots.insert(network.to_owned(), slot) != Some(slot)
    }

    /// What a network said when it could last be read: pods that are on it go by that.
    pub fn network_spec(&self, network: &str) -> Option<&Value> {
        self.network_specs.get(network).map(|(spec, _)| spec)
    }

    /// The same as it was read.
    pub(crate) fn network_read(&self, network: &str) -> Option<&Read> {
        self.network_specs.get(network).map(|(_, read)| read)
    }

    /// Networks that were isolated when they could last be read.
    pub(crate) fn isolated_networks(&self) -> impl Iterator<Item = &String> {
        self.isolated_networks.iter()
    }

    /// Whether any pod is on a network.
    pub fn is_populated(&self, network: &str) -> bool {
        self.networks.get(network).is_some_and(|members| !members.owners.is_empty())
    }

    /// Notes what a network says, if it can be read.
    pub fn record_network_spec(&mut self, network: &str, spec: &Value) {
        if self.network_spec(network) != Some(spec)
            && let Ok(read) = custom_network::read(spec)
        {
            self.isolated_networks.remove(network);
            self.isolated_networks.extend(read.isolated.then(|| network.to_owned()));
            self.network_specs.insert(network.to_owned(), (spec.clone(), read));
        }
    }

    /// Gives a network's slot back; says whether it had one.
    pub fn release_network(&mut self, network: &str) -> bool {
        self.network_specs.remove(network);
        self.isolated_networks.remove(network);
        self.networks.remove(network);
        self.network_slots.remove(network).is_some()
    }

    /// Notes a node's slot; refused (false) when another node has it.
    pub fn record_node(&mut self, node: &str, slot: u64) -> bool {
        if self.nodes.get(node) == Some(&slot) {
            return true;
        }
        if !self.slots.insert(slot) {
            return false;
        }
        if let Some(old) = self.nodes.insert(node.to_owned(), slot) {
            self.slots.remove(&old);
        }
        true
    }

    /// Notes a pod's addresses; refused (false) when one of them belongs to another pod.
    pub fn record_pod(&mut self, pod: &PodName, assignment: Assignment) -> bool {
        if assignment
            .addresses
            .iter()
            .any(|ip| self.owners.get(ip).is_some_and(|owner| owner != pod))
        {
            return false;
        }
        if let Some(Attachment { network, addresses }) = &assignment.attachment {
            let taken = |ip: &IpNet| self.network_owner(network, ip.addr()).is_some_and(|owner| owner != pod);
            if addresses.iter().any(taken) {
                return false;
            }
        }
        self.release_pod(pod);
        for ip in &assignment.addresses {
            self.owners.insert(*ip, pod.clone());
        }
        if let Some(Attachment { network, addresses }) = &assignment.attachment {
            let members = self.networks.entry(network.clone()).or_default();
            addresses.iter().for_each(|ip| drop(members.owners.insert(ip.addr(), pod.clone())));
        }
        if !assignment.mac.may_be_made_up() {
            self.macs.entry(assignment.mac).or_default().insert(pod.clone());
        }
        self.pods.insert(pod.clone(), assignment);
        true
    }

    /// Gives a pod's addresses back and returns them.
    pub fn release_pod(&mut self, pod: &PodName) -> Vec<IpAddr> {
        let Some(released) = self.pods.remove(pod) else { return Vec::new() };
        for ip in &released.addresses {
            self.owners.remove(ip);
        }
        if let Some(pods) = self.macs.get_mut(&released.mac) {
            pods.remove(pod);
            if pods.is_empty() {
                self.macs.remove(&released.mac);
            }
        }
        if let Some(Attachment { network, addresses }) = released.attachment
            && let Some(members) = self.networks.get_mut(&network)
        {
            addresses.iter().for_each(|ip| drop(members.owners.remove(&ip.addr())));
        }
        released.addresses
    }

    /// Gives a node's slot back; says whether it had one.
    pub fn release_node(&mut self, node: &str) -> bool {
        self.nodes.remove(node).is_some_and(|slot| self.slots.remove(&slot))
    }

    /// The pod an address belongs to.
    pub fn owner(&self, ip: IpAddr) -> Option<&PodName> {
        self.owners.get(&ip)
    }

    /// Pods that have an Ethernet address nobody made up for them.
    pub(super) fn with_mac(&self, mac: Mac) -> impl Iterator<Item = &PodName> {
        self.macs.get(&mac).into_iter().flatten()
    }

    /// Lets the search for a free address go on after the highest one found in use, when nobody remembers where it was.
    pub(crate) fn resume(&mut self, used: IpNet) {
        if let Some(host) = host_number(&used.trunc(), used.addr()) {
            let cursor = self.cursors.entry(used.trunc()).or_default();
            *cursor = (*cursor).max(host + 1);
        }
    }

    /// The same in a network.
    pub(crate) fn resume_in_network(&mut self, Attachment { network, addresses }: &Attachment) {
        let cursors = &mut self.networks.entry(network.clone()).or_default().cursors;
        for ip in addresses {
            let cursor = cursors.entry(ip.trunc()).or_default();
            *cursor = (*cursor).max(host_number(&ip.trunc(), ip.addr()).unwrap_or_default() + 1);
        }
    }

    pub(super) fn advance_in_network(&mut self, Attachment { network, addresses }: &Attachment) {
        let cursors = &mut self.networks.entry(network.clone()).or_default().cursors;
        cursors.extend(
            addresses
                .iter()
                .filter_map(|ip| Some((ip.trunc(), host_number(&ip.trunc(), ip.addr())? + 1))),
        );
    }

    /// Remembers where the search for a free address goes on, so that a released address rests.
    pub(super) fn advance(&mut self, subnets: &[IpNet], addresses: &[IpAddr]) {
        for ip in addresses {
            if let Some((subnet, host)) = subnets.iter().find_map(|subnet| Some((*subnet, host_number(subnet, *ip)?))) {
                self.cursors.insert(subnet, host + 1);
            }
        }
    }
}
