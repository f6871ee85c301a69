//! ADD: plug one pod. Two strands run side by side, one waiting for the port to be assigned, one making the veth; then
//! again two, configuring the interface in the pod and committing the OVS port; then OVN says that the port is
//! installed. A failure undoes what was made. Repeating an ADD is safe at any point it may have been cut off.

use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use ipnet::IpNet;
use serde_json::Value;
use tokio::time::timeout;
use tracing::info;
use uuid::Uuid;

use super::detach;
use super::error::CniError;
use super::request::{Pod, Request};
use super::result::{Attached, render};
use crate::assignment::Assignment;
use crate::metrics::Stages;
use crate::net::announcement::{Owner, announce};
use crate::net::netlink::LinkChange;
use crate::net::netns::Netns;
use crate::net::route::{MAIN, NextHop};
use crate::net::{fence, guard, offload};
use crate::node::{INTEGRATION_BRIDGE, Node, veth_name};
use crate::published::mapping;
use crate::southbound::SouthboundState;
use crate::switch::{Plug, SwitchState};
use netloom_contract::cni::Code;
use netloom_contract::external_id;
use netloom_contract::name::pod_id;

/// Attaches the pod and returns the result document.
pub async fn attach(node: &Node, request: &Request) -> Result<Value, CniError> {
    let pod = request.pod()?;
    let netns = request.netns()?;
    match plug_pod(node, request, &pod, netns).await {
        Ok(result) => Ok(result),
        Err(error) => {
            // The runtime will send DEL as well; leaving nothing behind until then keeps the pod's retry clean.
            if let Err(undo) = detach::detach(node, &request.sandbox).await {
                tracing::warn!(pod = pod.port(), error = %undo, "cannot undo a failed attachment, DEL will");
            }
            Err(error)
        }
    }
}

async fn plug_pod(node: &Node, request: &Request, pod: &Pod, netns_path: &Path) -> Result<Value, CniError> {
    let begin = Instant::now();
    let mut stages = Stages::default();
    let device = veth_name(&request.sandbox);
    let mtu = match request.mtu {
        Some(mtu) => mtu,
        None => node.overlay_mtu().await?,
    };

    let wait = timed(wait_port(node, pod));
    let make = timed(make_link(node, &device, &request.sandbox.ifname, netns_path, mtu));
    let ((assignment, waited), ((netns, reused), made)) = tokio::try_join!(wait, make)?;
    // What the wait cost beyond our own work at the same time.
    stages.wait_port = waited.saturating_sub(made);

    let configure = timed(configure(node, &netns, &request.sandbox.ifname, &assignment, reused));
    let plug = Plug {
        device: device.clone(),
        internal: false,
        keep_existing: reused,
        external_ids: external_ids(request, pod, netns_path, &assignment),
    };
    let commit = timed(async { Ok(node.switch.plug(INTEGRATION_BRIDGE, plug).await?) });
    let (((), configured), (plugged, committed)) = tokio::try_join!(configure, commit)?;
    stages.link = made + configured;
    stages.ovs_commit = committed;
    // The ends of veths that belonged to an older instance of the pod have just left the bridge.
    detach::remove_devices(node, &plugged.replaced).await?;

    let port = pod.port();
    let wait = wait_installed(node, plugged.interface, &port);
    let publish = wait_published(node, request, plugged.interface);
    (((), ()), stages.installed) = timed(async { tokio::try_join!(wait, publish) }).await?;
    introduce(&netns, &request.sandbox.ifname, &assignment).await?;
    stages.total = begin.elapsed();
    node.metrics.record_add(&stages);
    let micros = |duration: std::time::Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    info!(
        pod = port,
        device,
        addresses = commas(&assignment.addresses),
        wait_port_us = micros(stages.wait_port),
        link_us = micros(stages.link),
        ovs_commit_us = micros(stages.ovs_commit),
        installed_us = micros(stages.installed),
        agent_us = micros(stages.agent()),
        total_us = micros(stages.total),
        "pod attached"
    );
    let ifname = &request.sandbox.ifname;
    let attached = Attached {
        host: &device,
        ifname,
        netns: netns_path,
        assignment: &assignment,
        mtu,
    };
    Ok(render(request.version, &attached))
}

/// Waits until the Southbound database has this very pod's port for this node.
async fn wait_port(node: &Node, pod: &Pod) -> Result<Assignment, CniError> {
    let port = pod.port();
    let find = |state: &SouthboundState| {
        let binding = state.binding(&port)?;
        match (&binding.assignment, &pod.uid) {
            // A binding of an older pod of the same name is as good as none.
            (Ok(assignment), Some(uid)) if assignment.uid.as_ref() != Some(uid) => None,
            (assignment, _) => Some(assignment.clone()),
        }
    };
    match timeout(node.deadline, node.southbound.until(find)).await {
        Ok(assignment) => Ok(assignment?),
        Err(_) => Err(node.southbound.read(|state| no_port(node, pod, state))),
    }
}

/// Why the port did not come, as far as this node can tell.
fn no_port(node: &Node, pod: &Pod, state: &SouthboundState) -> CniError {
    let (port, seconds) = (pod.port(), node.deadline.as_secs());
    let error = |why: String| CniError::new(Code::TryAgain, format!("no logical port {port} after {seconds} s: {why}"));
    if !state.connected {
        return error(format!(
            "the agent is not connected to the OVN Southbound database ({})",
            state.disconnected_because
        ))
        .details("is the Southbound database running and reachable from this node?");
    }
    if state.chassis.is_none() {
        return error(format!("the Southbound database has no chassis {}", node.name))
            .details("is ovn-controller running on this node, and is external_ids:system-id the node's name?");
    }
    let describe = format!("kubectl -n {} describe pod {}", pod.namespace, pod.name);
    match state.binding(&port).map(|binding| &binding.assignment) {
        Some(Ok(found)) => {
            let uid = |uid: &Option<String>| uid.clone().unwrap_or_else(|| "unknown".to_owned());
            error(format!(
                "it still belongs to the pod with UID {}, not {}",
                uid(&found.uid),
                uid(&pod.uid)
            ))
            .details(format!("is the controller running? `{describe}` shows what it says about the pod"))
        }
        _ => error("the controller has not made it".to_owned()).details(format!(
            "is the controller running, does it know the pod, does the node's subnet have free addresses? see `{describe}`"
        )),
    }
}

/// Makes the veth with its peer in the pod; an unfinished one of an earlier ADD is used again if it is whole.
async fn make_link(node: &Node, device: &str, ifname: &str, netns_path: &Path, mtu: u32) -> Result<(Netns, bool), CniError> {
    let netns = Netns::open(netns_path).await.map_err(|error| {
        CniError::new(Code::InvalidEnvironment, error.to_string())
            .details("CNI_NETNS must be the path of the pod's network namespace, seen from the agent")
    })?;
    let (host, inside) = tokio::try_join!(node.netlink.link(device), netns.netlink.link(ifname))?;
    let reused = match (&host, &inside) {
        (Some(host), Some(inside)) => host.peer == Some(inside.index) && inside.peer == Some(host.index),
        _ => false,
    };
    if !reused {
        if host.is_some() {
            node.netlink.delete(device).await?;
        } else if inside.is_some() {
            return Err(
                CniError::new(Code::Io, format!("the pod already has an interface {ifname} that is not ours"))
                    .details("another CNI plugin made it, or a pod's namespace was used twice"),
            );
        }
        // Its routers are ours: what a neighbour says about being one is not heard.
        netns.set("ipv6/conf/default/accept_ra", "0").await?;
        node.netlink.add_veth(device, ifname, netns.fd(), mtu).await?;
    }
    let userspace = node.switch.read(|state| state.is_userspace(INTEGRATION_BRIDGE));
    let raise = async {
        if userspace {
            fence::raise(device).await?;
        }
        guard::raise(&[device.to_owned()]).await
    };
    let up = async {
        if let Some(host) = node.netlink.link(device).await? {
            node.netlink
                .change(
                    host.index,
                    LinkChange {
                        mtu: Some(mtu),
                        up: true,
                        silent: true,
                        ..LinkChange::default()
                    },
                )
                .await?;
        }
        if let Some(inside) = netns.netlink.link(ifname).await? {
            netns
                .netlink
                .change(
                    inside.index,
                    LinkChange {
                        mtu: Some(mtu),
                        ..LinkChange::default()
                    },
                )
                .await?;
        }
        Ok(())
    };
    tokio::try_join!(raise, up)?;
    Ok((netns, reused))
}

/// Gives the interface in the pod its MAC, addresses and routes.
async fn configure(node: &Node, netns: &Netns, ifname: &str, assignment: &Assignment, reused: bool) -> Result<(), CniError> {
    let netlink = &netns.netlink;
    let (link, loopback) = tokio::try_join!(netlink.link(ifname), netlink.link("lo"))?;
    let link = link.ok_or_else(|| CniError::new(Code::Io, format!("interface {ifname} vanished from the pod")))?;
    if node
        .switch
        .read(|state| state.is_userspace(INTEGRATION_BRIDGE) && !state.has_userspace_tso())
    {
        offload::disable_transmit_checksum(netns.devices(), ifname)?;
    }
    netlink
        .change(
            link.index,
            LinkChange {
                mac: Some(assignment.mac),
                up: true,
                ..LinkChange::default()
            },
        )
        .await?;
    if let Some(loopback) = loopback.filter(|loopback| !loopback.up) {
        netlink
            .change(
                loopback.index,
                LinkChange {
                    up: true,
                    ..LinkChange::default()
                },
            )
            .await?;
    }
    if reused {
        let old = netlink
            .addresses()
            .await?
            .into_iter()
            .filter(|address| address.index == link.index && address.global);
        for address in old.filter(|address| assignment.all_addresses().all(|wanted| *wanted != address.net)) {
            netlink.delete_address(link.index, address.net).await?;
        }
    }
    for address in assignment.all_addresses() {
        netlink.add_address(link.index, *address).await?;
    }
    for (destination, gateway) in assignment.default_routes() {
        let next = NextHop {
            index: link.index,
            gateway,
            onlink: false,
            source: assignment.source_for(gateway),
        };
        netlink.replace_route(MAIN, destination, next).await?;
    }
    Ok(())
}

/// Tells the neighbours on its network who has the pod's addresses now: they may have known another there.
async fn introduce(netns: &Netns, ifname: &str, assignment: &Assignment) -> Result<(), CniError> {
    let addresses: Vec<IpAddr> = assignment.network_addresses.iter().map(IpNet::addr).collect();
    if addresses.is_empty() {
        return Ok(());
    }
    let link = netns.netlink.link(ifname).await?;
    let link = link.ok_or_else(|| CniError::new(Code::Io, format!("interface {ifname} vanished from the pod")))?;
    announce(netns.devices(), link.index, Owner::Host, assignment.mac, &addresses)?;
    Ok(())
}

/// Waits until ovn-controller says that the port's flows are in place, or vswitchd that it cannot have the device.
async fn wait_installed(node: &Node, interface: Uuid, port: &str) -> Result<(), CniError> {
    let outcome = |state: &SwitchState| match state.interface(&interface) {
        None => Some(Err(CniError::new(
            Code::TryAgain,
            format!("the OVS interface of {port} was removed while it was set up"),
        ))),
        Some(row) if row.ofport == Some(-1) || row.error.is_some() => {
            let reason = row.error.as_deref().unwrap_or("no reason given");
            Some(Err(CniError::new(
                Code::TryAgain,
                format!("ovs-vswitchd cannot use device {}: {reason}", row.name),
            )))
        }
        Some(row) => row.installed().then_some(Ok(())),
    };
    timeout(node.deadline, node.switch.until(outcome)).await.unwrap_or_else(|_| {
        let seconds = node.deadline.as_secs();
        let plugged = node
            .switch
            .read(|state| state.interface(&interface).is_some_and(|row| row.ofport.is_some()));
        let (who, look) = if plugged {
            (
                "ovn-controller has not installed it",
                "is ovn-controller of this node running and connected to the Southbound database?",
            )
        } else {
            ("ovs-vswitchd has not taken the device", "is ovs-vswitchd of this node running?")
        };
        Err(CniError::new(Code::TryAgain, format!("port {port} is not installed after {seconds} s: {who}")).details(look))
    })
}

/// Waits until the node leads the ports the pod publishes to it, if there are any.
async fn wait_published(node: &Node, request: &Request, interface: Uuid) -> Result<(), CniError> {
    if request.host_ports.is_empty() {
        return Ok(());
    }
    timeout(node.deadline, node.published.wait(interface)).await.map_err(|_| {
        let seconds = node.deadline.as_secs();
        CniError::new(Code::TryAgain, format!("the host ports of the pod are not open after {seconds} s"))
            .details("the agent's log says why it cannot write its nftables table, or whether the node's management port is not assigned")
    })
}

fn external_ids(request: &Request, pod: &Pod, netns: &Path, assignment: &Assignment) -> Vec<(&'static str, String)> {
    let mut pairs = vec![
        (external_id::IFACE_ID, pod.port()),
        (external_id::ATTACHED_MAC, assignment.mac.to_string()),
        (external_id::SANDBOX, request.sandbox.container.clone()),
        (external_id::IFNAME, request.sandbox.ifname.clone()),
        (external_id::NETNS, netns.to_string_lossy().into_owned()),
        (external_id::POD, pod_id(&pod.namespace, &pod.name)),
        (external_id::ADDRESSES, commas(&assignment.addresses)),
        (external_id::CNI_NETWORK, request.network.clone()),
    ];
    if !request.host_ports.is_empty() {
        pairs.push((external_id::HOST_PORTS, mapping::record(&request.host_ports)));
    }
    if let Some(uid) = pod.uid.as_ref().or(assignment.uid.as_ref()) {
        pairs.push((external_id::UID, uid.clone()));
    }
    pairs
}

fn commas(addresses: &[ipnet::IpNet]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

async fn timed<T>(work: impl Future<Output = Result<T, CniError>>) -> Result<(T, std::time::Duration), CniError> {
    let begin = Instant::now();
    let value = work.await?;
    Ok((value, begin.elapsed()))
}
