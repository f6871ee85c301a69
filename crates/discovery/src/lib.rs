//! Finds the members of the OVN databases: the endpoints of a headless Service of the Kubernetes API.
//!
//! ```text
//! EndpointSlices of a Service ──watch──► Members (host name ─► address) ──► remotes of a database ──► Client::set_remotes
//! ```
//!
//! Called by everything that speaks to the databases in a cluster. Members only ever go from one known state to another: when the API
//! cannot be reached, the last ones stay.

mod members;
mod watch;

pub use members::{Database, InvalidService, Members, Service};
pub use watch::{WatchBackoff, follow, known, watch};
