//! What the controller must know about the node's uplink to build its gateway router: the MAC, addresses and next hops
//! of br-ex. Read from the kernel whenever netlink says something changed.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;

use crate::net::NetError;
use crate::net::netlink::Netlink;
use crate::net::route::MAIN;

/// The node's uplink, as the annotation `netloom.io/gateway` says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The MAC address shared by node and gateway router.
    pub mac: String,
    /// The shared addresses with their prefix lengths.
    pub addresses: Vec<IpNet>,
    /// The default next hops.
    pub next_hops: Vec<IpAddr>,
}

impl Facts {
    /// Reads the facts of `bridge`; none while it does not exist or has no address.
    pub async fn read(netlink: &Netlink, bridge: &str) -> Result<Option<Self>, NetError> {
        let Some(link) = netlink.link(bridge).await? else { return Ok(None) };
        let Some(mac) = link.mac else { return Ok(None) };
        let (addresses, routes) = tokio::try_join!(netlink.addresses(), netlink.routes(MAIN))?;
        // Sorted, so that the same facts are always the same text.
        let mut addresses: Vec<IpNet> = addresses
            .into_iter()
            .filter(|address| address.index == link.index && address.global)
            .map(|address| address.net)
            .collect();
        addresses.sort_unstable();
        let defaults = routes
            .iter()
            .filter(|route| route.index == link.index && route.destination.prefix_len() == 0);
        let mut next_hops: Vec<IpAddr> = defaults.filter_map(|route| route.gateway).collect();
        next_hops.sort_unstable();
        next_hops.dedup();
        Ok((!addresses.is_empty()).then(|| Self {
            mac: mac.to_string(),
            addresses,
            next_hops,
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_annotation_has_the_agreed_form() {
        let facts = Facts {
            mac: "0a:00:00:00:00:01".to_owned(),
            addresses: vec!["172.30.0.2/24".parse().unwrap(), "fd30::2/64".parse().unwrap()],
            next_hops: vec!["172.30.0.1".parse().unwrap()],
        };
        assert_eq!(
            serde_json::to_string(&facts).unwrap(),
            r#"{"mac":"0a:00:00:00:00:01","addresses":["172.30.0.2/24","fd30::2/64"],"nextHops":["172.30.0.1"]}"#
        );
    }
}
