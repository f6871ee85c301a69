//! Networks that users define, with real packets: who answers and whom it saw, in both families, on one node and across nodes.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod isolation;
mod life;
mod link;
mod objects;
mod policies;
mod questions;
mod routes;
mod services;
mod tenants;
