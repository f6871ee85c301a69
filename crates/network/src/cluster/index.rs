//! What [`Cluster`](super::Cluster) knows by more than one name, so that a change finds what it touches without looking at everything:
//! the slices of a service, the services that depend on nodes or on a pod's address, who wants an external address, the gateways.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::annotations::{self, Gateway, HEALTH_CHECK};
use crate::cluster::{Cluster, NodeName};
use crate::external::Pool;
use crate::service::{Protocol, Service, ServiceKind, ServiceName, SliceName};

/// An address, protocol and port outside the cluster; one service has it.
pub type Vip = (IpAddr, Protocol, u16);

/// Secondary keys of a cluster's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Slices by service.
    pub(super) slices: BTreeMap<ServiceName, BTreeSet<SliceName>>,
    /// Services whose rows depend on nodes.
    pub(super) on_nodes: BTreeSet<ServiceName>,
    /// Services whose rows depend on who has an address.
    pub(super) on_address: BTreeMap<IpAddr, BTreeSet<ServiceName>>,
    /// Addresses by the service that depends on them.
    pub(super) addresses: BTreeMap<ServiceName, BTreeSet<IpAddr>>,
    /// Who wants an external address and port by its spec or status, the oldest first.
    pub(super) claims: BTreeMap<Vip, BTreeSet<(String, ServiceName)>>,
    /// What the agents of nodes report, if it can be read.
    pub(super) gateways: BTreeMap<NodeName, Gateway>,
    /// Pools as read.
    pub(super) pools: BTreeMap<String, Result<Pool, String>>,
}

impl Service {
    /// External addresses its spec or status asks for; those from pools are recorded, not asked for. A headless service has none.
    pub fn claimed(&self) -> BTreeSet<IpAddr> {
        if self.cluster_ips.is_empty() {
            return BTreeSet::new();
        }
        let foreign = self.kind == ServiceKind::LoadBalancer && !self.is_ours();
        let status = self.status_addresses.iter().filter(|_| foreign);
        self.external_ips.iter().chain(status).copied().collect()
    }

    /// What it serves at `addresses`.
    pub(crate) fn vips(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<Vip> {
        let ports = |address| self.ports.iter().map(move |port| (address, port.protocol, port.port));
        addresses.into_iter().flat_map(ports).collect()
    }
}

impl Index {
    pub(super) fn claim(&mut self, name: &ServiceName, service: &Service) {
        for vip in service.vips(service.claimed()) {
            self.claims.entry(vip).or_default().insert((service.created.clone(), name.clone()));
        }
    }

    pub(super) fn unclaim(&mut self, name: &ServiceName, service: &Service) {
        for vip in service.vips(service.claimed()) {
            if let Some(claimants) = self.claims.get_mut(&vip) {
                claimants.remove(&(service.created.clone(), name.clone()));
                if claimants.is_empty() {
                    self.claims.remove(&vip);
                }
            }
        }
    }

    pub(super) fn report(&mut self, node: &str, annotations: Option<&BTreeMap<String, String>>) {
        let text = annotations.and_then(|annotations| annotations.get(annotations::GATEWAY));
        match text.and_then(|text| annotations::gateway(text).ok()) {
            Some(gateway) => self.gateways.insert(node.to_owned(), gateway),
            None => self.gateways.remove(node),
        };
    }

    pub(super) fn attach(&mut self, slice: &SliceName, service: &ServiceName) {
        self.slices.entry(service.clone()).or_default().insert(slice.clone());
    }

    pub(super) fn detach(&mut self, slice: &SliceName, service: &ServiceName) {
        if let Some(slices) = self.slices.get_mut(service) {
            slices.remove(slice);
            if slices.is_empty() {
                self.slices.remove(service);
            }
        }
    }

    /// Notes the addresses a service depends on, instead of those noted before.
    fn depend(&mut self, name: &ServiceName, addresses: BTreeSet<IpAddr>) {
        let old = self.addresses.remove(name).unwrap_or_default();
        for address in old.difference(&addresses) {
            if let Some(services) = self.on_address.get_mut(address) {
                services.remove(name);
                if services.is_empty() {
                    self.on_address.remove(address);
                }
            }
        }
        for address in addresses.difference(&old) {
            self.on_address.entry(*address).or_default().insert(name.clone());
        }
        if !addresses.is_empty() {
            self.addresses.insert(name.clone(), addresses);
        }
    }
}

impl Cluster {
    /// Looks again at what a service depends on, after it or a slice of it changed.
    pub(super) fn index_service(&mut self, name: &ServiceName) {
        let Some(service) = self.services.get(name) else {
            self.index.on_nodes.remove(name);
            return self.index.depend(name, BTreeSet::new());
        };
        let checked = service.annotations.contains_key(HEALTH_CHECK);
        let endpoints = || self.slices_of(name).flat_map(|slice| &slice.endpoints);
        let on_nodes = service.internal_local
            || service.external_local
            || service.kind != ServiceKind::ClusterIp
            || !service.external_ips.is_empty()
            || !service.source_ranges.is_empty()
            || checked
            || endpoints().any(|endpoint| !endpoint.nodes.is_empty() || !endpoint.zones.is_empty());
        let addresses = endpoints()
            .filter(|endpoint| checked || !endpoint.pod)
            .map(|endpoint| endpoint.address);
        let addresses = addresses.collect();
        if on_nodes {
            self.index.on_nodes.insert(name.clone());
        } else {
            self.index.on_nodes.remove(name);
        }
        self.index.depend(name, addresses);
    }
}
