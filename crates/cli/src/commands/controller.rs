//! `netloom controller`: flags to [`netloom_controller`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use netloom_controller::certificates;
use netloom_discovery::Service;

use super::process::{self, TlsFlags};

/// Flags of `netloom controller`.
#[derive(clap::Args)]
pub struct Controller {
    /// Kubeconfig file; the pod's own service account by default
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Northbound database servers, e.g. tcp:10.0.0.1:6641,tcp:10.0.0.2:6641
    #[arg(long, env = "NETLOOM_NORTHBOUND", default_value = "unix:/run/ovn/ovnnb_db.sock")]
    northbound: String,
    /// Service whose endpoints serve the databases, as NAMESPACE/NAME, instead of --northbound
    #[arg(long, env = "NETLOOM_DATABASES", conflicts_with = "northbound")]
    databases: Option<Service>,
    /// After this long without a sign of life the Northbound database is probed, e.g. 5s; after as long again it is given up
    #[arg(long, default_value = "5s", value_parser = process::duration)]
    northbound_probe: Duration,
    /// How many operations a transaction may have; what differs by more is committed in several
    #[arg(long, value_name = "OPERATIONS", default_value_t = 2000)]
    largest_commit: usize,
    /// Where to serve /metrics, /healthz and /readyz
    #[arg(long, default_value = "127.0.0.1:9641")]
    http: SocketAddr,
    #[command(flatten)]
    tls: TlsFlags,
    /// Namespace of the Secrets in which the certificates of all components are issued and renewed
    #[arg(long, value_name = "NAMESPACE")]
    issue_certificates: Option<String>,
    /// Directory for the controller's own certificate
    #[arg(long, default_value = "/run/netloom/tls")]
    tls_directory: PathBuf,
    /// How long issued certificates are valid, e.g. 90d or 10m; they are renewed after two thirds of it
    #[arg(long, default_value = "90d", value_parser = process::duration)]
    certificate_lifetime: Duration,
    /// How long certificates of nodes are valid
    #[arg(long, default_value = "7d", value_parser = process::duration)]
    node_certificate_lifetime: Duration,
}

/// Runs the controller until it is asked to stop.
pub fn run(flags: Controller) -> Result<ExitCode> {
    process::log();
    let certificates = flags.issue_certificates.map(|namespace| certificates::Options {
        namespace,
        directory: flags.tls_directory.clone(),
        lifetime: flags.certificate_lifetime,
        node_lifetime: flags.node_certificate_lifetime,
    });
    let own = certificates
        .as_ref()
        .map(|_| netloom_certificate::in_directory(&flags.tls_directory));
    let options = netloom_controller::Options {
        kubeconfig: flags.kubeconfig,
        northbound: flags.northbound,
        databases: flags.databases,
        probe: flags.northbound_probe,
        largest_commit: flags.largest_commit,
        http: Some(flags.http),
        tls: Option::from(flags.tls).or(own),
        certificates,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async { netloom_controller::run(options, process::stop_on_signal()?).await })?;
    Ok(ExitCode::SUCCESS)
}
