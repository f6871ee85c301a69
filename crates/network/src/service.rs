//! Services, their endpoints and the pools of external addresses, cut down to what the network depends on.
//!
//! Values only: reducers fill them, units read them. What a field means is what Kubernetes says it means.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

pub use netloom_contract::Protocol;
use serde::{Deserialize, Serialize};

use crate::cluster::{Namespaced, NodeName};

/// Namespace and name of a service.
pub type ServiceName = Namespaced;
/// Namespace and name of an endpoint slice.
pub type SliceName = Namespaced;

/// The class of load balancers that are ours; a service without a class is ours too.
pub const OUR_CLASS: &str = "netloom.io/external";

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::Ipv4 } else { Self::Ipv6 }
    }

    /// The family a service's `spec.ipFamilies` entry names.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "IPv4" => Some(Self::Ipv4),
            "IPv6" => Some(Self::Ipv6),
            _ => None,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Ipv4 { "IPv4" } else { "IPv6" })
    }
}

/// How far a service reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ServiceKind {
    /// Inside the cluster.
    #[default]
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// Also on a port of every node.
    NodePort,
    /// Also on external addresses.
    LoadBalancer,
}

impl ServiceKind {
    /// The kind Kubernetes calls `text`; none for `ExternalName`, which is a matter of names only.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "ClusterIP" => Some(Self::ClusterIp),
            "NodePort" => Some(Self::NodePort),
            "LoadBalancer" => Some(Self::LoadBalancer),
            _ => None,
        }
    }
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// UID; external addresses belong to it, not to the name.
    pub uid: String,
    /// Creation time as RFC 3339; the older service has an address two want.
    pub created: String,
    /// How far it reaches.
    pub kind: ServiceKind,
    /// Addresses inside the cluster; none for a headless service.
    pub cluster_ips: Vec<IpAddr>,
    /// Families it wants addresses of.
    pub families: Vec<Family>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// A client stays with one backend.
    pub affinity: bool,
    /// Clients inside use backends of their own node only.
    pub internal_local: bool,
    /// Traffic from outside uses backends of the node it entered at only, and keeps its source.
    pub external_local: bool,
    /// Addresses of `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `spec.loadBalancerClass`.
    pub class: Option<String>,
    /// `spec.loadBalancerIP`, as written.
    pub requested: Option<String>,
    /// `spec.loadBalancerSourceRanges`, as written.
    pub source_ranges: Vec<String>,
    /// `spec.healthCheckNodePort`.
    pub health_check_port: Option<u16>,
    /// Addresses of `status.loadBalancer` with ipMode VIP or none.
    pub status_addresses: Vec<IpAddr>,
    /// Annotations that concern us.
    pub annotations: BTreeMap<String, String>,
    /// Labels that concern us: those that name an app.
    pub labels: BTreeMap<String, String>,
    /// Labels of the pods it selects; none if somebody else makes its endpoints.
    pub selector: BTreeMap<String, String>,
}

impl Service {
    /// Whether its external addresses are ours to give and to announce.
    pub fn is_ours(&self) -> bool {
        self.kind == ServiceKind::LoadBalancer && self.class.as_deref().is_none_or(|class| class == OUR_CLASS)
    }
}

/// A port of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePort {
    /// Name; empty if it is the only one. Ports of slices are found by it.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Number on the service's addresses.
    pub port: u16,
    /// Number on every node.
    pub node_port: Option<u16>,
}

/// A part of a service's endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The service, by the label `kubernetes.io/service-name`.
    pub service: ServiceName,
    /// Ports all its endpoints have.
    pub ports: Vec<SlicePort>,
    /// Endpoints.
    pub endpoints: Vec<Endpoint>,
}

/// A port of a slice's endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlicePort {
    /// Name of the service's port it serves.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Number on the endpoints.
    pub port: u16,
}

/// One endpoint address; an endpoint with several addresses is several of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: IpAddr,
    /// Takes new connections.
    pub ready: bool,
    /// Answers, whether or not it is going away.
    pub serving: bool,
    /// Is going away.
    pub terminating: bool,
    /// Node it runs on.
    pub node: Option<NodeName>,
    /// Zones it is meant for (`hints.forZones`).
    pub zones: Vec<String>,
    /// Nodes it is meant for (`hints.forNodes`).
    pub nodes: Vec<String>,
    /// Refers to a pod.
    pub pod: bool,
}

/// An `ExternalPool`: addresses outside the cluster that services may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalPool {
    /// UID.
    pub uid: String,
    /// What the user wrote.
    pub spec: ExternalPoolSpec,
}

/// `spec` of an `ExternalPool`, as written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalPoolSpec {
    /// Ranges, e.g. `192.0.2.0/28`.
    pub cidrs: Vec<String>,
    /// Ranges from the first to the last address, e.g. `192.0.2.10-192.0.2.20`.
    pub ranges: Vec<String>,
    /// Namespaces whose services may have addresses of it; all if empty.
    pub namespaces: Vec<String>,
    /// Whether a service that asks for no address may get one of it.
    pub auto_assign: bool,
}

impl Default for ExternalPoolSpec {
    fn default() -> Self {
        Self {
            cidrs: Vec::new(),
            ranges: Vec::new(),
            namespaces: Vec::new(),
            auto_assign: true,
        }
    }
}
