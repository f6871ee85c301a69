//! What people should know, gathered by `sync` from the planner and published by `report`. A value: gathering waits for nothing, and
//! what needs no telling is not in it, so a large cluster at rest has next to none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netloom_network::annotations::NETWORK_ADDRESSES;
use netloom_network::port::{self, PortStatus};
use netloom_network::service::ServiceKind;
use netloom_network::{Cluster, ObjectRef, Pod, PodName, Problem, Service, ServiceName};
use tokio::sync::watch;

/// What is to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// All problems there are.
    pub problems: BTreeSet<Problem>,
    /// Subnets of each node.
    pub subnets: BTreeMap<String, String>,
    /// Our own objects and cluster-wide policies; each says whether it is in force.
    pub own: BTreeSet<ObjectRef>,
    /// Services whose status shows other external addresses than it should.
    pub addresses: BTreeMap<ServiceName, Shown>,
    /// Pods on networks, and ports of machines, that show other addresses than they have.
    pub places: BTreeMap<PodName, Place>,
    /// Grows when another controller may have told something in between.
    pub term: u64,
}

/// What a service's status should show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The service.
    pub service: ObjectRef,
    /// Its external addresses.
    pub addresses: Vec<IpAddr>,
}

/// Where something is, to be shown by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A pod, and its addresses in its network, comma separated.
    Pod(ObjectRef, String),
    /// A machine's port, and what its status should say.
    Port(ObjectRef, PortStatus),
}

impl Place {
    /// What is there.
    pub fn object(&self) -> &ObjectRef {
        match self {
            Self::Pod(object, _) | Self::Port(object, _) => object,
        }
    }
}

impl Findings {
    /// What there is to tell about a cluster, besides its problems. `given` are the services whose status shows addresses of ours, as far
    /// as is known, and is brought up to date.
    pub fn of(cluster: &Cluster, given: &mut BTreeSet<ServiceName>) -> Self {
        let with_subnets = cluster.records.nodes().filter(|name| cluster.nodes.contains_key(*name));
        let subnets = with_subnets.map(|name| {
            let subnets: Vec<String> = cluster.records.subnets(name).iter().map(ToString::to_string).collect();
            (name.clone(), subnets.join(","))
        });
        let network = cluster.network.as_ref().map(|_| cluster.network_ref());
        let pools = cluster.pools.keys().map(|name| cluster.pool_ref(name));
        let policies = cluster.cluster_policies.keys().map(|name| cluster.cluster_policy_ref(name));
        let groups = cluster.security_groups.keys().map(|name| cluster.security_group_ref(name));
        let networks = cluster.custom_networks.keys().map(|name| cluster.custom_network_ref(name));
        let mut findings = Self {
            subnets: subnets.collect(),
            own: network
                .into_iter()
                .chain(pools)
                .chain(policies)
                .chain(groups)
                .chain(networks)
                .collect(),
            ..Self::default()
        };
        given.retain(|name| cluster.services.contains_key(name));
        for (name, _) in cluster.services.iter().filter(|(_, service)| concerns_status(service)) {
            let shown = to_show(cluster, name, given);
            findings.addresses.extend(shown.map(|shown| (name.clone(), shown)));
        }
        let on_networks = cluster.records.networks().flat_map(|network| cluster.records.attached(network));
        for name in on_networks.chain(cluster.machines()) {
            findings
                .places
                .extend(place_to_show(cluster, name).map(|place| (name.clone(), place)));
        }
        findings
    }
}

/// Whether the place of a pod may have to be shown: it names a network, or is a machine's port.
pub fn concerns_place(cluster: &Cluster, name: &PodName, pod: &Pod) -> bool {
    name.machine().is_some() || cluster.network_named(name, pod).is_some()
}

/// What a pod should show of its place in its network, or a port of its own, if it does not. There it is found again when the database is
/// lost.
pub fn place_to_show(cluster: &Cluster, name: &PodName) -> Option<Place> {
    let pod = cluster.pods.get(name)?;
    let assignment = cluster.records.assignment(name, &pod.uid)?;
    let addresses = assignment.attachment.as_ref().map(|on| {
        let addresses: Vec<String> = on.addresses.iter().map(|ip| ip.addr().to_string()).collect();
        addresses.join(",")
    });
    let shown = addresses.is_none() || pod.annotations.get(NETWORK_ADDRESSES) == addresses.as_ref();
    if name.machine().is_some() {
        let shown = shown && pod.addresses == assignment.addresses;
        return port::status(cluster, name)
            .filter(|_| !shown)
            .map(|status| Place::Port(cluster.pod_ref(name), status));
    }
    addresses
        .filter(|_| !shown)
        .map(|addresses| Place::Pod(cluster.pod_ref(name), addresses))
}

/// What a service's status should show instead of what it shows.
pub fn to_show(cluster: &Cluster, name: &ServiceName, given: &mut BTreeSet<ServiceName>) -> Option<Shown> {
    let ours = cluster.records.external(name);
    let Some(service) = cluster.services.get(name) else {
        given.remove(name);
        return None;
    };
    if !ours.is_empty() {
        given.insert(name.clone());
    }
    if service.status_addresses == ours {
        if ours.is_empty() {
            given.remove(name);
        }
        return None;
    }
    may_write(cluster, service, given.contains(name)).then(|| Shown {
        service: cluster.service_ref(name),
        addresses: ours.to_vec(),
    })
}

/// What was found and may be published once the transaction it belongs to is in the database.
#[derive(Default)]
pub struct News {
    /// Everything, if more than statuses changed.
    pub all: Option<Findings>,
    /// What the statuses of these services should show; nothing for those that are as they should be.
    pub statuses: Vec<(ServiceName, Option<Shown>)>,
    /// What these pods and ports should show of themselves; nothing for those that are as they should be.
    pub places: Vec<(PodName, Option<Place>)>,
}

impl News {
    /// Publishes what there is, if anything.
    pub fn publish(&mut self, findings: &watch::Sender<Findings>) {
        let Self { all, statuses, places } = std::mem::take(self);
        if let Some(all) = all {
            findings.send_replace(all);
        }
        if !(statuses.is_empty() && places.is_empty()) {
            findings.send_modify(|findings| {
                for (name, place) in places {
                    match place {
                        Some(place) => drop(findings.places.insert(name, place)),
                        None => drop(findings.places.remove(&name)),
                    }
                }
                for (name, shown) in statuses {
                    match shown {
                        Some(shown) => drop(findings.addresses.insert(name, shown)),
                        None => drop(findings.addresses.remove(&name)),
                    }
                }
            });
        }
    }
}

/// Whether a service's status may have to change.
pub fn concerns_status(service: &Service) -> bool {
    service.kind == ServiceKind::LoadBalancer || !service.status_addresses.is_empty()
}

/// Whether a status is ours to write: what it shows may be the work of somebody who gives addresses where we give none.
fn may_write(cluster: &Cluster, service: &Service, gave: bool) -> bool {
    match service.kind {
        ServiceKind::LoadBalancer => service.is_ours() && (gave || service.class.is_some() || !cluster.pools.is_empty()),
        // Only load balancers have addresses in their status; these are left from when it was one.
        ServiceKind::ClusterIp | ServiceKind::NodePort => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use netloom_network::service::OUR_CLASS;
    use netloom_network::{ExternalPool, Object};

    use super::*;

    fn shown_by(kind: ServiceKind, class: Option<&str>) -> Object {
        let name = ServiceName {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
        };
        let service = Service {
            kind,
            class: class.map(str::to_owned),
            status_addresses: vec!["192.0.2.1".parse().unwrap()],
            ..Service::default()
        };
        Object::Service(name, service)
    }

    #[test]
    fn a_status_somebody_else_may_have_written_is_left_alone() {
        use ServiceKind::{ClusterIp, LoadBalancer, NodePort};
        for (kind, class, without_pools, with_pools) in [
            (LoadBalancer, None, 0, 1),
            (LoadBalancer, Some(OUR_CLASS), 1, 1),
            (LoadBalancer, Some("example.com/theirs"), 0, 0),
            (NodePort, None, 1, 1),
            (ClusterIp, None, 1, 1),
        ] {
            let mut cluster = Cluster::default();
            cluster.insert(shown_by(kind, class));
            let mut given = BTreeSet::new();
            let count = |cluster: &Cluster, given: &mut BTreeSet<_>| Findings::of(cluster, given).addresses.len();
            assert_eq!(count(&cluster, &mut given), without_pools, "{kind:?} {class:?} without pools");
            cluster.insert(Object::ExternalPool("pool".to_owned(), ExternalPool::default()));
            assert_eq!(count(&cluster, &mut given), with_pools, "{kind:?} {class:?} with a pool");
        }
    }

    #[test]
    fn an_address_we_gave_is_taken_back_also_when_the_last_pool_is_gone() {
        let mut cluster = Cluster::default();
        cluster.insert(shown_by(ServiceKind::LoadBalancer, None));
        let mut given = cluster.services.keys().cloned().collect();
        for _ in 0..2 {
            let findings = Findings::of(&cluster, &mut given);
            let shown: Vec<_> = findings.addresses.into_values().map(|shown| shown.addresses).collect();
            assert_eq!(shown, [Vec::<IpAddr>::new()]);
        }
    }
}
