//! One direction of one packet against all that is said about one pod, tier by tier. Called by [`crate::judge`].
//!
//! ```text
//! SecurityGroups ──► Admin ──► NetworkPolicy, app networks ──► Baseline ──► open
//!   deny or go on    accept, deny, pass    decide, if any isolates    accept, deny
//! ```

use std::net::IpAddr;

use crate::app::Apps;
use crate::cluster::{Cluster, Name, Pod, Protocol};
use crate::cluster_policy::{self, Action, Tier};
use crate::group::GroupRule;
use crate::policy::{Direction, Peer, Policy, PortMatch, Rule};
use crate::verdict::{Decision, GroupRuleName, Miss, Party, RuleName, Side, Step, Why};

/// A packet at the moment it is judged.
pub struct Packet<'a> {
    /// Who sends.
    pub from: &'a Party,
    /// Its source address; `None` while the pod has none.
    pub source: Option<IpAddr>,
    /// Who receives, after a service has chosen.
    pub to: &'a Party,
    /// Its destination address, likewise.
    pub destination: Option<IpAddr>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its destination port.
    pub port: u16,
}

impl<'a> Packet<'a> {
    /// The other side, as the subject of a direction sees it, and its address.
    pub fn other(&self, direction: Direction) -> (&'a Party, Option<IpAddr>) {
        match direction {
            Direction::Egress => (self.to, self.destination),
            Direction::Ingress => (self.from, self.source),
        }
    }

    /// The pod that receives it, if it has a network of its own.
    pub fn receiver<'b>(&self, cluster: &'b Cluster) -> Option<&'b Pod> {
        match self.to {
            Party::Pod(name) => cluster.pods.get(name),
            Party::Node { .. } | Party::External => None,
        }
    }
}

/// NetworkPolicies that isolate a pod in a direction: those of its namespace that select it and have this type.
pub fn isolating<'a>(cluster: &'a Cluster, name: &Name, direction: Direction) -> impl Iterator<Item = (&'a Name, &'a Policy)> {
    let pod = cluster.pods.get(name).filter(|pod| !pod.host_network);
    let of_namespace = cluster
        .policies
        .iter()
        .filter(move |(policy, _)| policy.namespace == name.namespace);
    of_namespace.filter(move |(_, policy)| policy.rules(direction).is_some() && pod.is_some_and(|pod| policy.selector.matches(&pod.labels)))
}

/// Whether anything may close a pod in a direction.
pub fn is_concerned(cluster: &Cluster, name: &Name, direction: Direction) -> bool {
    let pod = cluster.pods.get(name).filter(|pod| !pod.host_network);
    pod.is_some_and(|pod| !pod.groups.is_empty())
        || cluster_policy::about(cluster, name, direction).next().is_some()
        || isolating(cluster, name, direction).next().is_some()
        || (direction == Direction::Ingress && Apps::of(cluster, name).isolate())
}

/// What is said about the packet's sender (egress) or receiver (ingress), tier by tier.
pub fn evaluate(cluster: &Cluster, packet: &Packet<'_>, direction: Direction) -> Side {
    let (other, _) = packet.other(direction);
    let subject = match direction {
        Direction::Egress => packet.from,
        Direction::Ingress => packet.to,
    };
    let Party::Pod(subject) = subject else {
        return Decision::NotAPod.into();
    };
    if !is_concerned(cluster, subject, direction) {
        return Decision::NotIsolated.into();
    }
    if packet.from == packet.to {
        return Decision::Itself.into();
    }
    if direction == Direction::Ingress && is_own_node(cluster, subject, other) {
        return Decision::OwnNode.into();
    }
    let mut side = Side::from(Decision::NotIsolated);
    side.decision = tiers(cluster, packet, subject, direction, &mut side).unwrap_or(Decision::NotIsolated);
    side
}

/// The first tier that decides; those before it leave their steps.
fn tiers(cluster: &Cluster, packet: &Packet<'_>, subject: &Name, direction: Direction, side: &mut Side) -> Option<Decision> {
    security_groups(cluster, packet, subject, direction, side)
        .or_else(|| cluster_tier(cluster, packet, subject, direction, Tier::Admin, side))
        .or_else(|| policies(cluster, packet, subject, direction))
        .or_else(|| cluster_tier(cluster, packet, subject, direction, Tier::Baseline, side))
}

fn security_groups(cluster: &Cluster, packet: &Packet<'_>, subject: &Name, direction: Direction, side: &mut Side) -> Option<Decision> {
    let named = &cluster.pods.get(subject)?.groups;
    let groups: Vec<Name> = named.iter().map(|group| Name::new(&subject.namespace, group)).collect();
    if groups.is_empty() {
        return None;
    }
    let (other, address) = packet.other(direction);
    let mut rules = Vec::new();
    for group in &groups {
        let found = cluster.groups.get(group).map_or(&[][..], |found| &found.rules);
        for (index, rule) in found.iter().enumerate() {
            let matches =
                |rule: &GroupRule| rule.direction == direction && rule.allows(cluster, other, address, packet.protocol, packet.port);
            if rule.as_ref().is_some_and(matches) {
                let group = group.clone();
                rules.push(GroupRuleName { group, index });
            }
        }
    }
    if rules.is_empty() {
        return Some(Decision::NoGroupRule { groups });
    }
    side.passed.push(Step::SecurityGroups { rules });
    None
}

fn cluster_tier(
    cluster: &Cluster,
    packet: &Packet<'_>,
    subject: &Name,
    direction: Direction,
    tier: Tier,
    side: &mut Side,
) -> Option<Decision> {
    let (rule, rivals) = cluster_policy::decide(cluster, packet, subject, direction, tier)?;
    side.rivals.extend(rivals);
    match rule.action {
        Action::Accept => Some(Decision::Accepted { rule }),
        Action::Deny => Some(Decision::Denied { rule }),
        Action::Pass => {
            side.passed.push(Step::Pass { rule });
            None
        }
    }
}

/// NetworkPolicies and app networks: any of them isolates, any of them opens.
fn policies(cluster: &Cluster, packet: &Packet<'_>, subject: &Name, direction: Direction) -> Option<Decision> {
    let (other, address) = packet.other(direction);
    let (mut policies, mut rules, mut misses) = (Vec::new(), Vec::new(), Vec::new());
    for (name, policy) in isolating(cluster, subject, direction) {
        policies.push(name.clone());
        for (index, rule) in policy.rules(direction).unwrap_or_default().iter().enumerate() {
            let named = RuleName {
                policy: name.clone(),
                direction,
                index,
            };
            let has_peer = rule.peers.is_empty()
                || rule
                    .peers
                    .iter()
                    .any(|peer| is_peer(cluster, &name.namespace, peer, other, address));
            let why = match (rule.closed, has_peer, has_port(cluster, rule, packet)) {
                (true, _, _) => Why::Closed,
                (false, true, true) => {
                    rules.push(named);
                    continue;
                }
                (false, false, true) => Why::Peer,
                (false, true, false) => Why::Port,
                (false, false, false) => Why::PeerAndPort,
            };
            misses.push(Miss { rule: named, why });
        }
    }
    let own = match direction {
        Direction::Ingress => Apps::of(cluster, subject),
        // App networks say who may send to their pods, not where these may send to.
        Direction::Egress => Apps::default(),
    };
    if policies.is_empty() && !own.isolate() {
        return None;
    }
    let shared: Vec<String> = match other {
        Party::Pod(fellow) if fellow.namespace == subject.namespace => {
            let fellow = Apps::of(cluster, fellow);
            own.names.intersection(&fellow.names).cloned().collect()
        }
        _ => Vec::new(),
    };
    Some(if rules.is_empty() && shared.is_empty() {
        Decision::NoRule {
            policies,
            misses,
            apps: own.names.into_iter().collect(),
            conflicting_apps: own.conflict,
        }
    } else {
        Decision::Rules { rules, apps: shared }
    })
}

fn is_own_node(cluster: &Cluster, pod: &Name, other: &Party) -> bool {
    let own = cluster.pods.get(pod).and_then(|pod| pod.node.as_ref());
    matches!((other, own), (Party::Node { name, .. }, Some(own)) if name == own)
}

/// Whether the other side is meant by a peer. Selectors are about pods with a network of their own; ranges are about addresses, whoever
/// has them.
fn is_peer(cluster: &Cluster, namespace: &str, peer: &Peer, other: &Party, address: Option<IpAddr>) -> bool {
    match (peer, other) {
        (Peer::Block(block), _) => address.is_some_and(|address| block.contains(address)),
        (Peer::Pods { namespaces, pods }, Party::Pod(name)) => {
            let in_namespace = match namespaces {
                None => name.namespace == namespace,
                Some(selector) => selector.matches(&cluster.namespace_labels(&name.namespace)),
            };
            in_namespace && cluster.pods.get(name).is_some_and(|pod| pods.matches(&pod.labels))
        }
        (Peer::Pods { .. }, Party::Node { .. } | Party::External) => false,
    }
}

/// Whether the packet's port is one of the rule's. A name is what the receiving pod calls the port, in both directions.
fn has_port(cluster: &Cluster, rule: &Rule, packet: &Packet<'_>) -> bool {
    let receiver = packet.receiver(cluster);
    rule.ports.is_empty()
        || rule.ports.iter().any(|ports| {
            ports.protocol == packet.protocol
                && match &ports.ports {
                    PortMatch::All => true,
                    PortMatch::Range(first, last) => (*first..=*last).contains(&packet.port),
                    PortMatch::Named(name) => receiver.is_some_and(|pod| pod.calls(name, packet.protocol, packet.port)),
                }
        })
}
