//! Routes and the rules that choose between route tables. Services need a table of their own, for packets that carry a
//! mark; everybody else uses the main one. Everything that changes state is safe to repeat.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use nix::libc;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{IpVersion, RouteMessageBuilder};

use super::NetError;
use super::netlink::{Netlink, absent};
use crate::assignment::default_of;

/// The main route table.
pub const MAIN: u32 = RouteHeader::RT_TABLE_MAIN as u32;

/// A unicast route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the outgoing link.
    pub index: u32,
    /// Where it leads.
    pub destination: IpNet,
    /// The next hop; none for a connected network.
    pub gateway: Option<IpAddr>,
}

/// Where a route leads through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Index of the outgoing link.
    pub index: u32,
    /// The router.
    pub gateway: IpAddr,
    /// Whether the router is on that link although no address of the link says so.
    pub onlink: bool,
    /// The source address of packets that have none yet; the kernel chooses without it.
    pub source: Option<IpAddr>,
}

/// Sends packets with a mark to a route table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkRule {
    /// The bit that must be set.
    pub mark: u32,
    /// The table.
    pub table: u32,
    /// Its place among the rules.
    pub priority: u32,
}

impl Netlink {
    /// The unicast routes of one table, both families.
    pub async fn routes(&self, table: u32) -> Result<Vec<Route>, NetError> {
        let mut routes = Vec::new();
        for family in [
            RouteMessageBuilder::<Ipv4Addr>::new().build(),
            RouteMessageBuilder::<Ipv6Addr>::new().build(),
        ] {
            let messages = self.dump("list routes", |handle| handle.route().get(family).execute()).await?;
            routes.extend(messages.iter().filter_map(|message| route_of(message, table)));
        }
        Ok(routes)
    }

    /// Sets the route to `destination`, replacing another one to the same destination in the table.
    pub async fn replace_route(&self, table: u32, destination: IpNet, next: NextHop) -> Result<(), NetError> {
        let operation = format!("set the route to {destination} via {}", next.gateway);
        let message = route_message(table, destination, next, &operation)?;
        self.handle
            .route()
            .add(message)
            .replace()
            .execute()
            .await
            .map_err(NetError::netlink(operation))
    }

    /// Removes the route to `destination`; not having it is fine.
    pub async fn delete_route(&self, table: u32, destination: IpNet, next: NextHop) -> Result<(), NetError> {
        let operation = format!("remove the route to {destination} via {}", next.gateway);
        let message = route_message(table, destination, next, &operation)?;
        let done = self.handle.route().del(message).execute().await;
        absent(done.map(Some).map_err(NetError::netlink(operation))).map(drop)
    }

    /// Whether a family has this rule.
    pub async fn has_rule(&self, ipv4: bool, rule: MarkRule) -> Result<bool, NetError> {
        let version = if ipv4 { IpVersion::V4 } else { IpVersion::V6 };
        let rules = self
            .dump("list routing rules", move |handle| handle.rule().get(version).execute())
            .await?;
        Ok(rules.iter().any(|message| is(message, rule)))
    }

    /// Adds a rule; having it already is fine.
    pub async fn add_rule(&self, ipv4: bool, rule: MarkRule) -> Result<(), NetError> {
        let mut request = self.handle.rule().add().v4();
        *request.message_mut() = rule_message(ipv4, rule);
        match request.execute().await.map_err(NetError::netlink(operation("add", rule))) {
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(()),
            done => done,
        }
    }

    /// Removes a rule; not having it is fine.
    pub async fn delete_rule(&self, ipv4: bool, rule: MarkRule) -> Result<(), NetError> {
        let done = self.handle.rule().del(rule_message(ipv4, rule)).execute().await;
        match done.map_err(NetError::netlink(operation("remove", rule))) {
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(()),
            done => done,
        }
    }
}

fn operation(verb: &str, rule: MarkRule) -> String {
    format!("{verb} the routing rule for mark {:#x}", rule.mark)
}

fn route_message(table: u32, destination: IpNet, next: NextHop, operation: &str) -> Result<RouteMessage, NetError> {
    let mut builder = RouteMessageBuilder::<IpAddr>::new().output_interface(next.index).table_id(table);
    if next.onlink {
        builder = builder.onlink();
    }
    if let Some(source) = next.source {
        builder = builder
            .pref_source(source)
            .map_err(|error| NetError::io(operation)(std::io::Error::other(error.to_string())))?;
    }
    builder
        .destination_prefix(destination.network(), destination.prefix_len())
        .and_then(|builder| builder.gateway(next.gateway))
        .map(RouteMessageBuilder::build)
        .map_err(|error| NetError::io(operation)(std::io::Error::other(error.to_string())))
}

fn route_of(message: &RouteMessage, wanted: u32) -> Option<Route> {
    if message.header.kind != RouteType::Unicast {
        return None;
    }
    let mut table = u32::from(message.header.table);
    let (mut index, mut destination, mut gateway) = (0, None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(oif) => index = *oif,
            RouteAttribute::Destination(address) => destination = ip_of(address),
            RouteAttribute::Gateway(address) => gateway = ip_of(address),
            RouteAttribute::Table(number) => table = *number,
            _ => {}
        }
    }
    if table != wanted {
        return None;
    }
    let destination = match destination {
        Some(address) => IpNet::new(address, message.header.destination_prefix_length).ok()?,
        None => default_of(gateway?),
    };
    Some(Route {
        index,
        destination,
        gateway,
    })
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

fn rule_message(ipv4: bool, rule: MarkRule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if ipv4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Priority(rule.priority),
        RuleAttribute::FwMark(rule.mark),
        RuleAttribute::FwMask(rule.mark),
        RuleAttribute::Table(rule.table),
    ];
    message
}

fn is(message: &RuleMessage, rule: MarkRule) -> bool {
    let has = |attribute: RuleAttribute| message.attributes.contains(&attribute);
    has(RuleAttribute::Priority(rule.priority)) && has(RuleAttribute::FwMark(rule.mark)) && has(RuleAttribute::Table(rule.table))
}
