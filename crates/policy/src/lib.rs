//! Who may talk to whom: NetworkPolicy (networking.k8s.io/v1) as the Kubernetes API defines it, evaluated one question at a time.
//!
//! ```text
//! Kubernetes objects ──read──► Cluster ──judge(Question)──► Verdict ──text──► words
//! ```
//!
//! Used by `netloom why`, and by tests as the oracle the ACLs are compared with. It knows nothing of ACLs, port groups or OVN, and it
//! must stay so: two programs that share their reading of a policy also share their mistakes. Pure: values in, values out.

mod ask;
mod cluster;
mod evaluate;
mod fields;
mod judge;
mod labels;
mod policy;
mod problem;
mod read;
mod resolve;
mod service;
mod text;
mod verdict;

pub use ask::{Declared, Question, Source, Target, declared, port_to_ask};
pub use cluster::{Cluster, ContainerPort, Labels, Name, Node, Pod, Protocol};
pub use judge::judge;
pub use labels::Selector;
pub use policy::{Block, Direction, Peer, Policy, PortMatch, Ports, Rule};
pub use problem::Problem;
pub use resolve::Unknown;
pub use service::{Endpoint, Service, ServicePort, Slice, SlicePort, TargetPort};
pub use text::words;
pub use verdict::{Decision, End, Flow, Miss, Party, RuleName, Verdict, Why};
