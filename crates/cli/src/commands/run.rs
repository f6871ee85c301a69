//! `netloom run`: flags to [`netloom_ovn`], which starts the programs of OVN and Open vSwitch, in a cluster and in the lab.

mod node;
mod ovn;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use netloom_ovn::Manner;

use super::process;

/// Flags of `netloom run`.
#[derive(clap::Args)]
pub struct Run {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Run a member of the Northbound or Southbound database
    Database(ovn::DatabaseFlags),
    /// Run a relay in front of a member of the Southbound database, to which nodes connect
    Relay(ovn::RelayFlags),
    /// Run northd, which translates the Northbound into the Southbound database
    Northd(ovn::NorthdFlags),
    /// Run the database of this node's Open vSwitch
    SwitchDatabase(node::SwitchDatabaseFlags),
    /// Run this node's vswitchd
    Switch(node::SwitchFlags),
    /// Run ovn-controller, which programs this node's Open vSwitch from the Southbound database
    OvnController(node::OvnControllerFlags),
}

/// How a part runs.
#[derive(clap::Args)]
struct MannerFlag {
    /// Detach the program once it serves, and let it log to this file; by default it stays in the foreground and logs to standard error
    #[arg(long, value_name = "FILE")]
    detach: Option<PathBuf>,
}

impl From<MannerFlag> for Manner {
    fn from(flag: MannerFlag) -> Self {
        flag.detach.map_or(Manner::Foreground, Manner::Detached)
    }
}

/// Runs a part until it ends or is asked to stop.
pub fn run(flags: Run) -> Result<ExitCode> {
    process::log();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        match flags.part {
            Part::Database(flags) => flags.run().await,
            Part::Relay(flags) => flags.run().await,
            Part::Northd(flags) => flags.run().await,
            Part::SwitchDatabase(flags) => flags.run().await,
            Part::Switch(flags) => flags.run().await,
            Part::OvnController(flags) => flags.run().await,
        }
    })
}
