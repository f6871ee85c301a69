//! `netloom agent`: flags to [`netloom_agent`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use super::process::{self, TlsFlags};

/// Flags of `netloom agent`.
#[derive(clap::Args)]
pub struct Agent {
    /// Name of this node in Kubernetes, also its OVN chassis name
    #[arg(long, env = "NODE_NAME")]
    node: String,
    /// Southbound database servers, e.g. tcp:10.0.0.1:6642
    #[arg(long, env = "NETLOOM_SOUTHBOUND")]
    southbound: String,
    /// The node's own Open vSwitch database
    #[arg(long, default_value = "unix:/run/openvswitch/db.sock")]
    ovs: String,
    /// Kubeconfig file; without one the pod's own service account is used
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Socket on which netloom-cni finds the agent
    #[arg(long, default_value = "/run/netloom/cni.sock")]
    socket: PathBuf,
    /// Where to serve /metrics, /healthz and /readyz
    #[arg(long, default_value = "0.0.0.0:9642")]
    http: SocketAddr,
    /// MTU of pods, instead of the underlay's less the tunnel header
    #[arg(long)]
    mtu: Option<u32>,
    #[command(flatten)]
    tls: TlsFlags,
}

/// Runs the agent until it is asked to stop.
pub fn run(flags: Agent) -> Result<ExitCode> {
    process::log();
    let options = netloom_agent::Options {
        ovs: flags.ovs,
        kubeconfig: flags.kubeconfig,
        socket: flags.socket,
        health: Some(flags.http),
        mtu: flags.mtu,
        tls: flags.tls.into(),
        ..netloom_agent::Options::new(flags.node, flags.southbound)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(netloom_agent::run(options))?;
    Ok(ExitCode::SUCCESS)
}
