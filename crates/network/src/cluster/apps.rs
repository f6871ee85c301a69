//! Apps by who is labelled with them, and the services whose labels speak for pods, so that a pod finds its apps by its namespace.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::{BTreeMap, BTreeSet};

use crate::app::{self, App};
use crate::cluster::{Cluster, Namespaced, Pod, PodName};
use crate::service::{Service, ServiceName};

/// An object with a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Labelled {
    /// A pod.
    Pod(PodName),
    /// A service.
    Service(ServiceName),
}

/// Secondary keys of labels that name apps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Apps {
    users: BTreeMap<App, BTreeSet<Labelled>>,
    /// Services that speak for pods, by namespace.
    services: BTreeMap<String, BTreeSet<ServiceName>>,
}

impl Apps {
    pub(super) fn set_pod(&mut self, name: &PodName, pod: &Pod, there: bool) {
        if let Some(app) = pod.app(name) {
            self.set(app, Labelled::Pod(name.clone()), there);
        }
    }

    pub(super) fn set_service(&mut self, name: &ServiceName, service: &Service, there: bool) {
        let Some(app) = service.app(name) else { return };
        self.set(app, Labelled::Service(name.clone()), there);
        let services = self.services.entry(name.namespace.clone()).or_default();
        if there {
            services.insert(name.clone());
        } else {
            services.remove(name);
        }
        if services.is_empty() {
            self.services.remove(&name.namespace);
        }
    }

    fn set(&mut self, app: App, user: Labelled, there: bool) {
        let users = self.users.entry(app.clone()).or_default();
        if there {
            users.insert(user);
        } else {
            users.remove(&user);
        }
        if users.is_empty() {
            self.users.remove(&app);
        }
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

    /// Whether it selects pods with these labels.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.selector.is_empty() && self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

impl Cluster {
    /// All apps.
    pub fn apps(&self) -> impl Iterator<Item = &App> {
        self.app_index.users.keys()
    }

    /// Objects labelled with an app.
    pub(crate) fn labelled(&self, app: &App) -> impl Iterator<Item = &Labelled> {
        self.app_index.users.get(app).into_iter().flatten()
    }

    /// The apps a pod is in: by its own labels and by those of services that select it.
    pub fn apps_of(&self, name: &PodName, pod: &Pod) -> BTreeSet<App> {
        let services = self.app_index.services.get(&name.namespace).into_iter().flatten();
        let speaking = services.filter_map(|service: &Namespaced| {
            let found = self.services.get(service).filter(|found| found.selects(&pod.labels))?;
            found.app(service)
        });
        speaking.chain(pod.app(name)).collect()
    }
}
