//! What a change means for policies. Pods carry their own membership in sets, so a pod is looked at again when a selection it is in
//! is used for something new or no longer, and when its namespace enters or leaves one; nothing else is.

use std::collections::BTreeSet;

use crate::cluster::{Pod, PodName};
use crate::plan::Planner;
use crate::policy::log::log_of;
use crate::policy::{ClusterPolicy, ClusterPolicyName, Namespace, NetworkPolicy, PolicyName, Role, Selection, Selector, User};
use crate::unit::Unit;

impl Planner {
    /// Adds, replaces or takes away a policy.
    pub(super) fn change_policy(&mut self, name: &PolicyName, policy: Option<NetworkPolicy>) {
        let before = self.uses(name);
        self.cluster.set_policy(name, policy);
        let after = self.uses(name);
        self.mark(Unit::Policy(name.clone()));
        self.mark_uses(&User::Policy(name.clone()), &before, &after);
    }

    /// Adds, replaces or takes away a cluster-wide policy.
    pub(super) fn change_cluster_policy(&mut self, name: &ClusterPolicyName, policy: Option<ClusterPolicy>) {
        let (before, nodes_before) = self.ranked_uses(name);
        self.cluster.set_cluster_policy(name, policy);
        let (after, nodes_after) = self.ranked_uses(name);
        self.revision += 1; // it says of itself whether it is in force
        self.mark(Unit::ClusterPolicy(name.clone()));
        self.mark_uses(&User::Cluster(name.clone()), &before, &after);
        for labels in nodes_before.symmetric_difference(&nodes_after) {
            if self.cluster.node_users(labels).any(|user| user != name) {
                continue;
            }
            self.mark(Unit::Nodes(labels.clone()));
            let nodes = self.cluster.nodes.iter().filter(|(_, node)| labels.matches(&node.labels));
            self.dirty.extend(nodes.map(|(name, _)| Unit::Node(name.clone())));
        }
    }

    /// Marks the sets a policy uses or used, and the pods of those that nobody else does.
    fn mark_uses(&mut self, user: &User, before: &BTreeSet<(Selection, Role)>, after: &BTreeSet<(Selection, Role)>) {
        for (selection, role) in before.union(after) {
            self.mark(Unit::Selection(selection.clone(), role.clone()));
        }
        for (selection, role) in before.symmetric_difference(after) {
            let others = self.cluster.users(selection, role).any(|other| other != user);
            if !others {
                self.dirty.extend(self.cluster.pods_in(selection).cloned().map(Unit::Pod));
            }
        }
    }

    /// Adds, replaces or takes away a namespace.
    pub(super) fn change_namespace(&mut self, name: &str, namespace: Option<Namespace>) {
        let before = self.cluster.namespaces.get(name).map(|namespace| namespace.labels.clone());
        let after = namespace.as_ref().map(|namespace| &namespace.labels);
        let mut crossed: Vec<&Selection> = Vec::new();
        for (selection, _) in self.cluster.selections() {
            let differs = selection.reaches(name, before.as_ref()) != selection.reaches(name, after);
            if differs && crossed.last() != Some(&selection) {
                crossed.push(selection);
            }
        }
        if !crossed.is_empty() {
            let concerned = |pod: &Pod| crossed.iter().any(|selection| selection.pods.matches(&pod.labels));
            let pods = self.cluster.pods_of(name).filter(|(_, pod)| concerned(pod));
            self.dirty.extend(pods.map(|(name, _)| Unit::Pod(name.clone())));
        }
        self.mark_log(name, namespace.as_ref());
        self.mark_networked(name, namespace.as_ref());
        let isolated = self.isolated(name);
        let before = self.cluster.namespaces.get(name).cloned();
        self.cluster.set_namespace(name, namespace);
        self.mark_networked(name, before.as_ref());
        self.mark_isolated(name, &isolated);
    }

    /// Marks what depends on the numbers of named ports, before a pod is changed: a number nobody had yet, or will have no more.
    pub(super) fn mark_numbers(&mut self, name: &PodName, pod: Option<&Pod>) {
        let before = self.cluster.pods.get(name).map(Pod::offers).unwrap_or_default();
        let after = pod.map(Pod::offers).unwrap_or_default();
        for (port, number) in before.symmetric_difference(&after) {
            let others = self.cluster.offering(&name.namespace, port, *number) - usize::from(before.contains(&(port.clone(), *number)));
            if others > 0 {
                continue;
            }
            let role = Role::Port(port.0.clone(), port.1);
            let selections: Vec<Selection> = self.cluster.naming(port, &name.namespace).cloned().collect();
            for selection in selections {
                let users = self.cluster.users(&selection, &role).cloned().map(|user| match user {
                    User::Policy(name) => Unit::Policy(name),
                    User::Cluster(name) => Unit::ClusterPolicy(name),
                });
                self.dirty.extend(users);
                self.mark(Unit::Selection(selection, role.clone()));
            }
        }
    }

    /// Marks what tells OVN what to log, before a namespace is changed.
    fn mark_log(&mut self, name: &str, namespace: Option<&Namespace>) {
        let before = self.cluster.namespaces.get(name);
        if log_of(before) == log_of(namespace) {
            return;
        }
        self.mark(Unit::PolicyLog(name.to_owned()));
        let policies: Vec<PolicyName> = self.cluster.policies_of(name).cloned().collect();
        for policy in policies {
            let subject = self.cluster.policy(&policy).map(|policy| policy.subject.clone());
            self.dirty.extend(subject.map(|pods| Unit::Selection(pods, Role::Subject)));
            self.mark(Unit::Policy(policy));
        }
        let apps = self.cluster.apps().filter(|app| app.namespace == name).cloned();
        self.dirty.extend(apps.map(Unit::App));
        let groups = self.cluster.security_groups.keys().filter(|group| group.namespace == name);
        self.dirty.extend(groups.cloned().map(Unit::SecurityGroup));
    }

    fn uses(&self, name: &PolicyName) -> BTreeSet<(Selection, Role)> {
        self.cluster
            .policy(name)
            .map(|policy| policy.uses().into_iter().collect())
            .unwrap_or_default()
    }

    fn ranked_uses(&self, name: &ClusterPolicyName) -> (BTreeSet<(Selection, Role)>, BTreeSet<Selector>) {
        let Some(policy) = self.cluster.ranked_policy(name) else {
            return Default::default();
        };
        (policy.uses().into_iter().collect(), policy.nodes().into_iter().cloned().collect())
    }
}
