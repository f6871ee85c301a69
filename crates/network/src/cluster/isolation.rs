//! Isolated namespaces by how far they are, so that a pod knows its networks and a change what it touches without reading annotations.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::isolation::{self, Isolation};
use crate::policy::Namespace;
use crate::service::{Service, ServiceName};

/// Namespaces that are isolated at all.
pub(super) type Isolated = BTreeMap<String, Isolation>;

impl Cluster {
    /// Adds or replaces a namespace, or takes it away.
    pub(crate) fn set_namespace(&mut self, name: &str, namespace: Option<Namespace>) {
        let isolation = namespace.as_ref().map(|namespace| isolation::read(&namespace.annotations).0);
        match isolation.unwrap_or_default() {
            Isolation::None => self.isolated.remove(name),
            isolation => self.isolated.insert(name.to_owned(), isolation),
        };
        match namespace {
            Some(namespace) => drop(self.namespaces.insert(name.to_owned(), namespace)),
            None => drop(self.namespaces.remove(name)),
        }
    }

    /// How far a namespace is isolated.
    pub fn isolation(&self, namespace: &str) -> Isolation {
        self.isolated.get(namespace).copied().unwrap_or_default()
    }

    /// Namespaces that are isolated at least so far.
    pub fn isolated(&self, least: Isolation) -> impl Iterator<Item = &String> {
        let far_enough = self.isolated.iter().filter(move |(_, isolation)| **isolation >= least);
        far_enough.map(|(name, _)| name)
    }

    /// Whether a service is for its own namespace only.
    pub fn is_closed(&self, service: &ServiceName) -> bool {
        self.isolation(&service.namespace) >= Isolation::Services
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
