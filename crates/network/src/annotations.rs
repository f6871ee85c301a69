//! Annotations users and agents write, parsed. Every parser is total: any text gives a value or a sentence that says what was
//! expected, which the caller wraps into a problem of the annotated object.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::ipam::Mac;

/// Prefix of every annotation, label and external id of ours.
pub const PREFIX: &str = "netloom.io/";
/// Addresses a pod asks for, comma separated: `10.244.1.7,fd00:10:244:1::7`.
pub const ADDRESSES: &str = "netloom.io/addresses";
/// MAC address a pod asks for.
pub const MAC: &str = "netloom.io/mac";
/// What a node's agent reports of its gateway, see [`Gateway`].
pub const GATEWAY: &str = "netloom.io/gateway";
/// What people read on a node: its subnets. Written, and read back only when the Northbound database was lost.
pub const SUBNETS: &str = "netloom.io/subnets";

/// Annotations we understand on a pod; others under our prefix are a spelling mistake worth telling.
pub const ON_PODS: &[&str] = &[ADDRESSES, MAC];

/// What the controller must know of a node's uplink, reported by its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// MAC address of the uplink bridge, shared by host and gateway router.
    pub mac: Mac,
    /// The node's addresses with their prefix.
    pub addresses: Vec<IpNet>,
    /// Default next hops, at most one of each family.
    #[serde(default)]
    pub next_hops: Vec<IpAddr>,
}

/// What a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// MAC address.
    pub mac: Option<Mac>,
}

/// Parses the [`GATEWAY`] annotation.
pub fn gateway(text: &str) -> Result<Gateway, String> {
    let gateway: Gateway = serde_json::from_str(text)
        .map_err(|e| format!("{GATEWAY} is not what an agent writes ({e}); delete the annotation, the agent writes it again"))?;
    if gateway.addresses.is_empty() {
        return Err(format!("{GATEWAY} names no address; give the node's uplink an address"));
    }
    Ok(gateway)
}

/// Parses what a pod asks for out of its annotations.
pub fn request(annotations: &BTreeMap<String, String>) -> Result<Request, String> {
    let mut request = Request::default();
    for (name, value) in annotations {
        match name.as_str() {
            ADDRESSES => request.addresses = addresses(value)?,
            MAC => request.mac = Some(value.trim().parse().map_err(|e| format!("{MAC}: {e}"))?),
            other if other.starts_with(PREFIX) => {
                return Err(format!("annotation {other} is unknown on a pod; known are {}", ON_PODS.join(", ")));
            }
            _ => {}
        }
    }
    Ok(request)
}

fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let mut list: Vec<IpAddr> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let address: IpAddr = part
            .parse()
            .map_err(|_| format!("{ADDRESSES}: \"{part}\" is not an IP address; write for example 10.244.1.7"))?;
        if list.iter().any(|a| a.is_ipv4() == address.is_ipv4()) {
            return Err(format!("{ADDRESSES}: more than one address of a family; a port has one of each"));
        }
        list.push(address);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_pod_may_ask_for_one_address_of_each_family() {
        let asked = request(&annotated(ADDRESSES, "10.244.1.7, fd00::7")).unwrap();
        assert_eq!(
            asked.addresses,
            ["10.244.1.7".parse::<IpAddr>().unwrap(), "fd00::7".parse().unwrap()]
        );
        assert!(
            request(&annotated(ADDRESSES, "10.244.1.7,10.244.1.8"))
                .unwrap_err()
                .contains("more than one")
        );
        assert!(
            request(&annotated(ADDRESSES, "ten"))
                .unwrap_err()
                .contains("\"ten\" is not an IP address")
        );
    }

    #[test]
    fn unknown_names_under_our_prefix_are_told() {
        assert!(
            request(&annotated("netloom.io/adresses", "10.0.0.1"))
                .unwrap_err()
                .contains("known are netloom.io/addresses")
        );
        assert_eq!(request(&annotated("example.com/x", "y")), Ok(Request::default()));
    }

    #[test]
    fn a_gateway_report_needs_an_address() {
        assert!(gateway("{}").unwrap_err().contains("delete the annotation"));
        assert!(
            gateway(r#"{"mac":"02:00:00:00:00:01","addresses":[]}"#)
                .unwrap_err()
                .contains("no address")
        );
        let report = gateway(r#"{"mac":"02:00:00:00:00:01","addresses":["172.30.0.11/24"],"nextHops":["172.30.0.254"]}"#).unwrap();
        assert_eq!(report.next_hops.len(), 1);
    }
}
