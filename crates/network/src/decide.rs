//! Decisions: who is given which addresses. Each is a function of what Kubernetes says and of what was decided so far, and its outcome,
//! a choice and the reasons why it is not all that was wanted, is recorded. Units read the record and decide nothing.
//!
//! A decision keeps what is recorded as long as that is valid, so that deciding again changes nothing: what [`undecided`] asserts.

mod allocator;
pub(crate) mod external;
mod network;
mod node;
mod port;
mod settings;

use crate::cluster::{Cluster, NodeName, View};
use crate::ipam::{Assignment, External, NetworkRecord, PortName};
use crate::plan::Work;
use crate::problem::Problem;
use crate::service::ServiceName;
use crate::settings::Settings;

/// Something to decide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// The addressing of the cluster.
    Settings,
    /// Which subnets a node has.
    Node(NodeName),
    /// What of a `Network` is in force, and which address its router has on the join switch.
    Network(String),
    /// Which addresses a port has.
    Port(PortName),
    /// Which external addresses a service has.
    External(ServiceName),
}

/// What was chosen; none gives back what was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Settings(Option<Settings>),
    Slot(Option<u64>),
    Network(Option<NetworkRecord>),
    Port(Option<Assignment>),
    External(Option<External>),
}

/// What came of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) choice: Choice,
    /// Why it is not all that was wanted.
    pub(crate) refusals: Vec<Problem>,
}

impl Outcome {
    fn of(choice: Choice) -> Self {
        Self {
            choice,
            refusals: Vec::new(),
        }
    }

    fn but(mut self, refusal: Problem) -> Self {
        self.refusals.push(refusal);
        self
    }
}

/// In which order decisions are made, the least first: what is given back can be given to another, and what follows from something is
/// decided after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Gives something back.
    Release,
    Settings,
    /// Nodes that remember their subnets come first: subnets in use are never given to another.
    Node {
        forgetful: bool,
    },
    Network,
    /// Pods whose status shows addresses come first: an address in use is never given to another.
    Port {
        unknown: bool,
    },
    /// The same for services; then those that ask for an address, then the oldest.
    External {
        unknown: bool,
        undemanding: bool,
        created: String,
    },
}

impl Decision {
    /// Decides.
    pub(crate) fn decide(&self, view: &View<'_>) -> Outcome {
        match self {
            Self::Settings => settings::decide(view),
            Self::Node(name) => node::decide(view, name),
            Self::Network(name) => network::decide(view, name),
            Self::Port(name) => port::decide(view, name),
            Self::External(name) => external::decide(view, name),
        }
    }

    /// When to decide, as things are now.
    pub(crate) fn rank(&self, cluster: &Cluster) -> Rank {
        let view = View::new(cluster);
        match self {
            Self::Settings => Rank::Settings,
            Self::Node(name) => node::rank(&view, name),
            Self::Network(_) => Rank::Network,
            Self::Port(name) => port::rank(&view, name),
            Self::External(name) => external::rank(&view, name),
        }
    }
}

/// Decisions that would come out otherwise than recorded: none, after a compile.
pub fn undecided(cluster: &Cluster) -> Vec<Decision> {
    let differs = |decision: &Decision| {
        let Outcome { choice, refusals } = decision.decide(&View::new(cluster));
        let known = cluster.records.refusals.get(decision).cloned().unwrap_or_default();
        choice != cluster.records.choice(decision) || refusals != known
    };
    let decisions = cluster.work().into_iter().filter_map(|work| match work {
        Work::Decide(decision) => Some(decision),
        Work::Compile(_) => None,
    });
    decisions.filter(differs).collect()
}
