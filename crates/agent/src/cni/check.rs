//! CHECK: is the attachment still what ADD promised? Looks at the pod's interface, the switch and OVN, and names the
//! first thing that is wrong. Changes nothing.

use tokio::time::timeout;

use super::error::CniError;
use super::request::{Pod, Request};
use super::result::disagreement;
use crate::assignment::Assignment;
use crate::net::netns::Netns;
use crate::net::route::MAIN;
use crate::node::{Node, veth_name};
use crate::switch::GRACE;
use netloom_contract::cni::Code;
use netloom_contract::external_id;

/// Verifies one attachment.
pub async fn check(node: &Node, request: &Request) -> Result<(), CniError> {
    let pod = request.pod()?;
    let assignment = assigned(node, &pod).await?;
    if let Some(previous) = &request.previous
        && let Some(difference) = disagreement(previous, &request.sandbox.ifname, &assignment)
    {
        return Err(CniError::new(Code::PreviousResult, difference));
    }
    let mtu = match request.mtu {
        Some(mtu) => mtu,
        None => node.overlay_mtu().await?,
    };
    check_pod(request, &assignment, mtu).await?;
    check_host(node, request).await?;
    check_switch(node, request, &pod)
}

/// The assignment as it is now; without one the attachment has no ground to stand on. An agent that has just started
/// may not have read it yet, so it gets a moment.
async fn assigned(node: &Node, pod: &Pod) -> Result<Assignment, CniError> {
    let port = pod.port();
    let binding = node.southbound.until(|state| state.binding(&port).cloned());
    let Ok(binding) = timeout(GRACE, binding).await else {
        return Err(node.southbound.read(|state| match state.connected {
            true => CniError::new(
                Code::NotInstalled,
                format!("the Southbound database has no port {port} for this node"),
            ),
            false => {
                let reason = &state.disconnected_because;
                CniError::new(Code::TryAgain, format!("not connected to the OVN Southbound database ({reason})"))
            }
        }));
    };
    let assignment = binding.assignment.clone()?;
    if let Some(uid) = pod.uid.as_ref().filter(|uid| assignment.uid.as_ref() != Some(uid)) {
        return Err(CniError::new(
            Code::NotInstalled,
            format!("port {port} belongs to another pod than the one with UID {uid}"),
        ));
    }
    Ok(assignment)
}

async fn check_pod(request: &Request, assignment: &Assignment, mtu: u32) -> Result<(), CniError> {
    let wrong = |code, what: String| Err(CniError::new(code, what));
    let ifname = &request.sandbox.ifname;
    let path = request.netns()?;
    let netns = Netns::open(path)
        .await
        .map_err(|error| CniError::new(Code::Interface, error.to_string()))?;
    let netlink = &netns.netlink;
    let (link, addresses, routes) = tokio::try_join!(netlink.link(ifname), netlink.addresses(), netlink.routes(MAIN))?;
    let Some(link) = link else {
        return wrong(Code::Interface, format!("interface {ifname} is missing in {}", path.display()));
    };
    if link.mac != Some(assignment.mac) {
        let found = link.mac.map_or_else(|| "none".to_owned(), |mac| mac.to_string());
        return wrong(
            Code::Interface,
            format!("interface {ifname} has MAC {found}, expected {}", assignment.mac),
        );
    }
    if !link.up {
        return wrong(Code::Interface, format!("interface {ifname} is down"));
    }
    if link.mtu != mtu {
        return wrong(Code::Interface, format!("interface {ifname} has MTU {}, expected {mtu}", link.mtu));
    }
    let has = |net| addresses.iter().any(|address| address.index == link.index && address.net == net);
    if let Some(missing) = assignment.all_addresses().find(|net| !has(**net)) {
        return wrong(Code::Addresses, format!("interface {ifname} lacks address {missing}"));
    }
    let leads = |destination, gateway| {
        routes
            .iter()
            .any(|route| route.destination == destination && route.gateway == Some(gateway))
    };
    let missing = assignment
        .default_routes()
        .into_iter()
        .find(|(destination, gateway)| !leads(*destination, *gateway));
    match missing {
        Some((destination, gateway)) => wrong(Code::Routes, format!("the pod lacks the route to {destination} via {gateway}")),
        None => Ok(()),
    }
}

async fn check_host(node: &Node, request: &Request) -> Result<(), CniError> {
    let device = veth_name(&request.sandbox);
    match node.netlink.link(&device).await? {
        None => Err(CniError::new(
            Code::Interface,
            format!("the host's end {device} of the pod's veth is missing"),
        )),
        Some(link) if !link.up => Err(CniError::new(
            Code::Interface,
            format!("the host's end {device} of the pod's veth is down"),
        )),
        Some(_) => Ok(()),
    }
}

fn check_switch(node: &Node, request: &Request, pod: &Pod) -> Result<(), CniError> {
    let port = pod.port();
    node.switch.read(|state| {
        if !state.connected {
            let reason = &state.disconnected_because;
            return Err(CniError::new(
                Code::TryAgain,
                format!("not connected to the local Open vSwitch database ({reason})"),
            ));
        }
        let Some((_, interface)) = state.interface_of(&request.sandbox) else {
            return Err(CniError::new(
                Code::Switch,
                format!("Open vSwitch has no interface for port {port} of this sandbox"),
            ));
        };
        let name = &interface.name;
        if !interface.carries(&port) {
            let found = interface.external_ids.get(external_id::IFACE_ID).map_or("nothing", String::as_str);
            return Err(CniError::new(
                Code::Switch,
                format!("OVS interface {name} carries {found}, expected {port}"),
            ));
        }
        if let Some(error) = &interface.error {
            return Err(CniError::new(
                Code::Switch,
                format!("ovs-vswitchd cannot use device {name}: {error}"),
            ));
        }
        if interface.ofport.is_none_or(|ofport| ofport < 0) {
            return Err(CniError::new(
                Code::Switch,
                format!("OVS interface {name} has no OpenFlow port: is ovs-vswitchd running?"),
            ));
        }
        if !interface.installed() {
            return Err(CniError::new(
                Code::NotInstalled,
                format!("OVN has not installed port {port}: is ovn-controller running?"),
            ));
        }
        Ok(())
    })
}
