//! The planner: keeps the desired Northbound up to date while objects come and go, recompiling only the units a change touches.
//!
//! The controller calls [`Planner::apply`] for every event and [`Planner::compile`] for every batch. The result always equals
//! [`compile`] of the same cluster, the oracle it is tested against.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ipnet::IpNet;
use netloom_ovsdb::{Row, Table};

use crate::annotations::SUBNETS;
use crate::cluster::{Cluster, NodeName, Object, PodName};
use crate::ipam::{self, Assignment, Mac, Records};
use crate::key::{self, KEY};
use crate::northbound::{Member, Northbound, RowId};
use crate::problem::Problem;
use crate::rows::{LogicalRouter, LogicalSwitch, LogicalSwitchPort};
use crate::unit::{Fragment, Unit};

/// Which part of two Northbounds may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Anything.
    All,
    /// Only these rows and members.
    Some {
        /// Rows.
        rows: BTreeSet<RowId>,
        /// Members of collections.
        members: BTreeSet<Member>,
    },
}

impl Default for Scope {
    fn default() -> Self {
        Self::Some {
            rows: BTreeSet::new(),
            members: BTreeSet::new(),
        }
    }
}

impl Scope {
    /// Whether nothing can differ.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Some { rows, members } if rows.is_empty() && members.is_empty())
    }

    /// Widens by another scope.
    pub fn extend(&mut self, other: Self) {
        match other {
            Self::All => *self = Self::All,
            Self::Some { rows, members } => {
                rows.into_iter().for_each(|id| self.add_row(id));
                members.into_iter().for_each(|member| self.add_member(member));
            }
        }
    }

    /// Widens by one row.
    pub fn add_row(&mut self, id: RowId) {
        if let Self::Some { rows, .. } = self {
            rows.insert(id);
        }
    }

    /// Widens by one member.
    pub fn add_member(&mut self, member: Member) {
        if let Self::Some { members, .. } = self {
            members.insert(member);
        }
    }
}

/// A piece of the difference that makes sense without the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The unit it belongs to; none for what no unit wants any more.
    pub unit: Option<Unit>,
    /// What may differ.
    pub scope: Scope,
}

/// Everything of a cluster at once: what the incremental path must equal.
pub fn compile(cluster: &Cluster) -> (Northbound, Vec<Problem>) {
    let (mut northbound, mut problems) = (Northbound::default(), Vec::new());
    for unit in Unit::all(cluster) {
        let fragment = unit.compile(cluster);
        fragment
            .rows
            .into_iter()
            .for_each(|(id, row)| northbound.insert_row(id, Arc::new(row)));
        fragment.members.into_iter().for_each(|member| northbound.insert_member(member));
        problems.extend(fragment.problems);
    }
    problems.sort();
    (northbound, problems)
}

/// What a unit put into the desired state, to take it out again.
#[derive(Default)]
struct Woven {
    rows: Vec<RowId>,
    members: Vec<Member>,
    problems: Vec<Problem>,
}

impl Woven {
    fn scope(&self) -> Scope {
        Scope::Some {
            rows: self.rows.iter().copied().collect(),
            members: self.members.iter().cloned().collect(),
        }
    }
}

/// The incremental compiler.
pub struct Planner {
    cluster: Cluster,
    desired: Northbound,
    woven: HashMap<Unit, Woven>,
    dirty: BTreeSet<Unit>,
    /// Nodes that a pod left since the last compile.
    left: BTreeSet<NodeName>,
    waiting_nodes: BTreeSet<NodeName>,
    waiting_pods: HashMap<NodeName, BTreeSet<PodName>>,
    scope: Scope,
    problems: BTreeSet<Problem>,
    revision: u64,
}

impl Default for Planner {
    /// A planner of an empty cluster, whose first compile decides the addressing.
    fn default() -> Self {
        Self {
            cluster: Cluster::default(),
            desired: Northbound::default(),
            woven: HashMap::new(),
            dirty: BTreeSet::from([Unit::Network]),
            left: BTreeSet::new(),
            waiting_nodes: BTreeSet::new(),
            waiting_pods: HashMap::new(),
            scope: Scope::default(),
            problems: BTreeSet::new(),
            revision: 0,
        }
    }
}

impl Planner {
    /// The cluster as applied and decided so far.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What the database must hold.
    pub fn desired(&self) -> &Northbound {
        &self.desired
    }

    /// What users have to mend.
    pub fn problems(&self) -> &BTreeSet<Problem> {
        &self.problems
    }

    /// Grows whenever problems or nodes' subnets may have changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many units are compiled.
    pub fn units(&self) -> usize {
        self.woven.len()
    }

    /// Takes over the choices recorded in the database, instead of its own: before the first compile, and whenever another planner may
    /// have decided in between.
    pub fn restore(&mut self, observed: &Northbound) {
        self.cluster.records = read_records(observed);
        self.dirty.extend(Unit::all(&self.cluster));
        self.dirty.extend(self.woven.keys().cloned());
        self.dirty
            .extend(self.cluster.records.assignments().map(|(pod, _)| Unit::Pod(pod.clone())));
    }

    /// Adds or changes an object; says whether anything the network depends on changed.
    pub fn apply(&mut self, object: Object) -> bool {
        match &object {
            Object::ClusterNetwork(network) if self.cluster.network.as_ref() == Some(network) => return false,
            Object::ClusterNetwork(_) => self.mark(Unit::Network),
            Object::Node(name, node) if self.cluster.nodes.get(name) == Some(node) => return false,
            Object::Node(name, _) => self.mark_node(&name.clone()),
            Object::Pod(name, pod) => match self.cluster.pods.get(name) {
                Some(old) if old == pod => return false,
                _ => self.mark_pod(name),
            },
        }
        self.cluster.insert(object);
        true
    }

    /// Removes a pod.
    pub fn delete_pod(&mut self, name: &PodName) {
        self.mark_pod(name);
        self.cluster.remove_pod(name);
    }

    /// Removes a node. It keeps its subnets while pods on it have ports.
    pub fn delete_node(&mut self, name: &str) {
        self.cluster.nodes.remove(name);
        self.mark_node(name);
    }

    /// Removes the `ClusterNetwork`; what is in force stays.
    pub fn delete_network(&mut self) {
        self.cluster.network = None;
        self.mark(Unit::Network);
    }

    /// Decides what is undecided and recompiles what changed; returns where desired may now differ from before.
    pub fn compile(&mut self) -> Scope {
        self.release_pods();
        self.release_nodes();
        self.decide_network();
        self.decide_nodes();
        self.decide_pods();
        for unit in std::mem::take(&mut self.dirty) {
            let fragment = unit.compile(&self.cluster);
            self.weave(unit, fragment);
        }
        std::mem::take(&mut self.scope)
    }

    /// Where a part may differ now; none when its unit is gone.
    pub fn scope_of(&self, part: &Part) -> Option<Scope> {
        part.unit
            .as_ref()
            .map_or_else(|| Some(part.scope.clone()), |unit| self.woven.get(unit).map(Woven::scope))
    }

    /// All that may differ from `observed`, in parts that can be committed one after the other: every unit, those that own
    /// collections first, then each row nobody wants any more.
    pub fn parts(&self, observed: &Northbound) -> Vec<Part> {
        let units: BTreeMap<&Unit, &Woven> = self.woven.iter().collect();
        let units = units.into_iter().map(|(unit, woven)| (Some(unit.clone()), woven.scope()));
        let mut unwanted: BTreeMap<Option<RowId>, Scope> = BTreeMap::new();
        for (id, _) in observed.rows().filter(|(id, _)| self.desired.row(id).is_none()) {
            unwanted.entry(Some(*id)).or_default().add_row(*id);
        }
        for member in observed.all_members().filter(|member| !self.desired.has(member)) {
            unwanted.entry(member.held()).or_default().add_member(member);
        }
        let unwanted = unwanted.into_values().map(|scope| (None, scope));
        units.chain(unwanted).map(|(unit, scope)| Part { unit, scope }).collect()
    }

    fn mark(&mut self, unit: Unit) {
        self.dirty.insert(unit);
    }

    fn mark_pod(&mut self, name: &PodName) {
        self.left.extend(self.cluster.pods.get(name).and_then(|pod| pod.node.clone()));
        self.mark(Unit::Pod(name.clone()));
    }

    fn mark_node(&mut self, name: &str) {
        self.mark(Unit::Node(name.to_owned()));
        self.mark(Unit::Gateway(name.to_owned()));
    }

    /// Pods that no longer want their addresses give them back; pods and nodes that waited for that are looked at again.
    fn release_pods(&mut self) {
        for name in self.dirty_pods() {
            let pod = self.cluster.pods.get(&name).filter(|pod| pod.wants_port());
            if pod.is_none_or(|pod| self.cluster.records.assignment(&name, &pod.uid).is_none()) {
                self.cluster.records.release_pod(&name);
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

    fn decide_network(&mut self) {
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
    fn release_nodes(&mut self) {
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
    fn decide_nodes(&mut self) {
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
    fn decide_pods(&mut self) {
        let mut names = self.dirty_pods();
        names.sort_by_key(|name| self.cluster.pods.get(name).is_none_or(|pod| pod.addresses.is_empty()));
        for name in names {
            match ipam::decide_addresses(&self.cluster, &name) {
                Ok(Some(assignment)) => ipam::record(&mut self.cluster, &name, assignment),
                Ok(None) => {}
                Err(_) => {
                    let node = self.cluster.pods.get(&name).and_then(|pod| pod.node.clone()).unwrap_or_default();
                    self.waiting_pods.entry(node).or_default().insert(name);
                }
            }
        }
    }

    fn dirty_pods(&self) -> Vec<PodName> {
        self.dirty
            .iter()
            .filter_map(|unit| if let Unit::Pod(name) = unit { Some(name.clone()) } else { None })
            .collect()
    }

    fn dirty_nodes(&self) -> Vec<NodeName> {
        self.dirty
            .iter()
            .filter_map(|unit| if let Unit::Node(name) = unit { Some(name.clone()) } else { None })
            .collect()
    }

    /// Replaces what a unit put in before by its new fragment.
    fn weave(&mut self, unit: Unit, fragment: Fragment) {
        let old = self.woven.remove(&unit).unwrap_or_default();
        for id in &old.rows {
            if !fragment.rows.iter().any(|(new, _)| new == id) {
                self.desired.remove_row(id);
                self.scope.add_row(*id);
            }
        }
        for member in old.members.iter().filter(|member| !fragment.members.contains(member)) {
            self.desired.remove_member(member);
            self.scope.add_member(member.clone());
        }
        if old.problems != fragment.problems || matches!(unit, Unit::Network | Unit::Node(_)) {
            self.revision += 1;
        }
        for problem in &old.problems {
            self.problems.remove(problem);
        }
        let new = Woven {
            rows: fragment.rows.iter().map(|(id, _)| *id).collect(),
            members: fragment.members.clone(),
            problems: fragment.problems.clone(),
        };
        for (id, row) in fragment.rows {
            if self.desired.row(&id).is_none_or(|current| **current != row) {
                self.desired.insert_row(id, Arc::new(row));
                self.scope.add_row(id);
            }
        }
        for member in fragment.members.into_iter().filter(|member| !old.members.contains(member)) {
            self.scope.add_member(member.clone());
            self.desired.insert_member(member);
        }
        self.problems.extend(fragment.problems);
        if !(new.rows.is_empty() && new.members.is_empty() && new.problems.is_empty()) {
            self.woven.insert(unit, new);
        }
    }
}

/// The choices the rows of a database record.
pub fn read_records(observed: &Northbound) -> Records {
    let mut records = Records::default();
    let text = |row: &Row, name: &str| Some(row.get("external_ids")?.get(name)?.to_owned());
    let rows = |table: &'static str| observed.rows().filter(move |(id, _)| id.table == table).map(|(_, row)| row);
    records.settings = rows(LogicalRouter::TABLE).find_map(|row| text(row, key::SETTINGS)?.parse().ok());
    for row in rows(LogicalSwitch::TABLE) {
        let node = text(row, KEY).and_then(|key| key.strip_prefix("switch/node/").map(str::to_owned));
        if let (Some(node), Some(slot)) = (node, text(row, key::SLOT).and_then(|slot| slot.parse().ok())) {
            records.record_node(&node, slot);
        }
    }
    for row in rows(LogicalSwitchPort::TABLE) {
        if let Some((pod, uid, mac, addresses)) = read_port(row, &text) {
            addresses.iter().for_each(|used| records.resume(*used));
            let addresses = addresses.iter().map(IpNet::addr).collect();
            records.record_pod(&pod, Assignment { uid, mac, addresses });
        }
    }
    records
}

fn read_port(row: &Row, text: &impl Fn(&Row, &str) -> Option<String>) -> Option<(PodName, String, Mac, Vec<IpNet>)> {
    let uid = text(row, key::UID)?;
    let (namespace, name) = row.get("name")?.as_str()?.split_once(':')?;
    let pod = PodName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let mac = row.get("addresses")?.as_str()?.split(' ').next()?.parse().ok()?;
    let addresses = text(row, key::ADDRESSES)?.split(',').filter_map(|ip| ip.parse().ok()).collect();
    Some((pod, uid, mac, addresses))
}
