//! Where a service is reached: its addresses inside the cluster, its external ones and its node ports, each with the endpoints behind
//! it. What another service has, or what lies inside the cluster's own ranges, is refused here and told.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crate::cluster::View;
use crate::problem::Problem;
use crate::service::{Family, Protocol, Service, ServiceKind, ServiceName};
use crate::settings::Settings;
use crate::unit::service::backends::{Endpoints, ServedPort};

/// An address and port of a service, and what is behind it.
#[derive(Clone, Copy)]
pub(crate) struct Frontend<'a> {
    pub(crate) at: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) endpoints: &'a Endpoints<'a>,
    pub(crate) reach: Reach<'a>,
}

/// From where an address and port is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach<'a> {
    /// From inside the cluster.
    Inside,
    /// From outside too.
    Everywhere,
    /// A node port at the address of a node whose own backends are meant: from inside, past the node. Its gateway serves the others.
    Node(&'a str),
}

/// Everything a service serves.
pub(crate) fn frontends<'a>(
    view: &'a View<'a>,
    settings: &Settings,
    name: &ServiceName,
    service: &Service,
    ports: &'a [ServedPort<'a>],
    problems: &mut Vec<Problem>,
) -> Vec<Frontend<'a>> {
    let cluster_ips = cluster_addresses(view, settings, name, service, problems);
    let recorded = view.external_addresses(name, &service.uid);
    let given = given_by_others(view, settings, name, service, problems);
    let families: BTreeSet<Family> = cluster_ips.iter().map(|ip| Family::of(*ip)).collect();
    let node_port_addresses = settings.node_port_addresses();
    let on_nodes = node_port_addresses.iter().filter(|ip| families.contains(&Family::of(**ip)));
    let mut all = Vec::new();
    for served in ports {
        let (protocol, port) = (served.port.protocol, served.port.port);
        let mut add = |ip: IpAddr, port, reach| {
            all.push(Frontend {
                at: SocketAddr::new(ip, port),
                protocol,
                endpoints: served.endpoints(Family::of(ip)),
                reach,
            });
        };
        cluster_ips.iter().for_each(|ip| add(*ip, port, Reach::Inside));
        if view.is_closed(name) {
            continue;
        }
        recorded.iter().for_each(|ip| add(*ip, port, Reach::Everywhere));
        for ip in &given {
            match first_given(view, *ip, protocol, port) {
                Some(other) if other != name => problems.push(in_use(view, name, SocketAddr::new(*ip, port), protocol, other)),
                _ => add(*ip, port, Reach::Everywhere),
            }
        }
        if let Some(node_port) = served.port.node_port.filter(|_| service.kind != ServiceKind::ClusterIp) {
            on_nodes.clone().for_each(|ip| add(*ip, node_port, Reach::Everywhere));
            for (node, ip) in with_backends(view, service, &families, served) {
                add(ip, node_port, Reach::Node(node));
            }
        }
    }
    all
}

/// Nodes that have backends of their own for clients that must stay on the node they address, with their addresses. Answers to pods and nodes
/// do not pass the gateway, which alone could keep their address, so their own switch serves them.
fn with_backends<'a>(
    view: &'a View<'a>,
    service: &Service,
    families: &BTreeSet<Family>,
    served: &ServedPort<'_>,
) -> BTreeSet<(&'a str, IpAddr)> {
    if !service.external_local {
        return BTreeSet::new();
    }
    let mut found = BTreeSet::new();
    for family in families.iter().copied() {
        for name in served.endpoints(family).nodes() {
            let Some((name, node)) = view.named_host(name) else {
                continue;
            };
            let own = node.addresses.iter().find(|ip| Family::of(**ip) == family);
            found.extend(own.map(|ip| (name.as_str(), *ip)));
        }
    }
    found
}

/// A service's addresses inside the cluster: those in the ranges of services that no other service has. The API server gives no others; what it
/// did not give is nobody's to take.
pub(super) fn cluster_addresses(
    view: &View<'_>,
    settings: &Settings,
    name: &ServiceName,
    service: &Service,
    problems: &mut Vec<Problem>,
) -> Vec<IpAddr> {
    let mut served = Vec::new();
    for ip in &service.cluster_ips {
        let problem = |reason, why| Problem::new(view.service_ref(name), reason, why);
        let first = view.first_with_cluster_ip(*ip);
        if settings.service_range_of(*ip).is_none() {
            let why = format!(
                "its address {ip} is in no range of services, so it is not served; add the range to ClusterNetwork/default spec.services.cidrs"
            );
            problems.push(problem("OutsideServiceRange", why));
        } else if let Some(other) = first.filter(|other| *other != name) {
            let why = format!("its address {ip} is that of Service/{other}, which is older; create it again to get another");
            problems.push(problem("AddressInUse", why));
        } else {
            served.push(*ip);
        }
    }
    served
}

/// External addresses another controller gave a service, without those that are not its to give. Those of nodes are left to the nodes: some
/// controllers give no others, and serve them there.
pub(super) fn given_by_others(
    view: &View<'_>,
    settings: &Settings,
    name: &ServiceName,
    service: &Service,
    problems: &mut Vec<Problem>,
) -> BTreeSet<IpAddr> {
    let mut addresses = service.given_by_others();
    addresses.retain(|ip| {
        let range = settings.range_of(*ip).or_else(|| settings.service_range_of(*ip));
        let pool = view.usable_pools().find(|(_, pool)| pool.contains(*ip));
        let why = match (range, pool) {
            (Some(range), _) => format!("{ip} lies in {range} of the cluster network, which is not reached from outside"),
            (None, Some((pool, _))) => format!("{ip} lies in ExternalPool/{pool}, whose addresses no other controller gives"),
            (None, None) => return view.node_at(*ip).is_none(),
        };
        let why = format!("{why}; let the controller of its load balancer class use another range");
        problems.push(Problem::new(view.service_ref(name), "ExternalAddressRefused", why));
        false
    });
    addresses
}

/// The service that other controllers gave an address and port, of several the oldest.
fn first_given<'a>(view: &View<'a>, address: IpAddr, protocol: Protocol, port: u16) -> Option<&'a ServiceName> {
    let mut claims = view
        .claims(address)
        .filter(|claim| claim.protocol == protocol && claim.port == port && !view.is_closed(&claim.service));
    claims.next().map(|claim| &claim.service)
}

fn in_use(view: &View<'_>, name: &ServiceName, at: SocketAddr, protocol: Protocol, other: &ServiceName) -> Problem {
    let why = format!("{at}/{protocol} belongs to Service/{other}, which is older; use another address or port");
    Problem::new(view.service_ref(name), "AddressInUse", why)
}
