//! Looks at a node or at a cluster, and says what to do about each finding.
//!
//! ```text
//! node, cluster (thin readers) ──facts──► judge (pure) ──findings──► who asked
//! ```
//!
//! Nothing is changed by looking. What cannot be read is a finding of its own, never the end of the examination.

mod cluster;
mod finding;
mod judge;
mod node;
mod unseen;

use std::path::PathBuf;

use anyhow::Result;

pub use finding::{Finding, State};

/// How to look at a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Kubeconfig file; without one the usual places, then the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace Netloom is installed in.
    pub namespace: String,
    /// The Service of the databases, as NAMESPACE/SERVICE, if these are to be looked at too.
    pub databases: Option<String>,
    /// Directory of certificates for the databases.
    pub tls: Option<PathBuf>,
}

/// How to look at this machine.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Name of this node in Kubernetes; without one its host name.
    pub node: Option<String>,
    /// Kubeconfig file, to compare clocks with the API server and to find the databases.
    pub kubeconfig: Option<PathBuf>,
    /// The Service of the databases, as NAMESPACE/SERVICE; without one the Southbound servers configured in Open vSwitch.
    pub databases: Option<String>,
    /// Directory of certificates for the databases.
    pub tls: Option<PathBuf>,
    /// The node's own Open vSwitch database.
    pub ovs: String,
    /// Directory of ovn-controller's management socket.
    pub ovn_run_directory: PathBuf,
    /// Socket of the agent.
    pub socket: PathBuf,
    /// Directory of CNI plugins.
    pub cni_bin_directory: PathBuf,
    /// Directory of CNI configurations.
    pub cni_conf_directory: PathBuf,
}

/// All findings about a cluster.
pub async fn examine_cluster(options: &ClusterOptions) -> Result<Vec<Finding>> {
    Ok(judge::cluster(&cluster::gather(options).await?))
}

/// All findings about this machine.
pub async fn examine_node(options: &NodeOptions) -> Result<Vec<Finding>> {
    Ok(judge::node(&node::gather(options).await?))
}
