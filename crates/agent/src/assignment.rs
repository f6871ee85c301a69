//! What the controller decided for one logical port, read from its Southbound `Port_Binding` row: MAC, addresses,
//! gateways, routes, and for whom. The southbound watch parses it; CNI and the management port apply it. An
//! [`Assignment`] is complete: nothing else has to be asked to configure the interface.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use netloom_contract::{Mac, external_id};

/// Why a binding cannot be used. Both cases are the controller's mistakes, not the pod's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// A value is there but unreadable.
    #[error("{what} {text:?} in the port binding is malformed")]
    Malformed {
        /// Which value.
        what: &'static str,
        /// What it says.
        text: String,
    },
    /// The binding has no MAC address.
    #[error("the port binding has no MAC address: the logical port has no `addresses`")]
    NoMac,
}

/// The network configuration of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// UID of the pod the port was made for; absent on ports that are no pod's.
    pub uid: Option<String>,
    /// The interface's MAC address.
    pub mac: Mac,
    /// Its addresses, each with the prefix length of its subnet; alone on a network, whose subnet is another one.
    pub addresses: Vec<IpNet>,
    /// Its addresses in the network it is on, if it is on one, by which it knows its neighbours.
    pub network_addresses: Vec<IpNet>,
    /// The routers on those subnets.
    pub gateways: Vec<IpAddr>,
    /// Destinations to reach through the gateways, where that is not simply everything.
    pub routes: Vec<IpNet>,
}

impl Assignment {
    /// Reads `Port_Binding.mac` and `Port_Binding.external_ids`.
    pub fn parse(mac: &[&str], ids: &BTreeMap<String, String>) -> Result<Self, AssignmentError> {
        let mac = mac
            .iter()
            .filter_map(|entry| entry.split_whitespace().next())
            .find(|first| *first != "unknown" && *first != "router")
            .ok_or(AssignmentError::NoMac)?;
        let mut addresses: Vec<IpNet> = list(ids, external_id::ADDRESSES)?;
        let network_addresses: Vec<IpNet> = list(ids, external_id::NETWORK_ADDRESSES)?;
        if !network_addresses.is_empty() {
            addresses.iter_mut().for_each(|address| *address = IpNet::from(address.addr()));
        }
        Ok(Self {
            uid: ids.get(external_id::UID).cloned(),
            mac: mac.parse().map_err(|_| AssignmentError::Malformed {
                what: "MAC",
                text: mac.to_owned(),
            })?,
            addresses,
            network_addresses,
            gateways: list(ids, external_id::GATEWAYS)?,
            routes: list(ids, external_id::ROUTES)?,
        })
    }

    /// The gateway that serves the family of `destination`.
    pub fn gateway_for(&self, destination: IpNet) -> Option<IpAddr> {
        self.gateways
            .iter()
            .copied()
            .find(|gateway| gateway.is_ipv4() == destination.addr().is_ipv4())
    }

    /// One default route per gateway: what a pod gets.
    pub fn default_routes(&self) -> Vec<(IpNet, IpAddr)> {
        self.gateways.iter().map(|gateway| (default_of(*gateway), *gateway)).collect()
    }

    /// All addresses of the interface.
    pub fn all_addresses(&self) -> impl Iterator<Item = &IpNet> {
        self.addresses.iter().chain(&self.network_addresses)
    }

    /// What packets through a gateway say where they come from, where that does not follow from the gateway's subnet.
    pub fn source_for(&self, gateway: IpAddr) -> Option<IpAddr> {
        let elsewhere = !self.network_addresses.is_empty();
        let of_family = |address: &IpNet| address.addr().is_ipv4() == gateway.is_ipv4();
        let mut own = self.addresses.iter().copied().filter(|address| elsewhere && of_family(address));
        own.next().map(|address| address.addr())
    }

    /// The listed routes, each through the gateway of its family: what the management port gets.
    pub fn listed_routes(&self) -> Vec<(IpNet, IpAddr)> {
        self.routes
            .iter()
            .filter_map(|route| Some((*route, self.gateway_for(*route)?)))
            .collect()
    }
}

/// The default destination of an address family.
pub fn default_of(gateway: IpAddr) -> IpNet {
    match gateway {
        IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
        IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}

fn list<T: FromStr>(ids: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<T>, AssignmentError> {
    let text = ids.get(key).map_or("", String::as_str);
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            part.parse().map_err(|_| AssignmentError::Malformed {
                what: key,
                text: part.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ids(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_dual_stack_binding_is_read_whole() {
        let assignment = Assignment::parse(
            &["0a:58:0a:f4:01:05 10.244.1.5 fd00:10:244:1::5"],
            &ids(&[
                (external_id::UID, "u-1"),
                (external_id::ADDRESSES, "10.244.1.5/24,fd00:10:244:1::5/64"),
                (external_id::GATEWAYS, "10.244.1.1, fd00:10:244:1::1"),
                (external_id::ROUTES, "10.244.0.0/16,fd00:10:244::/48"),
            ]),
        )
        .unwrap();
        assert_eq!(assignment.mac.to_string(), "0a:58:0a:f4:01:05");
        assert_eq!(assignment.addresses.len(), 2);
        assert_eq!(assignment.default_routes()[1].0.to_string(), "::/0");
        assert_eq!(
            assignment.listed_routes(),
            vec![
                ("10.244.0.0/16".parse().unwrap(), "10.244.1.1".parse().unwrap()),
                ("fd00:10:244::/48".parse().unwrap(), "fd00:10:244:1::1".parse().unwrap()),
            ]
        );
    }

    #[test]
    fn a_route_without_a_gateway_of_its_family_is_left_out() {
        let assignment = Assignment::parse(
            &["0a:00:00:00:00:01"],
            &ids(&[(external_id::GATEWAYS, "10.0.0.1"), (external_id::ROUTES, "fd00::/48")]),
        )
        .unwrap();
        assert!(assignment.listed_routes().is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(Assignment::parse(&["unknown"], &ids(&[])), Err(AssignmentError::NoMac));
        assert_eq!(Assignment::parse(&[], &ids(&[])), Err(AssignmentError::NoMac));
        let error = Assignment::parse(&["0a:00:00:00:00:01"], &ids(&[(external_id::ADDRESSES, "10.0.0.300/24")]));
        assert!(error.unwrap_err().to_string().contains("10.0.0.300/24"));
        assert!("0a:00:00:00:00".parse::<Mac>().is_err());
        assert!("0a:00:00:00:00:0g".parse::<Mac>().is_err());
    }
}
