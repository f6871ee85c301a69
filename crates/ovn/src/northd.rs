//! ovn-northd, which translates the Northbound into the Southbound database, with the databases' members as they are now.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use netloom_discovery::{Database, Members, known};
use netloom_ovsdb::client::{Remotes, Tls};
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::Discovery;
use crate::file::make_directory;
use crate::program::{Child, Manner, certificates, code, replace};

/// ovn-northd.
pub struct Northd {
    /// Where the databases are.
    pub databases: Databases,
    /// Certificates for the databases.
    pub tls: Option<Tls>,
    /// Directory of sockets and process ids.
    pub run_directory: PathBuf,
    /// How it runs; one that follows members cannot be detached.
    pub manner: Manner,
}

/// Where the databases are.
pub enum Databases {
    /// At these servers.
    Fixed {
        /// Those of the Northbound database.
        northbound: Remotes,
        /// Those of the Southbound database.
        southbound: Remotes,
    },
    /// At members that may move.
    Members(Discovery),
}

impl Northd {
    /// Runs it until it ends or `stop`.
    pub async fn run(&self, stop: CancellationToken) -> Result<ExitCode> {
        make_directory(&self.run_directory)?;
        match &self.databases {
            Databases::Fixed { northbound, southbound } => replace("ovn-northd", self.arguments(northbound, southbound)),
            Databases::Members(discovery) => self.follow(discovery.members(), stop).await,
        }
    }

    async fn follow(&self, mut members: Receiver<Members>, stop: CancellationToken) -> Result<ExitCode> {
        ensure!(
            !self.manner.is_detached(),
            "northd has to follow the members of the databases and cannot be detached; pass --northbound and --southbound"
        );
        tokio::select! {
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
            _ = known(&mut members) => {}
        }
        loop {
            let running = members.borrow_and_update().clone();
            let remotes = |database| {
                running
                    .member_remotes(database, self.tls.is_some())
                    .context("find the databases' members")
            };
            let arguments = self.arguments(&remotes(Database::Northbound)?, &remotes(Database::Southbound)?);
            let mut northd = Child::start("ovn-northd", arguments)?;
            tokio::select! {
                () = stop.cancelled() => {
                    northd.stop().await?;
                    return Ok(ExitCode::SUCCESS);
                }
                status = northd.ended() => return Ok(code("ovn-northd", status?)),
                () = elsewhere(&mut members, &running) => {
                    info!("a member of the databases is at a new address, restarting ovn-northd");
                    northd.stop().await?;
                }
            }
        }
    }

    fn arguments(&self, northbound: &Remotes, southbound: &Remotes) -> Vec<String> {
        let mut arguments = self.manner.arguments(&self.run_directory, "ovn-northd");
        arguments.extend([format!("--ovnnb-db={northbound}"), format!("--ovnsb-db={southbound}")]);
        arguments.extend(self.tls.iter().flat_map(certificates));
        arguments
    }
}

/// Waits until a member is where none was. One that is gone for a while is no reason to restart: its address stays a good try.
async fn elsewhere(members: &mut Receiver<Members>, running: &Members) {
    let moved = members
        .wait_for(|now| now.iter().any(|(_, address)| !running.has(address)))
        .await
        .map(drop);
    if moved.is_err() {
        std::future::pending().await
    }
}
