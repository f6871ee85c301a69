//! Choices made so far, by everything they are looked up by.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::Value;

use crate::cluster::{NodeName, PodName};
use crate::custom_network::Read;
use crate::decide::{Choice, Decision};
use crate::facts::{self, Changes, HashMap, Schema, Table};
use crate::ipam::{Holder, Mac, PortName, Segment, Space};
use crate::problem::Problem;
use crate::service::ServiceName;
use crate::settings::{Settings, host_number};

/// The recorded addresses of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// UID of the pod they belong to.
    pub uid: String,
    /// Node it is on.
    pub node: NodeName,
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

    /// Whether its Ethernet address is made of its IPv4 address, and so is nobody else's anyway.
    fn has_own_mac(&self) -> bool {
        let first = self.addresses.first().filter(|ip| ip.is_ipv4());
        first.is_some_and(|ip| self.mac == Mac::of(*ip))
    }

    /// The switch it is on.
    pub(crate) fn segment(&self) -> Segment {
        match &self.attachment {
            Some(attachment) => Segment::Network(attachment.network.clone()),
            None => Segment::Node(self.node.clone()),
        }
    }

    /// Every address it has, and where it is unique.
    fn held(&self) -> impl Iterator<Item = (Space, IpAddr)> {
        let cluster = self.addresses.iter().map(|ip| (Space::Cluster, *ip));
        let network = self.attachment.iter().flat_map(|on| {
            let space = Space::Network(on.network.clone());
            on.addresses.iter().map(move |ip| (space.clone(), ip.addr()))
        });
        cluster.chain(network)
    }

    /// The segments whose population it counts for: its node, which it has an address of, and the network it is on.
    fn populates(&self) -> impl Iterator<Item = Segment> {
        let network = self.attachment.iter().map(|on| Segment::Network(on.network.clone()));
        std::iter::once(Segment::Node(self.node.clone())).chain(network)
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

/// A `Network` as the pods on it have it: what it said when it could last be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRecord {
    /// Its router's number on the join switch.
    pub slot: u64,
    /// Its spec.
    pub spec: Value,
    /// The spec as read.
    pub read: Arc<Read>,
}

/// The recorded external addresses of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// UID of the service they belong to.
    pub uid: String,
    /// At most one address of each family, IPv4 first. None: it had some, and its status still shows them.
    pub addresses: Vec<IpAddr>,
    /// Ethernet address of its announcer.
    pub mac: Mac,
}

/// All recorded choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    pub(crate) settings: Table<facts::InForce>,
    pub(crate) slots: Table<facts::Slots>,
    pub(crate) slot_holders: Table<facts::SlotHolders>,
    pub(crate) assignments: Table<facts::Assignments>,
    pub(crate) networks: Table<facts::NetworkRecords>,
    pub(crate) network_slots: Table<facts::NetworkSlots>,
    pub(crate) externals: Table<facts::Externals>,
    pub(crate) holders: Table<facts::Holders>,
    pub(crate) macs: Table<facts::Macs>,
    pub(crate) populations: Table<facts::Populations>,
    pub(crate) refusals: Table<facts::Refusals>,
    /// How many networks are isolated from pods that are not on them.
    isolated_networks: usize,
    /// Where the search for a free address goes on, so that a released address rests.
    cursors: HashMap<(Space, IpNet), u64>,
}

impl Records {
    /// The addressing in force.
    pub fn settings(&self) -> Option<&Settings> {
        self.settings.get(&())
    }

    /// Subnets of a node, one of each family; empty while it has no slot.
    pub fn subnets(&self, node: &str) -> Vec<IpNet> {
        match (self.settings(), self.slots.get(node)) {
            (Some(settings), Some(slot)) => settings.subnets(*slot),
            _ => Vec::new(),
        }
    }

    /// Nodes that have subnets.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.slots.keys()
    }

    /// The addresses recorded for a pod's first port, if they belong to this `uid`.
    pub fn assignment(&self, pod: &PodName, uid: &str) -> Option<&Assignment> {
        let assignment = self.assignments.get(&pod.first_port());
        assignment.filter(|assignment| assignment.uid == uid)
    }

    /// Everything recorded for ports.
    pub fn assignments(&self) -> impl Iterator<Item = (&PodName, &Assignment)> {
        self.assignments.iter().map(|(port, assignment)| (&port.owner, assignment))
    }

    /// A pod's place in a network, whatever its UID.
    pub fn attachment(&self, pod: &PodName) -> Option<&Attachment> {
        self.assignments.get(&pod.first_port())?.attachment.as_ref()
    }

    /// Networks, as the pods on them have them.
    pub fn networks(&self) -> impl Iterator<Item = (&String, &NetworkRecord)> {
        self.networks.iter()
    }

    /// A network, as the pods on it have it.
    pub fn network(&self, name: &str) -> Option<&NetworkRecord> {
        self.networks.get(name)
    }

    /// External addresses of a service, given from pools; they are what its status shows.
    pub fn external(&self, service: &ServiceName) -> &[IpAddr] {
        self.externals.get(service).map_or(&[], |external| &external.addresses)
    }

    /// Everything recorded for services that have external addresses.
    pub fn externals(&self) -> impl Iterator<Item = (&ServiceName, &External)> {
        self.externals.iter().filter(|(_, external)| !external.addresses.is_empty())
    }

    /// Whether a network is isolated from pods that are not on it.
    pub(crate) fn isolates(&self) -> bool {
        self.isolated_networks > 0
    }

    /// Where the search for a free address goes on.
    pub(crate) fn cursor(&self, space: &Space, subnet: &IpNet) -> u64 {
        self.cursors.get(&(space.clone(), *subnet)).copied().unwrap_or_default()
    }

    /// What is recorded for a decision.
    pub(crate) fn choice(&self, decision: &Decision) -> Choice {
        match decision {
            Decision::Settings => Choice::Settings(self.settings().cloned()),
            Decision::Node(name) => Choice::Slot(self.slots.get(name).copied()),
            Decision::Network(name) => Choice::Network(self.networks.get(name).cloned()),
            Decision::Port(name) => Choice::Port(self.assignments.get(name).cloned()),
            Decision::External(name) => Choice::External(self.externals.get(name).cloned()),
        }
    }

    /// Records what was chosen, and why it is not all that was wanted.
    pub(crate) fn record(&mut self, decision: &Decision, choice: Choice, refusals: Vec<Problem>, changes: &mut Changes) {
        match (decision, choice) {
            (Decision::Settings, Choice::Settings(settings)) => self.settings.set(&(), settings, changes),
            (Decision::Node(name), Choice::Slot(slot)) => self.set_slot(name, slot, changes),
            (Decision::Network(name), Choice::Network(network)) => self.set_network(name, network, changes),
            (Decision::Port(name), Choice::Port(assignment)) => self.set_port(name, assignment, changes),
            (Decision::External(name), Choice::External(external)) => self.set_external(name, external, changes),
            (decision, choice) => unreachable!("{decision:?} cannot choose {choice:?}"),
        }
        self.refusals
            .set(decision, Some(refusals).filter(|refusals| !refusals.is_empty()), changes);
    }

    pub(crate) fn set_settings(&mut self, settings: Option<Settings>, changes: &mut Changes) {
        self.settings.set(&(), settings, changes);
    }

    pub(crate) fn set_slot(&mut self, node: &str, slot: Option<u64>, changes: &mut Changes) {
        let before = self.slots.get(node).copied();
        hand_over(&mut self.slot_holders, &node.to_owned(), before, slot, changes);
        self.slots.set(node, slot, changes);
    }

    pub(crate) fn set_network(&mut self, name: &str, network: Option<NetworkRecord>, changes: &mut Changes) {
        let isolated = |network: Option<&NetworkRecord>| usize::from(network.is_some_and(|network| network.read.isolated));
        let (before, after) = (self.networks.get(name), network.as_ref());
        self.isolated_networks = self.isolated_networks + isolated(after) - isolated(before);
        let (before, after) = (before.map(|network| network.slot), after.map(|network| network.slot));
        hand_over(&mut self.network_slots, &name.to_owned(), before, after, changes);
        self.networks.set(name, network, changes);
    }

    /// Whether somebody else has an address of an assignment.
    pub(crate) fn conflicts(&self, name: &PortName, assignment: &Assignment) -> bool {
        let other = |key: (Space, IpAddr)| {
            self.holders
                .get(&key)
                .is_some_and(|holder| !matches!(holder, Holder::Port(port) if port == name))
        };
        assignment.held().any(other)
    }

    pub(crate) fn set_port(&mut self, name: &PortName, assignment: Option<Assignment>, changes: &mut Changes) {
        let before = self.assignments.get(name);
        if before == assignment.as_ref() {
            return;
        }
        let holder = Holder::Port(name.clone());
        let held =
            |assignment: Option<&Assignment>| -> Vec<(Space, IpAddr)> { assignment.into_iter().flat_map(Assignment::held).collect() };
        let mac = |assignment: Option<&Assignment>| assignment.filter(|it| !it.has_own_mac()).map(|it| (it.segment(), it.mac));
        let populated =
            |assignment: Option<&Assignment>| -> Vec<Segment> { assignment.into_iter().flat_map(Assignment::populates).collect() };
        let left = populated(before);
        hand_over(&mut self.holders, &holder, held(before), held(assignment.as_ref()), changes);
        hand_over(&mut self.macs, &holder, mac(before), mac(assignment.as_ref()), changes);
        for (segment, there) in left
            .into_iter()
            .map(|it| (it, false))
            .chain(populated(assignment.as_ref()).into_iter().map(|it| (it, true)))
        {
            let count = self.populations.get(&segment).copied().unwrap_or_default();
            let count = if there { count + 1 } else { count.saturating_sub(1) };
            self.populations.set(&segment, (count > 0).then_some(count), changes);
        }
        for used in assignment.iter().flat_map(|it| self.with_subnets(it)).collect::<Vec<_>>() {
            self.advance(used.0, used.1);
        }
        self.assignments.set(name, assignment, changes);
    }

    pub(crate) fn set_external(&mut self, service: &ServiceName, external: Option<External>, changes: &mut Changes) {
        let before = self.externals.get(service);
        let holder = Holder::Service(Arc::new(service.clone()));
        let held = |external: Option<&External>| -> Vec<(Space, IpAddr)> {
            external
                .into_iter()
                .flat_map(|it| it.addresses.iter().map(|ip| (Space::External, *ip)))
                .collect()
        };
        let mac = |external: Option<&External>| -> Vec<(Segment, Mac)> {
            let announced = external.filter(|it| !it.addresses.is_empty());
            announced.map(|it| (Segment::Announce, it.mac)).into_iter().collect()
        };
        hand_over(&mut self.holders, &holder, held(before), held(external.as_ref()), changes);
        hand_over(&mut self.macs, &holder, mac(before), mac(external.as_ref()), changes);
        self.externals.set(service, external, changes);
    }

    /// The choices of another controller replace these. Why something was refused is found out again where it matters.
    pub(crate) fn replace(&mut self, other: Self, changes: &mut Changes) {
        self.settings.set(&(), other.settings().cloned(), changes);
        replace(
            self,
            &other,
            |it| &it.slots,
            |it, name, slot, changes| it.set_slot(name, slot, changes),
            changes,
        );
        replace(
            self,
            &other,
            |it| &it.networks,
            |it, name, network, changes| it.set_network(name, network, changes),
            changes,
        );
        replace(
            self,
            &other,
            |it| &it.assignments,
            |it, name, port, changes| it.set_port(name, port, changes),
            changes,
        );
        replace(
            self,
            &other,
            |it| &it.externals,
            |it, name, external, changes| it.set_external(name, external, changes),
            changes,
        );
        self.cursors = other.cursors;
    }

    /// The addresses of an assignment, each with its space and subnet.
    fn with_subnets(&self, assignment: &Assignment) -> Vec<(Space, IpNet)> {
        let subnets = self.subnets(&assignment.node);
        let within = |ip: &IpAddr| subnets.iter().find(|subnet| subnet.contains(ip));
        let cluster = assignment
            .addresses
            .iter()
            .filter_map(|ip| IpNet::new(*ip, within(ip)?.prefix_len()).ok());
        let network = assignment.attachment.iter().flat_map(|on| {
            let space = Space::Network(on.network.clone());
            on.addresses.iter().map(move |ip| (space.clone(), *ip))
        });
        cluster.map(|ip| (Space::Cluster, ip)).chain(network).collect()
    }

    /// Lets the search for a free address go on after one that is used now.
    fn advance(&mut self, space: Space, used: IpNet) {
        if let Some(host) = host_number(&used.trunc(), used.addr()) {
            self.cursors.insert((space, used.trunc()), host + 1);
        }
    }

    /// Lets the search for a free address go on after the highest one in use, where nobody remembers where it was.
    pub(crate) fn resume(&mut self) {
        self.cursors.clear();
        let used: Vec<(Space, IpNet)> = self
            .assignments
            .values()
            .flat_map(|assignment| self.with_subnets(assignment))
            .collect();
        for (space, used) in used {
            let host = host_number(&used.trunc(), used.addr()).unwrap_or_default();
            let cursor = self.cursors.entry((space, used.trunc())).or_default();
            *cursor = (*cursor).max(host + 1);
        }
    }
}

/// Gives what a holder had and has no longer back, and notes what it has now.
fn hand_over<S: Schema>(
    table: &mut Table<S>,
    holder: &S::Value,
    before: impl IntoIterator<Item = S::Key>,
    after: impl IntoIterator<Item = S::Key>,
    changes: &mut Changes,
) where
    S::Value: Clone,
{
    let after: Vec<S::Key> = after.into_iter().collect();
    for key in before.into_iter().filter(|key| !after.contains(key)) {
        if table.value(&key) == Some(holder) {
            table.set(&key, None, changes);
        }
    }
    for key in after {
        if table.value(&key).is_none() {
            table.set(&key, Some(holder.clone()), changes);
        }
    }
}

/// Makes one table of the records that of others, first giving back, then taking.
fn replace<S: Schema>(
    records: &mut Records,
    other: &Records,
    table: fn(&Records) -> &Table<S>,
    set: fn(&mut Records, &S::Key, Option<S::Value>, &mut Changes),
    changes: &mut Changes,
) where
    S::Value: Clone,
{
    let gone = table(records)
        .entries()
        .filter(|(key, value)| table(other).value(*key) != Some(*value));
    let gone: Vec<S::Key> = gone.map(|(key, _)| key.clone()).collect();
    gone.iter().for_each(|key| set(records, key, None, changes));
    // In order: where the database contradicts itself, every controller believes the same.
    let taken: BTreeMap<&S::Key, &S::Value> = table(other).entries().collect();
    for (key, value) in taken {
        set(records, key, Some(value.clone()), changes);
    }
}
