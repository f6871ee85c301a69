//! What the agent reads of a gateway's load balancer: which addresses and ports it serves, not by whom. The controller
//! names such a row `service_NAMESPACE_NAME_PROTOCOL_gateway`, with `_node_NODE` and the like after it where its
//! backends depend on the node; Kubernetes names have no underscore.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use netloom_ovsdb::{Datum, Row};

/// The option that the load balancers of gateways have and others do not.
pub const OF_GATEWAYS: (&str, &str) = ("neighbor_responder", "none");
const HEALTH_CHECK_PORT: &str = "netloom.io/health-check-port";
const READY_ENDPOINTS: &str = "netloom.io/ready-endpoints";
const NODE_ADDRESSES: &str = "netloom.io/node-addresses";
const LOCAL: &str = "netloom.io/local";

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
    /// Whether every node serves with its own backends only, and who these are.
    pub local: Option<Local>,
    /// Whether backends see the client's address.
    pub keeps_source: bool,
    /// The node whose own row it is.
    pub node: Option<String>,
    /// That node's addresses: its node ports lead to its own backends and no others.
    pub node_addresses: Box<[IpAddr]>,
    /// The port on which nodes tell whether they have endpoints of the service.
    pub health_check: Option<HealthCheck>,
}

/// Where the backends of a service are that every node serves with its own only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// All in networks of pods.
    Pods,
    /// Some in a host's.
    Hosts,
}

/// What a row says to those who ask on a service's health check port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The port.
    pub port: u16,
    /// How many ready endpoints the row has.
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
        let vips = row.get("vips").and_then(Datum::as_map).into_iter().flat_map(|map| map.iter());
        let mut served: Vec<Vip> = vips
            .filter_map(|(key, _)| key.as_str()?.parse::<SocketAddr>().ok())
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
        let health_check = option(HEALTH_CHECK_PORT)
            .and_then(|port| port.parse().ok())
            .map(|port| HealthCheck {
                port,
                endpoints: option(READY_ENDPOINTS).and_then(|number| number.parse().ok()).unwrap_or_default(),
            });
        Some(Self {
            namespace,
            name,
            vips: served.into(),
            local: option(LOCAL).map(|by| if by == "pods" { Local::Pods } else { Local::Hosts }),
            keeps_source: option("skip_snat") == Some("true"),
            node: node.map(str::to_owned),
            node_addresses,
            health_check,
        })
    }
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
            (
                "options".to_owned(),
                Datum::map([(HEALTH_CHECK_PORT, "32000"), (READY_ENDPOINTS, "1"), (LOCAL, "pods"), OF_GATEWAYS]),
            ),
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
        assert!(balancer.local == Some(Local::Pods) && balancer.node.is_none());
        let check = balancer.health_check.unwrap();
        assert_eq!((check.port, check.endpoints), (32000, 1));
    }

    #[test]
    fn a_nodes_own_row_names_the_node() {
        let of = |name: &str| Balancer::parse(&row(name)).unwrap().node;
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
