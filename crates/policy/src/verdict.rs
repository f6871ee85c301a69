//! The answer as data, for people (through [`crate::words`]), for machines (as JSON) and for tests that compare it with real packets.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use crate::cluster::{Name, Protocol};
use crate::cluster_policy::ClusterRuleName;
use crate::isolation::Crossing;
use crate::policy::Direction;
use crate::problem::Problem;

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether all of it is allowed.
    pub allowed: bool,
    /// One for each backend, port and set of addresses that is judged differently. Never empty.
    pub flows: Vec<Flow>,
    /// Mistakes in the policies that were looked at.
    pub problems: Vec<Problem>,
    /// What the reader should know about how it was judged.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Adds the answer to another question.
    pub fn join(&mut self, other: Self) {
        self.allowed &= other.allowed;
        self.flows.extend(other.flows);
        self.problems.extend(other.problems);
        self.problems.sort();
        self.problems.dedup();
        self.notes.extend(other.notes);
        self.notes.sort();
        self.notes.dedup();
    }
}

/// One way a packet may go, and its fate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// Whether isolation and both sides let it pass.
    pub allowed: bool,
    /// Who sends.
    pub from: End,
    /// Who receives, after a service has chosen.
    pub to: End,
    /// The service it goes through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Name>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port at the receiver.
    pub port: u16,
    /// What isolation of namespaces and Networks says, where one is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Crossing>,
    /// What the sender's policies say.
    pub egress: Side,
    /// What the receiver's policies say.
    pub ingress: Side,
}

/// What is said of one side of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// What decides.
    #[serde(flatten)]
    pub decision: Decision,
    /// What came before it and left it to the next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<Step>,
    /// Rules with the same priority as one that was taken, but another action: they may as well be taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<ClusterRuleName>,
}

impl From<Decision> for Side {
    fn from(decision: Decision) -> Self {
        Self {
            decision,
            passed: Vec::new(),
            rivals: Vec::new(),
        }
    }
}

/// Something that was asked and left the decision to what comes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "camelCase")]
pub enum Step {
    /// Rules of the pod's SecurityGroups let it pass.
    SecurityGroups {
        /// The rules.
        rules: Vec<GroupRuleName>,
    },
    /// A rule with the action Pass.
    Pass {
        /// The rule.
        rule: ClusterRuleName,
    },
}

/// A rule of a SecurityGroup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupRuleName {
    /// The group.
    pub group: Name,
    /// The place in its list, from 0.
    pub index: usize,
}

impl fmt::Display for GroupRuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rules[{}]", self.group, self.index)
    }
}

/// A sender or receiver with the addresses it was judged by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// Who it is.
    #[serde(flatten)]
    pub party: Party,
    /// Its addresses; empty for a pod that has none yet.
    pub addresses: Vec<IpAddr>,
}

/// Who talks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Party {
    /// A pod with a network of its own.
    Pod(Name),
    /// A node, or a pod that shares its network.
    Node {
        /// The node.
        name: String,
        /// The pod in its network that was asked about.
        #[serde(skip_serializing_if = "Option::is_none")]
        pod: Option<Name>,
    },
    /// An address that is nobody's in the cluster.
    External,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.party, self.addresses.as_slice()) {
            (Party::External, [address]) => write!(f, "address {address}"),
            (party, _) => party.fmt(f),
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(name) => f.write_str(&name.titled()),
            Self::Node { name, pod: None } => write!(f, "node {name}"),
            Self::Node { name, pod: Some(pod) } => write!(f, "pod {pod} in the network of node {name}"),
            Self::External => f.write_str("outside"),
        }
    }
}

/// What decides about one side, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Decision {
    /// Allowed: policies are about pods with a network of their own, and this side is none.
    NotAPod,
    /// Allowed: nothing decides about the pod in this direction.
    NotIsolated,
    /// Allowed: a pod may always talk to itself.
    Itself,
    /// Allowed: the pod is isolated, but its own node always reaches it.
    OwnNode,
    /// Denied: the pod is in these SecurityGroups and none of their rules matches.
    NoGroupRule {
        /// The groups, those that are not there among them.
        groups: Vec<Name>,
    },
    /// Allowed by a rule of a cluster's policy.
    Accepted {
        /// The rule.
        rule: ClusterRuleName,
    },
    /// Denied by a rule of a cluster's policy.
    Denied {
        /// The rule.
        rule: ClusterRuleName,
    },
    /// Allowed by these rules of NetworkPolicies, and in these app networks.
    Rules {
        /// The rules.
        rules: Vec<RuleName>,
        /// App networks both ends are in.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        apps: Vec<String>,
    },
    /// Denied: these policies and app networks isolate the pod and nothing in them matches.
    NoRule {
        /// The policies.
        policies: Vec<Name>,
        /// Their rules, and why each does not match.
        misses: Vec<Miss>,
        /// App networks the pod is in.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        apps: Vec<String>,
        /// Its app labels contradict each other, which isolates it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        conflicting_apps: bool,
    },
}

impl Decision {
    /// Whether it lets the packet pass.
    pub fn allows(&self) -> bool {
        match self {
            Self::NotAPod | Self::NotIsolated | Self::Itself | Self::OwnNode | Self::Accepted { .. } | Self::Rules { .. } => true,
            Self::NoGroupRule { .. } | Self::Denied { .. } | Self::NoRule { .. } => false,
        }
    }
}

/// A rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleName {
    /// The policy.
    pub policy: Name,
    /// Its list of rules.
    pub direction: Direction,
    /// The place in that list, from 0.
    pub index: usize,
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}[{}]", self.policy, self.direction, self.index)
    }
}

/// A rule that does not match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Miss {
    /// The rule.
    #[serde(flatten)]
    pub rule: RuleName,
    /// Why not.
    pub why: Why,
}

/// Why a rule does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// The other side is none of its peers.
    Peer,
    /// The port is none of its ports.
    Port,
    /// Neither matches.
    PeerAndPort,
    /// It has a mistake.
    Closed,
}
