//! Network policies, cluster-wide policies ([`cluster`]) and the labels of namespaces, cut down to what the network depends on.
//!
//! [`NetworkPolicySpec`] is what the user wrote; [`read`](read::read) turns it into a [`Policy`] without anything left to interpret.
//! What cannot be read closes and never opens: the rule it is in allows nothing.

pub mod block;
pub mod cluster;
pub mod log;
pub mod read;
pub mod selector;

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use cluster::{ClusterPolicy, ClusterPolicyKind, ClusterPolicyName};
pub use selector::{Namespaces, Selection, Selector};

use crate::cluster::Namespaced;
use crate::service::Protocol;

/// Namespace and name of a policy.
pub type PolicyName = Namespaced;

/// The label every namespace has, with its name.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A namespace, as far as policies are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// UID.
    pub uid: String,
    /// Labels, its name among them.
    pub labels: BTreeMap<String, String>,
    /// Annotations that concern us.
    pub annotations: BTreeMap<String, String>,
}

impl Namespace {
    /// A namespace with these labels and the one that has its name.
    pub fn new(name: &str, uid: String, mut labels: BTreeMap<String, String>) -> Self {
        labels.insert(NAMESPACE_NAME.to_owned(), name.to_owned());
        let annotations = BTreeMap::new();
        Self { uid, labels, annotations }
    }

    /// The same with these annotations.
    pub fn annotated(mut self, annotations: BTreeMap<String, String>) -> Self {
        self.annotations = annotations;
        self
    }
}

/// A `NetworkPolicy` as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// UID.
    pub uid: String,
    /// Its spec.
    pub spec: NetworkPolicySpec,
}

/// Fields that were written and that we do not know: a spelling mistake, or a Kubernetes newer than this. They may have been meant to
/// narrow what they stand in, so that closes.
pub type Unknown = BTreeMap<String, Value>;

/// `spec` of a `NetworkPolicy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicySpec {
    /// Pods it is about.
    #[serde(deserialize_with = "nullable")]
    pub pod_selector: LabelSelector,
    /// `Ingress`, `Egress`; without any they follow from the rules.
    #[serde(deserialize_with = "nullable")]
    pub policy_types: Vec<String>,
    /// Who may reach them.
    #[serde(deserialize_with = "nullable")]
    pub ingress: Vec<RuleSpec>,
    /// Whom they may reach.
    #[serde(deserialize_with = "nullable")]
    pub egress: Vec<RuleSpec>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A rule of either direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RuleSpec {
    /// Peers of an ingress rule; without any, all are meant.
    pub from: Option<Vec<PeerSpec>>,
    /// Peers of an egress rule; without any, all are meant.
    pub to: Option<Vec<PeerSpec>>,
    /// Ports; none means all.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<PortSpec>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Somebody at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PeerSpec {
    /// Pods, of the policy's own namespace unless there is a selector of namespaces.
    pub pod_selector: Option<LabelSelector>,
    /// Namespaces.
    pub namespace_selector: Option<LabelSelector>,
    /// Addresses.
    pub ip_block: Option<BlockSpec>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A range of addresses without some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BlockSpec {
    /// The range.
    pub cidr: String,
    /// Parts of it that do not count.
    #[serde(deserialize_with = "nullable")]
    pub except: Vec<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A port, a range of ports or all of a protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortSpec {
    /// `TCP`, `UDP` or `SCTP`; TCP if not said.
    pub protocol: Option<String>,
    /// Number or name.
    pub port: Option<NumberOrName>,
    /// Last of a range that begins with `port`.
    pub end_port: Option<i64>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A port as Kubernetes writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum NumberOrName {
    /// A number.
    Number(i64),
    /// The name of a container's port.
    Name(String),
}

/// A selector as Kubernetes writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels with their values.
    #[serde(deserialize_with = "nullable")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(deserialize_with = "nullable")]
    pub match_expressions: Vec<Expression>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One requirement of a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Expression {
    /// Label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values, for the first two.
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<String>,
    /// Other fields.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Which way the packets a rule is about go, as seen by the pods of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To them.
    Ingress,
    /// From them.
    Egress,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ingress, Self::Egress];

    /// Its name in keys and fields.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

/// A policy that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Pods it isolates.
    pub subject: Selection,
    /// What it allows in each direction it isolates.
    pub rules: BTreeMap<Direction, Vec<Rule>>,
    /// What the user has to fix.
    pub complaints: Vec<String>,
}

/// What one rule allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its place in the list the user wrote.
    pub number: usize,
    /// Who is at the other end; `None` is anybody.
    pub peers: Option<Vec<Peer>>,
    /// Ports; `None` is all of them.
    pub ports: Option<Vec<ProtocolPorts>>,
}

/// Somebody at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Pods.
    Pods(Selection),
    /// Addresses.
    Addresses(Vec<IpNet>),
    /// Nodes, by their labels; only cluster-wide policies name them.
    Nodes(Selector),
}

impl Peer {
    /// How many ranges of addresses it is written as in OVN.
    pub(crate) fn ranges(&self) -> usize {
        match self {
            Self::Addresses(ranges) => ranges.len(),
            Self::Pods(_) | Self::Nodes(_) => 0,
        }
    }
}

/// Most ranges of addresses in one condition: each is a flow or more on every node concerned, and OVN takes half a millisecond for it.
pub(crate) const MOST_RANGES: usize = 2000;

/// Ports of one protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolPorts {
    /// Protocol.
    pub protocol: Protocol,
    /// Which of its ports.
    pub which: Which,
}

/// Which ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// From the first to the last.
    Range(u16, u16),
    /// The one the destination pod calls so.
    Named(String),
}

/// What a policy makes of a selection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It isolates these pods, and says what is allowed to them.
    Subject,
    /// It denies these pods in one direction what nobody allows.
    Denied(Direction),
    /// It is cluster-wide and judges these pods, which isolates nobody.
    ClusterSubject,
    /// It is about traffic with these pods.
    Peers,
    /// It is about traffic to the port that these pods call so.
    Port(String, Protocol),
}

/// Who uses a selection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum User {
    /// A network policy.
    Policy(PolicyName),
    /// A cluster-wide policy.
    Cluster(ClusterPolicyName),
}

impl Policy {
    /// The selections it needs, and what for.
    pub fn uses(&self) -> Vec<(Selection, Role)> {
        let mut uses = vec![(self.subject.clone(), Role::Subject)];
        for (direction, rules) in &self.rules {
            uses.push((self.subject.clone(), Role::Denied(*direction)));
            uses.extend(rules.iter().flat_map(|rule| rule.uses(*direction, &self.subject)));
        }
        uses.sort();
        uses.dedup();
        uses
    }
}

impl Rule {
    /// The selections it needs besides the pods it is about.
    fn uses(&self, direction: Direction, subject: &Selection) -> Vec<(Selection, Role)> {
        let peers = self.peers.iter().flatten();
        let mut uses: Vec<_> = peers
            .filter_map(|peer| match peer {
                Peer::Pods(selection) => Some((selection.clone(), Role::Peers)),
                Peer::Addresses(_) | Peer::Nodes(_) => None,
            })
            .collect();
        for (name, protocol) in self.named() {
            let destinations = self.destinations(direction, subject);
            uses.extend(destinations.into_iter().map(|pods| (pods, Role::Port(name.to_owned(), protocol))));
        }
        uses
    }

    /// Its named ports.
    pub fn named(&self) -> impl Iterator<Item = (&str, Protocol)> {
        self.ports.iter().flatten().filter_map(|port| match &port.which {
            Which::Named(name) => Some((name.as_str(), port.protocol)),
            _ => None,
        })
    }

    /// The pods whose names for ports count: those that are reached. Among addresses, any pod may be.
    fn destinations(&self, direction: Direction, subject: &Selection) -> Vec<Selection> {
        match (direction, &self.peers) {
            (Direction::Ingress, _) => vec![subject.clone()],
            (Direction::Egress, None) => vec![Selection::everyone()],
            (Direction::Egress, Some(peers)) => peers
                .iter()
                .map(|peer| match peer {
                    Peer::Pods(selection) => selection.clone(),
                    Peer::Addresses(_) | Peer::Nodes(_) => Selection::everyone(),
                })
                .collect(),
        }
    }
}

fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
