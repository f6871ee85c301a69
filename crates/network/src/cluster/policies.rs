//! Policies by what they depend on: which selections are used and by whom, and which of them a pod can be in. A pod finds its selections by
//! its namespace and labels, so that it costs the same in a large cluster as in a small one.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::{Cluster, Pod, PodName, View};
use crate::facts::{self, Changes, Fact, Schema, Table};
use crate::policy::cluster::RankedPolicy;
use crate::policy::read::read;
use crate::policy::{
    ClusterPolicy, ClusterPolicyName, Namespaces, NetworkPolicy, Policy, PolicyName, Role, Selection, Selector, User, cluster,
};

/// What all pods of a selection in one namespace have in common: the namespace, and a label if the selection requires one.
pub type Anchor = (String, Option<(String, String)>);

/// Selections, and what they are used for.
type Uses = BTreeSet<(Selection, Role)>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    read: Table<facts::ReadPolicies>,
    ranked: Table<facts::RankedPolicies>,
    pub(super) node_selectors: Table<facts::NodeSelectors>,
    pub(super) users: Table<facts::Users>,
    roles: Table<facts::Roles>,
    anchored: Table<facts::Anchored>,
}

impl Index {
    /// Namespaces with these labels have or lose what a selection means.
    fn anchor(&mut self, selection: &Selection, namespace: &str, there: bool, changes: &mut Changes) {
        let anchor = (namespace.to_owned(), selection.label());
        if there {
            self.anchored.include(&anchor, selection.clone(), changes);
        } else {
            self.anchored.exclude(&anchor, selection, changes);
        }
    }
}

impl Cluster {
    pub(super) fn set_policy(&mut self, name: &PolicyName, policy: Option<NetworkPolicy>, changes: &mut Changes) {
        let as_read = policy.as_ref().map(|policy| Arc::new(read(&name.namespace, &policy.spec)));
        let uses = |policy: Option<&Arc<Policy>>| -> Uses { policy.into_iter().flat_map(|policy| policy.uses()).collect() };
        let (before, after) = (uses(self.of_policies.read.get(name)), uses(as_read.as_ref()));
        self.set_uses(&User::Policy(name.clone()), &before, &after, changes);
        self.of_policies.read.set(name, as_read, changes);
        self.policies.set(name, policy, changes);
    }

    pub(super) fn set_cluster_policy(&mut self, name: &ClusterPolicyName, policy: Option<ClusterPolicy>, changes: &mut Changes) {
        let as_read = policy.as_ref().map(|policy| Arc::new(cluster::read(name.kind, &policy.spec)));
        let uses = |policy: Option<&Arc<RankedPolicy>>| -> Uses { policy.into_iter().flat_map(|policy| policy.uses()).collect() };
        let nodes = |policy: Option<&Arc<RankedPolicy>>| -> BTreeSet<Selector> {
            policy.into_iter().flat_map(|policy| policy.nodes()).cloned().collect()
        };
        let old = self.of_policies.ranked.get(name).cloned();
        self.set_uses(&User::Cluster(name.clone()), &uses(old.as_ref()), &uses(as_read.as_ref()), changes);
        self.set_node_selectors(name, &nodes(old.as_ref()), &nodes(as_read.as_ref()), changes);
        self.of_policies.ranked.set(name, as_read, changes);
        self.cluster_policies.set(name, policy, changes);
    }

    fn set_node_selectors(
        &mut self,
        name: &ClusterPolicyName,
        before: &BTreeSet<Selector>,
        after: &BTreeSet<Selector>,
        changes: &mut Changes,
    ) {
        self.of_policies.node_selectors.move_element(name, before, after, changes);
        for labels in before.symmetric_difference(after) {
            let used = self.of_policies.node_selectors.contains_key(labels);
            for node in self.nodes_with(labels) {
                if used {
                    self.of_nodes.sets.include(&node, labels.clone(), changes);
                } else {
                    self.of_nodes.sets.exclude(&node, labels, changes);
                }
            }
        }
    }

    fn set_uses(&mut self, user: &User, before: &Uses, after: &Uses, changes: &mut Changes) {
        self.of_policies.users.move_element(user, before, after, changes);
        for (selection, role) in before.symmetric_difference(after) {
            let known = self.of_policies.roles.contains_key(selection);
            if self.of_policies.users.contains_key(&(selection.clone(), role.clone())) {
                self.of_policies.roles.include(selection, role.clone(), changes);
            } else {
                self.of_policies.roles.exclude(selection, role, changes);
            }
            let used = self.of_policies.roles.contains_key(selection);
            if known != used {
                for namespace in self.reached(selection) {
                    self.of_policies.anchor(selection, &namespace, used, changes);
                }
            }
        }
    }

    /// Namespaces whose pods can be in a selection.
    fn reached(&self, selection: &Selection) -> Vec<String> {
        match &selection.namespaces {
            Namespaces::Named(name) => vec![name.clone()],
            Namespaces::Labelled(selector) => {
                let namespaces = self.of_namespaces.labels.iter();
                let reached = namespaces.filter(|(_, labels)| selector.matches(labels));
                reached.map(|(name, _)| name.clone()).collect()
            }
        }
    }

    /// The labels of a namespace are about to be these: it may enter or leave what selections reach.
    pub(super) fn reach(&mut self, namespace: &str, labels: Option<&BTreeMap<String, String>>, changes: &mut Changes) {
        let before = self.of_namespaces.labels.get(namespace);
        if before == labels {
            return;
        }
        let crossed: Vec<(Selection, bool)> = self
            .of_policies
            .roles
            .keys()
            .map(|selection| (selection, selection.reaches(namespace, labels)))
            .filter(|(selection, after)| selection.reaches(namespace, before) != *after)
            .map(|(selection, after)| (selection.clone(), after))
            .collect();
        for (selection, there) in crossed {
            self.of_policies.anchor(&selection, namespace, there, changes);
        }
    }

    /// A policy as read.
    pub fn policy(&self, name: &PolicyName) -> Option<&Policy> {
        self.of_policies.read.get(name).map(Arc::as_ref)
    }

    /// All selectors of nodes that policies use.
    pub fn node_selectors(&self) -> impl Iterator<Item = &Selector> {
        self.of_policies.node_selectors.keys()
    }

    /// All selections that policies use, and what for.
    pub fn selections(&self) -> impl Iterator<Item = (&Selection, &Role)> {
        self.of_policies.users.keys().map(|(selection, role)| (selection, role))
    }
}

impl<'a> View<'a> {
    /// A policy as read.
    pub(crate) fn policy(&self, name: &PolicyName) -> Option<&'a Policy> {
        self.get(&self.cluster.of_policies.read, name).map(Arc::as_ref)
    }

    /// A cluster-wide policy as written.
    pub(crate) fn cluster_policy(&self, name: &ClusterPolicyName) -> Option<&'a ClusterPolicy> {
        self.get(&self.cluster.cluster_policies, name)
    }

    /// A cluster-wide policy as read.
    pub(crate) fn ranked_policy(&self, name: &ClusterPolicyName) -> Option<&'a RankedPolicy> {
        self.get(&self.cluster.of_policies.ranked, name).map(Arc::as_ref)
    }

    /// Policies that use a selection so.
    pub(crate) fn users(&self, selection: &Selection, role: &Role) -> impl Iterator<Item = &'a User> + use<'a> {
        let key = (selection.clone(), role.clone());
        self.get(&self.cluster.of_policies.users, &key).into_iter().flatten()
    }

    /// What is known by an anchor, which is made only where there is anything to find.
    pub(super) fn anchored<S: Schema<Key = Anchor>>(
        &self,
        table: &'a Table<S>,
        namespace: &str,
        label: Option<(&str, &str)>,
    ) -> Option<&'a S::Value> {
        self.note(|| Fact::value::<S, _>(&(namespace, label)));
        table.entries().next()?;
        table.value(&(namespace.to_owned(), label.map(|(key, value)| (key.to_owned(), value.to_owned()))))
    }

    /// The selections a pod is in, and what they are used for.
    pub(crate) fn selections_of(&self, name: &PodName, pod: &Pod) -> BTreeMap<&'a Selection, &'a BTreeSet<Role>> {
        let index = &self.cluster.of_policies;
        let labels = pod.labels.iter().map(|(key, value)| Some((key.as_str(), value.as_str())));
        let near = labels
            .chain([None])
            .filter_map(|label| self.anchored(&index.anchored, &name.namespace, label));
        let near = near.flatten();
        near.filter(|selection| selection.pods.matches(&pod.labels))
            .filter_map(|selection| Some((selection, self.get(&index.roles, selection)?)))
            .collect()
    }
}
