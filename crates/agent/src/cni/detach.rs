//! DEL, GC and the sweep at start: everything that takes attachments away. All of it works from what is there (OVS
//! rows with our mark, devices with our names), so it is safe to repeat and does not mind what is already gone.

use std::collections::HashSet;

use tracing::{info, warn};
use uuid::Uuid;

use super::error::CniError;
use super::request::{Request, Sandbox};
use crate::net::watch::is_pod_veth;
use crate::net::{fence, guard};
use crate::node::{INTEGRATION_BRIDGE, Node, veth_name};
use crate::switch::Interface;

/// DEL: removes one sandbox's interface. Succeeds when there is nothing left to remove.
pub async fn detach(node: &Node, sandbox: &Sandbox) -> Result<(), CniError> {
    let removed = node
        .switch
        .unplug(|_, interface| interface.sandbox().as_ref() == Some(sandbox))
        .await?;
    let mut devices = removed;
    let device = veth_name(sandbox);
    if !devices.contains(&device) {
        devices.push(device);
    }
    let gone = remove_devices(node, &devices).await?;
    if gone > 0 {
        info!(container = sandbox.container, ifname = sandbox.ifname, "pod detached");
    }
    Ok(())
}

/// GC: removes the attachments of this network that the runtime does not list, and devices that belong to none.
pub async fn collect(node: &Node, request: &Request) -> Result<(), CniError> {
    // cnitool sends no list, having called DEL for all it knows. No list is not an empty one: nothing is known to be stale.
    let Some(valid) = &request.valid else {
        warn!("GC without `cni.dev/valid-attachments`: nothing removed");
        return Ok(());
    };
    let valid: HashSet<&Sandbox> = valid.iter().collect();
    // Taken before the devices are listed: a sandbox that becomes busy later makes its device later.
    let busy: HashSet<String> = node.busy.devices().into_iter().collect();
    let removed = node
        .switch
        .unplug(|_, interface| {
            let ours = interface.cni_network().is_none_or(|network| network == request.network);
            let stale = interface.sandbox().is_some_and(|sandbox| !valid.contains(&sandbox));
            ours && stale && !busy.contains(&interface.name)
        })
        .await?;
    let recorded: HashSet<String> = node.switch.read(|state| {
        state
            .interfaces()
            .filter(|(_, row)| row.sandbox().is_some())
            .map(|(_, row)| row.name.clone())
            .collect()
    });
    let wanted: HashSet<String> = valid.iter().map(|sandbox| veth_name(sandbox)).collect();
    let orphans = node
        .netlink
        .links()
        .await?
        .into_iter()
        .map(|link| link.name)
        .filter(|name| is_pod_veth(name) && !recorded.contains(name) && !wanted.contains(name) && !busy.contains(name));
    let mut devices: Vec<String> = removed;
    devices.extend(orphans);
    devices.sort_unstable();
    devices.dedup();
    let gone = remove_devices(node, &devices).await?;
    info!(devices = gone, "removed attachments that are not in use");
    Ok(())
}

/// At start: ports whose device did not survive (the node was rebooted) leave the switch, in one transaction. Rows are
/// read before devices: a row is made after its device, so the row of an ADD that runs meanwhile is never taken for lost.
pub async fn sweep(node: &Node) -> Result<(), CniError> {
    let ours = |interface: &Interface| interface.sandbox().is_some();
    let recorded: Vec<(Uuid, String)> = node.switch.read(|state| {
        state
            .interfaces()
            .filter(|(_, row)| ours(row))
            .map(|(uuid, row)| (uuid, row.name.clone()))
            .collect()
    });
    let alive: HashSet<String> = node.netlink.links().await?.into_iter().map(|link| link.name).collect();
    let lost: HashSet<Uuid> = recorded
        .into_iter()
        .filter(|(_, name)| !alive.contains(name))
        .map(|(uuid, _)| uuid)
        .collect();
    let removed = node.switch.unplug(|uuid, _| lost.contains(uuid)).await?;
    remove_devices(node, &removed).await?;
    if !removed.is_empty() {
        info!(ports = removed.len(), "removed ports of pods that are gone");
    }
    Ok(())
}

/// Deletes devices, their fences and their guards; tells how many devices were there.
pub async fn remove_devices(node: &Node, devices: &[String]) -> Result<usize, CniError> {
    let mut gone = 0;
    if devices.is_empty() {
        return Ok(gone);
    }
    for device in devices {
        gone += usize::from(node.netlink.delete(device).await?);
    }
    // Last, so that the kernel's stack never hears a pod through a device that is still there.
    // Even if the device went by itself, with the pod's namespace: its chain stays.
    if node.switch.read(|state| state.is_userspace(INTEGRATION_BRIDGE)) {
        fence::lower(devices).await?;
    }
    guard::lower(devices).await?;
    Ok(gone)
}
