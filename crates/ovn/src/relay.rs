//! A relay in front of one member of the Southbound database: where nodes connect to.
//!
//! ```text
//! ovn-controller, agent ──TLS, role ovn-controller──► relay ──unix socket──► member ◄──TLS── northd, other members
//! ```
//!
//! A database server has one set of trusted authorities for all its connections, those of other members too. What a node has must not
//! make it a member, so nodes are served by a process of their own, which trusts them; the member does not. The relay checks what each
//! chassis may write (OVN's RBAC, by the name in its certificate) before it passes a transaction on.
//!
//! What a chassis may write, northd writes to the database. Before that it may write nothing, and an ovn-controller that is refused does not
//! try again until something else changes. So nodes are served once northd has written it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use netloom_discovery::Database;
use netloom_ovsdb::client::{Client, MonitorTable, Options, Tls};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::file::{make_directory, write};
use crate::program::{Manner, certificates, replace};

/// The role of nodes: northd writes to the database what it may do.
const ROLE: &str = "ovn-controller";
/// What the names of its files begin with.
const NAME: &str = "ovnsb_relay";

/// A relay.
#[derive(Clone, Debug)]
pub struct Relay {
    /// Address of this node, at which other nodes reach it.
    pub address: IpAddr,
    /// The socket of the member.
    pub member: PathBuf,
    /// Its certificate and key; `ca` is the file with the authorities that nodes are trusted by.
    pub tls: Tls,
    /// Directory of sockets and process ids.
    pub run_directory: PathBuf,
}

impl Relay {
    /// Runs it in place of this process, once the member has the role of nodes.
    pub async fn run(&self, stop: CancellationToken) -> Result<ExitCode> {
        make_directory(&self.run_directory)?;
        write(&self.path("json"), &self.configuration())?;
        tokio::select! {
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
            ready = self.role_is_known() => ready?,
        }
        replace("ovsdb-server", self.arguments())
    }

    async fn role_is_known(&self) -> Result<()> {
        let member = format!("unix:{}", self.member.display());
        let mut options = Options::new(member.parse().context("read the member's socket")?, Database::Southbound.name());
        options.monitor = vec![MonitorTable::all("RBAC_Role")];
        let (client, mut events) = Client::start(options);
        info!(role = ROLE, "waiting for northd to write what nodes may do");
        let is_known = || {
            client.read(|replica| {
                replica
                    .rows("RBAC_Role")
                    .any(|(_, row)| row.get("name").is_some_and(|name| name.as_str() == Some(ROLE)))
            })
        };
        while is_known() != Some(true) {
            events.recv().await.context("the client of the member ended")?;
        }
        Ok(())
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.run_directory.join(format!("{NAME}.{suffix}"))
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = Manner::Foreground.arguments(&self.run_directory, NAME);
        arguments.extend(certificates(&self.tls));
        arguments.push(format!("--config-file={}", self.path("json").display()));
        arguments
    }

    /// The only way to give a role to a remote that is no row of the database.
    fn configuration(&self) -> String {
        let nodes = match self.address {
            IpAddr::V4(address) => format!("pssl:{}:{address}", Database::Southbound.port()),
            IpAddr::V6(address) => format!("pssl:{}:[{address}]", Database::Southbound.port()),
        };
        let probes = format!("punix:{}", self.path("sock").display());
        let member = format!("unix:{}", self.member.display());
        json!({
            "remotes": { probes: {}, nodes: { "role": ROLE } },
            "databases": { Database::Southbound.name(): { "service-model": "relay", "source": { member: {} } } },
        })
        .to_string()
    }
}
