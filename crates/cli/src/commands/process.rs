//! What the long-running subcommands share: logging, certificates, the datapath, and a token that is cancelled by SIGTERM or Ctrl-C.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
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
        .with_ansi(std::io::stderr().is_terminal())
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

/// Certificates for `ssl:` database servers: a directory, or all three files, or none.
#[derive(clap::Args)]
pub struct TlsFlags {
    /// Directory with ca.crt, tls.crt and tls.key for ssl: servers
    #[arg(long, env = "NETLOOM_TLS", value_name = "DIRECTORY")]
    tls: Option<PathBuf>,
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

impl TlsFlags {
    /// The directory, if one was given.
    pub fn directory(&self) -> Option<PathBuf> {
        self.tls.clone()
    }
}

impl From<TlsFlags> for Option<Tls> {
    fn from(flags: TlsFlags) -> Self {
        match (flags.ca_certificate, flags.certificate, flags.private_key) {
            (Some(ca), Some(cert), Some(key)) => Some(Tls { ca, cert, key }),
            _ => flags.tls.map(|directory| netloom_certificate::in_directory(&directory)),
        }
    }
}

/// Where packets are switched.
#[derive(Clone, Copy, ValueEnum)]
pub enum DatapathFlag {
    Auto,
    Kernel,
    Userspace,
}

impl From<DatapathFlag> for netloom_agent::set_up::Datapath {
    fn from(flag: DatapathFlag) -> Self {
        match flag {
            DatapathFlag::Auto => Self::Auto,
            DatapathFlag::Kernel => Self::Kernel,
            DatapathFlag::Userspace => Self::Userspace,
        }
    }
}

impl From<DatapathFlag> for netloom_ovn::switch::Datapath {
    fn from(flag: DatapathFlag) -> Self {
        match flag {
            DatapathFlag::Auto => Self::Auto,
            DatapathFlag::Kernel => Self::Kernel,
            DatapathFlag::Userspace => Self::Userspace,
        }
    }
}

/// Reads a duration such as `90d`, `12h`, `10m` or `30s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration: write a number and one of s, m, h, d, for example 90d");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(wrong()),
    };
    let number: u32 = number.parse().map_err(|_| wrong())?;
    if number == 0 {
        return Err(wrong());
    }
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("90d"), Ok(Duration::from_secs(7_776_000)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        for text in ["", "d", "90", "0s", "-1m", "1é", "4294967296d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
