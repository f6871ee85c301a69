//! Cluster-wide policies: `ClusterNetworkPolicy`, and before it `AdminNetworkPolicy` and `BaselineAdminNetworkPolicy`. Read, all three
//! are one thing: a [`RankedPolicy`] in a tier before or after that of network policies, whose rules accept, deny or pass on in order.
//!
//! The spec is kept as it came: a field of a newer version must close its own rule, not make the whole object unreadable.

mod read;
mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use read::read;
use serde_json::Value;

use crate::policy::{Direction, Peer, Role, Rule, Selection, Selector};

/// The API group of all three kinds.
pub const GROUP: &str = "policy.networking.k8s.io";

/// How many times a policy can change between accepting, denying and passing on, in one direction: OVN has 32767 priorities, and there are
/// 1002 of policies.
pub const RUNS: u16 = 32;

/// Kinds, in the order of their names in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterPolicyKind {
    /// `AdminNetworkPolicy`.
    Admin,
    /// `BaselineAdminNetworkPolicy`.
    Baseline,
    /// `ClusterNetworkPolicy`.
    Cluster,
}

impl ClusterPolicyKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Admin, Self::Baseline, Self::Cluster];

    /// As Kubernetes calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "AdminNetworkPolicy",
            Self::Baseline => "BaselineAdminNetworkPolicy",
            Self::Cluster => "ClusterNetworkPolicy",
        }
    }

    /// The kind Kubernetes calls so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Kind and name of a cluster-wide policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterPolicyName {
    /// Kind.
    pub kind: ClusterPolicyKind,
    /// Name.
    pub name: String,
}

impl fmt::Display for ClusterPolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.name)
    }
}

/// A cluster-wide policy as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPolicy {
    /// UID.
    pub uid: String,
    /// Annotations that concern us.
    pub annotations: BTreeMap<String, String>,
    /// Its spec.
    pub spec: Value,
}

/// When a policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterTier {
    /// Before network policies.
    Admin,
    /// After them, about what they leave open.
    Baseline,
}

/// What becomes of the packets a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They pass, whatever comes after.
    Accept,
    /// They do not.
    Deny,
    /// The next tier decides.
    Pass,
}

/// A cluster-wide policy that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedPolicy {
    /// Its tier.
    pub tier: ClusterTier,
    /// Its place among the policies of its tier, the first being 0.
    pub priority: u16,
    /// Pods it judges.
    pub subject: Selection,
    /// What it says, the first rule that matches being the one that counts.
    pub rules: BTreeMap<Direction, Vec<RankedRule>>,
    /// What the user has to fix.
    pub complaints: Vec<String>,
}

/// A rule in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedRule {
    /// What becomes of the packets.
    pub action: Action,
    /// Rules one after the other with the same action are one run: their order cannot matter.
    pub run: u16,
    /// Which packets.
    pub rule: Rule,
}

impl RankedPolicy {
    /// The selections it needs, and what for.
    pub fn uses(&self) -> Vec<(Selection, Role)> {
        let mut uses: Vec<(Selection, Role)> = self
            .ranked()
            .flat_map(|(direction, ranked)| ranked.rule.uses(direction, &self.subject))
            .collect();
        if self.ranked().next().is_some() {
            uses.push((self.subject.clone(), Role::ClusterSubject));
        }
        uses.sort();
        uses.dedup();
        uses
    }

    /// The nodes it speaks of.
    pub fn nodes(&self) -> BTreeSet<&Selector> {
        let peers = self.ranked().flat_map(|(_, ranked)| ranked.rule.peers.iter().flatten());
        let nodes = peers.filter_map(|peer| if let Peer::Nodes(nodes) = peer { Some(nodes) } else { None });
        nodes.collect()
    }

    fn ranked(&self) -> impl Iterator<Item = (Direction, &RankedRule)> {
        self.rules
            .iter()
            .flat_map(|(direction, rules)| rules.iter().map(|rule| (*direction, rule)))
    }
}
