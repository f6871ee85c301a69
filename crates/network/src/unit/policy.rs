//! A policy: what it allows, as ACLs on the port group of the pods it isolates. The denial they are exceptions from belongs to the node of
//! these pods ([`isolation`]), so that nothing about a policy's rules can open it.

pub(super) mod app;
mod clause;
pub(super) mod cluster;
pub(super) mod group;
pub(super) mod isolation;
pub(super) mod log;
pub(super) mod network;
pub(super) mod nodes;
pub(super) mod selection;
mod sets;

use std::collections::BTreeMap;

use crate::cluster::View;
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::log::Verdict;
use crate::policy::{Direction, Peer, PolicyName, ProtocolPorts, Rule, Selection, Which};
use crate::problem::Problem;
use crate::rows::{Acl, PortGroup};
use crate::service::Protocol;
use crate::unit::Fragment;
use crate::unit::policy::clause::{Addresses, Kind, Side, Term};
use crate::unit::policy::selection::{port_group, set_name};

/// OVN judges tier after tier, and the first that allows or drops a packet has decided.
#[derive(Clone, Copy)]
enum Tier {
    /// What nothing takes from a pod.
    Always = 0,
    /// Cluster-wide policies that nobody can override.
    Admin = 1,
    /// `NetworkPolicy`.
    Policy = 2,
    /// What is left: cluster-wide policies that network policies override, and after them everything.
    Rest = 3,
}

impl Tier {
    const BEFORE_REST: [Self; 3] = [Self::Always, Self::Admin, Self::Policy];
}

/// What is denied to everybody alike, below the same denial of one that is logged.
const DENY_ALL: i64 = 999;
/// What no policy allows to an isolated pod.
const DENY: i64 = 1000;
/// What a policy allows.
const ALLOW: i64 = 1001;
/// The same, of connections that are logged.
const ALLOW_AND_LOG: i64 = 1002;
/// Before everything else in its tier, and after.
const FIRST: i64 = 32767;
const LAST: i64 = 0;

impl Direction {
    /// As OVN calls it.
    fn acl(self) -> &'static str {
        match self {
            Self::Ingress => "to-lport",
            Self::Egress => "from-lport",
        }
    }

    /// Packets of a port group's pods.
    fn of_group(self, name: &str) -> String {
        match self {
            Self::Ingress => format!("outport == @{name}"),
            Self::Egress => format!("inport == @{name}"),
        }
    }

    /// Whose packets are judged after services were translated, so that the backend counts.
    fn options(self) -> BTreeMap<String, String> {
        match self {
            Self::Ingress => BTreeMap::new(),
            Self::Egress => [("apply-after-lb".to_owned(), "true".to_owned())].into(),
        }
    }

    /// The other end's address.
    fn peer_side(self) -> Side {
        match self {
            Self::Ingress => Side::Source,
            Self::Egress => Side::Destination,
        }
    }
}

/// An ACL on a port group. Whatever is allowed is allowed with its replies.
fn acl(tier: Tier, direction: Direction, priority: i64, action: &str, condition: String) -> Acl {
    Acl {
        tier: tier as i64,
        action: action.to_owned(),
        direction: direction.acl().to_owned(),
        priority,
        match_: condition,
        options: direction.options(),
        ..Default::default()
    }
}

pub(super) fn compile(view: &View<'_>, name: &PolicyName, fragment: &mut Fragment) {
    let Some(policy) = view.policy(name) else { return };
    let complaints = policy.complaints.iter();
    fragment
        .problems
        .extend(complaints.map(|why| Problem::new(view.policy_ref(name), "InvalidPolicy", why.as_str())));
    for (direction, rules) in &policy.rules {
        for rule in rules {
            let matches = Matches {
                view,
                subject: &policy.subject,
                group: port_group(&policy.subject),
                rule,
                direction: *direction,
            };
            for (part, condition) in matches.conditions() {
                let key = Key::new(format!("policy/{name}/{}/{}{part}", direction.as_str(), rule.number));
                let group = port_group(&policy.subject);
                let row = |key: &Key, priority, condition| Acl {
                    external_ids: ids(key, &view.policy_ref(name)),
                    ..acl(Tier::Policy, *direction, priority, "allow-related", condition)
                };
                if let Some(log) = view.log(&name.namespace, Verdict::Allowed) {
                    let key = Key::new(format!("{key}/log"));
                    let what = format!("{name} {}[{}]", direction.as_str(), rule.number);
                    let row = log.on(row(&key, ALLOW_AND_LOG, log::first_of_connections(&condition)), &what);
                    put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
                }
                put(fragment, &key, row(&key, ALLOW, condition)).add_to::<PortGroup>(fragment, &group, "acls");
            }
        }
    }
}

/// Which packets one rule is about.
struct Matches<'a> {
    view: &'a View<'a>,
    subject: &'a Selection,
    /// The port group of the subject.
    group: Key,
    rule: &'a Rule,
    direction: Direction,
}

impl Matches<'_> {
    /// Matches by the part of the rule they stand for: those for all ports with numbers, and those for each number a named port has.
    fn conditions(&self) -> Vec<(String, String)> {
        let mut conditions = Vec::new();
        let numbered: Option<Vec<&ProtocolPorts>> = self.rule.ports.as_ref().map(|ports| {
            let numbered = |port: &&ProtocolPorts| !matches!(port.which, Which::Named(_));
            ports.iter().filter(numbered).collect()
        });
        let ports = numbered.map(|ports| clause::ports(&ports));
        conditions.extend(self.condition("", self.peers(), ports));
        for (name, protocol) in self.rule.named() {
            for (number, of, peers) in self.numbers(name, protocol) {
                let part = format!("/{name}/{protocol}/{number}{of}");
                let text = format!("{protocol}.dst == {number}");
                conditions.extend(self.condition(&part, peers, Some(vec![Term::new(protocol.as_str(), text)])));
            }
        }
        conditions.sort();
        conditions.dedup();
        conditions
    }

    /// None if it is about nobody.
    fn condition(&self, part: &str, addresses: Vec<Option<Addresses>>, ports: Option<Vec<Term>>) -> Vec<(String, String)> {
        let group = self.direction.of_group(&set_name::<PortGroup>(&self.group));
        let addresses = addresses.into_iter().flatten().map(|addresses| addresses.terms());
        let lists: Vec<Vec<Term>> = addresses.chain(ports).collect();
        if lists.is_empty() {
            return vec![(part.to_owned(), format!("{group} && ip"))];
        }
        let whole = |(suffix, condition)| (format!("{part}{suffix}"), format!("{group} && {condition}"));
        clause::every(&lists).into_iter().map(whole).collect()
    }

    /// The other end, whatever its port.
    fn peers(&self) -> Vec<Option<Addresses>> {
        let addresses = self.rule.peers.as_ref().map(|peers| {
            let mut addresses = Addresses::new(self.direction.peer_side());
            for peer in peers {
                match peer {
                    Peer::Pods(selection) => addresses.add_sets(&Kind::of_pods(self.view), |kind| selection::peers(selection, kind)),
                    Peer::Addresses(ranges) => ranges.iter().for_each(|range| addresses.add_range(*range)),
                    Peer::Nodes(labels) => addresses.add_sets(&nodes::KINDS, |kind| nodes::set(labels, kind)),
                }
            }
            addresses
        });
        vec![addresses]
    }

    /// Each number a named port has, and whose number it is. Pods among addresses are apart: they must be both.
    fn numbers(&self, name: &str, protocol: Protocol) -> Vec<(u16, &'static str, Vec<Option<Addresses>>)> {
        let of = |pods: &Selection| self.view.numbers(pods, name, protocol);
        let with_number = |addresses: &mut Addresses, pods: &Selection, number| {
            let set = |kind| selection::named_port(pods, name, protocol, number, kind);
            addresses.add_sets(&Kind::of_pods(self.view), set);
        };
        let destinations = |pods: &Selection, number| {
            let mut addresses = Addresses::new(Side::Destination);
            with_number(&mut addresses, pods, number);
            Some(addresses)
        };
        let everyone = Selection::everyone();
        match (self.direction, &self.rule.peers) {
            (Direction::Ingress, _) => {
                let subject = self.subject;
                let entry = |number| (number, "", [self.peers(), vec![destinations(subject, number)]].concat());
                of(subject).into_iter().map(entry).collect()
            }
            (Direction::Egress, None) => {
                let entry = |number| (number, "", vec![destinations(&everyone, number)]);
                of(&everyone).into_iter().map(entry).collect()
            }
            (Direction::Egress, Some(peers)) => {
                let mut numbers: BTreeMap<u16, Addresses> = BTreeMap::new();
                let mut ranges = Addresses::new(Side::Destination);
                for peer in peers {
                    match peer {
                        Peer::Addresses(nets) => nets.iter().for_each(|net| ranges.add_range(*net)),
                        Peer::Nodes(_) => {} // no container's port is theirs
                        Peer::Pods(selection) => {
                            for number in of(selection) {
                                let addresses = numbers.entry(number).or_insert_with(|| Addresses::new(Side::Destination));
                                with_number(addresses, selection, number);
                            }
                        }
                    }
                }
                let pods = numbers.into_iter().map(|(number, addresses)| (number, "", vec![Some(addresses)]));
                let among = of(&everyone).into_iter();
                let among = among.map(|number| (number, "/addresses", vec![Some(ranges.clone()), destinations(&everyone, number)]));
                pods.chain(among).collect()
            }
        }
    }
}
