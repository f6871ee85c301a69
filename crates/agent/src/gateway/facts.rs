//! What the controller must know about the node's uplink to build its gateway router: the MAC, addresses and next hops
//! of br-ex. Read from the kernel whenever netlink says something changed.

use std::net::IpAddr;

use ipnet::IpNet;
use netloom_contract::Gateway;

use crate::net::NetError;
use crate::net::netlink::Netlink;
use crate::net::route::MAIN;

/// Reads the facts of `bridge`; none while it does not exist or has no address.
pub async fn read(netlink: &Netlink, bridge: &str) -> Result<Option<Gateway>, NetError> {
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
    Ok((!addresses.is_empty()).then_some(Gateway { mac, addresses, next_hops }))
}
