//! Where a service is reached: its addresses inside the cluster, its external ones and its node ports, each with the endpoints behind
//! it. What another service has, or what lies inside the cluster's own ranges, is refused here and told.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crate::cluster::View;
use crate::ipam::{Holder, Space};
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
    let external = external_addresses(view, settings, name, service, problems);
    let families: BTreeSet<Family> = service.cluster_ips.iter().map(|ip| Family::of(*ip)).collect();
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
        service.cluster_ips.iter().for_each(|ip| add(*ip, port, Reach::Inside));
        if view.is_closed(name) {
            continue;
        }
        for ip in &external {
            match owner(view, *ip, protocol, port) {
                Some(other) if other != name => problems.push(in_use(view, name, SocketAddr::new(*ip, port), protocol, other)),
                _ => add(*ip, port, Reach::Everywhere),
            }
        }
        if let Some(node_port) = served.port.node_port.filter(|_| service.kind != ServiceKind::ClusterIp) {
            on_nodes.clone().for_each(|ip| add(*ip, node_port, Reach::Everywhere));
            for (node, ip) in with_backends(view, service, served) {
                add(ip, node_port, Reach::Node(node));
            }
        }
    }
    all
}

/// Nodes that have backends of their own for clients that must stay on the node they address, with their addresses. Answers to pods and nodes
/// do not pass the gateway, which alone could keep their address, so their own switch serves them.
fn with_backends<'a>(view: &'a View<'a>, service: &Service, served: &ServedPort<'_>) -> BTreeSet<(&'a str, IpAddr)> {
    if !service.external_local {
        return BTreeSet::new();
    }
    let mut found = BTreeSet::new();
    for family in service.cluster_ips.iter().map(|ip| Family::of(*ip)) {
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

/// External addresses of a service: given from pools, or claimed by its spec or by the status another controller wrote.
fn external_addresses(
    view: &View<'_>,
    settings: &Settings,
    name: &ServiceName,
    service: &Service,
    problems: &mut Vec<Problem>,
) -> BTreeSet<IpAddr> {
    let mut addresses = service.claimed();
    addresses.retain(|ip| {
        let Some(range) = settings.range_of(*ip).or_else(|| settings.service_range_of(*ip)) else {
            return true;
        };
        let why = format!("{ip} lies in {range} of the cluster network, which is not reached from outside; use another external address");
        problems.push(Problem::new(view.service_ref(name), "ExternalAddressRefused", why));
        false
    });
    addresses.extend(view.external_addresses(name, &service.uid));
    addresses
}

/// The service that has an external address and port: of all that want it, the oldest.
fn owner<'a>(view: &View<'a>, address: IpAddr, protocol: Protocol, port: u16) -> Option<&'a ServiceName> {
    let given = match view.holder(Space::External, address) {
        Some(Holder::Service(name)) => view.service(name).map(|service| (&**name, service)),
        _ => None,
    };
    let serves = |service: &Service| service.ports.iter().any(|p| p.protocol == protocol && p.port == port);
    let given = given
        .filter(|(_, service)| serves(service))
        .map(|(name, service)| (service.created.as_str(), name));
    let mut claims = view
        .claims(address)
        .filter(|claim| claim.protocol == protocol && claim.port == port);
    let claimed = claims.next().map(|claim| (claim.created.as_str(), &claim.service));
    given.into_iter().chain(claimed).min().map(|(_, name)| name)
}

fn in_use(view: &View<'_>, name: &ServiceName, at: SocketAddr, protocol: Protocol, other: &ServiceName) -> Problem {
    let why = format!("{at}/{protocol} belongs to Service/{other}, which is older; use another address or port");
    Problem::new(view.service_ref(name), "AddressInUse", why)
}
