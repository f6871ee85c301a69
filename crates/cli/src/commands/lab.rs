//! `netloom lab`: flags to [`netloom_lab`] and its output for people.

use std::process::ExitCode;

/// Flags of `netloom lab`.
#[derive(clap::Args)]
pub struct Lab {}

/// Runs one `netloom lab` subcommand.
pub fn run(_lab: Lab) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
