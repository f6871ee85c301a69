//! Names and values: the Service, the databases with their ports, and the members computed from EndpointSlices. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use netloom_ovsdb::{Remote, Remotes};

/// The headless Service whose endpoints are the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl FromStr for Service {
    type Err = InvalidService;

    fn from_str(text: &str) -> Result<Self, InvalidService> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => Ok(Service {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(InvalidService(text.to_owned())),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Text that names no Service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no service: write NAMESPACE/NAME, for example netloom-system/netloom-ovn")]
pub struct InvalidService(String);

/// A database of OVN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Database {
    /// What the network is to be, written by the controller.
    Northbound,
    /// What nodes have to do, written by northd.
    Southbound,
}

impl Database {
    /// Its name in the OVSDB protocol.
    pub fn name(self) -> &'static str {
        match self {
            Database::Northbound => "OVN_Northbound",
            Database::Southbound => "OVN_Southbound",
        }
    }

    /// Where clients are answered; those of the Southbound are the nodes.
    pub fn port(self) -> u16 {
        match self {
            Database::Northbound => 6641,
            Database::Southbound => 6642,
        }
    }

    /// Where its members answer those who are trusted with all of it. With TLS, nodes are answered by a relay in front of each member of
    /// the Southbound, and the members by themselves elsewhere.
    pub fn member_port(self, tls: bool) -> u16 {
        match self {
            Database::Southbound if tls => 6645,
            _ => self.port(),
        }
    }

    /// Where its members speak to each other.
    pub fn raft_port(self) -> u16 {
        match self {
            Database::Northbound => 6643,
            Database::Southbound => 6644,
        }
    }
}

/// The members by host name, with their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(BTreeMap<String, IpAddr>);

impl Members {
    /// The members all slices of the Service tell of together. Of a Service with both families, IPv4 counts: the members of a
    /// cluster have one address each, and have to agree on it.
    pub(crate) fn of<'a>(slices: impl Iterator<Item = &'a EndpointSlice> + Clone) -> Self {
        let family = |kind: &str| {
            let members: BTreeMap<String, IpAddr> = slices
                .clone()
                .filter(|slice| slice.address_type == kind)
                .flat_map(|slice| slice.endpoints.iter().flatten())
                .filter_map(|endpoint| {
                    let address = endpoint.addresses.first()?;
                    let pod = endpoint.target_ref.as_ref().and_then(|target| target.name.as_ref());
                    let name = endpoint.hostname.as_ref().or(pod).unwrap_or(address);
                    Some((name.clone(), address.parse().ok()?))
                })
                .collect();
            (!members.is_empty()).then_some(members)
        };
        Members(family("IPv4").or_else(|| family("IPv6")).unwrap_or_default())
    }

    /// Host names and addresses, by host name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        self.0.iter().map(|(name, address)| (name.as_str(), *address))
    }

    /// The address of a member.
    pub fn get(&self, name: &str) -> Option<IpAddr> {
        self.0.get(name).copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a member has this address.
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.values().any(|known| *known == address)
    }

    /// Where clients of a database are answered, by address; `None` when no member is known.
    pub fn remotes(&self, database: Database, tls: bool) -> Option<Remotes> {
        self.at(database.port(), tls)
    }

    /// The members themselves of a database, by address; `None` when no member is known.
    pub fn member_remotes(&self, database: Database, tls: bool) -> Option<Remotes> {
        self.at(database.member_port(tls), tls)
    }

    fn at(&self, port: u16, tls: bool) -> Option<Remotes> {
        let mut addresses: Vec<_> = self.0.values().collect();
        addresses.sort();
        addresses.dedup();
        let remote = |address: &IpAddr| {
            let socket = SocketAddr::new(*address, port).to_string();
            if tls { Remote::Ssl(socket) } else { Remote::Tcp(socket) }
        };
        Remotes::try_from(addresses.into_iter().map(remote).collect::<Vec<_>>()).ok()
    }
}

impl FromIterator<(String, IpAddr)> for Members {
    fn from_iter<I: IntoIterator<Item = (String, IpAddr)>>(members: I) -> Self {
        Members(members.into_iter().collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slice(kind: &str, endpoints: &[(&str, &str)]) -> EndpointSlice {
        let endpoint =
            |(host, address): &(&str, &str)| json!({ "addresses": [address], "hostname": host, "conditions": { "ready": false } });
        let endpoints: Vec<_> = endpoints.iter().map(endpoint).collect();
        serde_json::from_value(json!({ "addressType": kind, "endpoints": endpoints })).unwrap()
    }

    #[test]
    fn a_service_is_a_namespace_and_a_name() {
        let service: Service = "netloom-system/netloom-ovn".parse().unwrap();
        assert_eq!(service.to_string(), "netloom-system/netloom-ovn");
        for text in ["", "netloom-ovn", "/x", "x/", "a/b/c"] {
            assert!(text.parse::<Service>().is_err(), "{text}");
        }
    }

    #[test]
    fn members_of_all_slices_of_one_family_become_sorted_remotes() {
        let slices = [
            slice("IPv6", &[("ovn-0", "fd00::1"), ("ovn-1", "fd00::2")]),
            slice("IPv4", &[("ovn-1", "10.0.0.1")]),
            slice("IPv4", &[("ovn-0", "10.0.0.9"), ("ovn-2", "10.0.0.3")]),
        ];
        let members = Members::of(slices.iter());
        assert_eq!(members.get("ovn-0"), Some("10.0.0.9".parse().unwrap()));
        assert_eq!(
            members.remotes(Database::Northbound, true).unwrap().to_string(),
            "ssl:10.0.0.1:6641,ssl:10.0.0.3:6641,ssl:10.0.0.9:6641"
        );
        assert_eq!(
            members.member_remotes(Database::Southbound, true).unwrap().to_string(),
            "ssl:10.0.0.1:6645,ssl:10.0.0.3:6645,ssl:10.0.0.9:6645"
        );
        let members = Members::of(slices[..1].iter());
        assert_eq!(
            members.remotes(Database::Southbound, false).unwrap().to_string(),
            "tcp:[fd00::1]:6642,tcp:[fd00::2]:6642"
        );
    }

    #[test]
    fn nobody_has_no_remotes() {
        assert_eq!(Members::of([].iter()).remotes(Database::Southbound, true), None);
    }
}
