//! Isolation with real packets: of namespaces, their services, apps and security groups; TCP, UDP and ICMP, both families, on one node and
//! across nodes. What an operator types to see it is typed here.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod groups;
mod machines;
mod namespaces;
mod questions;
