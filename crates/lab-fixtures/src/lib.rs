//! What the packet tests share: labs that are checked and removed, questions whose answers are packets, and random clusters.
//!
//! Only tests with a lab use this; what tests of other crates need too is in `netloom-fixtures`. A fixture that cannot be made is a failed
//! test: everything here panics instead of returning an error.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod ask;
pub mod generate;
mod lint;
pub mod policies;
mod shared;
pub mod world;

pub use shared::SharedLab;
