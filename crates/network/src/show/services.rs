//! Services in the user's words: where they are reached, what is behind them and how it is, and which node answers for their address.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use netloom_contract::name::announcer_port;

use crate::cluster::{Cluster, View};
use crate::service::{Family, Protocol, Service, ServiceKind, ServiceName};
use crate::settings::Settings;
use crate::unit::service::backends::{Backend, ServedPort, gather};
use crate::unit::service::frontends::{Reach, frontends};

/// What OVN's own check says of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Online,
    /// It does not, and is left out.
    Offline,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `Headless`.
    pub kind: &'static str,
    /// Where it is reached: `10.96.0.5:80/tcp`; a port of every node is `*:30080/tcp`.
    pub addresses: Vec<String>,
    /// What is behind it.
    pub backends: Vec<BackendView>,
    /// The node that answers for its external addresses.
    pub announced: Option<String>,
}

/// A backend of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendView {
    /// Address and port.
    pub address: SocketAddr,
    /// Protocol.
    pub protocol: Protocol,
    /// Node it runs on.
    pub node: Option<String>,
    /// `ready`, `terminating`, or `offline` when OVN's check says so.
    pub state: &'static str,
}

/// All services. `hosting` tells the node that hosts a router port, `health` what OVN's check says of a backend.
pub fn services(
    cluster: &Cluster,
    hosting: impl Fn(&str) -> Option<String>,
    health: impl Fn(IpAddr, u16, Protocol) -> Option<Health>,
) -> Vec<ServiceView> {
    let Some(settings) = cluster.records.settings() else {
        return Vec::new();
    };
    let shown = |(name, service): (&ServiceName, &Service)| {
        let view = View::new(cluster);
        let (ports, _) = gather(&view, settings, name, &service.ports);
        ServiceView {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            kind: kind(service),
            addresses: addresses(&view, settings, name, service, &ports),
            backends: backends(&ports, &health),
            announced: hosting(&announcer_port(&name.namespace, &name.name)).filter(|_| !cluster.records.external(name).is_empty()),
        }
    };
    cluster
        .services
        .iter()
        .filter(|(_, service)| !service.ports.is_empty())
        .map(shown)
        .collect()
}

fn kind(service: &Service) -> &'static str {
    match service.kind {
        _ if service.cluster_ips.is_empty() => "Headless",
        ServiceKind::ClusterIp => "ClusterIP",
        ServiceKind::NodePort => "NodePort",
        ServiceKind::LoadBalancer => "LoadBalancer",
    }
}

fn addresses(view: &View<'_>, settings: &Settings, name: &ServiceName, service: &Service, ports: &[ServedPort<'_>]) -> Vec<String> {
    if service.cluster_ips.is_empty() {
        return Vec::new();
    }
    let on_nodes = settings.node_port_addresses();
    let mut shown = Vec::new();
    let all = frontends(view, settings, name, service, ports, &mut Vec::new());
    // A node port at one node's address is a way past that node, not another place.
    for frontend in all.iter().filter(|frontend| !matches!(frontend.reach, Reach::Node(_))) {
        let (at, protocol) = (frontend.at, frontend.protocol);
        let text = if on_nodes.contains(&at.ip()) {
            format!("*:{}/{protocol}", at.port())
        } else {
            format!("{at}/{protocol}")
        };
        if !shown.contains(&text) {
            shown.push(text);
        }
    }
    shown
}

fn backends(ports: &[ServedPort<'_>], health: &impl Fn(IpAddr, u16, Protocol) -> Option<Health>) -> Vec<BackendView> {
    let mut found: BTreeMap<(Protocol, SocketAddr), BackendView> = BTreeMap::new();
    for port in ports {
        let protocol = port.port.protocol;
        let all = [Family::Ipv4, Family::Ipv6]
            .into_iter()
            .flat_map(|family| port.endpoints(family).all());
        for Backend { at, endpoint } in all {
            let state = match health(at.ip(), at.port(), protocol) {
                Some(Health::Offline) => "offline",
                _ if endpoint.ready => "ready",
                _ => "terminating",
            };
            let view = BackendView {
                address: *at,
                protocol,
                node: endpoint.node.clone(),
                state,
            };
            found.entry((protocol, *at)).or_insert(view);
        }
    }
    found.into_values().collect()
}
