//! What a change means for services, and decisions about their external addresses. A service is looked at again when its endpoints,
//! the nodes it depends on, an address it waits for or somebody it shares an address with changed; nothing else is.

use std::net::IpAddr;

use crate::cluster::Object;
use crate::external::{self, Search};
use crate::ipam::External;
use crate::plan::Planner;
use crate::service::{Service, ServiceName};
use crate::unit::Unit;

impl Planner {
    pub(super) fn mark_service(&mut self, name: &ServiceName) {
        self.mark(Unit::Service(name.clone()));
    }

    /// Marks the services that have, or want, an external address and port this one has or wants.
    pub(super) fn mark_rivals(&mut self, name: &ServiceName) {
        let Some(service) = self.cluster.services.get(name) else { return };
        let recorded = self.cluster.records.external(name).iter().copied();
        let vips = service.vips(service.claimed().into_iter().chain(recorded));
        let mut rivals: Vec<ServiceName> = Vec::new();
        for vip in vips {
            rivals.extend(self.cluster.claimants(vip).cloned());
            rivals.extend(self.cluster.records.external_owner(vip.0).cloned());
            self.freed = true; // what it claims no more, another may be given
        }
        rivals.iter().for_each(|rival| self.mark_service(rival));
    }

    pub(super) fn mark_slice(&mut self, object: &Object) {
        let Object::EndpointSlice(name, slice) = object else { return };
        if let Some(old) = self.cluster.slices.get(name).map(|old| old.service.clone()) {
            self.mark_service(&old);
        }
        if !slice.service.name.is_empty() {
            self.mark_service(&slice.service);
        }
    }

    /// Marks the services that depend on who has these addresses.
    pub(super) fn mark_on_addresses(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            let services = self.cluster.services_on_address(*address).cloned().map(Unit::Service);
            self.dirty.extend(services);
        }
    }

    /// Marks what depends on nodes or pools, once for all changes since the last compile.
    pub(super) fn mark_dependants(&mut self) {
        if std::mem::take(&mut self.nodes_changed) {
            self.dirty.extend(self.cluster.services_on_nodes().cloned().map(Unit::Service));
        }
        if std::mem::take(&mut self.pools_changed) {
            self.dirty.extend(self.cluster.pools.keys().cloned().map(Unit::Pool));
            let ours = |name: &&ServiceName| self.cluster.services.get(*name).is_some_and(Service::is_ours);
            self.dirty
                .extend(self.cluster.services_on_nodes().filter(ours).cloned().map(Unit::Service));
        }
    }

    /// Services give back the external addresses they may not keep; those that wait for one are looked at again.
    pub(super) fn release_services(&mut self) {
        for name in self.dirty_services() {
            if !self.cluster.records.external(&name).is_empty() {
                let kept = external::kept(&self.cluster, &name);
                self.record_external(&name, kept);
            }
        }
        if std::mem::take(&mut self.freed) {
            let waiting = std::mem::take(&mut self.waiting_services);
            self.dirty.extend(waiting.into_iter().map(Unit::Service));
        }
    }

    /// Services whose status shows addresses come first, then those that ask for one, then the older: an address in use is never
    /// given to another, and one that is asked for is not given away.
    pub(super) fn decide_services(&mut self) {
        let mut names = self.dirty_services();
        let urgency = |name: &ServiceName| {
            let service = self.cluster.services.get(name)?;
            let asks = external::asks(&self.cluster, service);
            Some((service.status_addresses.is_empty(), !asks, service.created.clone(), name.clone()))
        };
        names.sort_by_cached_key(urgency);
        // Where records were lost, everybody first has again what status shows; only then is anything given that is new.
        for name in &names {
            let Some(service) = self.cluster.services.get(name) else { continue };
            if !service.status_addresses.is_empty() && self.cluster.records.external(name).is_empty() {
                let mut known = external::decide(&self.cluster, name, None).addresses;
                // Not what it asks for besides, which may be what another shows.
                known.retain(|ip| service.status_addresses.contains(ip));
                self.record_external(name, known);
            }
        }
        let mut search = Search::default();
        for name in names {
            let decision = external::decide(&self.cluster, &name, Some(&mut search));
            if decision.problems.is_empty() {
                self.waiting_services.remove(&name);
            } else {
                self.waiting_services.insert(name.clone());
            }
            self.record_external(&name, decision.addresses);
        }
        self.freed = false; // only given, nothing freed, since the waiting ones were marked
    }

    fn record_external(&mut self, name: &ServiceName, addresses: Vec<IpAddr>) {
        let uid = self
            .cluster
            .services
            .get(name)
            .map(|service| service.uid.clone())
            .unwrap_or_default();
        if self.cluster.records.external_of(name, &uid) == addresses
            && (!addresses.is_empty() || self.cluster.records.external(name).is_empty())
        {
            return;
        }
        self.mark_rivals(name);
        self.cluster.records.record_external(name, External { uid, addresses });
        self.mark_rivals(name);
        self.freed = true;
        self.revision += 1;
    }

    fn dirty_services(&self) -> Vec<ServiceName> {
        self.dirty
            .iter()
            .filter_map(|unit| if let Unit::Service(name) = unit { Some(name.clone()) } else { None })
            .collect()
    }
}
