//! The one reader of Kubernetes objects: JSON, as the API server or a file has it, to the [`Object`](netloom_network::Object)s of the
//! pure core. A kind is stated once, as a row of the table in [`kind`].
//!
//! ```text
//! watch, list (controller) ──┐
//!                            ├─ Kind::deserialize ──► Object ──► Cluster
//! files (manifest) ──────────┘
//! ```
//!
//! Only the fields the network depends on are kept; the others are skipped while the JSON is parsed. Reading is a pure function, so that
//! the controller, `netloom plan` and the scenarios read alike.

mod absent;
mod endpoint_slice;
pub mod kind;
pub mod manifest;
mod metadata;
mod namespace;
mod node;
mod null;
mod pod;
mod policy;
mod service;
mod texts;

pub use kind::{Kind, Read, Resource, Visit};
