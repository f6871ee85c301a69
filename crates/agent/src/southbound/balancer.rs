//! What the agent reads of a gateway's load balancer: which addresses and ports it serves, not by whom.

use std::net::{IpAddr, SocketAddr};

use netloom_contract::Protocol;
use netloom_contract::balancer::{self, Local};
use netloom_ovsdb::{Datum, Row};

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

/// What a row says to those who ask on a service's health check port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The port.
    pub port: u16,
    /// How many ready endpoints the row has.
    pub endpoints: usize,
}

impl Balancer {
    /// Reads a row of table `Load_Balancer`; none if it is not a gateway's. A controller before 0.2 did not name the service: what it serves is
    /// served all the same.
    pub fn parse(row: &Row) -> Option<Self> {
        let option = |name: &str| row.get("options").and_then(|options| options.get(name));
        let (of_gateways, value) = balancer::OF_GATEWAYS;
        option(of_gateways).filter(|found| *found == value)?;
        let service = option(balancer::SERVICE).and_then(|service| service.split_once('/'));
        let (namespace, name) = service.unwrap_or_default();
        let protocol = Protocol::of_row(row.get("protocol").and_then(Datum::as_str)?)?;
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
        let addresses = option(balancer::NODE_ADDRESSES).unwrap_or_default().split(',');
        let node_addresses = addresses.filter_map(|address| address.parse().ok()).collect();
        let health_check = option(balancer::HEALTH_CHECK_PORT)
            .and_then(|port| port.parse().ok())
            .map(|port| HealthCheck {
                port,
                endpoints: option(balancer::READY_ENDPOINTS)
                    .and_then(|number| number.parse().ok())
                    .unwrap_or_default(),
            });
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            vips: served.into(),
            local: option(balancer::LOCAL).and_then(Local::parse),
            keeps_source: option(balancer::KEEPS_SOURCE) == Some("true"),
            node: option(balancer::NODE).map(str::to_owned),
            node_addresses,
            health_check,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(protocol: &str, further: &[(&str, &str)]) -> Row {
        let options = [
            (balancer::SERVICE, "default/web"),
            (balancer::HEALTH_CHECK_PORT, "32000"),
            (balancer::READY_ENDPOINTS, "1"),
            (balancer::LOCAL, "pods"),
            balancer::OF_GATEWAYS,
        ];
        Row::from([
            ("protocol".to_owned(), Datum::string(protocol)),
            (
                "vips".to_owned(),
                Datum::map([
                    ("172.30.0.200:80", "10.244.0.5:80,10.244.0.6:80"),
                    ("[fd30::200]:80", "[fd00::5]:80,[fd00::6]:80"),
                    ("100.64.255.254:30080", "10.244.0.5:80,10.244.0.6:80"),
                ]),
            ),
            ("options".to_owned(), Datum::map(options.into_iter().chain(further.iter().copied()))),
        ])
    }

    #[test]
    fn a_gateway_row_is_read() {
        let balancer = Balancer::parse(&row("tcp", &[])).unwrap();
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
        let row = row("tcp", &[(balancer::NODE, "node1.example")]);
        assert_eq!(Balancer::parse(&row).unwrap().node.as_deref(), Some("node1.example"));
    }

    #[test]
    fn other_rows_are_not_ours() {
        assert_eq!(Balancer::parse(&row("icmp", &[])), None);
        let mut row = row("tcp", &[]);
        row.insert("options", Datum::map([(balancer::SERVICE, "default/web")]));
        assert_eq!(Balancer::parse(&row), None);
    }

    #[test]
    fn a_row_of_an_earlier_controller_is_served() {
        let mut row = row("tcp", &[]);
        row.insert("options", Datum::map([balancer::OF_GATEWAYS]));
        let balancer = Balancer::parse(&row).unwrap();
        assert_eq!((balancer.vips.len(), balancer.name.as_str()), (3, ""));
    }
}
