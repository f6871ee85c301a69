//! Annotations and taints of Node objects by which agents, controller and the removal of Netloom speak to each other.

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
