//! Source ports of what leaves a node by its service port. All of it has the address of that port; by these, a pod tells what the node itself
//! sends from what the node translates for others, who asked for a node port.

use std::ops::RangeInclusive;

/// Of what the node itself sends.
pub const OF_NODE: RangeInclusive<u16> = 1024..=16383;
/// Of what it translates for others. They are many: whoever uses up all of these takes the node port away from the rest.
pub const OF_OTHERS: RangeInclusive<u16> = 16384..=65535;
