//! Questions, and how people write them: `namespace/pod`, `svc/web`, `port/db`, `node/node1`, an address, and a port by number or name.

use std::net::IpAddr;

use crate::cluster::{Cluster, Name, Protocol};
use crate::resolve::{self, Unknown};

/// May this be sent?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who sends.
    pub from: Source,
    /// To whom.
    pub to: Target,
    /// The protocol.
    pub protocol: Protocol,
    /// The destination port; of a service, the service's own.
    pub port: u16,
}

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A pod.
    Pod(Name),
    /// A node.
    Node(String),
    /// Whoever has this address.
    Address(IpAddr),
}

/// To whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A pod.
    Pod(Name),
    /// A node.
    Node(String),
    /// Whoever has this address.
    Address(IpAddr),
    /// A service.
    Service(Name),
}

impl Source {
    /// Reads what a person wrote; names without a namespace are of the one given.
    pub fn parse(text: &str, namespace: &str) -> Result<Self, String> {
        Ok(match Target::parse(text, namespace)? {
            Target::Pod(name) => Self::Pod(name),
            Target::Node(name) => Self::Node(name),
            Target::Address(address) => Self::Address(address),
            Target::Service(name) => {
                return Err(format!("service {name} sends nothing; name a pod, a node or an address as FROM"));
            }
        })
    }
}

impl Target {
    /// Reads what a person wrote; names without a namespace are of the one given.
    pub fn parse(text: &str, namespace: &str) -> Result<Self, String> {
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(Self::Address(address));
        }
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(unreadable(text));
        }
        Ok(match parts.as_slice() {
            ["node" | "nodes" | "no", name] => Self::Node((*name).to_owned()),
            ["service" | "services" | "svc", name] => Self::Service(Name::new(namespace, *name)),
            ["service" | "services" | "svc", namespace, name] => Self::Service(Name::new(*namespace, *name)),
            ["port" | "ports", name] => Self::Pod(Name::of_machine(namespace, name)),
            ["port" | "ports", namespace, name] => Self::Pod(Name::of_machine(*namespace, name)),
            ["pod" | "pods" | "po", name] | [name] => Self::Pod(Name::new(namespace, *name)),
            ["pod" | "pods" | "po", namespace, name] | [namespace, name] => Self::Pod(Name::new(*namespace, *name)),
            _ => return Err(unreadable(text)),
        })
    }
}

fn unreadable(text: &str) -> String {
    format!(
        "{text:?} names no source or destination; write POD, NAMESPACE/POD, svc/NAME, svc/NAMESPACE/NAME, port/NAME, port/NAMESPACE/NAME, node/NAME or an IP address"
    )
}

/// A port that a pod or service declares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Declared {
    /// Its name; may be empty.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
}

/// The ports a target declares; none for nodes and addresses of nobody we know.
pub fn declared(cluster: &Cluster, target: &Target) -> Result<Vec<Declared>, Unknown> {
    let (pod, service) = match target {
        Target::Pod(name) => (Some(name), None),
        Target::Service(name) => (None, Some(name)),
        Target::Address(address) => (cluster.pod_at(*address), cluster.service_at(*address)),
        Target::Node(_) => (None, None),
    };
    let declare = |name: &String, protocol, port| {
        let name = name.clone();
        Declared { name, protocol, port }
    };
    let mut found: Vec<Declared> = match (pod, service) {
        (Some(name), _) => {
            // A pod that is not there is told as such, not as one without ports.
            resolve::target(cluster, &Target::Pod(name.clone()), Protocol::Tcp, 0, None)?;
            let ports = cluster.pods.get(name).into_iter().flat_map(|pod| &pod.ports);
            ports.map(|port| declare(&port.name, port.protocol, port.port)).collect()
        }
        (None, Some(name)) => {
            let service = cluster.services.get(name).ok_or_else(|| resolve::no_service(cluster, name))?;
            let ports = service.ports.iter();
            ports.map(|port| declare(&port.name, port.protocol, port.port)).collect()
        }
        (None, None) => Vec::new(),
    };
    found.sort();
    found.dedup();
    Ok(found)
}

/// Which ports to ask about: the one given by number (TCP unless said) or by name, or all that are declared.
pub fn port_to_ask(declared: &[Declared], port: Option<&str>, protocol: Option<Protocol>) -> Result<Vec<(Protocol, u16)>, String> {
    if let Some(number) = port.and_then(|text| text.parse::<u32>().ok()) {
        let number = u16::try_from(number).ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| format!("port {} is out of range; use 1 to 65535", port.unwrap_or_default()))?;
        return Ok(vec![(protocol.unwrap_or(Protocol::Tcp), number)]);
    }
    let wanted = |one: &&Declared| protocol.is_none_or(|protocol| one.protocol == protocol) && port.is_none_or(|name| one.name == name);
    let found: Vec<(Protocol, u16)> = declared.iter().filter(wanted).map(|one| (one.protocol, one.port)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let all: Vec<String> = declared
        .iter()
        .map(|one| format!("{} {} {}", one.protocol, one.port, one.name).trim_end().to_owned())
        .collect();
    let of = protocol.map(|protocol| format!(" of {protocol}")).unwrap_or_default();
    Err(match (port, all.is_empty()) {
        (None, true) => "TO declares no ports; give the PORT to ask about, as a number".to_owned(),
        (None, false) => format!("TO declares no port{of}; it has: {}", all.join(", ")),
        (Some(name), true) => format!("TO declares no ports, so none is called {name:?}; give a number"),
        (Some(name), false) => format!("TO has no port{of} called {name:?}; it has: {}", all.join(", ")),
    })
}
