//! What pods call their ports, and which of them are machines.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::BTreeSet;

use crate::cluster::{Cluster, Counts, Pod, PodName, View};
use crate::facts::{self, Changes, Table};
use crate::policy::{Namespaces, Selection};
use crate::service::Protocol;

/// What a pod calls a port, with its protocol.
pub type OfferedPort = (String, Protocol);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    machines: BTreeSet<PodName>,
    numbers: Table<facts::Numbers>,
    /// How many pods of a namespace, or of any, give a number to a name.
    offers: Counts<(OfferedPort, Option<String>, u16)>,
    /// How many pods name security groups.
    grouped: usize,
}

impl Index {
    pub(super) fn names_groups(&self) -> bool {
        self.grouped > 0
    }

    fn offer(&mut self, port: &OfferedPort, namespace: &str, number: u16, there: bool, changes: &mut Changes) {
        for namespace in [Some(namespace.to_owned()), None] {
            let counted = (port.clone(), namespace.clone(), number);
            let key = (port.clone(), namespace);
            if there && self.offers.add(&counted) {
                self.numbers.include(&key, number, changes);
            } else if !there && self.offers.subtract(&counted) {
                self.numbers.exclude(&key, &number, changes);
            }
        }
    }
}

impl Pod {
    /// What it calls its ports, as long as it can be reached.
    pub(crate) fn offers(&self) -> BTreeSet<(OfferedPort, u16)> {
        let ports = self.ports.iter().filter(|_| self.wants_port());
        ports.map(|port| ((port.name.clone(), port.protocol), port.number)).collect()
    }
}

impl Cluster {
    pub(super) fn set_pod(&mut self, name: &PodName, pod: Option<Pod>, changes: &mut Changes) {
        let (old, new) = (self.pods.get(name), pod.as_ref());
        let offers = |pod: Option<&Pod>| pod.filter(|pod| !pod.ports.is_empty()).map(Pod::offers).unwrap_or_default();
        let (offered, offering) = (offers(old), offers(new));
        for ((port, number), there) in offered
            .difference(&offering)
            .map(|it| (it, false))
            .chain(offering.difference(&offered).map(|it| (it, true)))
        {
            self.of_pods.offer(port, &name.namespace, *number, there, changes);
        }
        let groups = |pod: Option<&Pod>| usize::from(pod.is_some_and(Pod::names_groups));
        self.of_pods.grouped = self.of_pods.grouped + groups(new) - groups(old);
        let app = |pod: Option<&Pod>| pod.and_then(|pod| pod.app(name));
        let (app_before, app_after) = (app(old), app(new));
        self.of_apps.label(app_before.as_ref(), app_after.as_ref(), changes);
        if name.machine().is_some() {
            if new.is_some() {
                self.of_pods.machines.insert(name.clone());
            } else {
                self.of_pods.machines.remove(name);
            }
        }
        self.pods.set(name, pod, changes);
    }

    /// Those of the pods that are `Port`s of machines.
    pub fn machines(&self) -> impl Iterator<Item = &PodName> {
        self.of_pods.machines.iter()
    }
}

impl<'a> View<'a> {
    /// A pod.
    pub(crate) fn pod(&self, name: &PodName) -> Option<&'a Pod> {
        self.get(&self.cluster.pods, name)
    }

    /// Numbers that pods near a selection give to a port's name: those of its namespace, or of all.
    pub(crate) fn numbers(&self, selection: &Selection, port: &str, protocol: Protocol) -> BTreeSet<u16> {
        let namespace = match &selection.namespaces {
            Namespaces::Named(name) => Some(name.clone()),
            Namespaces::Labelled(_) => None,
        };
        let key = ((port.to_owned(), protocol), namespace);
        self.get(&self.cluster.of_pods.numbers, &key).cloned().unwrap_or_default()
    }
}
