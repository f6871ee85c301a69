//! ovn-controller, which programs a node's Open vSwitch from the Southbound database.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use netloom_ovsdb::client::{Client, MonitorTable, Options, Tls};
use netloom_ovsdb::{Remotes, Row};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::file::make_directory;
use crate::program::{Manner, certificates, replace};

/// ovn-controller. Where the Southbound database is, it reads from the node's Open vSwitch database.
#[derive(Clone, Debug)]
pub struct OvnController {
    /// The node's own Open vSwitch database.
    pub ovs: String,
    /// Directory of sockets and process ids.
    pub run_directory: PathBuf,
    /// Where the agent receives the verdicts of policies to log.
    pub policy_log: SocketAddr,
    /// Certificates for the Southbound database.
    pub tls: Option<Tls>,
    /// How it runs.
    pub manner: Manner,
}

impl OvnController {
    /// Runs it once the agent has set the node up: before, it would make bridges of its own, and so it would after the agent has removed
    /// them. SIGTERM ends it without removing the node from the Southbound database: only its control command `exit` does that.
    pub async fn run(&self, stop: CancellationToken) -> Result<ExitCode> {
        make_directory(&self.run_directory)?;
        let ovs = self.ovs.parse().context("read the remotes of the switch's database")?;
        tokio::select! {
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
            ready = node_is_set_up(ovs) => ready?,
        }
        replace("ovn-controller", self.arguments())
    }

    fn arguments(&self) -> Vec<String> {
        // Ignored after `--log-file`.
        let mut arguments = vec![format!("--syslog-method=udp:{}", self.policy_log)];
        arguments.extend(self.manner.arguments(&self.run_directory, "ovn-controller"));
        arguments.push(self.ovs.clone());
        arguments.extend(self.tls.iter().flat_map(certificates));
        // Verdicts of policies go to the agent alone, which knows the names of pods.
        arguments.extend(["-vacl_log:console:off", "-vacl_log:file:off", "-vacl_log:syslog:info"].map(str::to_owned));
        arguments
    }
}

/// Waits until the node's Open vSwitch knows a Southbound database.
async fn node_is_set_up(ovs: Remotes) -> Result<()> {
    let mut options = Options::new(ovs, "Open_vSwitch");
    options.monitor = vec![MonitorTable {
        columns: Some(vec!["external_ids".to_owned()]),
        ..MonitorTable::all("Open_vSwitch")
    }];
    let (client, mut events) = Client::start(options);
    let knows = |row: &Row| row.get("external_ids").is_some_and(|ids| ids.get("ovn-remote").is_some());
    info!("waiting for the agent to set the node up");
    while client.read(|replica| replica.rows("Open_vSwitch").any(|(_, row)| knows(row))) != Some(true) {
        events.recv().await.context("the client of the switch's database ended")?;
    }
    Ok(())
}
