//! Terms of matches. OVN keeps a match small only while each of its terms is about one field, so what is about addresses of both families or
//! ports of several protocols becomes several matches: one for each combination of terms that packets can have.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::cluster::{Feature, View};
use crate::policy::{ProtocolPorts, Which};
use crate::service::{Family, Protocol};
use crate::settings::Settings;

/// A term about one field.
#[derive(Clone)]
pub(super) struct Term {
    /// What tells it from the terms it is an alternative to, in keys; empty if there are none.
    name: &'static str,
    /// Of which family packets are, if it says so.
    family: Option<Family>,
    text: String,
}

impl Term {
    pub(super) fn new(name: &'static str, text: String) -> Self {
        Self { name, family: None, text }
    }

    pub(super) fn of_family(family: Family, name: &'static str, text: String) -> Self {
        let family = Some(family);
        Self { name, family, text }
    }
}

/// Every combination of one term of each list, as what it adds to a key and as a condition. No combination has two families.
pub(super) fn every(lists: &[Vec<Term>]) -> Vec<(String, String)> {
    let mut all: Vec<Vec<&Term>> = vec![Vec::new()];
    for list in lists {
        let mut longer = Vec::new();
        for terms in &all {
            let family = terms.iter().find_map(|term| term.family);
            let fits = |term: &&Term| family.is_none() || term.family.is_none() || term.family == family;
            longer.extend(list.iter().filter(fits).map(|term| [terms.as_slice(), &[term]].concat()));
        }
        all = longer;
    }
    let written = |terms: Vec<&Term>| {
        let mut names: Vec<&str> = terms.iter().map(|term| term.name).filter(|name| !name.is_empty()).collect();
        names.dedup();
        let texts: Vec<&str> = terms.iter().map(|term| term.text.as_str()).collect();
        (names.iter().map(|name| format!("/{name}")).collect(), texts.join(" && "))
    };
    all.into_iter().map(written).collect()
}

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
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Ipv4,
    Ipv6,
    /// Ethernet addresses of those that are on a network: there they are neighbours, whose other addresses may be those of pods of other
    /// networks as well.
    Link,
}

impl Kind {
    /// Those that pods have: addresses of the families of the cluster and, where there are networks, of the link.
    pub(super) fn of_pods(view: &View<'_>) -> Vec<Self> {
        let link = view.uses(Feature::Networks).then_some(Self::Link);
        Self::of_families(view).into_iter().chain(link).collect()
    }

    /// Those of the families of the cluster.
    pub(super) fn of_families(view: &View<'_>) -> Vec<Self> {
        let families = view.settings().map(Settings::families).unwrap_or_default();
        families.into_iter().map(Self::from).collect()
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

    /// A term of each kind there is any of.
    pub(super) fn terms(&self) -> Vec<Term> {
        let side = self.side.as_str();
        let equal = |field: &str, values: &BTreeSet<String>| {
            let list: Vec<&str> = values.iter().map(String::as_str).collect();
            match list.as_slice() {
                [one] => format!("{field}.{side} == {one}"),
                _ => format!("{field}.{side} == {{{}}}", list.join(", ")),
            }
        };
        let family = |family: Family, ip: &str, all: bool, values: &BTreeSet<String>| {
            let text = if all { ip.to_owned() } else { equal(ip, values) };
            (!values.is_empty()).then(|| Term::of_family(family, Kind::from(family).as_str(), text))
        };
        let kinds = [
            family(Family::Ipv4, "ip4", self.all_v4, &self.v4),
            family(Family::Ipv6, "ip6", self.all_v6, &self.v6),
            (!self.link.is_empty()).then(|| Term::new(Kind::Link.as_str(), format!("ip && {}", equal("eth", &self.link)))),
        ];
        kinds.into_iter().flatten().collect()
    }
}

/// Ports with numbers: a term for each protocol.
pub(super) fn ports(ports: &[&ProtocolPorts]) -> Vec<Term> {
    let text = |protocol: Protocol| {
        let of_it = || ports.iter().filter(move |port| port.protocol == protocol);
        if of_it().any(|port| port.which == Which::All) {
            return Some(protocol.to_string());
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
        let range = |(first, last): (u16, u16)| {
            if first == last {
                format!("{protocol}.dst == {first}")
            } else {
                format!("({protocol}.dst >= {first} && {protocol}.dst <= {last})")
            }
        };
        let mut ranges: Vec<String> = ranges.into_iter().map(range).collect();
        match ranges.len() {
            0 => None,
            1 => ranges.pop(),
            _ => Some(format!("({})", ranges.join(" || "))),
        }
    };
    let term = |protocol: Protocol| Some(Term::new(protocol.as_str(), text(protocol)?));
    Protocol::ALL.into_iter().filter_map(term).collect()
}
