//! The verdict: resolves who talks to whom, evaluates both directions for every pair of addresses, and puts together what is judged alike.

use std::net::IpAddr;

use crate::ask::Question;
use crate::cluster::{Cluster, Name};
use crate::cluster_policy::{self, ClusterPeer, Scope};
use crate::evaluate::{Packet, evaluate, is_concerned, isolating};
use crate::group::{self, Remote};
use crate::policy::{Direction, Peer};
use crate::problem::Problem;
use crate::resolve::{self, Destination, Unknown};
use crate::verdict::{End, Flow, Party, Side, Verdict};
use crate::{app, isolation};

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
                "{} {} is a node port: if the node itself translates it, the backend sees the node's service port instead of {from}, which label selectors never match",
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
    let services = destinations.iter().filter_map(|to| to.service.as_ref());
    problems.extend(services.filter_map(|service| isolation::unpublished(cluster, service)));
    let sides = flows.iter().flat_map(|flow| [&flow.egress, &flow.ingress]);
    notes.extend(sides.flat_map(rivalry));
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
            // A headless service is a name for its pods' own addresses: nothing is translated.
            let translating = |name: &&Name| cluster.services.get(name).is_some_and(|service| !service.headless);
            let service = to.service.as_ref().filter(translating);
            let isolation = isolation::crossing(cluster, packet.from, packet.to, service, to.published);
            let egress = evaluate(cluster, &packet, Direction::Egress);
            let ingress = evaluate(cluster, &packet, Direction::Ingress);
            let open = isolation.as_ref().is_none_or(isolation::Crossing::allows);
            let end = |party: &Party, address: Option<IpAddr>| End {
                party: party.clone(),
                addresses: address.into_iter().collect(),
            };
            flows.push(Flow {
                allowed: open && egress.decision.allows() && ingress.decision.allows(),
                from: end(packet.from, source),
                to: end(packet.to, destination),
                service: to.service.clone(),
                protocol: question.protocol,
                port: to.port,
                isolation,
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
            && (&other.isolation, &other.egress, &other.ingress) == (&flow.isolation, &flow.egress, &flow.ingress)
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
    let mut found: Vec<Problem> = isolating(cluster, name, direction)
        .map(|(_, policy)| &policy.problems)
        .chain(cluster_policy::about(cluster, name, direction).map(|(_, policy)| &policy.problems))
        .chain(cluster.namespaces.get(&name.namespace).map(|namespace| &namespace.problems))
        .flatten()
        .cloned()
        .collect();
    found.extend(group::problems(cluster, name));
    found.extend(app::problems(cluster, name));
    found
}

/// What to know where two policies with the same priority say different things.
fn rivalry(side: &Side) -> Vec<String> {
    let note = |rival: &crate::cluster_policy::ClusterRuleName| {
        format!(
            "{rival} says {} with the same priority {} as the rule that was taken: which of them holds is not defined; give one another priority",
            rival.action, rival.priority
        )
    };
    side.rivals.iter().map(note).collect()
}

/// Whether a range of addresses might have mattered to a pod: a rule that allows by one, if it was denied, or that decides by one.
fn has_range(cluster: &Cluster, name: &Name, direction: Direction, denied: bool) -> bool {
    let of_policies = || {
        isolating(cluster, name, direction).any(|(_, policy)| {
            let rules = policy.rules(direction).unwrap_or_default().iter().filter(|rule| !rule.closed);
            rules.flat_map(|rule| &rule.peers).any(|peer| matches!(peer, Peer::Block(_)))
        })
    };
    let of_groups = || {
        let groups = cluster.pods.get(name).into_iter().flat_map(|pod| &pod.groups);
        let groups = groups.filter_map(|group| cluster.groups.get(&Name::new(&name.namespace, group)));
        let mut rules = groups.flat_map(|group| group.rules.iter().flatten());
        rules.any(|rule| rule.direction == direction && matches!(rule.remote, Some(Remote::Range(_))))
    };
    let mut of_cluster = cluster_policy::about(cluster, name, direction)
        .flat_map(|(_, policy)| policy.rules(direction))
        .filter_map(|rule| match &rule.scope {
            Scope::Some(peers, _) => Some(peers),
            Scope::Nothing | Scope::Everything => None,
        });
    of_cluster.any(|peers| peers.iter().any(|peer| matches!(peer, ClusterPeer::Network(_)))) || (denied && (of_policies() || of_groups()))
}

/// What the verdict could not take into account.
fn remarks(cluster: &Cluster, from: &End, to: &Destination, denied: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    for (subject, other, direction) in [(from, &to.end, Direction::Egress), (&to.end, from, Direction::Ingress)] {
        let Party::Pod(name) = &subject.party else { continue };
        if other.addresses.is_empty() && has_range(cluster, name, direction, denied) {
            remarks.push(format!("{other} has no address, so no range of addresses was taken to match it"));
        }
        let is_bound = cluster.pods.get(name).is_some_and(|pod| pod.node.is_some());
        let isolated = is_concerned(cluster, name, direction);
        if denied && direction == Direction::Ingress && isolated && !is_bound && matches!(other.party, Party::Node { .. }) {
            remarks.push(format!("{subject} is on no node yet; the node it comes to will always reach it"));
        }
    }
    if let (Party::Pod(one), Party::Pod(other)) = (&from.party, &to.end.party)
        && let (Ok(Some(network)), Ok(Some(same))) = (cluster.network_of(one), cluster.network_of(other))
        && (network == same && to.service.is_none())
        && (has_range(cluster, one, Direction::Egress, true) || has_range(cluster, other, Direction::Ingress, true))
    {
        remarks.push(format!(
            "{from} and {} are on network {network}: between their addresses there, ranges of addresses are compared with those, which was not judged",
            to.end
        ));
    }
    let translated = to.service.as_ref().filter(|name| {
        let service = cluster.services.get(name);
        from.party == Party::External && service.is_some_and(|service| !service.external_local)
    });
    if let Some(service) = translated {
        remarks.push(format!(
            "service {service} has externalTrafficPolicy Cluster: its backends see the address of a node's gateway, not {from}, which was used here"
        ));
    }
    remarks
}
