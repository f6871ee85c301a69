//! Security groups as read, by who refers to them and by which pods name them.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::{Cluster, Pod, PodName};
use crate::security_group::{Group, Remote, SecurityGroup, SecurityGroupName, read};

/// Secondary keys of security groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    read: BTreeMap<SecurityGroupName, Arc<Group>>,
    /// Groups by a group their rules speak of.
    referrers: BTreeMap<SecurityGroupName, BTreeSet<SecurityGroupName>>,
    /// Pods by a group they name.
    pods: BTreeMap<SecurityGroupName, BTreeSet<PodName>>,
}

impl Groups {
    pub(super) fn set_pod(&mut self, name: &PodName, pod: &Pod, there: bool) {
        for group in pod.security_groups(name) {
            set(&mut self.pods, group, name, there);
        }
    }

    fn refer(&mut self, name: &SecurityGroupName, there: bool) {
        let Some(group) = self.read.get(name).cloned() else { return };
        for rule in &group.rules {
            if let Some(Remote::Group(remote)) = &rule.remote {
                set(&mut self.referrers, remote.clone(), name, there);
            }
        }
    }
}

fn set<T: Ord + Clone>(map: &mut BTreeMap<SecurityGroupName, BTreeSet<T>>, group: SecurityGroupName, value: &T, there: bool) {
    let values = map.entry(group.clone()).or_default();
    if there {
        values.insert(value.clone());
    } else {
        values.remove(value);
    }
    if values.is_empty() {
        map.remove(&group);
    }
}

impl Cluster {
    /// Adds or replaces a security group, or takes it away.
    pub(crate) fn set_security_group(&mut self, name: &SecurityGroupName, group: Option<SecurityGroup>) {
        let index = &mut self.group_index;
        index.refer(name, false);
        match group {
            Some(group) => {
                index.read.insert(name.clone(), Arc::new(read(&name.namespace, &group.spec)));
                index.refer(name, true);
                self.security_groups.insert(name.clone(), group);
            }
            None => {
                index.read.remove(name);
                self.security_groups.remove(name);
            }
        }
    }

    /// A security group as read.
    pub fn security_group(&self, name: &SecurityGroupName) -> Option<&Group> {
        self.group_index.read.get(name).map(Arc::as_ref)
    }

    /// Groups with rules that speak of this one.
    pub(crate) fn referrers(&self, group: &SecurityGroupName) -> impl Iterator<Item = &SecurityGroupName> {
        self.group_index.referrers.get(group).into_iter().flatten()
    }

    /// Pods that name a group, whether or not it exists.
    pub(crate) fn pods_naming(&self, group: &SecurityGroupName) -> impl Iterator<Item = &PodName> {
        self.group_index.pods.get(group).into_iter().flatten()
    }

    /// Whether any pod names a group.
    pub(crate) fn has_grouped_pods(&self) -> bool {
        !self.group_index.pods.is_empty()
    }
}
