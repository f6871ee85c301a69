//! What a change means for networks that users define, and their own decisions: which address a network's router has on the join switch.

use std::net::IpAddr;

use crate::cluster::{Cluster, PodName};
use crate::custom_network::CustomNetwork;
use crate::plan::Planner;
use crate::policy::Namespace;
use crate::unit::Unit;

impl Planner {
    /// Adds, replaces or takes away a network.
    pub(super) fn change_custom_network(&mut self, name: &str, network: Option<CustomNetwork>) {
        self.mark_isolation_changed_by(name, |cluster| cluster.set_custom_network(name, network));
        self.revision += 1; // it says of itself whether it is in force
        self.mark(Unit::CustomNetwork(name.to_owned()));
        let attached = self.cluster.records.attached(name).into_iter();
        let concerned: Vec<Unit> = attached.chain(self.cluster.pods_wanting(name)).cloned().map(Unit::Pod).collect();
        self.dirty.extend(concerned);
    }

    /// A network that is no more stays as it was until its last pod has left.
    fn release_custom_network(&mut self, name: &str) {
        self.mark_isolation_changed_by(name, |cluster| {
            cluster.records.release_network(name);
        });
    }

    fn mark_isolation_changed_by(&mut self, network: &str, change: impl FnOnce(&mut Cluster)) {
        let isolated = |cluster: &Cluster| (cluster.is_isolated_network(network), cluster.isolates());
        let before = isolated(&self.cluster);
        change(&mut self.cluster);
        let after = isolated(&self.cluster);
        if before.0 != after.0 {
            self.mark(Unit::Isolation);
        }
        if before.1 != after.1 {
            self.dirty.extend(self.cluster.pods.keys().cloned().map(Unit::Pod));
        }
    }

    /// Marks pods that a change of their namespace may let on a network or not, before and after it.
    pub(super) fn mark_networked(&mut self, name: &str, namespace: Option<&Namespace>) {
        let seen = |namespace: Option<&Namespace>| namespace.map(|it| (it.labels.clone(), it.annotations.clone()));
        if seen(self.cluster.namespaces.get(name)) == seen(namespace) {
            return;
        }
        let known = namespace.is_some() && self.cluster.namespaces.contains_key(name);
        let networked = self.cluster.pods_of(name).filter(|(name, pod)| {
            let attached = self.cluster.records.attachment(name).is_some();
            !known || attached || self.cluster.network_named(name, pod).is_some()
        });
        self.dirty.extend(networked.map(|(name, _)| Unit::Pod(name.clone())));
    }

    /// A pod gives back its addresses. What it leaves behind in its network is for those that wait; the last one lets a network go that is
    /// no more, or become what it says by now.
    pub(super) fn release_pod(&mut self, pod: &PodName) -> Vec<IpAddr> {
        let Some(attachment) = self.cluster.records.attachment(pod) else {
            return self.cluster.records.release_pod(pod);
        };
        let (network, mut released) = (attachment.network.clone(), Vec::new());
        self.mark_isolation_changed_by(&network, |cluster| released = cluster.records.release_pod(pod));
        let waiting = self.waiting_networked.remove(&network).unwrap_or_default();
        self.dirty.extend(waiting.into_iter().map(Unit::Pod));
        self.mark(Unit::CustomNetwork(network));
        released
    }

    pub(super) fn decide_custom_networks(&mut self) {
        let dirty = self.dirty.iter();
        let names = dirty.filter_map(|unit| {
            if let Unit::CustomNetwork(name) = unit {
                Some(name.clone())
            } else {
                None
            }
        });
        for name in names.collect::<Vec<_>>() {
            let records = &self.cluster.records;
            let Some(network) = self.cluster.custom_networks.get(&name) else {
                if records.attached(&name).is_empty() {
                    self.release_custom_network(&name);
                }
                continue;
            };
            if self.cluster.custom_network(&name).is_ok() {
                let spec = network.spec.clone();
                self.cluster.records.record_network_spec(&name, &spec);
            }
            let records = &self.cluster.records;
            if records.network_slot(&name).is_some() || self.cluster.custom_network(&name).is_err() {
                continue;
            }
            let slot = records.free_network_slot();
            let settings = records.settings.as_ref();
            if settings.is_some_and(|settings| !settings.network_join_addresses(slot).is_empty()) {
                self.cluster.records.record_network(&name, slot);
                let wanting: Vec<Unit> = self.cluster.pods_wanting(&name).cloned().map(Unit::Pod).collect();
                self.dirty.extend(wanting);
            }
        }
    }

    /// With the first network, and without the last, everything that speaks of pods is spelt otherwise.
    pub(super) fn mark_first_or_last_network(&mut self) {
        let networks = self.cluster.has_custom_networks();
        if self.networks != networks {
            self.networks = networks;
            self.dirty.extend(Unit::all(&self.cluster));
        }
    }
}
