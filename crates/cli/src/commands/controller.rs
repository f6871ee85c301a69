//! `netloom controller`: flags to [`netloom_controller`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use super::process::{self, TlsFlags};

/// Flags of `netloom controller`.
#[derive(clap::Args)]
pub struct Controller {
    /// Kubeconfig file; without one the pod's own service account is used
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Northbound database servers, e.g. tcp:10.0.0.1:6641,tcp:10.0.0.2:6641
    #[arg(long, env = "NETLOOM_NORTHBOUND", default_value = "unix:/run/ovn/ovnnb_db.sock")]
    northbound: String,
    /// Where to serve /metrics, /healthz and /readyz
    #[arg(long, default_value = "0.0.0.0:9641")]
    http: SocketAddr,
    #[command(flatten)]
    tls: TlsFlags,
}

/// Runs the controller until it is asked to stop.
pub fn run(flags: Controller) -> Result<ExitCode> {
    process::log();
    let options = netloom_controller::Options {
        kubeconfig: flags.kubeconfig,
        northbound: flags.northbound,
        http: Some(flags.http),
        tls: flags.tls.into(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async { netloom_controller::run(options, process::stop_on_signal()?).await })?;
    Ok(ExitCode::SUCCESS)
}
