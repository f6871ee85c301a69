//! Source ports of what leaves a node by its service port. All of it has the address of that port; by these, a pod tells what the node itself
//! sends from what the node translates for others, who asked for a node port.

use std::ops::RangeInclusive;

/// Of what the node itself sends.
pub const OF_NODE: RangeInclusive<u16> = 1024..=60999;
/// Of what it translates for others.
pub const OF_OTHERS: RangeInclusive<u16> = 61000..=65535;
