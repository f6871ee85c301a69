//! What was decided, as units and other decisions read it.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::{NodeName, View};
use crate::decide::Decision;
use crate::facts::{self, Table};
use crate::ipam::{Assignment, External, Holder, Mac, NetworkRecord, PortName, Segment, Space};
use crate::problem::Problem;
use crate::service::ServiceName;
use crate::settings::Settings;

impl<'a> View<'a> {
    /// The addressing in force.
    pub(crate) fn settings(&self) -> Option<&'a Settings> {
        self.get(&self.cluster.records.settings, &())
    }

    /// The slot of a node.
    pub(crate) fn slot(&self, node: &str) -> Option<u64> {
        self.get(&self.cluster.records.slots, node).copied()
    }

    /// Nodes that have a slot.
    pub(crate) fn slotted_nodes(&self) -> impl Iterator<Item = &'a NodeName> + use<'a> {
        self.keys(&self.cluster.records.slots)
    }

    /// Subnets of a node, one of each family; empty while it has no slot.
    pub(crate) fn subnets(&self, node: &str) -> Vec<IpNet> {
        match (self.settings(), self.slot(node)) {
            (Some(settings), Some(slot)) => settings.subnets(slot),
            _ => Vec::new(),
        }
    }

    /// Nodes by slot, while a free one is looked for.
    pub(crate) fn slot_holders(&self) -> &'a Table<facts::SlotHolders> {
        drop(self.keys(&self.cluster.records.slot_holders));
        &self.cluster.records.slot_holders
    }

    /// Networks by slot, while a free one is looked for.
    pub(crate) fn network_slots(&self) -> &'a Table<facts::NetworkSlots> {
        drop(self.keys(&self.cluster.records.network_slots));
        &self.cluster.records.network_slots
    }

    /// The addresses recorded for a port, if they belong to this `uid`.
    pub(crate) fn assignment(&self, port: &PortName, uid: &str) -> Option<&'a Assignment> {
        self.get(&self.cluster.records.assignments, port)
            .filter(|assignment| assignment.uid == uid)
    }

    /// The network a port is on.
    pub(crate) fn network_of(&self, port: &PortName) -> Option<&'a str> {
        let attachment = self.get(&self.cluster.records.assignments, port)?.attachment.as_ref();
        attachment.map(|on| on.network.as_str())
    }

    /// A network as the pods on it have it.
    pub(crate) fn network(&self, name: &str) -> Option<&'a NetworkRecord> {
        self.get(&self.cluster.records.networks, name)
    }

    /// Whether pods that are not on a network do not reach those that are.
    pub(crate) fn is_isolated_network(&self, name: &str) -> bool {
        self.network(name).is_some_and(|network| network.read.isolated)
    }

    /// What is recorded for a service, if it belongs to this `uid`.
    pub(crate) fn external(&self, service: &ServiceName, uid: &str) -> Option<&'a External> {
        self.get(&self.cluster.records.externals, service)
            .filter(|external| external.uid == uid)
    }

    /// External addresses given to a service, if they belong to this `uid`.
    pub(crate) fn external_addresses(&self, service: &ServiceName, uid: &str) -> &'a [IpAddr] {
        self.external(service, uid).map_or(&[], |external| &external.addresses)
    }

    /// Who has an address.
    pub(crate) fn holder(&self, space: Space, address: IpAddr) -> Option<&'a Holder> {
        self.get(&self.cluster.records.holders, &(space, address))
    }

    /// The port that has an address of the cluster network, and what else it has.
    pub(crate) fn port_at(&self, address: IpAddr) -> Option<(&'a PortName, &'a Assignment)> {
        let Holder::Port(port) = self.holder(Space::Cluster, address)? else {
            return None;
        };
        Some((port, self.get(&self.cluster.records.assignments, port)?))
    }

    /// Who has which address, while one that is free is looked for. What changes about the segment it is for makes it look again.
    pub(crate) fn holders_while_populated(&self, segment: &Segment) -> &'a Table<facts::Holders> {
        self.get(&self.cluster.records.populations, segment);
        &self.cluster.records.holders
    }

    /// The same where anything given or taken back counts.
    pub(crate) fn all_holders(&self) -> &'a Table<facts::Holders> {
        drop(self.all(&self.cluster.records.externals));
        &self.cluster.records.holders
    }

    /// Who has an Ethernet address.
    pub(crate) fn mac_holder(&self, segment: &Segment, mac: Mac) -> Option<&'a Holder> {
        self.get(&self.cluster.records.macs, &(segment.clone(), mac))
    }

    /// Whether there is any port on a segment.
    pub(crate) fn is_populated(&self, segment: &Segment) -> bool {
        self.has(&self.cluster.records.populations, segment)
    }

    /// Where the search for a free address goes on. It changes nothing about who is given one, only which.
    pub(crate) fn cursor(&self, space: &Space, subnet: &IpNet) -> u64 {
        self.cluster.records.cursor(space, subnet)
    }

    /// Why a decision did not give all that was wanted.
    pub(crate) fn refusals(&self, decision: &Decision) -> &'a [Problem] {
        self.get(&self.cluster.records.refusals, decision).map_or(&[], Vec::as_slice)
    }
}
