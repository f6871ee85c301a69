//! Apps that pods and services are labelled with, and the services whose labels speak for pods, so that a pod finds its apps by its
//! namespace.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::{BTreeMap, BTreeSet};

use crate::app::{self, App};
use crate::cluster::{Anchor, Cluster, Counts, Pod, PodName, View};
use crate::facts::{self, Changes, Table};
use crate::service::{Service, ServiceName};

/// Services, the apps they name and the pods they mean.
pub type Speakers = BTreeMap<ServiceName, (App, BTreeMap<String, String>)>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) apps: Table<facts::Apps>,
    /// How many objects are labelled with an app.
    labelled: Counts<App>,
    services: Table<facts::AppServices>,
}

impl Index {
    /// The label of an object is another.
    pub(super) fn label(&mut self, before: Option<&App>, after: Option<&App>, changes: &mut Changes) {
        if before == after {
            return;
        }
        if let Some(app) = before
            && self.labelled.subtract(app)
        {
            self.apps.set(app, None, changes);
        }
        if let Some(app) = after
            && self.labelled.add(app)
        {
            self.apps.set(app, Some(()), changes);
        }
    }

    pub(super) fn set_service(&mut self, name: &ServiceName, old: Option<&Service>, new: Option<&Service>, changes: &mut Changes) {
        let said = |service: Option<&Service>| service.and_then(|service| Some((service.app(name)?, service.selector.clone())));
        let (before, after) = (said(old), said(new));
        if before == after {
            return;
        }
        self.label(before.as_ref().map(|(app, _)| app), after.as_ref().map(|(app, _)| app), changes);
        for (said, there) in [(before, false), (after, true)] {
            let Some(said) = said else { continue };
            let label = said.1.first_key_value().map(|(key, value)| (key.clone(), value.clone()));
            for anchor in BTreeSet::from([(name.namespace.clone(), label), (name.namespace.clone(), None)]) {
                self.speak(&anchor, name, Some(said.clone()).filter(|_| there), changes);
            }
        }
    }

    fn speak(&mut self, anchor: &Anchor, name: &ServiceName, said: Option<(App, BTreeMap<String, String>)>, changes: &mut Changes) {
        let mut speakers = self.services.get(anchor).cloned().unwrap_or_default();
        match said {
            Some(said) => drop(speakers.insert(name.clone(), said)),
            None => drop(speakers.remove(name)),
        }
        self.services
            .set(anchor, Some(speakers).filter(|speakers| !speakers.is_empty()), changes);
    }
}

impl Pod {
    /// The app its own labels name.
    pub fn app(&self, name: &PodName) -> Option<App> {
        app::read(&name.namespace, &self.labels)
    }
}

impl Service {
    /// The app its pods are in. Labels that disagree name none.
    pub fn app(&self, name: &ServiceName) -> Option<App> {
        app::read(&name.namespace, &self.labels).filter(|app| app.name.is_some())
    }
}

/// Whether a service with this selector selects pods with these labels.
fn selects(selector: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

impl Cluster {
    /// All apps.
    pub fn apps(&self) -> impl Iterator<Item = &App> {
        self.of_apps.apps.keys()
    }

    /// The apps a pod is in: by its own labels and by those of services that select it.
    pub fn apps_of(&self, name: &PodName, pod: &Pod) -> BTreeSet<App> {
        View::new(self).apps_of(name, pod)
    }
}

impl View<'_> {
    /// The apps a pod is in: by its own labels and by those of services that select it.
    pub(crate) fn apps_of(&self, name: &PodName, pod: &Pod) -> BTreeSet<App> {
        let services = &self.cluster.of_apps.services;
        // A service without a selector speaks for no pod, so that labels lead to all others.
        let speaks = !pod.labels.is_empty() && self.has(services, &(name.namespace.clone(), None));
        let labels = pod
            .labels
            .iter()
            .filter(|_| speaks)
            .map(|(key, value)| Some((key.as_str(), value.as_str())));
        let near = labels.filter_map(|label| self.anchored(services, &name.namespace, label)).flatten();
        let speaking = near.filter(|(_, (_, selector))| selects(selector, &pod.labels));
        speaking.map(|(_, (app, _))| app.clone()).chain(pod.app(name)).collect()
    }
}
