//! What OVN has to carry: clusters generated for one feature at a time, compiled by the core, given to a real northd and a real
//! ovn-controller, and counted there.
//!
//! ```text
//! Feature + Size ──► manifests ──core──► Northbound ──► northd ──► Southbound ──► ovn-controller ──► br-int (dummy datapath)
//!                                        rows                      logical flows   CPU, memory       OpenFlow flows
//! ```
//!
//! `make bench BENCH=cost` prints these numbers, and the test `cost` asserts how they grow. One chassis is real. All others are rows that claim
//! what belongs to them, so that the real one has the tunnels and the neighbours it would have. No packet is sent and no device is made:
//! vswitchd runs its dummy datapath. A fixture that cannot be made is a failure: everything here panics instead of returning an error.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod chassis;
mod claims;
pub mod cluster;
pub mod feature;
pub mod growth;
mod ovn;
mod process;
mod watch;

pub use cluster::Size;
pub use feature::{FEATURES, Feature};
pub use growth::Growth;
pub use ovn::{Counts, Measure, Ovn};
pub use process::Process;
