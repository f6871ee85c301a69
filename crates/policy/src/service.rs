//! Services as far as policies need them: policies know no services, so a packet to one is judged by the backend it is sent on to.
//! Called by [`crate::resolve`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::app::App;
use crate::cluster::{Cluster, Labels, Name, Pod, Protocol};
use crate::isolation::Isolation;
use crate::resolve::{self, Destination, Unknown};
use crate::verdict::{End, Party};

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its cluster addresses.
    pub cluster_ips: Vec<IpAddr>,
    /// Addresses it has outside.
    pub external_ips: Vec<IpAddr>,
    /// A name for its pods' own addresses: nothing is translated.
    pub headless: bool,
    /// It stands for this name elsewhere.
    pub external_name: Option<String>,
    /// Asks for a port on every node or for addresses outside.
    pub published: bool,
    /// What its labels say about app networks.
    pub app: App,
    /// Labels of its pods.
    pub selector: Labels,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Only backends of the client's node are used.
    pub internal_local: bool,
    /// Backends see the real address of clients outside.
    pub external_local: bool,
}

impl Service {
    /// Whether its selector selects a pod with these labels. None at all selects nobody; one that stands for a name elsewhere has no pods.
    pub fn selects(&self, labels: &Labels) -> bool {
        let all = self.selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        all && !self.selector.is_empty() && self.external_name.is_none()
    }
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
    /// Its number on every node.
    pub node_port: Option<u16>,
    /// The port at the backends.
    pub target: TargetPort,
}

/// The port at a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    /// This one.
    Number(u16),
    /// The one each pod calls so.
    Named(String),
}

/// Some endpoints of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The service.
    pub service: Name,
    /// The ports of all its endpoints.
    pub ports: Vec<SlicePort>,
    /// The endpoints.
    pub endpoints: Vec<Endpoint>,
}

/// A port of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// Name of the service's port.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// The number at the endpoints.
    pub port: u16,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The pod it is.
    pub pod: Option<Name>,
    /// Its node.
    pub node: Option<String>,
    /// Takes connections.
    pub ready: bool,
    /// Is going away, but still answers.
    pub last_resort: bool,
}

/// Backend by party and port; its addresses and node.
type Backends = BTreeMap<(Party, u16), (Vec<IpAddr>, Option<String>)>;

/// Where a packet to this port of a service may go when it comes from this node.
pub fn backends(cluster: &Cluster, name: &Name, protocol: Protocol, number: u16, from: Option<&str>) -> Result<Vec<Destination>, Unknown> {
    let Some(service) = cluster.services.get(name) else {
        return Err(resolve::no_service(cluster, name));
    };
    if let Some(target) = &service.external_name {
        return Err(Unknown::ExternalName {
            service: name.clone(),
            target: target.clone(),
        });
    }
    let port = service.ports.iter().find(|port| port.protocol == protocol && port.port == number);
    let ports = || {
        service
            .ports
            .iter()
            .map(|port| format!("{} {}", port.protocol, port.port))
            .collect()
    };
    let port = match port {
        Some(port) => Some(port),
        // Clients of a headless service talk to the pods themselves, on any port.
        None if service.headless => None,
        None => {
            return Err(Unknown::NoPort {
                service: name.clone(),
                asked: format!("{protocol} {number}"),
                ports: ports(),
            });
        }
    };
    let has_slices = cluster.slices.values().any(|slice| slice.service == *name);
    let mut found = if has_slices {
        of_slices(cluster, name, service, port, number)
    } else {
        of_selector(cluster, name, service, port, number)
    };
    let any = !found.is_empty();
    if service.internal_local
        && let Some(from) = from
    {
        found.retain(|_, (_, node)| node.as_deref() == Some(from));
    }
    if found.is_empty() {
        let service = name.clone();
        return Err(match from {
            Some(node) if any => Unknown::NoLocalBackend {
                service,
                node: node.to_owned(),
            },
            _ => Unknown::NoBackend { service },
        });
    }
    let destination = |((party, port), (addresses, _))| Destination {
        end: End { party, addresses },
        port,
        service: Some(name.clone()),
        published: false,
        by_node_port: false,
    };
    Ok(found.into_iter().map(destination).collect())
}

fn of_slices(cluster: &Cluster, name: &Name, service: &Service, port: Option<&ServicePort>, number: u16) -> Backends {
    let slices = || cluster.slices.values().filter(|slice| slice.service == *name);
    // Those that are going away serve only where nobody else is left.
    let some_ready = slices().flat_map(|slice| &slice.endpoints).any(|endpoint| endpoint.ready);
    let mut found = Backends::new();
    for slice in slices() {
        let same = |slice_port: &&SlicePort| port.is_some_and(|port| port.name == slice_port.name && port.protocol == slice_port.protocol);
        let port = match slice.ports.iter().find(same) {
            _ if service.headless => number,
            Some(port) => port.port,
            None => continue,
        };
        let used = slice
            .endpoints
            .iter()
            .filter(|endpoint| if some_ready { endpoint.ready } else { endpoint.last_resort });
        for endpoint in used {
            for address in &endpoint.addresses {
                let pod = endpoint.pod.as_ref().filter(|name| cluster.pods.contains_key(name));
                let party = pod.map_or_else(|| resolve::party_at(cluster, *address), |name| resolve::party_of(cluster, name));
                if matches!(&party, Party::Pod(pod) if cluster.network_of(pod).is_err()) {
                    continue; // it waits for its network
                }
                if matches!(&party, Party::Pod(pod) if pod.namespace != name.namespace && is_isolated(cluster, pod)) {
                    continue; // who isolates a pod decides what leads to it
                }
                let (addresses, node) = found.entry((party, port)).or_default();
                addresses.push(*address);
                *node = endpoint.node.clone();
            }
        }
    }
    found
}

fn is_isolated(cluster: &Cluster, pod: &Name) -> bool {
    cluster.isolation(&pod.namespace) >= Isolation::Pods || cluster.isolated_network_of(pod).is_some()
}

/// What the endpoint controllers would make of the selector, for manifests that nobody has applied.
fn of_selector(cluster: &Cluster, name: &Name, service: &Service, port: Option<&ServicePort>, number: u16) -> Backends {
    let selected = |(pod_name, pod): &(&Name, &Pod)| {
        let answers = !pod.finished && cluster.network_of(pod_name).is_ok();
        let is_pod = pod_name.machine().is_none();
        pod_name.namespace == name.namespace && is_pod && answers && service.selects(&pod.labels)
    };
    let mut found = Backends::new();
    let of_family = |ip: &IpAddr| service.cluster_ips.is_empty() || service.cluster_ips.iter().any(|own| own.is_ipv4() == ip.is_ipv4());
    for (pod_name, pod) in cluster.pods.iter().filter(selected) {
        let port = match port.map(|port| (&port.target, port.protocol)) {
            _ if service.headless => Some(number),
            None => None,
            Some((TargetPort::Number(number), _)) => Some(*number),
            Some((TargetPort::Named(name), protocol)) => pod
                .ports
                .iter()
                .find(|port| port.name == *name && port.protocol == protocol)
                .map(|port| port.port),
        };
        let Some(port) = port else { continue };
        let addresses = pod.addresses.iter().copied().filter(of_family).collect();
        found.insert((resolve::party_of(cluster, pod_name), port), (addresses, pod.node.clone()));
    }
    found
}
