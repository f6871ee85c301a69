//! Services: their slices, who asks for an external address, and the pools such addresses come from.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::cluster::{Cluster, View};
use crate::external::{self, Pool};
use crate::facts::{self, Changes, Table};
use crate::service::{EndpointSlice, ExternalPool, Protocol, Service, ServiceKind, ServiceName, SliceName};

/// A service that another controller gave an external address and port. The oldest comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// When the service was created.
    pub created: String,
    /// The service.
    pub service: ServiceName,
    /// Protocol.
    pub protocol: Protocol,
    /// Port.
    pub port: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    slices: Table<facts::SlicesOf>,
    cluster_ips: Table<facts::ClusterIps>,
    claims: Table<facts::Claims>,
    pools: Table<facts::ReadPools>,
}

impl Service {
    /// External addresses that another controller gave it, by its status. A headless service has none.
    pub fn given_by_others(&self) -> BTreeSet<IpAddr> {
        let foreign = self.kind == ServiceKind::LoadBalancer && !self.is_ours() && !self.cluster_ips.is_empty();
        self.status_addresses.iter().filter(|_| foreign).copied().collect()
    }

    fn claims(&self, name: &ServiceName) -> BTreeMap<Claim, BTreeSet<IpAddr>> {
        let claim = |port: &crate::service::ServicePort| Claim {
            created: self.created.clone(),
            service: name.clone(),
            protocol: port.protocol,
            port: port.port,
        };
        self.ports.iter().map(|port| (claim(port), self.given_by_others())).collect()
    }
}

impl Cluster {
    pub(super) fn set_service(&mut self, name: &ServiceName, service: Option<Service>, changes: &mut Changes) {
        let (old, new) = (self.services.get(name), service.as_ref());
        let claims = |service: Option<&Service>| service.map(|service| service.claims(name)).unwrap_or_default();
        let (before, after) = (claims(old), claims(new));
        let none = BTreeSet::new();
        for claim in before.keys().chain(after.keys().filter(|claim| !before.contains_key(claim))) {
            let addresses = |claims: &BTreeMap<Claim, BTreeSet<IpAddr>>| claims.get(claim).unwrap_or(&none).clone();
            let index = &mut self.of_services.claims;
            index.move_element(claim, &addresses(&before), &addresses(&after), changes);
        }
        let created = |service: &Service| (service.created.clone(), name.clone());
        let addresses = |service: &Service| service.cluster_ips.iter().copied().collect::<BTreeSet<IpAddr>>();
        let (was, is) = (old.map(created), new.map(created));
        let (left, joined) = (old.map(addresses).unwrap_or_default(), new.map(addresses).unwrap_or_default());
        let index = &mut self.of_services.cluster_ips;
        if was == is {
            is.iter().for_each(|it| index.move_element(it, &left, &joined, changes));
        } else {
            was.iter().for_each(|it| index.move_element(it, &left, &none, changes));
            is.iter().for_each(|it| index.move_element(it, &none, &joined, changes));
        }
        self.of_apps.set_service(name, old, new, changes);
        self.services.set(name, service, changes);
    }

    pub(super) fn set_slice(&mut self, name: &SliceName, slice: Option<EndpointSlice>, changes: &mut Changes) {
        let service = |slice: Option<&EndpointSlice>| slice.map(|slice| slice.service.clone()).into_iter().collect();
        let (before, after) = (service(self.slices.get(name)), service(slice.as_ref()));
        self.of_services.slices.move_element(name, &before, &after, changes);
        self.slices.set(name, slice, changes);
    }

    pub(super) fn set_pool(&mut self, name: &str, pool: Option<ExternalPool>, changes: &mut Changes) {
        self.pools.set(name, pool, changes);
        let read = external::pools(&self.pools);
        let gone = (!read.contains_key(name)).then(|| (name.to_owned(), None));
        for (name, pool) in read.into_iter().map(|(name, pool)| (name, Some(pool))).chain(gone) {
            self.of_services.pools.set(&name, pool, changes);
        }
    }

    /// Slices of a service.
    pub fn slices_of(&self, service: &ServiceName) -> impl Iterator<Item = &EndpointSlice> {
        let names = self.of_services.slices.get(service).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name))
    }
}

impl<'a> View<'a> {
    /// A service.
    pub(crate) fn service(&self, name: &ServiceName) -> Option<&'a Service> {
        self.get(&self.cluster.services, name)
    }

    /// Of the services with this address inside the cluster, the oldest.
    pub(crate) fn first_with_cluster_ip(&self, address: IpAddr) -> Option<&'a ServiceName> {
        let services = self.get(&self.cluster.of_services.cluster_ips, &address)?;
        services.first().map(|(_, name)| name)
    }

    /// Slices of a service.
    pub(crate) fn slices_of(&self, service: &ServiceName) -> Vec<&'a EndpointSlice> {
        let names = self.get(&self.cluster.of_services.slices, service).into_iter().flatten();
        names.filter_map(|name| self.get(&self.cluster.slices, name)).collect()
    }

    /// Services that another controller gave an external address, the oldest first.
    pub(crate) fn claims(&self, address: IpAddr) -> impl Iterator<Item = &'a Claim> + use<'a> {
        self.get(&self.cluster.of_services.claims, &address).into_iter().flatten()
    }

    /// Whether there is any pool, in whatever state.
    pub(crate) fn has_pools(&self) -> bool {
        self.keys(&self.cluster.of_services.pools).next().is_some()
    }

    /// Whether there is a pool that cannot be used.
    pub(crate) fn has_unusable_pools(&self) -> bool {
        self.usable_pools().count() < self.keys(&self.cluster.of_services.pools).count()
    }

    /// Pools that can be used: they were read, and the cluster network does not use their addresses for itself.
    pub(crate) fn usable_pools(&self) -> impl Iterator<Item = (&'a String, &'a Pool)> + use<'a> {
        let settings = self.settings();
        let read = self.all(&self.cluster.of_services.pools);
        let read = read.filter_map(|(name, pool)| Some((name, pool.as_ref().ok()?)));
        read.filter(move |(_, pool)| settings.is_none_or(|settings| pool.conflict(settings).is_none()))
    }

    /// A pool as read.
    pub(crate) fn pool(&self, name: &str) -> Option<&'a Result<Pool, String>> {
        self.get(&self.cluster.of_services.pools, name)
    }
}
