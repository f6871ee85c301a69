//! What the programs agree on: the controller writes rows that agents read, agents write annotations that the controller reads, the plugin and the
//! agent answer a container runtime. Each key, name and code is stated here, and nowhere else.
//!
//! Values only. Whoever changes one changes what running clusters have written: a new controller meets old agents during an upgrade, and the reverse.

pub mod annotation;
pub mod balancer;
pub mod cni;
pub mod external_id;
mod gateway;
mod mac;
pub mod name;
mod protocol;
mod service_mode;
pub mod source_port;

pub use gateway::Gateway;
pub use mac::Mac;
pub use protocol::Protocol;
pub use service_mode::ServiceMode;
