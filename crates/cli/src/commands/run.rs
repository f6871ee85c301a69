//! `netloom run`: the programs of OVN and Open vSwitch as containers want them: prepared, in the foreground, logging to standard error.
//!
//! Those that need nothing but arguments replace this process; those that have to follow the cluster are its children.

mod child;
mod database;
mod northd;
mod queues;
mod switch;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use netloom_discovery::{Members, Service};
use tokio::sync::watch::Receiver;

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
    Database(database::Flags),
    /// Run northd, which translates the Northbound into the Southbound database
    Northd(northd::Flags),
    /// Run the database of this node's Open vSwitch
    SwitchDatabase(switch::DatabaseFlags),
    /// Run this node's vswitchd
    Switch(switch::SwitchFlags),
    /// Run ovn-controller, which programs this node's Open vSwitch from the Southbound database
    OvnController(switch::OvnControllerFlags),
}

/// Runs a part until it ends or is asked to stop.
pub fn run(flags: Run) -> Result<ExitCode> {
    process::log();
    match flags.part {
        Part::SwitchDatabase(flags) => switch::database(&flags),
        Part::Switch(flags) => switch::switch(&flags),
        Part::OvnController(flags) => switch::ovn_controller(flags),
        Part::Database(flags) => block_on(database::run(flags)),
        Part::Northd(flags) => block_on(northd::run(flags)),
    }
}

fn block_on<T>(part: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(part)
}

/// Where the members of the databases are found.
#[derive(clap::Args)]
struct Cluster {
    /// Service whose endpoints serve the databases, as NAMESPACE/NAME
    #[arg(long, visible_alias = "service", env = "NETLOOM_DATABASES")]
    databases: Service,
    /// Kubeconfig file; the pod's own service account by default
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

impl Cluster {
    /// A client, and the members as it tells them.
    async fn watch(&self) -> Result<(kube::Client, Receiver<Members>)> {
        let client = netloom_controller::kubernetes(self.kubeconfig.as_deref()).await?;
        let members = netloom_discovery::watch(client.clone(), self.databases.clone());
        Ok((client, members))
    }
}
