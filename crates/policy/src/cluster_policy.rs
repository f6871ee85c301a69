//! Policies of the whole cluster (policy.networking.k8s.io): ClusterNetworkPolicy v1alpha2, AdminNetworkPolicy and
//! BaselineAdminNetworkPolicy v1alpha1, read once into one form. Within a tier the first rule that matches decides, by priority and place
//! in the list. Reading never fails; what has a mistake is closed as the API asks for: Accept matches nothing, all else denies everything.

mod ports;
mod read;

use std::fmt;

use ipnet::IpNet;
use serde::{Serialize, Serializer};

use crate::cluster::{Cluster, Name, Protocol};
use crate::evaluate::Packet;
use crate::labels::Selector;
use crate::policy::Direction;
use crate::problem::{Object, Problem};
use crate::verdict::Party;

/// Priority of what comes after all that have one: the BaselineAdminNetworkPolicy.
const LAST: u16 = 1001;

/// Which of the three; in the order they are asked at the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ClusterKind {
    ClusterNetworkPolicy,
    AdminNetworkPolicy,
    BaselineAdminNetworkPolicy,
}

impl ClusterKind {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::ClusterNetworkPolicy,
        Self::AdminNetworkPolicy,
        Self::BaselineAdminNetworkPolicy,
    ];

    /// As the API writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterNetworkPolicy => "ClusterNetworkPolicy",
            Self::AdminNetworkPolicy => "AdminNetworkPolicy",
            Self::BaselineAdminNetworkPolicy => "BaselineAdminNetworkPolicy",
        }
    }
}

impl Serialize for ClusterKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Before or after NetworkPolicies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Before.
    Admin,
    /// After, where none isolates the pod.
    Baseline,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPolicy {
    /// Its tier.
    pub tier: Tier,
    /// Its place in the tier; the lowest comes first.
    pub priority: u16,
    /// Pods it is about.
    pub subject: Pods,
    /// Its rules for what they receive.
    pub ingress: Vec<ClusterRule>,
    /// Its rules for what they send.
    pub egress: Vec<ClusterRule>,
    /// Its mistakes.
    pub problems: Vec<Problem>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRule {
    /// Its name; may be empty.
    pub name: String,
    /// What becomes of what matches.
    pub action: Action,
    /// What matches.
    pub scope: Scope,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// Allows, whatever else there is.
    Accept,
    /// Denies, whatever else there is.
    Deny,
    /// Leaves it to the next tier.
    Pass,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accept => "Accept",
            Self::Deny => "Deny",
            Self::Pass => "Pass",
        })
    }
}

/// What a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One of the peers, at one of the ports; all ports if there are none.
    Some(Vec<ClusterPeer>, Vec<ClusterPorts>),
    /// Nothing: an Accept with a mistake.
    Nothing,
    /// Everything: any other with a mistake.
    Everything,
}

/// Pods of some namespaces. Never those in their node's network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pods {
    /// Of namespaces with such labels.
    pub namespaces: Selector,
    /// With such labels.
    pub pods: Selector,
}

/// Who may be on the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterPeer {
    /// Pods.
    Pods(Pods),
    /// Addresses of nodes with such labels.
    Nodes(Selector),
    /// Addresses.
    Network(IpNet),
}

/// Which ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterPorts {
    /// Of a protocol, from the first to the last.
    Range(Protocol, u16, u16),
    /// Those the receiving pod calls so, of whatever protocol.
    Named(String),
}

/// Name of a policy, in the order they are asked at the same priority.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ClusterPolicyName {
    /// Its kind.
    pub kind: ClusterKind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ClusterPolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

impl From<&ClusterPolicyName> for Object {
    fn from(name: &ClusterPolicyName) -> Self {
        Self::of_cluster(name.kind.name(), &name.name)
    }
}

/// A rule that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterRuleName {
    /// Its policy.
    pub policy: ClusterPolicyName,
    /// The policy's priority.
    pub priority: u16,
    /// Its list of rules.
    pub direction: Direction,
    /// The place in that list, from 0.
    pub index: usize,
    /// Its own name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it does.
    pub action: Action,
    /// It has a mistake, so it denies everything.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

impl fmt::Display for ClusterRuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}[{}]", self.policy, self.direction, self.index)?;
        match self.name.as_str() {
            "" => Ok(()),
            name => write!(f, " {name:?}"),
        }
    }
}

impl ClusterPolicy {
    /// The rules for a direction.
    pub fn rules(&self, direction: Direction) -> &[ClusterRule] {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }
}

/// Policies that have something to say about a pod in a direction.
pub fn about<'a>(
    cluster: &'a Cluster,
    pod: &'a Name,
    direction: Direction,
) -> impl Iterator<Item = (&'a ClusterPolicyName, &'a ClusterPolicy)> {
    let all = cluster.cluster_policies.iter();
    all.filter(move |(_, policy)| !policy.rules(direction).is_empty() && policy.subject.has(cluster, pod))
}

/// What a tier says: the rule that decides, and rules of other policies with the same priority that would have decided otherwise.
pub fn decide(
    cluster: &Cluster,
    packet: &Packet<'_>,
    subject: &Name,
    direction: Direction,
    tier: Tier,
) -> Option<(ClusterRuleName, Vec<ClusterRuleName>)> {
    let of_tier = about(cluster, subject, direction).filter(|(_, policy)| policy.tier == tier);
    let mut first: Vec<ClusterRuleName> = of_tier
        .filter_map(|(name, policy)| {
            let mut rules = policy.rules(direction).iter().enumerate();
            let (index, rule) = rules.find(|(_, rule)| rule.matches(cluster, packet, direction))?;
            Some(ClusterRuleName {
                policy: name.clone(),
                priority: policy.priority,
                direction,
                index,
                name: rule.name.clone(),
                action: rule.action,
                closed: rule.scope == Scope::Everything,
            })
        })
        .collect();
    // Stable, so that kind and name order what has the same priority.
    first.sort_by_key(|rule| rule.priority);
    let mut first = first.into_iter();
    let decides = first.next()?;
    let rivals = first.filter(|rule| rule.priority == decides.priority && rule.action != decides.action);
    let rivals = rivals.collect();
    Some((decides, rivals))
}

impl ClusterRule {
    fn matches(&self, cluster: &Cluster, packet: &Packet<'_>, direction: Direction) -> bool {
        match &self.scope {
            Scope::Nothing => false,
            Scope::Everything => true,
            Scope::Some(peers, ports) => {
                peers.iter().any(|peer| peer.is(cluster, packet, direction))
                    && (ports.is_empty() || ports.iter().any(|ports| ports.have(cluster, packet)))
            }
        }
    }
}

impl Pods {
    fn has(&self, cluster: &Cluster, name: &Name) -> bool {
        let pod = cluster.pods.get(name).filter(|pod| !pod.host_network);
        pod.is_some_and(|pod| self.pods.matches(&pod.labels)) && self.namespaces.matches(&cluster.namespace_labels(&name.namespace))
    }
}

impl ClusterPeer {
    fn is(&self, cluster: &Cluster, packet: &Packet<'_>, direction: Direction) -> bool {
        let (other, address) = packet.other(direction);
        match (self, other) {
            (Self::Pods(pods), Party::Pod(name)) => pods.has(cluster, name),
            (Self::Pods(_), Party::Node { .. } | Party::External) => false,
            (Self::Network(range), _) => address.is_some_and(|address| range.contains(&address)),
            (Self::Nodes(selector), _) => cluster.nodes.iter().any(|(name, node)| {
                // A node without any address, as in manifests, is known by its name.
                let is = match address {
                    Some(address) => node.addresses.contains(&address),
                    None => matches!(other, Party::Node { name: own, .. } if own == name),
                };
                is && selector.matches(&node.labels)
            }),
        }
    }
}

impl ClusterPorts {
    fn have(&self, cluster: &Cluster, packet: &Packet<'_>) -> bool {
        match self {
            Self::Range(protocol, first, last) => *protocol == packet.protocol && (*first..=*last).contains(&packet.port),
            Self::Named(name) => packet
                .receiver(cluster)
                .is_some_and(|pod| pod.calls(name, packet.protocol, packet.port)),
        }
    }
}
