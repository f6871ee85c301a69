//! Parts of matches: addresses of both families, ports of several protocols.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::cluster::{Feature, View};
use crate::policy::{ProtocolPorts, Which};
use crate::service::{Family, Protocol};

/// Which address of a packet.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Source,
    Destination,
}

impl Side {
    fn as_str(self) -> &'static str {
        match self {
            Self::Source => "src",
            Self::Destination => "dst",
        }
    }
}

/// What a set has of its pods.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Ipv4,
    Ipv6,
    /// Ethernet addresses of those that are on a network: there they are neighbours, whose other addresses may be those of pods of other
    /// networks as well.
    Link,
}

impl Kind {
    /// Those that pods have: without networks, nobody needs the last one.
    pub(super) fn of_pods(view: &View<'_>) -> &'static [Self] {
        const ALL: &[Kind] = &[Kind::Ipv4, Kind::Ipv6, Kind::Link];
        if view.uses(Feature::Networks) { ALL } else { &ALL[..2] }
    }

    /// In keys.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "4",
            Self::Ipv6 => "6",
            Self::Link => "link",
        }
    }
}

impl From<Family> for Kind {
    fn from(family: Family) -> Self {
        match family {
            Family::Ipv4 => Self::Ipv4,
            Family::Ipv6 => Self::Ipv6,
        }
    }
}

/// Addresses and sets of addresses, by kind.
#[derive(Clone)]
pub(super) struct Addresses {
    side: Side,
    v4: BTreeSet<String>,
    v6: BTreeSet<String>,
    link: BTreeSet<String>,
    all_v4: bool,
    all_v6: bool,
}

impl Addresses {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            v4: BTreeSet::new(),
            v6: BTreeSet::new(),
            link: BTreeSet::new(),
            all_v4: false,
            all_v6: false,
        }
    }

    /// A set of each of these kinds, by its name.
    pub(super) fn add_sets(&mut self, kinds: &[Kind], name: impl Fn(Kind) -> String) {
        for kind in kinds {
            let sets = match kind {
                Kind::Ipv4 => &mut self.v4,
                Kind::Ipv6 => &mut self.v6,
                Kind::Link => &mut self.link,
            };
            sets.insert(format!("${}", name(*kind)));
        }
    }

    pub(super) fn add_range(&mut self, range: IpNet) {
        let (values, all) = match Family::of(range.addr()) {
            Family::Ipv4 => (&mut self.v4, &mut self.all_v4),
            Family::Ipv6 => (&mut self.v6, &mut self.all_v6),
        };
        let one = range.prefix_len() == range.max_prefix_len();
        values.insert(if one { range.addr().to_string() } else { range.to_string() });
        *all |= range.prefix_len() == 0;
    }

    /// None if there are none.
    pub(super) fn to_clause(&self) -> Option<String> {
        let family = |ip: &str, all: bool, values: &BTreeSet<String>| {
            let list: Vec<&str> = values.iter().map(String::as_str).collect();
            match list.as_slice() {
                [] => None,
                _ if all => Some(ip.to_owned()),
                [one] => Some(format!("{ip}.{} == {one}", self.side.as_str())),
                _ => Some(format!("{ip}.{} == {{{}}}", self.side.as_str(), list.join(", "))),
            }
        };
        let kinds = [
            family("ip4", self.all_v4, &self.v4),
            family("ip6", self.all_v6, &self.v6),
            family("eth", false, &self.link).map(|link| format!("(ip && {link})")),
        ];
        any_of(kinds.into_iter().flatten().collect())
    }
}

/// Ports with numbers.
pub(super) fn ports(ports: &[&ProtocolPorts]) -> String {
    let protocol = |protocol: Protocol| {
        let of_it = || ports.iter().filter(move |port| port.protocol == protocol);
        if of_it().any(|port| port.which == Which::All) {
            return vec![protocol.to_string()];
        }
        let ranges: BTreeSet<(u16, u16)> = of_it()
            .filter_map(|port| {
                if let Which::Range(first, last) = port.which {
                    Some((first, last))
                } else {
                    None
                }
            })
            .collect();
        let clause = |(first, last): (u16, u16)| {
            if first == last {
                format!("{protocol}.dst == {first}")
            } else {
                format!("({protocol}.dst >= {first} && {protocol}.dst <= {last})")
            }
        };
        ranges.into_iter().map(clause).collect()
    };
    let clauses = Protocol::ALL.into_iter().flat_map(protocol).collect();
    any_of(clauses).unwrap_or_default()
}

fn any_of(mut clauses: Vec<String>) -> Option<String> {
    match clauses.len() {
        0 => None,
        1 => clauses.pop(),
        _ => Some(format!("({})", clauses.join(" || "))),
    }
}
