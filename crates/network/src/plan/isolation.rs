//! What a change of a namespace's isolation means: its own pods and services are looked at again, and others only when the first
//! namespace is isolated or the last no longer, because then the groups they are kept out by come or go.

use crate::isolation::Isolation;
use crate::plan::Planner;
use crate::policy::Namespace;
use crate::unit::Unit;

/// How far a namespace and any other are isolated.
#[derive(PartialEq)]
pub(super) struct Isolated {
    own: Isolation,
    any: Isolation,
    namespace: Option<Namespace>,
}

impl Planner {
    pub(super) fn isolated(&self, namespace: &str) -> Isolated {
        let cluster = &self.cluster;
        let any = [Isolation::Services, Isolation::Pods]
            .into_iter()
            .find(|isolation| cluster.isolated(*isolation).next().is_some());
        Isolated {
            own: cluster.isolation(namespace),
            any: any.unwrap_or_default(),
            namespace: cluster.namespaces.get(namespace).cloned(),
        }
    }

    /// Marks what depends on how far a namespace is isolated, once it is changed.
    pub(super) fn mark_isolated(&mut self, namespace: &str, before: &Isolated) {
        let after = self.isolated(namespace);
        if before.own == Isolation::None && after.own == Isolation::None {
            return;
        }
        if before.namespace != after.namespace {
            self.mark(Unit::VirtualNetwork(namespace.to_owned()));
        }
        if before.own == after.own {
            return;
        }
        self.mark(Unit::Isolation);
        if before.any == after.any {
            self.dirty
                .extend(self.cluster.pods_of(namespace).map(|(name, _)| Unit::Pod(name.clone())));
        } else {
            self.dirty.extend(self.cluster.pods.keys().cloned().map(Unit::Pod));
        }
        if (before.own == Isolation::Services) != (after.own == Isolation::Services) {
            let closed = self.cluster.isolated(Isolation::Services).cloned();
            self.dirty.extend(closed.map(Unit::VirtualNetwork));
            self.dirty
                .extend(self.cluster.services_of(namespace).map(|(name, _)| Unit::Service(name.clone())));
        }
    }
}
