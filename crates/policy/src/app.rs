//! App networks: pods with the same app label in one namespace. A pod in one receives from its fellows only, until a NetworkPolicy opens
//! it. Asked by [`crate::evaluate`] in the tier of NetworkPolicies.

use std::collections::BTreeSet;

use crate::cluster::{Cluster, Labels, Name};
use crate::problem::{Object, Problem};

/// Labels that name an app; they mean the same.
const LABELS: [&str; 2] = ["netloom.io/app", "opencontrail.org/name"];

/// What the labels of a pod or service say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum App {
    /// Nothing.
    #[default]
    None,
    /// It is in this app's network.
    Named(String),
    /// Each label says something else.
    Conflict(String, String),
}

/// App networks of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apps {
    /// Their names, all of the pod's namespace.
    pub names: BTreeSet<String>,
    /// Its own labels contradict each other.
    pub conflict: bool,
}

impl App {
    /// Reads labels.
    pub fn read(labels: &Labels) -> Self {
        match LABELS.map(|label| labels.get(label)) {
            [None, None] => Self::None,
            [Some(one), Some(other)] if one != other => Self::Conflict(one.clone(), other.clone()),
            [Some(one), _] | [None, Some(one)] => Self::Named(one.clone()),
        }
    }

    /// The mistake in the labels of this object, and what it means for it.
    pub fn problem(&self, object: Object, consequence: &str) -> Option<Problem> {
        let Self::Conflict(one, other) = self else { return None };
        let [label, same] = LABELS;
        Some(Problem {
            object,
            reason: "ConflictingApp",
            field: format!("label {label}"),
            message: format!("is {one:?}, but {same} is {other:?}, so {consequence}; remove one of them"),
        })
    }
}

impl Apps {
    /// Those of a pod: its own label's, and those of labelled services that select it.
    pub fn of(cluster: &Cluster, name: &Name) -> Self {
        let mut apps = Self::default();
        let Some(pod) = cluster.pods.get(name).filter(|pod| !pod.host_network) else {
            return apps;
        };
        match &pod.app {
            App::None => {}
            App::Named(app) => {
                apps.names.insert(app.clone());
            }
            App::Conflict(..) => apps.conflict = true,
        }
        for (_, service) in services_of(cluster, name) {
            if let App::Named(app) = &service.app {
                apps.names.insert(app.clone());
            }
        }
        apps
    }

    /// Whether the pod receives only what is allowed.
    pub fn isolate(&self) -> bool {
        self.conflict || !self.names.is_empty()
    }
}

/// Mistakes in the app labels of a pod and of services that select it.
pub fn problems(cluster: &Cluster, name: &Name) -> Vec<Problem> {
    let Some(pod) = cluster.pods.get(name).filter(|pod| !pod.host_network) else {
        return Vec::new();
    };
    let own = pod.app.problem(Object::of_pod(name), "it is isolated and in no app's network");
    let of_services = services_of(cluster, name).filter_map(|(name, _)| of_service(cluster, name));
    own.into_iter().chain(of_services).collect()
}

/// The mistake in the app labels of a service.
pub fn of_service(cluster: &Cluster, name: &Name) -> Option<Problem> {
    let service = cluster.services.get(name)?;
    let object = Object::in_namespace("Service", name);
    service.app.problem(object, "they put its pods in no app's network")
}

/// Services of a pod's namespace that select it.
fn services_of<'a>(cluster: &'a Cluster, pod: &'a Name) -> impl Iterator<Item = (&'a Name, &'a crate::service::Service)> {
    let of_namespace = cluster.services.iter().filter(|(name, _)| name.namespace == pod.namespace);
    of_namespace.filter(|(_, service)| cluster.pods.get(pod).is_some_and(|found| service.selects(&found.labels)))
}
