//! Who may talk to whom: NetworkPolicy, the cluster-wide policies of policy.networking.k8s.io, SecurityGroups and isolation, as their
//! definitions say, evaluated one question at a time.
//!
//! ```text
//! Kubernetes objects ──read──► Cluster ──judge(Question)──► Verdict ──text──► words
//! ```
//!
//! Used by `netloom why`, and by tests as the oracle the ACLs are compared with. It knows nothing of ACLs, port groups or OVN, and it
//! must stay so: two programs that share their reading of a policy also share their mistakes. Pure: values in, values out.

mod app;
mod ask;
mod cluster;
mod cluster_policy;
mod evaluate;
mod fields;
mod group;
mod isolation;
mod judge;
mod labels;
mod network;
mod policy;
mod problem;
mod read;
mod reader;
mod resolve;
mod service;
mod text;
mod verdict;

pub use app::{App, Apps};
pub use ask::{Declared, Question, Source, Target, declared, port_to_ask};
pub use cluster::{Cluster, ContainerPort, Labels, Name, Namespace, Node, Pod, Protocol};
pub use cluster_policy::{
    Action, ClusterKind, ClusterPeer, ClusterPolicy, ClusterPolicyName, ClusterPorts, ClusterRule, ClusterRuleName, Pods, Scope, Tier,
};
pub use group::{GroupProtocol, GroupRule, Remote, SecurityGroup};
pub use isolation::{Crossing, Isolation, Shut};
pub use judge::judge;
pub use labels::Selector;
pub use network::Network;
pub use policy::{Block, Direction, Peer, Policy, PortMatch, Ports, Rule};
pub use problem::{Object, Problem};
pub use resolve::Unknown;
pub use service::{Endpoint, Service, ServicePort, Slice, SlicePort, TargetPort};
pub use text::words;
pub use verdict::{Decision, End, Flow, GroupRuleName, Miss, Party, RuleName, Side, Step, Verdict, Why};
