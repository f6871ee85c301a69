//! The pure core: from a [`Cluster`] (what Kubernetes says) to a [`Northbound`] (what OVN must hold) and the [`Problem`]s in between.
//!
//! ```text
//! objects ──► Cluster ──compile──► Northbound ──diff(observed)──► Transaction
//!                ▲                     │
//!                └── recorded addresses┘
//! ```
//!
//! Nothing here waits, reads a clock, draws a random number, opens a socket or logs; the dependency list proves it.
//! Rows are produced by [`Unit`]s, each a function of the cluster alone, so a change recompiles only the units it touches and
//! recompiling everything gives the same rows.

pub mod annotations;
pub mod app;
pub mod check;
pub mod cluster;
pub mod custom_network;
pub mod decide;
pub mod diff;
pub mod external;
pub mod facts;
pub mod ipam;
pub mod isolation;
pub mod key;
pub mod northbound;
pub mod plan;
pub mod policy;
pub mod port;
pub mod problem;
pub mod rows;
pub mod security_group;
pub mod service;
pub mod settings;
pub mod show;
pub mod status;
pub mod text;
pub mod unit;

pub use cluster::{Cluster, Namespaced, Node, NodeName, Object, Pod, PodName};
pub use custom_network::CustomNetwork;
pub use diff::diff;
pub use key::Key;
pub use northbound::{Member, Northbound, RowId};
pub use plan::{Part, Planner, Scope};
pub use policy::{ClusterPolicy, ClusterPolicyKind, ClusterPolicyName, Namespace, NetworkPolicy, PolicyName};
pub use problem::{ObjectRef, Problem};
pub use security_group::{SecurityGroup, SecurityGroupName};
pub use service::{EndpointSlice, ExternalPool, Service, ServiceName, SliceName};
pub use status::{Shows, Status};
pub use unit::Unit;
