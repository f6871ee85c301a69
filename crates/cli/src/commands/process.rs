//! What the long-running subcommands share: logging, certificates, and a token that is cancelled by SIGTERM or Ctrl-C.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use netloom_ovsdb::client::Tls;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Logs to standard error; `RUST_LOG` chooses what.
pub fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
}

/// Cancelled when the process is asked to stop.
pub fn stop_on_signal() -> Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let stop = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    Ok(token)
}

/// Certificates for `ssl:` database servers; all three or none.
#[derive(clap::Args)]
pub struct TlsFlags {
    /// Certificate authority of ssl: servers (PEM)
    #[arg(long, requires_all = ["certificate", "private_key"])]
    ca_certificate: Option<PathBuf>,
    /// Our certificate for ssl: servers (PEM)
    #[arg(long, requires = "ca_certificate")]
    certificate: Option<PathBuf>,
    /// Our private key for ssl: servers (PEM)
    #[arg(long, requires = "ca_certificate")]
    private_key: Option<PathBuf>,
}

impl From<TlsFlags> for Option<Tls> {
    fn from(flags: TlsFlags) -> Self {
        Some(Tls {
            ca: flags.ca_certificate?,
            cert: flags.certificate?,
            key: flags.private_key?,
        })
    }
}
