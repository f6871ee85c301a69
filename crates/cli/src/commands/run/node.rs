//! Flags of the parts that run on every node: Open vSwitch, its database, and ovn-controller.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use netloom_agent::policy_log;
use netloom_ovn::ovn_controller::OvnController;
use netloom_ovn::switch::{Switch, SwitchDatabase};

use super::MannerFlag;
use super::process::{DatapathFlag, TlsFlags, stop_on_signal};

/// Flags of `netloom run switch-database`.
#[derive(clap::Args)]
pub struct SwitchDatabaseFlags {
    /// The database file
    #[arg(long, default_value = "/etc/openvswitch/conf.db")]
    file: PathBuf,
    /// Its schema
    #[arg(long, default_value = "/usr/share/openvswitch/vswitch.ovsschema")]
    schema: PathBuf,
    /// Directory of sockets and process ids
    #[arg(long, default_value = "/run/openvswitch")]
    run_directory: PathBuf,
    #[command(flatten)]
    manner: MannerFlag,
}

impl SwitchDatabaseFlags {
    /// Serves the database.
    pub async fn run(self) -> Result<ExitCode> {
        let database = SwitchDatabase {
            file: self.file,
            schema: self.schema,
            run_directory: self.run_directory,
            manner: self.manner.into(),
        };
        database.run().await
    }
}

/// Flags of `netloom run switch`.
#[derive(clap::Args)]
pub struct SwitchFlags {
    /// Datapath; auto is the kernel if it has the openvswitch module, else userspace
    #[arg(long, value_enum, default_value = "auto")]
    datapath: DatapathFlag,
    /// Directory of sockets and process ids
    #[arg(long, default_value = "/run/openvswitch")]
    run_directory: PathBuf,
    #[command(flatten)]
    manner: MannerFlag,
}

impl SwitchFlags {
    /// Runs vswitchd until it ends or is asked to stop.
    pub async fn run(self) -> Result<ExitCode> {
        let switch = Switch {
            datapath: self.datapath.into(),
            run_directory: self.run_directory,
            manner: self.manner.into(),
        };
        switch.run(stop_on_signal()?).await
    }
}

/// Flags of `netloom run ovn-controller`.
#[derive(clap::Args)]
pub struct OvnControllerFlags {
    /// The node's own Open vSwitch database
    #[arg(long, default_value = "unix:/run/openvswitch/db.sock")]
    ovs: String,
    /// Directory of sockets and process ids
    #[arg(long, default_value = "/run/ovn")]
    run_directory: PathBuf,
    /// Address at which the agent receives the verdicts of policies to log
    #[arg(long, default_value = policy_log::ADDRESS)]
    policy_log: SocketAddr,
    #[command(flatten)]
    tls: TlsFlags,
    #[command(flatten)]
    manner: MannerFlag,
}

impl OvnControllerFlags {
    /// Runs ovn-controller until it ends or is asked to stop.
    pub async fn run(self) -> Result<ExitCode> {
        let controller = OvnController {
            ovs: self.ovs,
            run_directory: self.run_directory,
            manner: self.manner.into(),
            policy_log: self.policy_log,
            tls: self.tls.into(),
        };
        controller.run(stop_on_signal()?).await
    }
}
