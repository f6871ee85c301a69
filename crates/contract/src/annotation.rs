//! Annotations and taints by which agents, controller, databases and the removal of Netloom speak to each other.

/// Prefix of every annotation, label and external id of ours.
pub const PREFIX: &str = "netloom.io/";
/// What a node's agent reports of its uplink, see [`Gateway`](crate::Gateway).
pub const GATEWAY: &str = "netloom.io/gateway";
/// Asks the agent to remove Netloom from the node, and says which installation is meant.
pub const REMOVE: &str = "netloom.io/remove";
/// The agent's answer to [`REMOVE`].
pub const REMOVED: &str = "netloom.io/removed";
/// Taint of a node whose pods cannot be attached yet.
pub const NOT_READY: &str = "netloom.io/not-ready";

/// On the Service of the databases: the cluster its Northbound members form.
pub const NORTHBOUND_CLUSTER: &str = "netloom.io/northbound-cluster";
/// The same of its Southbound members.
pub const SOUTHBOUND_CLUSTER: &str = "netloom.io/southbound-cluster";
/// On the Service of the databases: members that were removed from the Northbound cluster.
pub const NORTHBOUND_REMOVED: &str = "netloom.io/northbound-removed";
/// The same of the Southbound cluster.
pub const SOUTHBOUND_REMOVED: &str = "netloom.io/southbound-removed";
