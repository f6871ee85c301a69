//! Who has addresses, and where they have to be unique.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use netloom_contract::name::PodPort;

use crate::cluster::{NodeName, PodName};
use crate::service::ServiceName;

/// Identity of a port. It is kept by whoever has to do with the port, so its parts are shared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName(Arc<PortParts>);

/// A pod or machine, and its interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortParts {
    /// The pod, or the machine that is one to the network.
    pub owner: PodName,
    /// The interface; none is the first one, `eth0`.
    pub interface: Option<Box<str>>,
}

/// The first interface of every pod.
const FIRST: &str = "eth0";

impl PortName {
    /// The first port of a pod.
    pub fn first(owner: PodName) -> Self {
        Self(Arc::new(PortParts { owner, interface: None }))
    }

    /// Name of the interface in the pod.
    pub fn interface(&self) -> &str {
        self.interface.as_deref().unwrap_or(FIRST)
    }

    /// The port whose logical port has this name.
    pub fn parse(name: &str) -> Option<Self> {
        let PodPort { namespace, pod, interface } = PodPort::parse(name)?;
        let owner = PodName {
            namespace: namespace.to_owned(),
            name: pod.to_owned(),
        };
        let interface = interface.map(Box::from);
        Some(Self(Arc::new(PortParts { owner, interface })))
    }
}

impl Deref for PortName {
    type Target = PortParts;

    fn deref(&self) -> &PortParts {
        &self.0
    }
}

/// The name of the logical port.
impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = PodPort {
            namespace: &self.owner.namespace,
            pod: &self.owner.name,
            interface: self.interface.as_deref(),
        };
        port.fmt(f)
    }
}

/// Whoever has an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A port of a pod or machine.
    Port(PortName),
    /// A service.
    Service(Arc<ServiceName>),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => match port.owner.machine() {
                Some(machine) => write!(f, "Port/{}/{machine}", port.owner.namespace),
                None => write!(f, "pod {}", port.owner),
            },
            Self::Service(service) => write!(f, "Service/{service}"),
        }
    }
}

/// Where an IP address is unique.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Pods of the cluster network.
    Cluster,
    /// A network that users define.
    Network(String),
    /// Outside the cluster.
    External,
}

/// Where an Ethernet address is unique.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// The switch of a node.
    Node(NodeName),
    /// The switch of a network that users define.
    Network(String),
    /// The switch external addresses are announced on.
    Announce,
}
