//! From what a question names to who that is and which addresses it has. Called by [`crate::judge`]; what cannot be found is an
//! [`Unknown`] that says what there is instead.

use std::net::IpAddr;

use thiserror::Error;

use crate::ask::{Source, Target};
use crate::cluster::{Cluster, Name, Pod, Protocol};
use crate::problem::Problem;
use crate::service::backends;
use crate::verdict::{End, Party};

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum Unknown {
    #[error("there is no {}; {}", pod.titled(), there_is(if pod.machine().is_some() { "ports" } else { "pods" }, &pod.namespace, names))]
    Pod { pod: Name, names: Vec<String> },
    #[error("pod {pod} has ended, so it neither sends nor receives; ask about one that runs")]
    Finished { pod: Name },
    #[error("pod {pod} uses the network of its node, but has none yet; ask about node/NAME")]
    Unbound { pod: Name },
    #[error("{} is on no network, so it neither sends nor receives: {why}", pod.titled())]
    Waiting { pod: Name, why: String },
    #[error("there is no node {node}; there are: {}", list(names))]
    Node { node: String, names: Vec<String> },
    #[error("there is no service {service}; {}", there_is("services", &service.namespace, names))]
    Service { service: Name, names: Vec<String> },
    #[error("service {service} stands for {target}, which is outside; ask about its address")]
    ExternalName { service: Name, target: String },
    #[error("service {service} has no port {asked}; it has: {}", list(ports))]
    NoPort { service: Name, asked: String, ports: Vec<String> },
    #[error("service {service} has no backend that could answer, so no policy is asked; see whether its selector matches ready pods")]
    NoBackend { service: Name },
    #[error("service {service} has internalTrafficPolicy Local and no backend on node {node}, so packets from there are dropped")]
    NoLocalBackend { service: Name, node: String },
    #[error("{from} and {to} have no address of the same family, so they cannot talk at all")]
    Families { from: String, to: String },
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names {
        [] => "none".to_owned(),
        names if names.len() <= SHOWN => names.join(", "),
        names => format!("{} and {} more", names[..SHOWN].join(", "), names.len() - SHOWN),
    }
}

fn there_is(kind: &str, namespace: &str, names: &[String]) -> String {
    if names.is_empty() {
        format!("namespace {namespace} has no {kind}; is the namespace right (-n)?")
    } else {
        format!("{kind} of namespace {namespace}: {}", list(names))
    }
}

/// Where a packet ends.
pub struct Destination {
    /// Who receives it, and its addresses.
    pub end: End,
    /// The port there.
    pub port: u16,
    /// The service it went through.
    pub service: Option<Name>,
    /// It was sent to a port of a node or to an address outside that is the service's.
    pub published: bool,
    /// It was sent to a port of a node that is the service's.
    pub by_node_port: bool,
}

/// Who sends. A node may use any of its addresses.
pub fn source(cluster: &Cluster, source: &Source) -> Result<End, Unknown> {
    match source {
        Source::Pod(name) => {
            let mut end = pod(cluster, name)?;
            if let Party::Node { name, .. } = &end.party {
                end.addresses = node_addresses(cluster, name).unwrap_or(end.addresses);
            }
            Ok(end)
        }
        Source::Node(name) => Ok(End {
            party: node(name),
            addresses: node_addresses(cluster, name).ok_or_else(|| no_node(cluster, name))?,
        }),
        Source::Address(address) => at(cluster, *address),
    }
}

/// Who may receive, of a packet that comes from this node.
pub fn target(cluster: &Cluster, target: &Target, protocol: Protocol, port: u16, from: Option<&str>) -> Result<Vec<Destination>, Unknown> {
    let only = |end: End| {
        Ok(vec![Destination {
            end,
            port,
            service: None,
            published: false,
            by_node_port: false,
        }])
    };
    match target {
        Target::Pod(name) => only(pod(cluster, name)?),
        Target::Service(name) => backends(cluster, name, protocol, port, from),
        Target::Node(name) => {
            let found = cluster.nodes.get(name).ok_or_else(|| no_node(cluster, name))?;
            if let Some((service, port)) = on_node_port(cluster, protocol, port) {
                return by_node_port(backends(cluster, service, protocol, port, from)?);
            }
            only(End {
                party: node(name),
                addresses: found.addresses.clone(),
            })
        }
        Target::Address(address) => {
            if let Some(service) = cluster.service_at(*address) {
                let mut found = backends(cluster, service, protocol, port, from)?;
                let published = cluster
                    .services
                    .get(service)
                    .is_some_and(|service| service.external_ips.contains(address));
                for destination in &mut found {
                    destination.published = published;
                    destination.end.addresses.retain(|ip| ip.is_ipv4() == address.is_ipv4());
                }
                // A backend that has addresses, but none of this family, is none of this address.
                let has = |destination: &Destination| !destination.end.addresses.is_empty();
                if found.iter().any(has) {
                    found.retain(has);
                }
                return Ok(found);
            }
            match cluster.node_at(*address).and_then(|_| on_node_port(cluster, protocol, port)) {
                Some((service, port)) => by_node_port(backends(cluster, service, protocol, port, from)?),
                None => only(at(cluster, *address)?),
            }
        }
    }
}

fn by_node_port(mut found: Vec<Destination>) -> Result<Vec<Destination>, Unknown> {
    for destination in &mut found {
        (destination.published, destination.by_node_port) = (true, true);
    }
    Ok(found)
}

/// The service that answers at this port of every node, and its own port.
fn on_node_port(cluster: &Cluster, protocol: Protocol, number: u16) -> Option<(&Name, u16)> {
    cluster.services.iter().find_map(|(name, service)| {
        let mut ports = service.ports.iter();
        let port = ports.find(|port| port.protocol == protocol && port.node_port == Some(number))?;
        Some((name, port.port))
    })
}

/// The node a party is on.
pub fn node_of<'a>(cluster: &'a Cluster, party: &'a Party) -> Option<&'a str> {
    match party {
        Party::Pod(name) => cluster.pods.get(name)?.node.as_deref(),
        Party::Node { name, .. } => Some(name),
        Party::External => None,
    }
}

/// A pod as policies see it.
pub fn party_of(cluster: &Cluster, name: &Name) -> Party {
    match cluster.pods.get(name) {
        Some(Pod {
            host_network: true, node, ..
        }) => Party::Node {
            name: node.clone().unwrap_or_default(),
            pod: Some(name.clone()),
        },
        _ => Party::Pod(name.clone()),
    }
}

/// Who has an address.
pub fn party_at(cluster: &Cluster, address: IpAddr) -> Party {
    match (cluster.pod_at(address), cluster.node_at(address)) {
        (Some(name), _) => Party::Pod(name.clone()),
        (None, Some(name)) => node(name),
        (None, None) => Party::External,
    }
}

fn at(cluster: &Cluster, address: IpAddr) -> Result<End, Unknown> {
    let party = party_at(cluster, address);
    if let Party::Pod(name) = &party {
        is_on_its_network(cluster, name)?;
    }
    Ok(End {
        party,
        addresses: vec![address],
    })
}

fn is_on_its_network(cluster: &Cluster, name: &Name) -> Result<(), Unknown> {
    let waiting = |problem: Box<Problem>| Unknown::Waiting {
        pod: name.clone(),
        why: problem.message,
    };
    cluster.network_of(name).map(drop).map_err(waiting)
}

fn node(name: &str) -> Party {
    let (name, pod) = (name.to_owned(), None);
    Party::Node { name, pod }
}

fn node_addresses(cluster: &Cluster, name: &str) -> Option<Vec<IpAddr>> {
    let node = cluster.nodes.get(name)?;
    Some([node.addresses.clone(), node.inside.clone()].concat())
}

fn pod(cluster: &Cluster, name: &Name) -> Result<End, Unknown> {
    let Some(found) = cluster.pods.get(name) else {
        let names = cluster.pods.iter().filter(|(other, pod)| {
            other.namespace == name.namespace && !pod.finished && other.machine().is_some() == name.machine().is_some()
        });
        return Err(Unknown::Pod {
            pod: name.clone(),
            names: names.map(|(name, _)| name.machine().unwrap_or(&name.name).to_owned()).collect(),
        });
    };
    let pod = name.clone();
    if found.finished {
        return Err(Unknown::Finished { pod });
    }
    if found.host_network && found.node.is_none() {
        return Err(Unknown::Unbound { pod });
    }
    is_on_its_network(cluster, name)?;
    let mut addresses = found.addresses.clone();
    if let (true, true, Some(node)) = (found.host_network, addresses.is_empty(), &found.node) {
        addresses = cluster.nodes.get(node).map(|node| node.addresses.clone()).unwrap_or_default();
    }
    Ok(End {
        party: party_of(cluster, name),
        addresses,
    })
}

fn no_node(cluster: &Cluster, name: &str) -> Unknown {
    Unknown::Node {
        node: name.to_owned(),
        names: cluster.nodes.keys().cloned().collect(),
    }
}

/// A service that is not there.
pub fn no_service(cluster: &Cluster, name: &Name) -> Unknown {
    let names = cluster.services.keys().filter(|other| other.namespace == name.namespace);
    Unknown::Service {
        service: name.clone(),
        names: names.map(|name| name.name.clone()).collect(),
    }
}
