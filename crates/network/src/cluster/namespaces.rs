//! Namespaces: how far they are isolated, their labels, and the network they name for their pods, each apart, so that a pod is looked at
//! again only when one of them changes that concerns it.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::BTreeMap;

use crate::cluster::{Cluster, Counts, View};
use crate::custom_network;
use crate::facts::{self, Changes, Table};
use crate::isolation::{self, Isolation};
use crate::policy::Namespace;
use crate::policy::log::POLICY_LOG;
use crate::service::{Service, ServiceName};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) isolated: Table<facts::Isolated>,
    /// How many namespaces are isolated how far.
    degrees: Counts<Isolation>,
    pub(super) labels: Table<facts::NamespaceLabels>,
    uids: Table<facts::NamespaceUids>,
    pub(super) logs: Table<facts::NamespaceLogs>,
    networks: Table<facts::NamespaceNetworks>,
}

impl Index {
    /// Whether any namespace is isolated at least so far.
    pub(super) fn isolates(&self, least: Isolation) -> bool {
        self.degrees.0.range(least..).next().is_some()
    }
}

impl Cluster {
    pub(super) fn set_namespace(&mut self, name: &str, namespace: Option<Namespace>, changes: &mut Changes) {
        let annotations = namespace.as_ref().map(|namespace| &namespace.annotations);
        let isolation = annotations.map(|annotations| isolation::read(annotations).0).unwrap_or_default();
        let isolation = Some(isolation).filter(|isolation| *isolation != Isolation::None);
        if let Some(before) = self.of_namespaces.isolated.get(name) {
            self.of_namespaces.degrees.subtract(before);
        }
        if let Some(after) = &isolation {
            self.of_namespaces.degrees.add(after);
        }
        self.of_namespaces.isolated.set(name, isolation, changes);
        let network = annotations.and_then(custom_network::named).map(str::to_owned);
        self.of_namespaces.networks.set(name, network, changes);
        let log = annotations.and_then(|annotations| annotations.get(POLICY_LOG)).cloned();
        self.of_namespaces.logs.set(name, log, changes);
        let uid = namespace.as_ref().map(|namespace| namespace.uid.clone());
        self.of_namespaces.uids.set(name, uid, changes);
        let labels = namespace.as_ref().map(|namespace| namespace.labels.clone());
        self.reach(name, labels.as_ref(), changes);
        self.of_namespaces.labels.set(name, labels, changes);
        self.namespaces.set(name, namespace, changes);
    }

    /// How far a namespace is isolated.
    pub fn isolation(&self, namespace: &str) -> Isolation {
        View::new(self).isolation(namespace)
    }

    /// Namespaces that are isolated at least so far.
    pub fn isolated(&self, least: Isolation) -> impl Iterator<Item = &String> {
        View::new(self).isolated(least)
    }

    /// Services of a namespace.
    pub fn services_of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a ServiceName, &'a Service)> {
        let first = ServiceName {
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        self.services
            .range(first..)
            .take_while(move |(name, _)| name.namespace == namespace)
    }
}

impl<'a> View<'a> {
    /// A namespace.
    pub(crate) fn namespace(&self, name: &str) -> Option<&'a Namespace> {
        self.get(&self.cluster.namespaces, name)
    }

    /// Whether a namespace is known.
    pub(crate) fn has_namespace(&self, name: &str) -> bool {
        self.has(&self.cluster.namespaces, name)
    }

    /// The labels of a namespace.
    pub(crate) fn namespace_labels(&self, name: &str) -> Option<&'a BTreeMap<String, String>> {
        self.get(&self.cluster.of_namespaces.labels, name)
    }

    /// The UID of a namespace.
    pub(super) fn namespace_uid(&self, name: &str) -> &'a str {
        self.get(&self.cluster.of_namespaces.uids, name).map_or("", String::as_str)
    }

    /// What a namespace asks to be logged.
    pub(crate) fn namespace_log(&self, name: &str) -> Option<&'a str> {
        self.get(&self.cluster.of_namespaces.logs, name).map(String::as_str)
    }

    /// The network a namespace names for its pods.
    pub(super) fn namespace_network(&self, name: &str) -> Option<&'a str> {
        self.get(&self.cluster.of_namespaces.networks, name).map(String::as_str)
    }

    /// How far a namespace is isolated.
    pub(crate) fn isolation(&self, namespace: &str) -> Isolation {
        self.get(&self.cluster.of_namespaces.isolated, namespace)
            .copied()
            .unwrap_or_default()
    }

    /// Namespaces that are isolated at least so far.
    pub(crate) fn isolated(&self, least: Isolation) -> impl Iterator<Item = &'a String> + use<'a> {
        let isolated = self.all(&self.cluster.of_namespaces.isolated);
        isolated.filter(move |(_, isolation)| **isolation >= least).map(|(name, _)| name)
    }

    /// Whether a service is for its own namespace only.
    pub(crate) fn is_closed(&self, service: &ServiceName) -> bool {
        self.isolation(&service.namespace) >= Isolation::Services
    }
}
