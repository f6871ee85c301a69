//! Policies by what they depend on: which selections are used and by whom, which of them a pod can be in, which numbers pods give to
//! a port's name. A pod finds its sets by its namespace and labels, so that it costs the same in a large cluster as in a small one.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::{Cluster, Pod, PodName};
use crate::policy::cluster::RankedPolicy;
use crate::policy::read::read;
use crate::policy::selector::Anchor;
use crate::policy::{
    ClusterPolicy, ClusterPolicyName, Namespaces, NetworkPolicy, Policy, PolicyName, Role, Selection, Selector, User, cluster,
};
use crate::service::Protocol;

/// A port's name with its protocol.
type PortName = (String, Protocol);
/// What selections are used for, and by which policies.
type Uses = BTreeMap<Role, BTreeSet<User>>;

/// Secondary keys of policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Policies {
    read: BTreeMap<PolicyName, Arc<Policy>>,
    ranked: BTreeMap<ClusterPolicyName, Arc<RankedPolicy>>,
    /// Selectors of nodes, and who uses them.
    nodes: BTreeMap<Selector, BTreeSet<ClusterPolicyName>>,
    uses: BTreeMap<Selection, Uses>,
    anchored: BTreeMap<Anchor, BTreeSet<Selection>>,
    /// Selections of whose pods a port's name matters.
    naming: BTreeMap<PortName, BTreeSet<Selection>>,
    /// How many pods of a namespace give a number to a name.
    numbers: BTreeMap<PortName, BTreeMap<String, BTreeMap<u16, usize>>>,
}

impl Policies {
    pub(super) fn insert(&mut self, name: &PolicyName, policy: &NetworkPolicy) {
        self.remove(name);
        let policy = Arc::new(read(&name.namespace, &policy.spec));
        self.use_all(&User::Policy(name.clone()), policy.uses());
        self.read.insert(name.clone(), policy);
    }

    pub(super) fn remove(&mut self, name: &PolicyName) {
        let Some(policy) = self.read.remove(name) else { return };
        self.use_no_more(&User::Policy(name.clone()), policy.uses());
    }

    pub(super) fn insert_ranked(&mut self, name: &ClusterPolicyName, policy: &ClusterPolicy) {
        self.remove_ranked(name);
        let policy = Arc::new(cluster::read(name.kind, &policy.spec));
        self.use_all(&User::Cluster(name.clone()), policy.uses());
        for nodes in policy.nodes() {
            self.nodes.entry(nodes.clone()).or_default().insert(name.clone());
        }
        self.ranked.insert(name.clone(), policy);
    }

    pub(super) fn remove_ranked(&mut self, name: &ClusterPolicyName) {
        let Some(policy) = self.ranked.remove(name) else { return };
        self.use_no_more(&User::Cluster(name.clone()), policy.uses());
        for nodes in policy.nodes() {
            if let Some(users) = self.nodes.get_mut(nodes) {
                users.remove(name);
                if users.is_empty() {
                    self.nodes.remove(nodes);
                }
            }
        }
    }

    fn use_all(&mut self, user: &User, uses: Vec<(Selection, Role)>) {
        for (selection, role) in uses {
            self.anchored.entry(selection.anchor()).or_default().insert(selection.clone());
            if let Role::Port(port, protocol) = &role {
                let naming = self.naming.entry((port.clone(), *protocol)).or_default();
                naming.insert(selection.clone());
            }
            let users = self.uses.entry(selection).or_default().entry(role).or_default();
            users.insert(user.clone());
        }
    }

    fn use_no_more(&mut self, user: &User, uses: Vec<(Selection, Role)>) {
        for (selection, role) in uses {
            let Some(roles) = self.uses.get_mut(&selection) else { continue };
            if let Some(users) = roles.get_mut(&role) {
                users.remove(user);
                if !users.is_empty() {
                    continue;
                }
            }
            roles.remove(&role);
            let unused = roles.is_empty();
            if let Role::Port(port, protocol) = role {
                take_out(&mut self.naming, &(port, protocol), &selection);
            }
            if unused {
                self.uses.remove(&selection);
                take_out(&mut self.anchored, &selection.anchor(), &selection);
            }
        }
    }

    /// Counts what a pod calls its ports, in or out.
    pub(super) fn count(&mut self, name: &PodName, pod: &Pod, there: bool) {
        for (port, number) in pod.offers() {
            let namespaces = self.numbers.entry(port.clone()).or_default();
            let numbers = namespaces.entry(name.namespace.clone()).or_default();
            let count = numbers.entry(number).or_default();
            *count = if there { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                numbers.remove(&number);
            }
            if numbers.is_empty() {
                namespaces.remove(&name.namespace);
            }
            if namespaces.is_empty() {
                self.numbers.remove(&port);
            }
        }
    }
}

fn take_out<K: Ord>(map: &mut BTreeMap<K, BTreeSet<Selection>>, key: &K, selection: &Selection) {
    if let Some(selections) = map.get_mut(key) {
        selections.remove(selection);
        if selections.is_empty() {
            map.remove(key);
        }
    }
}

impl Pod {
    /// What it calls its ports, as long as it can be reached.
    pub(crate) fn offers(&self) -> BTreeSet<(PortName, u16)> {
        let ports = self.ports.iter().filter(|_| self.wants_port());
        ports.map(|port| ((port.name.clone(), port.protocol), port.number)).collect()
    }
}

impl Cluster {
    /// A policy as read.
    pub fn policy(&self, name: &PolicyName) -> Option<&Policy> {
        self.policy_index.read.get(name).map(Arc::as_ref)
    }

    /// A cluster-wide policy as read.
    pub fn ranked_policy(&self, name: &ClusterPolicyName) -> Option<&RankedPolicy> {
        self.policy_index.ranked.get(name).map(Arc::as_ref)
    }

    /// All selectors of nodes that policies use.
    pub fn node_selectors(&self) -> impl Iterator<Item = &Selector> {
        self.policy_index.nodes.keys()
    }

    /// Policies that speak of the nodes with these labels.
    pub(crate) fn node_users(&self, nodes: &Selector) -> impl Iterator<Item = &ClusterPolicyName> {
        self.policy_index.nodes.get(nodes).into_iter().flatten()
    }

    /// All selections that policies use, and what for.
    pub fn selections(&self) -> impl Iterator<Item = (&Selection, &Role)> {
        let uses = self.policy_index.uses.iter();
        uses.flat_map(|(selection, roles)| roles.keys().map(move |role| (selection, role)))
    }

    /// Policies that use a selection so.
    pub fn users(&self, selection: &Selection, role: &Role) -> impl Iterator<Item = &User> {
        let roles = self.policy_index.uses.get(selection);
        roles.and_then(|roles| roles.get(role)).into_iter().flatten()
    }

    /// The selections a pod is in, and what they are used for.
    pub(crate) fn selections_of(&self, name: &PodName, pod: &Pod) -> BTreeMap<&Selection, &Uses> {
        let index = &self.policy_index;
        let anchors = Selection::anchors(&name.namespace, &pod.labels);
        let near = anchors.iter().filter_map(|anchor| index.anchored.get(anchor)).flatten();
        near.filter(|selection| self.is_in(selection, name, pod))
            .filter_map(|selection| index.uses.get_key_value(selection))
            .collect()
    }

    /// Whether a selection has a pod.
    pub(crate) fn is_in(&self, selection: &Selection, name: &PodName, pod: &Pod) -> bool {
        let namespace = self.namespaces.get(&name.namespace);
        selection.pods.matches(&pod.labels) && selection.reaches(&name.namespace, namespace.map(|namespace| &namespace.labels))
    }

    /// Pods of a namespace.
    pub fn pods_of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a PodName, &'a Pod)> {
        let first = PodName {
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        self.pods.range(first..).take_while(move |(name, _)| name.namespace == namespace)
    }

    /// Pods a selection has.
    pub(crate) fn pods_in<'a>(&'a self, selection: &'a Selection) -> impl Iterator<Item = &'a PodName> {
        let namespaces: Vec<&str> = match &selection.namespaces {
            Namespaces::Named(name) => vec![name],
            Namespaces::Labelled(selector) => {
                let reached = self.namespaces.iter().filter(|(_, namespace)| selector.matches(&namespace.labels));
                reached.map(|(name, _)| name.as_str()).collect()
            }
        };
        let pods = namespaces.into_iter().flat_map(|namespace| self.pods_of(namespace));
        pods.filter(|(_, pod)| selection.pods.matches(&pod.labels)).map(|(name, _)| name)
    }

    /// Numbers that pods near a selection give to a port's name: those of its namespace, or of all.
    pub(crate) fn numbers(&self, selection: &Selection, port: &str, protocol: Protocol) -> BTreeSet<u16> {
        let Some(namespaces) = self.policy_index.numbers.get(&(port.to_owned(), protocol)) else {
            return BTreeSet::new();
        };
        match &selection.namespaces {
            Namespaces::Named(name) => namespaces.get(name).into_iter().flat_map(BTreeMap::keys).copied().collect(),
            Namespaces::Labelled(_) => namespaces.values().flat_map(BTreeMap::keys).copied().collect(),
        }
    }

    /// How many pods of a namespace give a number to a port's name.
    pub(crate) fn offering(&self, namespace: &str, port: &PortName, number: u16) -> usize {
        let namespaces = self.policy_index.numbers.get(port);
        let count = namespaces.and_then(|namespaces| namespaces.get(namespace)?.get(&number));
        count.copied().unwrap_or_default()
    }

    /// Selections for which it matters how pods of a namespace call a port.
    pub(crate) fn naming<'a>(&'a self, port: &PortName, namespace: &'a str) -> impl Iterator<Item = &'a Selection> {
        let selections = self.policy_index.naming.get(port).into_iter().flatten();
        selections.filter(move |selection| match &selection.namespaces {
            Namespaces::Named(name) => name == namespace,
            Namespaces::Labelled(_) => true,
        })
    }
}
