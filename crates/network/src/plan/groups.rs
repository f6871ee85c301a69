//! What a change means for apps and security groups. Pods carry their own membership; a group is looked at again when the first that needs
//! it comes or the last goes, and pods when the label that speaks for them, or the group they name, does.

use std::collections::BTreeSet;

use crate::app::App;
use crate::cluster::{Labelled, Pod, PodName};
use crate::plan::Planner;
use crate::security_group::SecurityGroupName;
use crate::service::{Service, ServiceName};
use crate::unit::Unit;

impl Planner {
    /// Marks the groups that a pod is the first or the last to need, before it is changed.
    pub(super) fn mark_groups(&mut self, name: &PodName, pod: Option<&Pod>) {
        let old = self.cluster.pods.get(name);
        let (before, after) = (old.and_then(|pod| pod.app(name)), pod.and_then(|pod| pod.app(name)));
        let named = |pod: Option<&Pod>| pod.map(|pod| pod.security_groups(name)).unwrap_or_default();
        let regrouped = named(old).is_empty() != named(pod).is_empty();
        self.mark_app_users(&Labelled::Pod(name.clone()), before, after);
        if regrouped {
            self.mark(Unit::SecurityGroups);
        }
    }

    /// Marks what depends on the app a service speaks for pods of, before it is changed.
    pub(super) fn mark_app(&mut self, name: &ServiceName, service: Option<&Service>) {
        let old = self.cluster.services.get(name);
        let said = |service: Option<&Service>| service.and_then(|service| Some((service.app(name)?, service.selector.clone())));
        let (before, after) = (said(old), said(service));
        if before == after {
            return;
        }
        let speaks = |service: Option<&Service>, pod: &Pod| service.is_some_and(|s| s.app(name).is_some() && s.selects(&pod.labels));
        let pods = self.cluster.pods_of(&name.namespace);
        let moved = pods.filter(|(_, pod)| speaks(old, pod) || speaks(service, pod));
        self.dirty.extend(moved.map(|(pod, _)| Unit::Pod(pod.clone())));
        let app = |said: Option<(App, _)>| said.map(|(app, _)| app);
        self.mark_app_users(&Labelled::Service(name.clone()), app(before), app(after));
    }

    /// Marks what speaks of a security group, before it comes or goes (`existence`) or its rules change.
    pub(super) fn mark_security_group(&mut self, name: &SecurityGroupName, existence: bool) {
        self.mark(Unit::SecurityGroup(name.clone()));
        if existence {
            let referrers: Vec<_> = self.cluster.referrers(name).cloned().map(Unit::SecurityGroup).collect();
            self.dirty.extend(referrers);
            self.dirty.extend(self.cluster.pods_naming(name).cloned().map(Unit::Pod));
        }
    }

    fn mark_app_users(&mut self, user: &Labelled, before: Option<App>, after: Option<App>) {
        let (before, after): (BTreeSet<App>, BTreeSet<App>) = (before.into_iter().collect(), after.into_iter().collect());
        for app in before.symmetric_difference(&after) {
            if self.cluster.labelled(app).all(|other| other == user) {
                self.mark(Unit::App(app.clone()));
            }
        }
    }
}
