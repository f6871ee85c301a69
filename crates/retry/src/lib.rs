//! How our processes try again: one back-off, and one loop that keeps something as it should be.
//!
//! ```text
//! something changes ──► Changes ──► converge ──► Converge::apply ──fails──► Backoff ──► apply again, or at the next change
//! ```
//!
//! Nothing here knows what is kept or whom it asks.

mod backoff;
mod changes;
mod converge;

pub use backoff::Backoff;
pub use changes::Changes;
pub use converge::{Converge, Every, converge};
