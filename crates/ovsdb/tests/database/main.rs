//! The client against the real `ovsdb-server` of the node image, standalone, clustered and with TLS.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod lock;
mod monitor;
mod older;
mod raft;
mod reconnect;
mod replica;
mod support;
mod tls;
mod transact;
