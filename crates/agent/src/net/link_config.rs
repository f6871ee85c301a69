//! What a link has that can be carried to another one: its global addresses and its routes, complete enough to be made
//! again elsewhere, and serialisable, so that they survive the link. The uplink and br-ex hand them to each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use nix::libc;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::{RouteMessageBuilder, packet_route};
use serde::{Deserialize, Serialize};

use super::NetError;
use super::netlink::{Netlink, absent};
use super::route::MAIN;

/// Everything of one link that moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    /// Its addresses.
    pub addresses: Vec<LinkAddress>,
    /// Its routes, those without a gateway first.
    pub routes: Vec<LinkRoute>,
}

/// An address a link holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkAddress {
    /// The address and its prefix length.
    pub net: IpNet,
    /// Its broadcast address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast: Option<Ipv4Addr>,
    /// Whether the kernel makes no route for its network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_prefix_route: bool,
    /// The metric of that route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// A route through a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkRoute {
    /// The router; none for what is on the link itself. First, because those have to be there before a router is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// Where it leads.
    pub to: IpNet,
    /// The source address for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Its metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
    /// The MTU of packets that take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Its table.
    pub table: u32,
    /// Who made it, by the kernel's numbers.
    pub protocol: u8,
    /// Its scope, by the kernel's numbers.
    pub scope: u8,
    /// Whether the router counts as on the link whatever the addresses say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub onlink: bool,
}

impl LinkConfig {
    /// Both together, each thing once.
    pub fn union(mut self, other: &Self) -> Self {
        self.addresses.extend(
            other
                .addresses
                .iter()
                .filter(|address| !holds(&self.addresses, address.net))
                .copied()
                .collect::<Vec<_>>(),
        );
        self.routes.extend(other.routes.iter().copied());
        self.addresses.sort_unstable();
        self.routes.sort_unstable();
        self.routes.dedup();
        self
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.routes.is_empty()
    }
}

/// Whether an address is among these, whatever its flags.
pub fn holds(addresses: &[LinkAddress], net: IpNet) -> bool {
    addresses.iter().any(|held| held.net == net)
}

impl Netlink {
    /// What a link has.
    pub async fn belongings(&self, index: u32) -> Result<LinkConfig, NetError> {
        let addresses = self.dump("list addresses", |handle| handle.address().get().execute()).await?;
        let addresses = addresses.iter().filter(|message| message.header.index == index).filter_map(held_of);
        let mut belongings = LinkConfig {
            addresses: addresses.collect(),
            routes: Vec::new(),
        };
        for family in [
            RouteMessageBuilder::<Ipv4Addr>::new().build(),
            RouteMessageBuilder::<Ipv6Addr>::new().build(),
        ] {
            let messages = self.dump("list routes", |handle| handle.route().get(family).execute()).await?;
            belongings
                .routes
                .extend(messages.iter().filter_map(|message| way_of(message, index)));
        }
        belongings.addresses.sort_unstable();
        belongings.routes.sort_unstable();
        Ok(belongings)
    }

    /// Gives a link an address as another one had it; having it already is fine.
    pub async fn hold(&self, index: u32, held: LinkAddress) -> Result<(), NetError> {
        let mut request = self.handle.address().add(index, held.net.addr(), held.net.prefix_len()).replace();
        let message = request.message_mut();
        message
            .attributes
            .retain(|attribute| !matches!(attribute, AddressAttribute::Broadcast(_)));
        message.attributes.extend(held.broadcast.map(AddressAttribute::Broadcast));
        if held.net.addr().is_ipv6() {
            message.header.flags |= AddressHeaderFlags::Nodad;
        }
        if held.no_prefix_route {
            message
                .attributes
                .push(AddressAttribute::Flags(AddressFlags::Noprefixroute | AddressFlags::Nodad));
        }
        message.attributes.extend(held.metric.map(AddressAttribute::RoutePriority));
        let operation = format!("add address {} to link {index}", held.net);
        request.execute().await.map_err(NetError::netlink(operation))
    }

    /// Leads a route through a link; having exactly that already is fine.
    pub async fn lead(&self, index: u32, way: LinkRoute) -> Result<(), NetError> {
        let operation = format!("set the route to {} on link {index}", way.to);
        let request = self.handle.route().add(message_of(way, index)).replace();
        match request.execute().await.map_err(NetError::netlink(operation)) {
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(()),
            done => done,
        }
    }

    /// Removes a route through a link; not having it is fine.
    pub async fn abandon(&self, index: u32, way: LinkRoute) -> Result<(), NetError> {
        let done = self.handle.route().del(message_of(way, index)).execute().await;
        let operation = format!("remove the route to {} on link {index}", way.to);
        absent(done.map(Some).map_err(NetError::netlink(operation))).map(drop)
    }
}

fn held_of(message: &AddressMessage) -> Option<LinkAddress> {
    if message.header.scope != AddressScope::Universe {
        return None;
    }
    let (mut local, mut address) = (None, None);
    let mut held = LinkAddress {
        net: IpNet::from(IpAddr::from([0, 0, 0, 0])),
        broadcast: None,
        no_prefix_route: false,
        metric: None,
    };
    for attribute in &message.attributes {
        match attribute {
            // IPv4 names the own address LOCAL (ADDRESS is the peer's on point-to-point links); IPv6 has only ADDRESS.
            AddressAttribute::Local(own) => local = Some(*own),
            AddressAttribute::Address(own) => address = Some(*own),
            AddressAttribute::Broadcast(address) => held.broadcast = Some(*address),
            AddressAttribute::Flags(flags) => held.no_prefix_route = flags.contains(AddressFlags::Noprefixroute),
            AddressAttribute::RoutePriority(metric) => held.metric = Some(*metric),
            _ => {}
        }
    }
    held.net = IpNet::new(local.or(address)?, message.header.prefix_len).ok()?;
    Some(held)
}

fn way_of(message: &RouteMessage, index: u32) -> Option<LinkRoute> {
    let header = &message.header;
    if header.kind != RouteType::Unicast || header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let ip = |address: &RouteAddress| match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    };
    let any = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let (mut link, mut to) = (None, any);
    let mut way = LinkRoute {
        via: None,
        to: IpNet::from(any),
        source: None,
        metric: None,
        mtu: None,
        table: u32::from(header.table),
        protocol: header.protocol.into(),
        scope: header.scope.into(),
        onlink: header.flags.contains(RouteFlags::Onlink),
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(oif) => link = Some(*oif),
            RouteAttribute::Destination(address) => to = ip(address)?,
            RouteAttribute::Gateway(address) => way.via = ip(address),
            RouteAttribute::PrefSource(address) => way.source = ip(address),
            RouteAttribute::Priority(metric) => way.metric = Some(*metric).filter(|metric| *metric != 0),
            RouteAttribute::Table(table) => way.table = *table,
            RouteAttribute::Metrics(metrics) => {
                way.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    way.to = IpNet::new(to, header.destination_prefix_length).ok()?;
    // What every link has by itself.
    let own = match to {
        IpAddr::V6(to) => to.is_unicast_link_local() || to.is_multicast(),
        IpAddr::V4(_) => false,
    };
    (link == Some(index) && !own && way.table != LOCAL).then_some(way)
}

/// The table of the node's own addresses, which the kernel keeps by itself.
const LOCAL: u32 = 255;

fn message_of(way: LinkRoute, index: u32) -> RouteMessage {
    let route = |address: IpAddr| match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    };
    let mut message = RouteMessage::default();
    let ipv4 = way.to.addr().is_ipv4();
    message.header.address_family = if ipv4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.destination_prefix_length = way.to.prefix_len();
    message.header.kind = RouteType::Unicast;
    message.header.protocol = RouteProtocol::from(way.protocol);
    message.header.scope = RouteScope::from(way.scope);
    message.header.table = u8::try_from(way.table).unwrap_or(packet_route::route::RouteHeader::RT_TABLE_UNSPEC);
    if way.onlink {
        message.header.flags |= RouteFlags::Onlink;
    }
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Oif(index));
    if way.table > MAIN + 1 {
        attributes.push(RouteAttribute::Table(way.table));
    }
    if way.to.prefix_len() > 0 {
        attributes.push(RouteAttribute::Destination(route(way.to.network())));
    }
    attributes.extend(way.via.map(|via| RouteAttribute::Gateway(route(via))));
    attributes.extend(way.source.map(|source| RouteAttribute::PrefSource(route(source))));
    attributes.extend(way.metric.map(RouteAttribute::Priority));
    attributes.extend(way.mtu.map(|mtu| RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)])));
    message
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn way(to: &str, via: Option<&str>) -> LinkRoute {
        LinkRoute {
            via: via.map(|via| via.parse().unwrap()),
            to: to.parse().unwrap(),
            source: None,
            metric: Some(100),
            mtu: None,
            table: MAIN,
            protocol: 4,
            scope: 0,
            onlink: false,
        }
    }

    #[test]
    fn a_route_is_read_back_as_it_was_written() {
        for way in [
            way("0.0.0.0/0", Some("192.0.2.1")),
            way("192.0.2.0/24", None),
            way("::/0", Some("fe80::1")),
            LinkRoute {
                table: 1000,
                mtu: Some(1400),
                onlink: true,
                ..way("2001:db8::/32", Some("2001:db8::1"))
            },
        ] {
            assert_eq!(way_of(&message_of(way, 7), 7), Some(way));
            assert_eq!(way_of(&message_of(way, 7), 8), None);
        }
    }

    #[test]
    fn links_keep_what_is_their_own() {
        assert_eq!(way_of(&message_of(way("fe80::/64", None), 7), 7), None);
    }

    #[test]
    fn networks_come_before_the_routes_that_need_them() {
        let routes = LinkConfig {
            addresses: Vec::new(),
            routes: vec![way("0.0.0.0/0", Some("192.0.2.1"))],
        };
        let more = LinkConfig {
            addresses: Vec::new(),
            routes: vec![way("192.0.2.0/24", None), way("0.0.0.0/0", Some("192.0.2.1"))],
        };
        let both = routes.union(&more);
        assert_eq!(both.routes, [way("192.0.2.0/24", None), way("0.0.0.0/0", Some("192.0.2.1"))]);
    }
}
