//! Starts the programs of OVN and Open vSwitch: the databases, northd, and what runs on each node.
//!
//! ```text
//! options ──► prepare (directories, database files) ──► arguments ──► the program, in place of this process or as its child
//! ```
//!
//! Called by `netloom run`, one process per program, in a cluster and in the lab. A program that needs nothing but arguments replaces the
//! process; one that has to follow the cluster is its child. The argument lists of all programs are in this crate and nowhere else. What differs
//! between a cluster and the lab is a parameter: certificates, the number of members, the datapath, and the [`Manner`].

pub mod database;
mod file;
pub mod northd;
pub mod ovn_controller;
mod program;
mod queues;
pub mod relay;
pub mod switch;

use netloom_discovery::{Members, Service};
use tokio::sync::watch::Receiver;

pub use program::Manner;

/// How the members of the databases are found.
#[derive(Clone)]
pub struct Discovery {
    /// A client of the Kubernetes API.
    pub client: kube::Client,
    /// The Service whose endpoints are the members.
    pub service: Service,
}

impl Discovery {
    /// The members, as they are now and whenever they change.
    fn members(&self) -> Receiver<Members> {
        netloom_discovery::watch(self.client.clone(), self.service.clone())
    }
}
