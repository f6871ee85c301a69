//! Addresses: who has which. Decisions ([`crate::decide`]) choose, [`Records`] keep what was chosen. The durable record is a row of the
//! Northbound database: the port's own, the announcer's of a service, the switch of a node, the router of a network.
//!
//! Invariant: an address, and an Ethernet address on a segment, belongs to at most one holder.

mod names;
mod records;

pub use names::{Holder, PortName, PortParts, Segment, Space};
pub use netloom_contract::Mac;
pub use records::{Assignment, Attachment, External, NetworkRecord, Records};

/// Number of the router's address in a node subnet.
pub const GATEWAY_HOST: u64 = 1;
/// Number of the management port's address in a node subnet.
pub const MANAGEMENT_HOST: u64 = 2;
/// Number of the service port's address in a node subnet.
pub const SERVICE_HOST: u64 = 3;
/// Number of the address OVN's health checks come from in a node subnet; no port has it.
pub const PROBE_HOST: u64 = 4;
/// Number of the first address in a node subnet that pods can have.
pub const FIRST_POD_HOST: u64 = 5;
