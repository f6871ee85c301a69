//! Everything that takes Netloom off a node, in the order that keeps the node reachable. Each step works from what is
//! there and is safe to repeat; one that fails is told and does not keep the others from being done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use netloom_ovsdb::{Operation, Transaction};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tracing::info;

use crate::gateway::EXTERNAL_BRIDGE;
use crate::host_port::Role;
use crate::install::{self, Files};
use crate::net::link_config::LinkConfig;
use crate::net::watch::is_pod_veth;
use crate::net::{guard, nft};
use crate::node::{INTEGRATION_BRIDGE, Node};
use crate::services::RULES;
use crate::set_up::plan;
use crate::switch::SwitchState;
use crate::uplink::port_of_bridge;
use crate::uplink::record::Record;

/// How long a device may take to go after the switch was told, and a program to end.
const DEADLINE: Duration = Duration::from_secs(10);

/// What this agent has put on the node, and has to take away.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The CNI files, if it installs them.
    pub files: Option<Files>,
    /// Whether it sets the switch up: then the keys and bridges are its own.
    pub set_up: bool,
    /// Where ovn-controller has its management socket.
    pub ovn_run_directory: PathBuf,
    /// A directory whose contents are all ours.
    pub state_directory: Option<PathBuf>,
}

/// Cleans the node; returns what could not be done.
pub async fn clean(node: &Node, scope: &Scope, kernel: &mut watch::Receiver<u64>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut done = |outcome: anyhow::Result<()>| {
        if let Err(error) = outcome {
            problems.push(format!("{error:#}"));
        }
    };
    if let Some(files) = &scope.files {
        done(install::remove(files));
    }
    if scope.set_up {
        // It would make br-int again.
        let stopped = stop_ovn_controller(&scope.ovn_run_directory).await;
        done(stopped.map(drop).context("stop ovn-controller"));
    }
    done(remove_ports(node).await.context("remove the ports of pods and of the node"));
    done(return_uplink(node, kernel).await.context("give the uplink back"));
    if scope.set_up {
        done(remove_configuration(node).await.context("remove the configuration of the switch"));
    }
    done(wait_until_gone(node, scope, kernel).await);
    let tables = ["inet netloom", "inet netloom-ports", "netdev netloom", guard::TABLE];
    let tables = tables.map(|table| format!("add table {table}\ndelete table {table}\n"));
    done(
        nft::run("delete the nftables tables of netloom", tables.concat())
            .await
            .map_err(Into::into),
    );
    for ipv4 in [true, false] {
        for rule in RULES {
            done(node.netlink.delete_rule(ipv4, rule).await.map_err(Into::into));
        }
    }
    if let Some(directory) = &scope.state_directory {
        done(empty(directory));
    }
    problems
}

/// An ovn-controller that was started again has made br-int again: both go. Without one to stop, br-int is somebody else's.
pub async fn clean_again(node: &Node, scope: &Scope) -> anyhow::Result<()> {
    if has_returned(node, scope) && stop_ovn_controller(&scope.ovn_run_directory).await? > 0 {
        remove_configuration(node).await?;
        info!("removed what a restarted ovn-controller had made");
    }
    Ok(())
}

/// Whether br-int is there although it was removed.
pub fn has_returned(node: &Node, scope: &Scope) -> bool {
    scope.set_up
        && node
            .switch
            .read(|state| state.connected && state.bridge(INTEGRATION_BRIDGE).is_some())
}

/// Pods that still run lose their network here; their own ends go with the host's.
async fn remove_ports(node: &Node) -> anyhow::Result<()> {
    let own = [Role::Management.device(), Role::Service.device()];
    node.switch
        .unplug(|_, interface| interface.sandbox().is_some() || own.contains(&interface.name.as_str()))
        .await?;
    for link in node.netlink.links().await? {
        if is_pod_veth(&link.name) {
            node.netlink.delete(&link.name).await?;
        }
    }
    Ok(())
}

/// Carries what br-ex has to the uplink, and takes br-ex away; only if it was us who brought it there.
async fn return_uplink(node: &Node, kernel: &mut watch::Receiver<u64>) -> anyhow::Result<()> {
    let record = node
        .switch
        .read(|state| Record::read(&state.bridge(EXTERNAL_BRIDGE)?.1.external_ids));
    let Some(record) = record else { return Ok(()) };
    let netlink = &node.netlink;
    let uplink = netlink
        .link(&record.uplink)
        .await?
        .with_context(|| format!("device {} is gone", record.uplink))?;
    let bridge = netlink.link(EXTERNAL_BRIDGE).await?;
    let on_bridge = match &bridge {
        Some(bridge) => netlink.belongings(bridge.index).await?,
        None => LinkConfig::default(),
    };
    let whole = bridge.as_ref().is_some_and(|bridge| record.complete_on == Some(bridge.index));
    let belongings = if whole { on_bridge } else { on_bridge.union(&record.belongings) };
    for address in &belongings.addresses {
        netlink.hold(uplink.index, *address).await?;
    }
    node.switch
        .change("remove br-ex", |state| without_bridge(state, EXTERNAL_BRIDGE))
        .await?;
    // From here the kernel has to hear the device again.
    crate::net::fence::lower(std::slice::from_ref(&uplink.name)).await?;
    gone(node, &[EXTERNAL_BRIDGE], kernel).await?;
    // With the old device, routes went that name an address as their source: they come last.
    let present = netlink.belongings(uplink.index).await?;
    for way in belongings.routes.iter().filter(|way| !present.routes.contains(way)) {
        netlink.lead(uplink.index, *way).await?;
    }
    info!(uplink = uplink.name, addresses = belongings.addresses.len(), "uplink given back");
    Ok(())
}

async fn remove_configuration(node: &Node) -> anyhow::Result<()> {
    node.switch.change("remove our keys and br-int", plan::tear_down).await?;
    // Made by us without an uplink, and without one still.
    let ours = node
        .switch
        .read(|state| state.bridge(EXTERNAL_BRIDGE).is_some() && port_of_bridge(state).is_none());
    if ours {
        node.switch
            .change("remove br-ex", |state| without_bridge(state, EXTERNAL_BRIDGE))
            .await?;
    }
    Ok(())
}

async fn wait_until_gone(node: &Node, scope: &Scope, kernel: &mut watch::Receiver<u64>) -> anyhow::Result<()> {
    let mut devices = vec![Role::Management.device(), Role::Service.device()];
    if scope.set_up {
        devices.push(INTEGRATION_BRIDGE);
    }
    gone(node, &devices, kernel).await
}

/// Waits until the switch has taken devices away.
async fn gone(node: &Node, devices: &[&str], kernel: &mut watch::Receiver<u64>) -> anyhow::Result<()> {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    for device in devices {
        loop {
            kernel.mark_unchanged();
            if node.netlink.link(device).await?.is_none() {
                break;
            }
            if tokio::time::timeout_at(deadline, kernel.changed()).await.is_err() {
                anyhow::bail!(
                    "{device} is still there although the switch was told to remove it: is ovs-vswitchd running? else: ip link delete {device}"
                );
            }
        }
    }
    Ok(())
}

fn without_bridge(state: &SwitchState, name: &str) -> Transaction {
    match (state.root, plan::remove_bridge(state, name)) {
        (Some(root), Some(mutation)) => Transaction::from(Operation::mutate("Open_vSwitch", root, vec![mutation])),
        _ => Transaction::new(),
    }
}

/// Asks ovn-controller to end, and waits until it has closed the connection; it takes its chassis out of the Southbound
/// database on the way. Tells how many there were; none is fine.
async fn stop_ovn_controller(directory: &Path) -> anyhow::Result<usize> {
    let mut stopped = 0;
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Ok(stopped);
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("ovn-controller.") || !name.ends_with(".ctl") {
            continue;
        }
        // A socket that nobody listens on is what a killed one left behind.
        let Ok(mut stream) = UnixStream::connect(entry.path()).await else {
            continue;
        };
        let exchange = async {
            stream.write_all(br#"{"id":0,"method":"exit","params":[]}"#).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await
        };
        match tokio::time::timeout(DEADLINE, exchange).await {
            // It may end before it has answered.
            Ok(_) => info!(socket = name, "ovn-controller ended"),
            Err(_) => anyhow::bail!("it did not end in {DEADLINE:?}: look at its log"),
        }
        stopped += 1;
    }
    Ok(stopped)
}

/// Removes what is in a directory, not the directory: it may be a mount.
fn empty(directory: &Path) -> anyhow::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("list {}", directory.display())),
    };
    for entry in entries {
        let path = entry?.path();
        let removed = if path.is_dir() && !path.is_symlink() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        removed.with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_directory_is_emptied_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("a/b")).unwrap();
        std::fs::write(directory.path().join("c"), "").unwrap();
        std::os::unix::fs::symlink("/nowhere", directory.path().join("d")).unwrap();
        empty(directory.path()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        empty(&directory.path().join("absent")).unwrap();
    }
}
