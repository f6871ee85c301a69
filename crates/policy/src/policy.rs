//! A NetworkPolicy, read once: what it selects, which directions it isolates, and its rules. Made by [`crate::read`], asked by
//! [`crate::evaluate`]. Reading never fails: a rule with a mistake is closed (allows nothing), the policy isolates all the same, and the
//! mistake is kept as a [`Problem`].

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

use crate::cluster::{Name, Protocol};
use crate::labels::Selector;
use crate::problem::{INVALID_POLICY, Object, Problem};
use crate::reader::{self, Reader};

/// A direction, as the selected pod sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// What it sends.
    Egress,
    /// What it receives.
    Ingress,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
        })
    }
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Pods of its namespace it applies to.
    pub selector: Selector,
    /// Its rules for what the pods receive; `None` if it says nothing about that.
    pub ingress: Option<Vec<Rule>>,
    /// Its rules for what the pods send; `None` if it says nothing about that.
    pub egress: Option<Vec<Rule>>,
    /// Its mistakes.
    pub problems: Vec<Problem>,
}

/// A rule: allows what matches one of its peers and one of its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Everybody if empty.
    pub peers: Vec<Peer>,
    /// All ports of all protocols if empty.
    pub ports: Vec<Ports>,
    /// Has a mistake, so allows nothing.
    pub closed: bool,
}

/// Who may be on the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Pods.
    Pods {
        /// Of namespaces with such labels; of the policy's own namespace if `None`.
        namespaces: Option<Selector>,
        /// With such labels.
        pods: Selector,
    },
    /// Addresses.
    Block(Block),
}

/// A range of addresses with holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The range.
    pub cidr: IpNet,
    /// The holes.
    pub except: Vec<IpNet>,
}

/// Ports of one protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The protocol.
    pub protocol: Protocol,
    /// Which of its ports.
    pub ports: PortMatch,
}

/// Which ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortMatch {
    /// All.
    All,
    /// From the first to the last.
    Range(u16, u16),
    /// Those the destination pod calls so.
    Named(String),
}

impl Block {
    /// Whether an address is in the range and in no hole.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.cidr.contains(&address) && !self.except.iter().any(|hole| hole.contains(&address))
    }
}

impl Policy {
    /// Reads a policy's spec.
    pub fn read(name: &Name, spec: &NetworkPolicySpec) -> Self {
        let mut reader = Reader::new(Object::in_namespace("NetworkPolicy", name), INVALID_POLICY);
        // Requirements can only narrow a selection. Leaving out one that cannot be read isolates more pods than were meant, never fewer.
        let selector = reader.selector("podSelector", spec.pod_selector.as_ref());
        let unread_selector = !reader.problems.is_empty();
        let Types {
            ingress: is_ingress,
            egress: is_egress,
            unread: unread_types,
        } = reader.types(spec);
        let (ingress, egress) = (spec.ingress.iter().flatten(), spec.egress.iter().flatten());
        let mut ingress: Vec<Rule> = ingress
            .enumerate()
            .filter(|_| is_ingress)
            .map(|(index, rule)| reader.rule(&format!("ingress[{index}]"), "from", rule.from.as_deref(), rule.ports.as_deref()))
            .collect();
        let mut egress: Vec<Rule> = egress
            .enumerate()
            .filter(|_| is_egress)
            .map(|(index, rule)| reader.rule(&format!("egress[{index}]"), "to", rule.to.as_deref(), rule.ports.as_deref()))
            .collect();
        if unread_selector || unread_types {
            // Some of these pods, or one of the directions, were not meant, so nothing is opened.
            ingress.iter_mut().chain(&mut egress).for_each(|rule| rule.closed = true);
        }
        Self {
            selector,
            ingress: is_ingress.then_some(ingress),
            egress: is_egress.then_some(egress),
            problems: reader.problems,
        }
    }

    /// The rules for a direction; `None` if the policy does not isolate in it.
    pub fn rules(&self, direction: Direction) -> Option<&[Rule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }
}

/// Directions a policy isolates, and whether one of them could not be read.
struct Types {
    ingress: bool,
    egress: bool,
    unread: bool,
}

impl Reader {
    /// The directions that are isolated. Without types it is ingress always, and egress if there are rules for it.
    fn types(&mut self, spec: &NetworkPolicySpec) -> Types {
        let types = spec.policy_types.as_deref().unwrap_or_default();
        let has = |wanted: &str| types.iter().any(|name| name == wanted);
        let unknown = types.iter().find(|name| !["Ingress", "Egress"].contains(&name.as_str()));
        if let Some(name) = unknown {
            self.problem(
                "policyTypes",
                format!("{name:?} is no policy type, so both directions are isolated and no rule allows anything; use Ingress and Egress"),
            );
        }
        let has_egress_rules = spec.egress.as_ref().is_some_and(|rules| !rules.is_empty());
        Types {
            ingress: types.is_empty() || has("Ingress") || unknown.is_some(),
            egress: (types.is_empty() && has_egress_rules) || has("Egress") || unknown.is_some(),
            unread: unknown.is_some(),
        }
    }

    fn rule(&mut self, field: &str, side: &str, peers: Option<&[NetworkPolicyPeer]>, ports: Option<&[NetworkPolicyPort]>) -> Rule {
        let before = self.problems.len();
        let mut rule = Rule::default();
        for (index, peer) in peers.into_iter().flatten().enumerate() {
            let field = format!("{field}.{side}[{index}]");
            match self.peer(&field, peer) {
                Ok(peer) => rule.peers.push(peer),
                Err(message) => self.problem(field, message),
            }
        }
        for (index, port) in ports.into_iter().flatten().enumerate() {
            match read_ports(port) {
                Ok(ports) => rule.ports.push(ports),
                Err(message) => self.problem(format!("{field}.ports[{index}]"), message),
            }
        }
        rule.closed = self.problems.len() > before;
        rule
    }

    fn peer(&mut self, field: &str, peer: &NetworkPolicyPeer) -> Result<Peer, String> {
        match (&peer.ip_block, &peer.namespace_selector, &peer.pod_selector) {
            (None, None, None) => Err("names no peer; give podSelector, namespaceSelector or ipBlock".to_owned()),
            (Some(block), None, None) => read_block(block).map(Peer::Block),
            (Some(_), _, _) => Err("has ipBlock and a selector; make two peers of them".to_owned()),
            (None, namespaces, pods) => Ok(Peer::Pods {
                namespaces: namespaces
                    .as_ref()
                    .map(|selector| self.selector(&format!("{field}.namespaceSelector"), Some(selector))),
                pods: self.selector(&format!("{field}.podSelector"), pods.as_ref()),
            }),
        }
    }
}

fn read_block(block: &IPBlock) -> Result<Block, String> {
    let cidr = reader::range(&block.cidr)?;
    let mut except = Vec::new();
    for text in block.except.iter().flatten() {
        let hole = reader::range(text)?;
        // The API wants a real part of the range: one as large as the range would leave nothing of it.
        if !cidr.contains(&hole.addr()) || hole.prefix_len() <= cidr.prefix_len() {
            return Err(format!("except {text} is not within {}; name a part of it", block.cidr));
        }
        except.push(hole);
    }
    Ok(Block { cidr, except })
}

fn read_ports(port: &NetworkPolicyPort) -> Result<Ports, String> {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let protocol = Protocol::parse(protocol).ok_or_else(|| format!("{protocol:?} is no protocol with ports; use TCP, UDP or SCTP"))?;
    let number = |value: i32| reader::port(value.into());
    let ports = match (&port.port, port.end_port) {
        (None, None) => PortMatch::All,
        (None, Some(_)) => return Err("endPort without port; give the first port of the range".to_owned()),
        (Some(IntOrString::String(name)), Some(_)) => {
            return Err(format!("endPort with the named port {name:?}; a range needs numbers"));
        }
        (Some(IntOrString::String(name)), None) if is_port_name(name) => PortMatch::Named(name.clone()),
        (Some(IntOrString::String(name)), None) => {
            return Err(format!(
                "{name:?} is no name of a port; use up to 15 small letters, digits and single '-', with a letter among them, or a number without quotes"
            ));
        }
        (Some(IntOrString::Int(first)), None) => PortMatch::Range(number(*first)?, number(*first)?),
        (Some(IntOrString::Int(first)), Some(last)) => {
            let (first, last) = (number(*first)?, number(last)?);
            if last < first {
                return Err(format!("endPort {last} is below port {first}; it is the last port of the range"));
            }
            PortMatch::Range(first, last)
        }
    };
    Ok(Ports { protocol, ports })
}

/// As IANA wants names of services.
fn is_port_name(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && name.chars().any(|c| c.is_ascii_lowercase())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}
