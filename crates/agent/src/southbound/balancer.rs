//! What the agent reads of a gateway's load balancer: which addresses and ports it serves, not by whom. The controller
//! names such a row `service_NAMESPACE_NAME_PROTOCOL_gateway`, with `_node_NODE` and the like after it where its
//! backends depend on the node; Kubernetes names have no underscore.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use netloom_ovsdb::{Datum, Row};

/// The option that the load balancers of gateways have and others do not.
pub const OF_GATEWAYS: (&str, &str) = ("neighbor_responder", "none");
const HEALTH_CHECK_PORT: &str = "netloom.io/health-check-port";
const NODE_ADDRESSES: &str = "netloom.io/node-addresses";

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

/// Where a service is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vip {
    /// The address.
    pub address: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

/// One gateway load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// The service's namespace.
    pub namespace: String,
    /// The service's name.
    pub name: String,
    /// Where it is served.
    pub vips: Box<[Vip]>,
    /// Addresses of the node whose own backends it has: its node ports lead to these and no others.
    pub node_addresses: Box<[IpAddr]>,
    /// The port on which nodes tell whether they have endpoints of the service.
    pub health_check: Option<HealthCheck>,
}

/// What a row says to those who ask on a service's health check port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The port.
    pub port: u16,
    /// The node whose own row it is.
    pub node: Option<String>,
    /// How many endpoints the row has.
    pub endpoints: usize,
}

impl Balancer {
    /// Reads a row of table `Load_Balancer`; none if it is not a gateway's, or not ours.
    pub fn parse(row: &Row) -> Option<Self> {
        let mut words = row.get("name").and_then(Datum::as_str)?.split('_');
        if words.next() != Some("service") {
            return None;
        }
        let (namespace, name) = (words.next()?.to_owned(), words.next()?.to_owned());
        let protocol = match words.next()? {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            "sctp" => Protocol::Sctp,
            _ => return None,
        };
        if words.next() != Some("gateway") {
            return None;
        }
        let node = words.next().filter(|kind| *kind == "node").and_then(|_| words.next());
        let vips = || {
            let map = row.get("vips").and_then(Datum::as_map).into_iter().flat_map(|map| map.iter());
            map.filter_map(|(key, value)| Some((key.as_str()?, value.as_str()?)))
        };
        let mut served: Vec<Vip> = vips()
            .filter_map(|(key, _)| key.parse::<SocketAddr>().ok())
            .map(|address| Vip {
                address: address.ip(),
                protocol,
                port: address.port(),
            })
            .collect();
        served.sort_unstable();
        let option = |name: &str| row.get("options").and_then(|options| options.get(name));
        let addresses = option(NODE_ADDRESSES).unwrap_or_default().split(',');
        let node_addresses = addresses.filter_map(|address| address.parse().ok()).collect();
        let port = option(HEALTH_CHECK_PORT);
        let health_check = port.and_then(|port| port.parse().ok()).map(|port| HealthCheck {
            port,
            node: node.map(str::to_owned),
            endpoints: vips().map(|(_, backends)| endpoints(backends)).max().unwrap_or_default(),
        });
        Some(Self {
            namespace,
            name,
            vips: served.into(),
            node_addresses,
            health_check,
        })
    }
}

/// Several ports of one endpoint are one endpoint. The families are counted apart: they are the same pods.
fn endpoints(backends: &str) -> usize {
    let addresses = backends.split(',').filter_map(|backend| backend.rsplit_once(':'));
    addresses.map(|(address, _)| address).collect::<HashSet<_>>().len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(name: &str) -> Row {
        Row::from([
            ("name".to_owned(), Datum::string(name)),
            (
                "vips".to_owned(),
                Datum::map([
                    ("172.30.0.200:80", "10.244.0.5:80,10.244.0.6:80"),
                    ("[fd30::200]:80", "[fd00::5]:80,[fd00::6]:80"),
                    ("100.64.255.254:30080", "10.244.0.5:80,10.244.0.6:80"),
                ]),
            ),
            ("options".to_owned(), Datum::map([(HEALTH_CHECK_PORT, "32000"), OF_GATEWAYS])),
        ])
    }

    #[test]
    fn a_gateway_row_is_read() {
        let balancer = Balancer::parse(&row("service_default_web_tcp_gateway")).unwrap();
        assert_eq!((balancer.namespace.as_str(), balancer.name.as_str()), ("default", "web"));
        assert_eq!(balancer.vips.len(), 3);
        let vip = Vip {
            address: "fd30::200".parse().unwrap(),
            protocol: Protocol::Tcp,
            port: 80,
        };
        assert!(balancer.vips.contains(&vip));
        let check = balancer.health_check.unwrap();
        assert_eq!((check.port, check.node, check.endpoints), (32000, None, 2));
    }

    #[test]
    fn a_nodes_own_row_names_the_node() {
        let of = |name: &str| Balancer::parse(&row(name)).unwrap().health_check.unwrap().node;
        assert_eq!(
            of("service_default_web_tcp_gateway_node_node1.example").as_deref(),
            Some("node1.example")
        );
        assert_eq!(of("service_default_web_tcp_gateway_elsewhere"), None);
        assert_eq!(of("service_default_web_tcp_gateway_zone_node"), None);
    }

    #[test]
    fn other_rows_are_not_ours() {
        for name in [
            "service_default_web_tcp",
            "service_default_web_icmp_gateway",
            "lb",
            "",
            "service_default",
        ] {
            assert_eq!(Balancer::parse(&row(name)), None, "{name}");
        }
    }
}
