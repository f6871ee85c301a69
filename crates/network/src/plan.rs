//! The planner: keeps the desired Northbound up to date while objects come and go, recompiling only the units a change touches.
//!
//! The controller calls [`Planner::apply`] for every event and [`Planner::compile`] for every batch. The result always equals
//! [`compile`] of the same cluster, the oracle it is tested against.

mod decide;
mod groups;
mod isolation;
mod networks;
mod policies;
mod records;
mod scope;
mod services;
mod weave;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use records::read_records;
pub use scope::{Part, Scope};

use crate::cluster::{Cluster, NodeName, Object, PodName};
use crate::northbound::{Northbound, RowId, depth};
use crate::plan::weave::Woven;
use crate::problem::Problem;
use crate::service::ServiceName;
use crate::unit::{Fragment, Unit};

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
    /// Pods that found no place in the network they name.
    waiting_networked: HashMap<String, BTreeSet<PodName>>,
    /// Whether there were networks that users define at the last compile.
    networks: bool,
    /// Services that did not get every external address they want.
    waiting_services: BTreeSet<ServiceName>,
    /// An external address may have become free since the last compile.
    freed: bool,
    /// What services see of nodes may have changed since the last compile.
    nodes_changed: bool,
    /// Pools changed since the last compile.
    pools_changed: bool,
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
            waiting_networked: HashMap::new(),
            networks: false,
            waiting_services: BTreeSet::new(),
            freed: false,
            nodes_changed: false,
            pools_changed: false,
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

    /// Grows whenever problems, nodes' subnets or services' external addresses may have changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many units are compiled.
    pub fn units(&self) -> usize {
        self.woven.len()
    }

    /// How many units the next compile looks at, not counting those that depend on nodes or pools that changed.
    pub fn marked(&self) -> usize {
        self.dirty.len()
    }

    /// Takes over the choices recorded in the database, instead of its own: before the first compile, and whenever another planner may
    /// have decided in between.
    pub fn restore(&mut self, observed: &Northbound) {
        self.cluster.records = read_records(observed);
        self.dirty.extend(Unit::all(&self.cluster));
        self.dirty.extend(self.woven.keys().cloned());
        self.dirty
            .extend(self.cluster.records.assignments().map(|(pod, _)| Unit::Pod(pod.clone())));
        self.dirty
            .extend(self.cluster.records.externals().map(|(name, _)| Unit::Service(name.clone())));
    }

    /// Adds or changes an object; says whether anything the network depends on changed.
    pub fn apply(&mut self, object: Object) -> bool {
        match &object {
            Object::ClusterNetwork(network) if self.cluster.network.as_ref() == Some(network) => return false,
            Object::ClusterNetwork(_) => self.mark(Unit::Network),
            Object::Node(name, node) if self.cluster.nodes.get(name) == Some(node) => return false,
            Object::Node(name, node) => match self.cluster.nodes.get(name) {
                Some(old) if old.differs_for_policies_only(node) => self.mark(Unit::Node(name.clone())),
                _ => self.mark_node(&name.clone()),
            },
            Object::Pod(name, pod) => match self.cluster.pods.get(name) {
                Some(old) if old == pod => return false,
                _ => {
                    self.mark_numbers(name, Some(pod));
                    self.mark_groups(name, Some(pod));
                    self.mark_pod(name);
                }
            },
            Object::Service(name, service) if self.cluster.services.get(name) == Some(service) => return false,
            Object::Service(name, service) => {
                self.mark_app(name, Some(service));
                let name = name.clone();
                self.mark_service(&name);
                self.mark_rivals(&name);
                self.cluster.insert(object);
                self.mark_rivals(&name);
                return true;
            }
            Object::EndpointSlice(name, slice) if self.cluster.slices.get(name) == Some(slice) => return false,
            Object::EndpointSlice(..) => self.mark_slice(&object),
            Object::ExternalPool(name, pool) if self.cluster.pools.get(name) == Some(pool) => return false,
            Object::ExternalPool(..) => self.pools_changed = true,
            Object::Namespace(name, namespace) if self.cluster.namespaces.get(name) == Some(namespace) => return false,
            Object::Namespace(name, namespace) => {
                self.change_namespace(name, Some(namespace.clone()));
                return true;
            }
            Object::NetworkPolicy(name, policy) if self.cluster.policies.get(name) == Some(policy) => return false,
            Object::NetworkPolicy(name, policy) => {
                self.change_policy(name, Some(policy.clone()));
                return true;
            }
            Object::ClusterPolicy(name, policy) if self.cluster.cluster_policies.get(name) == Some(policy) => return false,
            Object::ClusterPolicy(name, policy) => {
                self.change_cluster_policy(name, Some(policy.clone()));
                return true;
            }
            Object::SecurityGroup(name, group) if self.cluster.security_groups.get(name) == Some(group) => return false,
            Object::CustomNetwork(name, network) if self.cluster.custom_networks.get(name) == Some(network) => return false,
            Object::CustomNetwork(name, network) => {
                self.change_custom_network(name, Some(network.clone()));
                return true;
            }
            Object::SecurityGroup(name, _) => {
                let new = !self.cluster.security_groups.contains_key(name);
                self.mark_security_group(name, new);
            }
        }
        self.cluster.insert(object);
        true
    }

    /// Removes an object; only its kind and name matter. A node keeps its subnets while pods on it have ports, and the addressing in
    /// force stays without its `ClusterNetwork`.
    pub fn remove(&mut self, object: &Object) {
        match object {
            Object::ClusterNetwork(_) => self.mark(Unit::Network),
            Object::Node(name, _) => self.mark_node(name),
            Object::Pod(name, _) => {
                self.mark_numbers(name, None);
                self.mark_groups(name, None);
                self.mark_pod(name);
            }
            Object::Service(name, _) => {
                self.mark_app(name, None);
                self.mark_service(name);
                self.mark_rivals(name);
            }
            Object::EndpointSlice(..) => self.mark_slice(object),
            Object::ExternalPool(name, _) => {
                self.mark(Unit::Pool(name.clone()));
                self.pools_changed = true;
            }
            Object::Namespace(name, _) => return self.change_namespace(name, None),
            Object::NetworkPolicy(name, _) => return self.change_policy(name, None),
            Object::ClusterPolicy(name, _) => return self.change_cluster_policy(name, None),
            Object::SecurityGroup(name, _) => self.mark_security_group(name, true),
            Object::CustomNetwork(name, _) => return self.change_custom_network(name, None),
        }
        self.cluster.remove(object);
    }

    /// Decides what is undecided and recompiles what changed; returns where desired may now differ from before.
    pub fn compile(&mut self) -> Scope {
        self.release_pods();
        self.release_nodes();
        self.decide_network();
        self.decide_nodes();
        self.mark_first_or_last_network();
        self.decide_custom_networks();
        self.decide_pods();
        self.mark_dependants();
        self.release_services();
        self.decide_services();
        let compiled: Vec<(Unit, Fragment)> = std::mem::take(&mut self.dirty)
            .into_iter()
            .map(|unit| {
                let fragment = unit.compile(&self.cluster);
                (unit, fragment)
            })
            .collect();
        // What is given up goes first: an address that one pod had and another has now is the same member of a set.
        let before: Vec<Woven> = compiled.iter().map(|(unit, fragment)| self.unravel(unit, fragment)).collect();
        for ((unit, fragment), before) in compiled.into_iter().zip(before) {
            self.weave(unit, fragment, before);
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
    /// collections first, then each row nobody wants any more, those that hold others first.
    pub fn parts(&self, observed: &Northbound) -> Vec<Part> {
        let units: BTreeMap<&Unit, &Woven> = self.woven.iter().collect();
        let units = units.into_iter().map(|(unit, woven)| (Some(unit.clone()), woven.scope()));
        let mut unwanted: BTreeMap<(usize, Option<RowId>), Scope> = BTreeMap::new();
        let place = |id: Option<RowId>| (id.map_or(0, |id| depth(id.table)), id);
        for (id, _) in observed.rows().filter(|(id, _)| self.desired.row(id).is_none()) {
            unwanted.entry(place(Some(*id))).or_default().add_row(*id);
        }
        for member in observed.all_members().filter(|member| !self.desired.has(member)) {
            unwanted.entry(place(member.held())).or_default().add_member(member);
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
        self.nodes_changed = true;
    }
}
