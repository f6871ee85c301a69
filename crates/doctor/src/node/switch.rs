//! Reads the local Open vSwitch database and asks the daemons on their management sockets. Called by `gather`. A socket that nobody
//! answers on is an error; a directory without one is `None`, because the daemon may run where we cannot see it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_ovsdb::client::{Client, MonitorTable, Remote, Remotes};
use netloom_ovsdb::{Datum, Replica, Row};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::cluster::databases::connect;
use crate::unseen::{Seen, Unseen};

/// How long vswitchd may take to do what it was told last.
const CATCH_UP: Duration = Duration::from_secs(2);

/// What the database says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Version that a start script wrote; ours write none.
    pub version: Option<String>,
    /// Whether vswitchd has done all it was told.
    pub current: bool,
    /// What ovn-controller is told.
    pub external_ids: BTreeMap<String, String>,
    /// Bridges by name.
    pub bridges: BTreeMap<String, Bridge>,
}

/// A bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// `system` or `netdev`.
    pub datapath: String,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
}

/// An interface of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its type; empty for a device of the system.
    pub kind: String,
    /// Why vswitchd could not make it.
    pub error: Option<String>,
}

/// An ovn-controller that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ovn {
    /// Its version.
    pub version: String,
    /// What it says of its connection to the Southbound database, as `connected`.
    pub connection: String,
}

/// Reads the database, and waits a moment for vswitchd to catch up with it.
pub async fn read(remotes: &str) -> Seen<Switch> {
    let remotes: Remotes = remotes.parse().map_err(Unseen::error)?;
    let tables = ["Open_vSwitch", "Bridge", "Port", "Interface"].map(MonitorTable::all).to_vec();
    let (client, mut events) = connect("Open_vSwitch", remotes, tables, None).await?;
    let caught_up = async {
        while !is_current(&client) {
            if events.recv().await.is_none() {
                break;
            }
        }
    };
    // Whether it did is read from the database below.
    let _ = tokio::time::timeout(CATCH_UP, caught_up).await;
    client
        .read(switch)
        .ok_or_else(|| Unseen::Error("the connection was lost".to_owned()))
}

fn is_current(client: &Client) -> bool {
    client.read(|replica| switch(replica).current).unwrap_or(false)
}

fn switch(replica: &Replica) -> Switch {
    let Some((_, root)) = replica.rows("Open_vSwitch").next() else {
        return Switch::default();
    };
    let number = |column: &str| root.get(column).and_then(Datum::as_integer);
    let pairs = root.get("external_ids").and_then(Datum::as_map);
    let external_ids = pairs.into_iter().flat_map(|map| map.iter());
    let bridges = replica.rows("Bridge").map(|(_, row)| {
        let ports = row.get("ports").into_iter().flat_map(Datum::uuids).collect::<Vec<_>>();
        let ports = ports.into_iter().filter_map(|port| replica.row("Port", &port));
        let interfaces = ports.flat_map(|port| port.get("interfaces").into_iter().flat_map(Datum::uuids).collect::<Vec<_>>());
        let interfaces = interfaces.filter_map(|interface| replica.row("Interface", &interface));
        let bridge = Bridge {
            datapath: Some(text(row, "datapath_type"))
                .filter(|kind| !kind.is_empty())
                .unwrap_or_else(|| "system".to_owned()),
            interfaces: interfaces.map(|row| interface(row)).collect(),
        };
        (text(row, "name"), bridge)
    });
    Switch {
        version: Some(text(root, "ovs_version")).filter(|version| !version.is_empty()),
        current: number("cur_cfg") >= number("next_cfg"),
        external_ids: external_ids
            .filter_map(|(key, value)| Some((key.as_str()?.to_owned(), value.as_str()?.to_owned())))
            .collect(),
        bridges: bridges.collect(),
    }
}

fn interface(row: &Row) -> Interface {
    Interface {
        name: text(row, "name"),
        kind: text(row, "type"),
        error: Some(text(row, "error")).filter(|error| !error.is_empty()),
    }
}

fn text(row: &Row, column: &str) -> String {
    row.get(column).and_then(Datum::as_str).unwrap_or_default().to_owned()
}

/// The version of the vswitchd beside this database's socket.
pub async fn vswitchd(remotes: &str) -> Seen<Option<String>> {
    let remotes: Remotes = remotes.parse().map_err(Unseen::error)?;
    let directory = remotes.iter().find_map(|remote| match remote {
        Remote::Unix(path) => path.parent().map(Path::to_owned),
        _ => None,
    });
    let Some(directory) = directory else { return Ok(None) };
    Ok(ask(&directory, "ovs-vswitchd", "version").await?.map(|answer| version(&answer)))
}

/// The ovn-controller with its socket in this directory.
pub async fn ovn_controller(directory: &Path) -> Seen<Option<Ovn>> {
    let Some(answer) = ask(directory, "ovn-controller", "version").await? else {
        return Ok(None);
    };
    let connection = ask(directory, "ovn-controller", "connection-status").await?.unwrap_or_default();
    Ok(Some(Ovn {
        version: version(&answer),
        connection: connection.trim().to_owned(),
    }))
}

/// The version in `ovn-controller 25.03.0\nOpen vSwitch Library 3.5.0\n…` or `ovs-vswitchd (Open vSwitch) 3.5.0`.
fn version(answer: &str) -> String {
    let line = answer.lines().next().unwrap_or_default();
    line.split_whitespace().next_back().unwrap_or_default().to_owned()
}

/// Calls a method on the management socket of a daemon. Sockets of daemons that were killed stay behind, so all are tried.
async fn ask(directory: &Path, daemon: &str, method: &str) -> Seen<Option<String>> {
    let mut refused = None;
    for socket in sockets(directory, daemon) {
        match call(&socket, method).await {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => refused = Some(Unseen::Error(format!("there is no answer on {}: {error}", socket.display()))),
        }
    }
    refused.map_or(Ok(None), Err)
}

fn sockets(directory: &Path, daemon: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let of_daemon = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&format!("{daemon}.")) && name.ends_with(".ctl"))
    };
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(of_daemon).collect()
}

/// One call of the daemons' JSON-RPC, which has no framing: the reply is complete when it parses.
async fn call(socket: &Path, method: &str) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket).await?;
    let request = json!({ "id": 0, "method": method, "params": [] });
    stream.write_all(request.to_string().as_bytes()).await?;
    let mut reply = Vec::new();
    while stream.read_buf(&mut reply).await? > 0 {
        if let Ok(reply) = serde_json::from_slice::<Value>(&reply) {
            return match reply["error"].as_str() {
                Some(error) => Err(anyhow::anyhow!("{}", error.trim())),
                None => Ok(reply["result"].as_str().unwrap_or_default().to_owned()),
            };
        }
    }
    Err(anyhow::anyhow!("it hung up without an answer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_last_word_of_the_first_line() {
        assert_eq!(version("ovn-controller 25.03.0\nOpen vSwitch Library 3.5.0\n"), "25.03.0");
        assert_eq!(version("ovs-vswitchd (Open vSwitch) 3.5.0\n"), "3.5.0");
        assert_eq!(version(""), "");
    }
}
