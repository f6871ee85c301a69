//! One direction of one packet against the policies of one pod: the definition of NetworkPolicy and nothing else. Called by
//! [`crate::judge`].

use std::net::IpAddr;

use crate::cluster::{Cluster, Name, Pod, Protocol};
use crate::policy::{Direction, Peer, Policy, PortMatch, Rule};
use crate::verdict::{Decision, Miss, Party, RuleName, Why};

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

/// Policies that isolate a pod in a direction: those of its namespace that select it and have this type.
pub fn isolating<'a>(cluster: &'a Cluster, name: &Name, direction: Direction) -> impl Iterator<Item = (&'a Name, &'a Policy)> {
    let pod = cluster.pods.get(name).filter(|pod| !pod.host_network);
    let of_namespace = cluster
        .policies
        .iter()
        .filter(move |(policy, _)| policy.namespace == name.namespace);
    of_namespace.filter(move |(_, policy)| policy.rules(direction).is_some() && pod.is_some_and(|pod| policy.selector.matches(&pod.labels)))
}

/// What the policies of the packet's sender (egress) or receiver (ingress) say.
pub fn evaluate(cluster: &Cluster, packet: &Packet<'_>, direction: Direction) -> Decision {
    let (subject, other, address) = match direction {
        Direction::Egress => (packet.from, packet.to, packet.destination),
        Direction::Ingress => (packet.to, packet.from, packet.source),
    };
    let Party::Pod(subject) = subject else {
        return Decision::NotAPod;
    };
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
    if policies.is_empty() {
        Decision::NotIsolated
    } else if packet.from == packet.to {
        Decision::Itself
    } else if direction == Direction::Ingress && is_own_node(cluster, subject, other) {
        Decision::OwnNode
    } else if rules.is_empty() {
        Decision::NoRule { policies, misses }
    } else {
        Decision::Rules { rules }
    }
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
    let receiver = match packet.to {
        Party::Pod(name) => cluster.pods.get(name),
        Party::Node { .. } | Party::External => None,
    };
    rule.ports.is_empty()
        || rule.ports.iter().any(|ports| {
            ports.protocol == packet.protocol
                && match &ports.ports {
                    PortMatch::All => true,
                    PortMatch::Range(first, last) => (*first..=*last).contains(&packet.port),
                    PortMatch::Named(name) => receiver.is_some_and(|pod| calls(pod, name, packet)),
                }
        })
}

fn calls(pod: &Pod, name: &str, packet: &Packet<'_>) -> bool {
    pod.ports
        .iter()
        .any(|port| port.name == name && port.protocol == packet.protocol && port.port == packet.port)
}
