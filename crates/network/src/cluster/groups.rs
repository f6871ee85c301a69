//! Security groups as read.

use std::sync::Arc;

use crate::cluster::{Cluster, View};
use crate::facts::Changes;
use crate::security_group::{Group, SecurityGroup, SecurityGroupName, read};

impl Cluster {
    pub(super) fn set_security_group(&mut self, name: &SecurityGroupName, group: Option<SecurityGroup>, changes: &mut Changes) {
        let as_read = group.as_ref().map(|group| Arc::new(read(&name.namespace, &group.spec)));
        self.read_groups.set(name, as_read, changes);
        self.security_groups.set(name, group, changes);
    }
}

impl<'a> View<'a> {
    /// A security group as read.
    pub(crate) fn security_group(&self, name: &SecurityGroupName) -> Option<&'a Group> {
        self.get(&self.cluster.read_groups, name).map(Arc::as_ref)
    }

    /// Whether there is a security group.
    pub(crate) fn has_security_group(&self, name: &SecurityGroupName) -> bool {
        self.has(&self.cluster.read_groups, name)
    }
}
