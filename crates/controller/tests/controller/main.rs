//! The controller against a real Northbound `ovsdb-server` of the node image and a Kubernetes API on loopback: what is in one
//! arrives in the other, whoever dies, changes rows by hand or makes a mistake on the way.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod certificates;
mod cluster_policies;
mod external;
mod hands;
mod isolation;
mod large;
mod outages;
mod pods;
mod policies;
mod ports;
mod problems;
mod refusals;
mod services;
mod takeover;
mod world;
