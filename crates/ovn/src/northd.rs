//! ovn-northd with the databases' members as they are now, and the settings of OVN that belong to no network.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use netloom_discovery::{Database, Members, known};
use netloom_ovsdb::client::{Client, Event, MonitorTable, Options, Tls};
use netloom_ovsdb::{Datum, Mutation, Operation};
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::Discovery;
use crate::file::make_directory;
use crate::program::{CONSOLE, Child, certificates, code};

/// Gateways notice a dead peer after 300 ms. A key that is there already stays as somebody set it.
const SETTINGS: [(&str, &str); 3] = [("bfd-min-rx", "100"), ("bfd-min-tx", "100"), ("bfd-mult", "3")];

/// ovn-northd.
pub struct Northd {
    /// How the databases are found.
    pub databases: Discovery,
    /// Certificates for the databases.
    pub tls: Option<Tls>,
    /// Directory of sockets and process ids.
    pub run_directory: PathBuf,
}

impl Northd {
    /// Runs it until it ends or `stop`.
    pub async fn run(&self, stop: CancellationToken) -> Result<ExitCode> {
        make_directory(&self.run_directory)?;
        let mut members = self.databases.members();
        tokio::select! {
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
            _ = known(&mut members) => {}
        }
        let settings = tokio::spawn(set(members.clone(), self.tls.clone()));
        let ended = loop {
            let running = members.borrow_and_update().clone();
            let mut northd = Child::start("ovn-northd", self.arguments(&running)?)?;
            tokio::select! {
                () = stop.cancelled() => {
                    northd.stop().await?;
                    break ExitCode::SUCCESS;
                }
                status = northd.ended() => break code("ovn-northd", status?),
                () = elsewhere(&mut members, &running) => {
                    info!("a member of the databases is at a new address, restarting ovn-northd");
                    northd.stop().await?;
                }
            }
        };
        settings.abort();
        Ok(ended)
    }

    fn arguments(&self, members: &Members) -> Result<Vec<String>> {
        let remotes = |database| members.remotes(database, self.tls.is_some()).context("find the databases' members");
        let run = self.run_directory.display();
        let mut arguments = CONSOLE.map(str::to_owned).to_vec();
        arguments.extend([
            format!("--ovnnb-db={}", remotes(Database::Northbound)?),
            format!("--ovnsb-db={}", remotes(Database::Southbound)?),
            format!("--pidfile={run}/ovn-northd.pid"),
            format!("--unixctl={run}/ovn-northd.ctl"),
        ]);
        arguments.extend(self.tls.iter().flat_map(certificates));
        Ok(arguments)
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

/// Writes the settings as soon as there is a row to write them to, which ovn-northd makes. Done when they are in the database.
async fn set(members: Receiver<Members>, tls: Option<Tls>) {
    let Some(remotes) = members.borrow().remotes(Database::Northbound, tls.is_some()) else {
        return;
    };
    let mut options = Options::new(remotes, Database::Northbound.name());
    options.monitor = vec![MonitorTable::all("NB_Global")];
    options.leader_only = true;
    options.tls = tls.clone();
    let (client, mut events) = Client::start(options);
    let write = async {
        while let Some(event) = events.recv().await {
            let changed = matches!(event, Event::Snapshot(_) | Event::Update(_) | Event::Connected { .. });
            let row = client
                .read(|replica| replica.rows("NB_Global").next().map(|(uuid, _)| *uuid))
                .flatten();
            let Some(uuid) = row.filter(|_| changed) else { continue };
            let value = Datum::map(SETTINGS);
            match client
                .transact(Operation::mutate("NB_Global", uuid, vec![Mutation::insert("options", value)]))
                .await
            {
                Ok(_) => return info!("OVN's settings are in the Northbound database"),
                Err(error) => warn!(%error, "cannot write OVN's settings, trying again"),
            }
        }
    };
    tokio::select! {
        () = write => {}
        () = netloom_discovery::follow(members, Database::Northbound, tls.is_some(), &client) => {}
    }
}
