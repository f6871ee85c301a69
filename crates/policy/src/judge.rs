//! The verdict: resolves who talks to whom, evaluates both directions for every pair of addresses, and puts together what is judged alike.

use std::net::IpAddr;

use crate::ask::Question;
use crate::cluster::Cluster;
use crate::evaluate::{Packet, evaluate, isolating};
use crate::policy::{Direction, Peer};
use crate::problem::Problem;
use crate::resolve::{self, Destination, Unknown};
use crate::verdict::{End, Flow, Party, Verdict};

/// Judges a question by the policies of a cluster. The answer is about the first packet of a connection: replies always pass.
pub fn judge(cluster: &Cluster, question: &Question) -> Result<Verdict, Unknown> {
    let from = resolve::source(cluster, &question.from)?;
    let node = resolve::node_of(cluster, &from.party);
    let destinations = resolve::target(cluster, &question.to, question.protocol, question.port, node)?;
    let mut flows: Vec<Flow> = Vec::new();
    let mut notes = Vec::new();
    for to in &destinations {
        let ways = flows_to(cluster, question, &from, to);
        let denied = ways.iter().any(|flow| !flow.allowed);
        notes.extend(remarks(cluster, &from, to, denied));
        if to.service.is_some() && to.by_node_port {
            notes.push(format!(
                "{} {} is a node port: if the node itself translates it, the backend sees the node instead of {from}",
                question.protocol, question.port
            ));
        }
        ways.into_iter().for_each(|flow| add(&mut flows, flow));
    }
    if flows.is_empty() {
        let to = destinations.iter().map(|to| to.end.to_string()).collect::<Vec<_>>().join(", ");
        let from = from.to_string();
        return Err(Unknown::Families { from, to });
    }
    let mut problems: Vec<Problem> = destinations
        .iter()
        .flat_map(|to| [(&from.party, Direction::Egress), (&to.end.party, Direction::Ingress)])
        .flat_map(|(party, direction)| problems(cluster, party, direction))
        .collect();
    problems.sort();
    problems.dedup();
    notes.sort();
    notes.dedup();
    Ok(Verdict {
        allowed: flows.iter().all(|flow| flow.allowed),
        flows,
        problems,
        notes,
    })
}

/// A flow for each pair of addresses of one family; an end that has no address yet is judged by its names alone.
fn flows_to(cluster: &Cluster, question: &Question, from: &End, to: &Destination) -> Vec<Flow> {
    let or_none = |addresses: &[IpAddr]| match addresses {
        [] => vec![None],
        addresses => addresses.iter().copied().map(Some).collect(),
    };
    let mut flows = Vec::new();
    for source in or_none(&from.addresses) {
        for destination in or_none(&to.end.addresses) {
            if let (Some(source), Some(destination)) = (source, destination)
                && source.is_ipv4() != destination.is_ipv4()
            {
                continue;
            }
            let packet = Packet {
                from: &from.party,
                source,
                to: &to.end.party,
                destination,
                protocol: question.protocol,
                port: to.port,
            };
            let egress = evaluate(cluster, &packet, Direction::Egress);
            let ingress = evaluate(cluster, &packet, Direction::Ingress);
            let end = |party: &Party, address: Option<IpAddr>| End {
                party: party.clone(),
                addresses: address.into_iter().collect(),
            };
            flows.push(Flow {
                allowed: egress.allows() && ingress.allows(),
                from: end(packet.from, source),
                to: end(packet.to, destination),
                service: to.service.clone(),
                protocol: question.protocol,
                port: to.port,
                egress,
                ingress,
            });
        }
    }
    flows
}

/// Adds a flow, or its addresses to one that is judged alike.
fn add(flows: &mut Vec<Flow>, flow: Flow) {
    let alike = |other: &&mut Flow| {
        // Two addresses outside are two parties.
        other.from.party == flow.from.party
            && (other.to.party == flow.to.party && flow.to.party != Party::External)
            && (other.port, other.protocol, &other.service) == (flow.port, flow.protocol, &flow.service)
            && (&other.egress, &other.ingress) == (&flow.egress, &flow.ingress)
    };
    let Some(other) = flows.iter_mut().find(alike) else {
        flows.push(flow);
        return;
    };
    for (end, new) in [(&mut other.from, flow.from), (&mut other.to, flow.to)] {
        let new = new.addresses.into_iter().filter(|address| !end.addresses.contains(address));
        let new: Vec<IpAddr> = new.collect();
        end.addresses.extend(new);
    }
}

fn problems(cluster: &Cluster, party: &Party, direction: Direction) -> Vec<Problem> {
    let Party::Pod(name) = party else {
        return Vec::new();
    };
    isolating(cluster, name, direction)
        .flat_map(|(_, policy)| policy.problems.clone())
        .collect()
}

/// What the verdict could not take into account.
fn remarks(cluster: &Cluster, from: &End, to: &Destination, denied: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    for (subject, other, direction) in [(from, &to.end, Direction::Egress), (&to.end, from, Direction::Ingress)] {
        let Party::Pod(name) = &subject.party else { continue };
        let has_block = isolating(cluster, name, direction).any(|(_, policy)| {
            let rules = policy.rules(direction).unwrap_or_default().iter().filter(|rule| !rule.closed);
            rules.flat_map(|rule| &rule.peers).any(|peer| matches!(peer, Peer::Block(_)))
        });
        if denied && has_block && other.addresses.is_empty() {
            remarks.push(format!("{other} has no address, so no ipBlock was taken to match it"));
        }
        let is_bound = cluster.pods.get(name).is_some_and(|pod| pod.node.is_some());
        let isolated = isolating(cluster, name, direction).next().is_some();
        if denied && direction == Direction::Ingress && isolated && !is_bound && matches!(other.party, Party::Node { .. }) {
            remarks.push(format!("{subject} is on no node yet; the node it comes to will always reach it"));
        }
    }
    let translated = to.service.as_ref().filter(|name| {
        let service = cluster.services.get(name);
        from.party == Party::External && service.is_some_and(|service| !service.external_local)
    });
    if let Some(service) = translated {
        remarks.push(format!(
            "service {service} has externalTrafficPolicy Cluster: its backends see the address of a node's gateway, not {from}, by which this was judged"
        ));
    }
    remarks
}
