//! From what the user wrote to a [`Policy`]. A rule in which anything cannot be read is left out as a whole and told: the policy isolates
//! the pods it selects all the same. Where it cannot be read which pods or directions are meant, all that may be are isolated and no rule
//! is left.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::policy::block::without;
use crate::policy::{
    BlockSpec, Direction, LabelSelector, MOST_RANGES, Namespaces, NetworkPolicySpec, NumberOrName, Peer, PeerSpec, Policy, PortSpec,
    ProtocolPorts, Rule, RuleSpec, Selection, Selector, Unknown, Which,
};
use crate::service::Protocol;

/// The longest name a container's port can have.
const LONGEST_NAME: usize = 15;

/// Reads the policy of a namespace.
pub fn read(namespace: &str, spec: &NetworkPolicySpec) -> Policy {
    let (pods, mistakes) = Selector::read(&spec.pod_selector);
    let mut complaints: Vec<String> = mistakes
        .into_iter()
        .map(|why| {
            format!("spec.podSelector.{why} (until then it isolates all pods that the rest of the selector selects, and allows nothing)")
        })
        .collect();
    let subject = Selection {
        namespaces: Namespaces::Named(namespace.to_owned()),
        pods,
    };
    let others = unknown_field(&spec.unknown);
    complaints.extend(
        others
            .iter()
            .map(|why| format!("spec{why} (until then it isolates in both directions and allows nothing)")),
    );
    let unknown_pods = spec.pod_selector.unknown_fields().is_some();
    let directions = directions(spec, others.is_some() || unknown_pods, &mut complaints);
    let closed = !complaints.is_empty();
    let mut rules = BTreeMap::new();
    for direction in directions {
        let written = match direction {
            Direction::Ingress => &spec.ingress,
            Direction::Egress => &spec.egress,
        };
        let mut readable = Vec::new();
        for (number, rule) in written.iter().enumerate() {
            match read_rule(namespace, direction, number, rule) {
                Ok(_) if closed => {}
                Ok(rule) => readable.push(rule),
                Err(why) => {
                    let direction = direction.as_str();
                    complaints.push(format!("spec.{direction}[{number}]{why}; until then this rule allows nothing"));
                }
            }
        }
        rules.insert(direction, readable);
    }
    Policy {
        subject,
        rules,
        complaints,
    }
}

/// The directions it isolates. A type or field nobody knows could mean anything, so both are closed.
fn directions(spec: &NetworkPolicySpec, both: bool, complaints: &mut Vec<String>) -> Vec<Direction> {
    if spec.policy_types.is_empty() && !both {
        let egress = (!spec.egress.is_empty()).then_some(Direction::Egress);
        return [Direction::Ingress].into_iter().chain(egress).collect();
    }
    let unknown: Vec<&String> = spec
        .policy_types
        .iter()
        .filter(|text| !matches!(text.as_str(), "Ingress" | "Egress"))
        .collect();
    for text in &unknown {
        complaints.push(format!(
            "spec.policyTypes: \"{text}\" is no type; write Ingress or Egress (until then it isolates in both directions and allows nothing)"
        ));
    }
    let wanted = |name: &str| both || !unknown.is_empty() || spec.policy_types.iter().any(|text| text == name);
    let (ingress, egress) = (wanted("Ingress"), wanted("Egress"));
    let each = [(ingress, Direction::Ingress), (egress, Direction::Egress)];
    each.into_iter()
        .filter_map(|(wanted, direction)| wanted.then_some(direction))
        .collect()
}

fn read_rule(namespace: &str, direction: Direction, number: usize, rule: &RuleSpec) -> Result<Rule, String> {
    let (field, written, other, misplaced) = match direction {
        Direction::Ingress => ("from", &rule.from, "to", &rule.to),
        Direction::Egress => ("to", &rule.to, "from", &rule.from),
    };
    if misplaced.is_some() {
        return Err(format!(".{other}: {} rules have {field}; rename it", direction.as_str()));
    }
    refuse_unknown(&rule.unknown)?;
    let peer = |(place, peer)| read_peer(namespace, peer).map_err(|why| format!(".{field}[{place}]{why}"));
    let peers = written.iter().flatten().enumerate().map(peer).collect::<Result<Vec<_>, _>>()?;
    let ranges: usize = peers.iter().map(Peer::ranges).sum();
    if ranges > MOST_RANGES {
        return Err(format!(
            ".{field}: its ipBlocks are {ranges} ranges, exceptions cut out, and a rule has at most {MOST_RANGES}; write fewer exceptions, or larger ones"
        ));
    }
    let port = |(place, port)| read_port(port).map_err(|why| format!(".ports[{place}]{why}"));
    let ports = rule.ports.iter().enumerate().map(port).collect::<Result<Vec<_>, _>>()?;
    Ok(Rule {
        number,
        peers: (!peers.is_empty()).then_some(peers),
        ports: (!ports.is_empty()).then_some(ports),
    })
}

/// What is wrong with fields nobody knows, if there are any.
pub(super) fn unknown_field(unknown: &Unknown) -> Option<String> {
    let name = unknown.keys().next()?;
    Some(format!(".{name}: there is no such field here; correct its name or remove it"))
}

fn refuse_unknown(unknown: &Unknown) -> Result<(), String> {
    unknown_field(unknown).map_or(Ok(()), Err)
}

fn read_peer(namespace: &str, peer: &PeerSpec) -> Result<Peer, String> {
    refuse_unknown(&peer.unknown)?;
    let selected = |namespaces: Namespaces, pods: Option<&LabelSelector>| {
        let pods = pods.map(|pods| read_selector("podSelector", pods)).transpose()?.unwrap_or_default();
        Ok(Peer::Pods(Selection { namespaces, pods }))
    };
    match (&peer.pod_selector, &peer.namespace_selector, &peer.ip_block) {
        (None, None, Some(block)) => read_block(block).map(Peer::Addresses),
        (pods, Some(namespaces), None) => {
            let namespaces = read_selector("namespaceSelector", namespaces)?;
            selected(Namespaces::Labelled(namespaces), pods.as_ref())
        }
        (Some(pods), None, None) => selected(Namespaces::Named(namespace.to_owned()), Some(pods)),
        (None, None, None) => Err(": it names no peer; write a podSelector, a namespaceSelector or an ipBlock".to_owned()),
        (_, _, Some(_)) => Err(": an ipBlock goes with no selector; make two entries of it".to_owned()),
    }
}

pub(super) fn read_selector(field: &str, spec: &LabelSelector) -> Result<Selector, String> {
    let (selector, complaints) = Selector::read(spec);
    complaints.first().map_or(Ok(selector), |why| Err(format!(".{field}.{why}")))
}

fn read_block(block: &BlockSpec) -> Result<Vec<IpNet>, String> {
    let net = |field: &str, text: &str| {
        let net = text.trim().parse::<IpNet>();
        net.map(|net| net.trunc())
            .map_err(|_| format!(".ipBlock.{field}: \"{text}\" is not a CIDR; write for example 192.0.2.0/24"))
    };
    refuse_unknown(&block.unknown).map_err(|why| format!(".ipBlock{why}"))?;
    let whole = net("cidr", &block.cidr)?;
    let parts = block.except.iter().map(|text| net("except", text)).collect::<Result<Vec<_>, _>>()?;
    match parts.iter().find(|part| !whole.contains(*part) || **part == whole) {
        Some(part) => Err(format!(".ipBlock.except: {part} is not a part of {whole}; remove it")),
        None => Ok(without(whole, &parts)),
    }
}

fn read_port(port: &PortSpec) -> Result<ProtocolPorts, String> {
    refuse_unknown(&port.unknown)?;
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let known = Protocol::parse(protocol).filter(|_| !protocol.is_empty());
    let protocol = known.ok_or_else(|| format!(".protocol: \"{protocol}\" is not TCP, UDP or SCTP; change it"))?;
    let number = |field: &str, number: i64| {
        let number = u16::try_from(number).ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!(".{field}: it is not from 1 to 65535; change it"))
    };
    let which = match (&port.port, port.end_port) {
        (None, None) => Which::All,
        (Some(NumberOrName::Number(first)), last) => {
            let (first, last) = (number("port", *first)?, number("endPort", last.unwrap_or(*first))?);
            if last < first {
                return Err(format!(
                    ".endPort: {last} is less than port {first}; write the range from low to high"
                ));
            }
            Which::Range(first, last)
        }
        (Some(NumberOrName::Name(name)), None) if is_name(name) => Which::Named(name.clone()),
        (Some(NumberOrName::Name(name)), None) => {
            return Err(format!(
                ".port: no container's port can be named \"{name}\"; write a number or a name"
            ));
        }
        (_, Some(_)) => return Err(".endPort: it needs a port that is a number; write one or remove it".to_owned()),
    };
    Ok(ProtocolPorts { protocol, which })
}

/// As IANA wants names of services.
pub(super) fn is_name(name: &str) -> bool {
    let fits = name.len() <= LONGEST_NAME && name.bytes().any(|byte| byte.is_ascii_lowercase());
    let words = name
        .split('-')
        .all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    fits && words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_of_too_many_ranges_allows_nothing() {
        let except = |count: u32| {
            let addresses = (0..count).map(|number| std::net::Ipv4Addr::from(0x0a00_0000 + number * 2));
            addresses.map(|address| format!("{address}/32")).collect::<Vec<_>>()
        };
        let rules = |count| {
            let block = BlockSpec {
                cidr: "10.0.0.0/8".to_owned(),
                except: except(count),
                ..BlockSpec::default()
            };
            let peer = PeerSpec {
                ip_block: Some(block),
                ..PeerSpec::default()
            };
            let rule = RuleSpec {
                from: Some(vec![peer]),
                ..RuleSpec::default()
            };
            let spec = NetworkPolicySpec {
                ingress: vec![rule],
                ..NetworkPolicySpec::default()
            };
            let policy = read("default", &spec);
            (policy.rules.get(&Direction::Ingress).map(Vec::len), policy.complaints)
        };
        assert_eq!(rules(1000).0, Some(1));
        let (allowed, complaints) = rules(4000);
        assert_eq!(allowed, Some(0));
        assert!(
            complaints[0].starts_with("spec.ingress[0].from: its ipBlocks are 4"),
            "{complaints:?}"
        );
    }
}
