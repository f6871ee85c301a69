//! What has to be done while a member serves: the leader brings the schema up to date and records the cluster; members that are gone for
//! good are removed, so that they do not count for the majority.
//!
//! Called next to the server and told by the server's own `_Server` database. A failure is logged and tried again at the next event.

use std::time::Duration;

use anyhow::{Context as _, Result};
use netloom_discovery::Members;
use netloom_ovsdb::Remote;
use netloom_ovsdb::client::{Client, Event};
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use super::peers::{Said, options, record, record_removed};
use super::{Member, Others};
use crate::Discovery;
use crate::file::{is_older, schema_version, text};
use crate::program::output;

/// How long a member may be without a majority before somebody should look.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs as long as the server.
pub async fn run(member: &Member, others: Others) {
    let Others { discovery, mut members } = others;
    let (server, mut events) = Client::start(options(member, Remote::Unix(member.runtime("sock"))));
    let mut done = Said::default();
    let mut alone = Some(Instant::now() + PATIENCE);
    loop {
        tokio::select! {
            () = sleep_until(alone.unwrap_or_else(Instant::now)), if alone.is_some() => {
                // A server that was removed while it was away is told by nobody: it asks for votes for ever.
                error!(
                    file = %member.file().display(),
                    "no majority for a minute; if the other members serve, they removed this one while it was away: move its file away, and it joins anew"
                );
                alone = None;
                continue;
            }
            event = events.recv() => match event {
                None => return,
                Some(Event::Snapshot(_) | Event::Update(_)) => {}
                Some(_) => continue,
            },
            changed = members.changed() => match changed {
                Ok(()) => done.cluster = None,
                Err(_) => return,
            },
        }
        let Some(said) = server.read(|replica| Said::of(replica, member.database)) else {
            continue;
        };
        match (said.connected, done.connected) {
            (true, _) => alone = None,
            (false, true) => alone = Some(Instant::now() + PATIENCE),
            (false, false) => {}
        }
        if said != done {
            info!(leader = said.leader, connected = said.connected, "place in the cluster");
            let known = members.borrow().clone();
            match attend(member, &discovery, said, &known).await {
                Ok(()) => done = said,
                Err(error) => warn!(
                    error = format!("{error:#}"),
                    "cannot look after the cluster; trying again when it changes"
                ),
            }
        }
    }
}

async fn attend(member: &Member, discovery: &Discovery, said: Said, members: &Members) -> Result<()> {
    let Said {
        cluster: Some(cluster),
        connected: true,
        ..
    } = said
    else {
        return Ok(());
    };
    remove_stale(member, discovery, members).await?;
    if said.leader {
        convert(member).await?;
        record(member, discovery, cluster).await?;
    }
    Ok(())
}

/// Brings the cluster to a newer schema.
async fn convert(member: &Member) -> Result<()> {
    let server = format!("unix:{}", member.runtime("sock").display());
    let has = output("ovsdb-client", ["get-schema-version", &server, member.database.name()]).await?;
    let wants = schema_version(&member.schema()).await?;
    if is_older(&has, &wants)? {
        info!(from = has, to = wants, "converting the cluster's schema");
        output("ovsdb-client", ["convert".to_owned(), server, text(&member.schema())]).await?;
    }
    Ok(())
}

async fn remove_stale(member: &Member, discovery: &Discovery, members: &Members) -> Result<()> {
    let status = member
        .control(&["cluster/status", member.database.name()])
        .await
        .context("read the cluster's status")?;
    let servers = servers(&status);
    let address = |address| member.raft(address);
    let addresses: Vec<_> = members.iter().map(|(_, known)| address(known)).collect();
    for server in stale(&servers, &addresses, member.replicas as usize) {
        record_removed(member, discovery, &server.name()).await?;
        member.control(&["cluster/kick", member.database.name(), &server.id]).await?;
        info!(
            server = server.id,
            address = server.address,
            "removing a member that is gone for good"
        );
    }
    Ok(())
}

/// A server of the cluster, as `cluster/status` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    id: String,
    address: String,
    own: bool,
}

impl Server {
    fn name(&self) -> String {
        name(&self.id, &self.address)
    }
}

/// What a server is remembered by: the first digits of its identity, as `cluster/status` shows them, and its address.
pub fn name(id: &str, address: &str) -> String {
    format!("{}@{address}", id.get(..4).unwrap_or(id))
}

/// Reads lines like `    b9fd (b9fd at ssl:10.0.0.1:6643) (self)` after `Servers:`.
fn servers(status: &str) -> Vec<Server> {
    let listed = status.lines().skip_while(|line| *line != "Servers:").skip(1);
    let server = |line: &str| {
        let (id, rest) = line.trim().split_once(" (")?;
        let (_, rest) = rest.split_once(" at ")?;
        let (address, rest) = rest.split_once(')')?;
        Some(Server {
            id: id.to_owned(),
            address: address.to_owned(),
            own: rest.contains("(self)"),
        })
    };
    listed.map_while(server).collect()
}

/// Servers that will never come back. A member that lost its disk joins anew under its old address, so who else has our own address is
/// gone. And when all members are known, so is who has none of theirs.
fn stale<'a>(servers: &'a [Server], members: &[String], replicas: usize) -> Vec<&'a Server> {
    let own = servers.iter().find(|server| server.own).map(|server| server.address.as_str());
    let replaced = |server: &&Server| !server.own && Some(server.address.as_str()) == own;
    let complete = members.len() == replicas && servers.len() > replicas;
    let moved = |server: &&Server| !server.own && complete && !members.contains(&server.address);
    servers.iter().filter(|server| replaced(server) || moved(server)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "b9fd
Name: OVN_Northbound
Cluster ID: 8a3f (8a3f0000-0000-0000-0000-000000000000)
Server ID: b9fd (b9fd0000-0000-0000-0000-000000000000)
Address: ssl:10.0.0.1:6643
Status: cluster member
Servers:
    b9fd (b9fd at ssl:10.0.0.1:6643) (self)
    11aa (11aa at ssl:10.0.0.2:6643) last msg 1130 ms ago
    22bb (22bb at ssl:[fd00::3]:6643) next_index=3 match_index=3
";

    fn ids(servers: &[&Server]) -> Vec<String> {
        servers.iter().map(|server| server.id.clone()).collect()
    }

    #[test]
    fn the_status_lists_servers() {
        let servers = servers(STATUS);
        assert_eq!(servers.len(), 3);
        assert_eq!((servers[0].own, servers[0].address.as_str()), (true, "ssl:10.0.0.1:6643"));
        assert_eq!((servers[2].own, servers[2].address.as_str()), (false, "ssl:[fd00::3]:6643"));
    }

    #[test]
    fn only_who_cannot_come_back_is_stale() {
        let mut servers = servers(STATUS);
        let addresses: Vec<_> = servers.iter().map(|server| server.address.clone()).collect();
        assert!(stale(&servers, &addresses, 3).is_empty());
        assert!(stale(&servers, &addresses[..2], 3).is_empty(), "a pod may be on its way");
        // The member was wiped and joined anew.
        let same = Server {
            id: "33cc".into(),
            address: addresses[0].clone(),
            own: false,
        };
        servers.push(same);
        assert_eq!(ids(&stale(&servers, &addresses, 3)), ["33cc"]);
        servers.pop();
        // A member moved to another node, where it joined anew.
        let moved = Server {
            id: "44dd".into(),
            address: "ssl:10.0.0.4:6643".into(),
            own: false,
        };
        servers.push(moved);
        let now = [addresses[0].clone(), addresses[1].clone(), "ssl:10.0.0.4:6643".to_owned()];
        assert_eq!(ids(&stale(&servers, &now, 3)), ["22bb"]);
        assert!(stale(&servers, &now[..2], 3).is_empty());
    }
}
