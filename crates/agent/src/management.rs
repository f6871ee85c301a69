//! The node's management port: the OVS internal device through which the host reaches its pods. Its configuration comes
//! from the Southbound binding `management_<node>`; it is applied again when that changes, and when the device
//! disappears and comes back (vswitchd was restarted), as netlink and the switch's database tell.

use std::sync::Arc;

use tokio::sync::watch;
use tracing::info;
use uuid::Uuid;

use crate::assignment::Assignment;
use crate::converge::Converge;
use crate::net::netlink::{Link, LinkChange};
use crate::node::{INTEGRATION_BRIDGE, Node};
use crate::southbound::{Binding, SouthboundState};
use crate::switch::state::ids;
use crate::switch::{Interface, Plug, SwitchState};

/// The device's name on the host.
pub const DEVICE: &str = "netloom0";

/// The logical port of a node's management port.
pub fn port_of(node: &str) -> String {
    format!("management_{node}")
}

/// Keeps the management port as it should be.
pub struct Management {
    node: Arc<Node>,
    seen: Option<Inputs>,
    southbound: watch::Receiver<SouthboundState>,
    switch: watch::Receiver<SwitchState>,
    kernel: watch::Receiver<u64>,
}

/// What the port depends on. Most changes of the databases are about pods and leave it as it is.
#[derive(PartialEq)]
struct Inputs {
    binding: Option<Arc<Binding>>,
    bridge: Option<Uuid>,
    interface: Option<Arc<Interface>>,
    kernel: u64,
}

impl Management {
    /// Watches both databases and, through `kernel`, the host's links, addresses and routes.
    pub fn new(node: Arc<Node>, kernel: watch::Receiver<u64>) -> Self {
        let (southbound, switch) = (node.southbound.changes(), node.switch.changes());
        Self {
            node,
            seen: None,
            southbound,
            switch,
            kernel,
        }
    }

    fn inputs(&self) -> Inputs {
        let port = port_of(&self.node.name);
        let binding = self.node.southbound.read(|state| state.binding(&port).cloned());
        let (bridge, interface) = self.node.switch.read(|state| {
            let bridge = state.bridge(INTEGRATION_BRIDGE).map(|(uuid, _)| uuid).filter(|_| state.connected);
            let interface = state.interfaces().find(|(_, row)| row.carries(&port)).map(|(_, row)| row.clone());
            (bridge, interface)
        });
        Inputs {
            binding,
            bridge,
            interface,
            kernel: *self.kernel.borrow(),
        }
    }
}

impl Converge for Management {
    const NAME: &'static str = "management port";

    async fn woken(&mut self) {
        loop {
            let inputs = self.inputs();
            if self.seen.as_ref() != Some(&inputs) {
                self.seen = Some(inputs);
                return;
            }
            let changed = tokio::select! {
                changed = self.southbound.changed() => changed,
                changed = self.switch.changed() => changed,
                changed = self.kernel.changed() => changed,
            };
            // The senders live as long as the process; a closed channel only means that it is ending.
            if changed.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let port = port_of(&self.node.name);
        let binding = self.node.southbound.read(|state| state.binding(&port).cloned());
        // Not assigned, or the databases are away: what is there stays as it is.
        let Some(binding) = binding else { return Ok(()) };
        if !self
            .node
            .switch
            .read(|state| state.connected && state.bridge(INTEGRATION_BRIDGE).is_some())
        {
            return Ok(());
        }
        let assignment = binding.assignment.clone()?;
        let plug = Plug {
            device: DEVICE.to_owned(),
            internal: true,
            keep_existing: true,
            external_ids: vec![(ids::IFACE_ID, port), (ids::ATTACHED_MAC, assignment.mac.to_string())],
        };
        self.node.switch.plug(INTEGRATION_BRIDGE, plug).await?;
        match self.node.netlink.link(DEVICE).await? {
            Some(link) => configure(&self.node, &link, &assignment).await,
            // vswitchd has not made it yet; netlink will tell.
            None => Ok(()),
        }
    }
}

/// Corrects what differs, and only that: every correction comes back as a notification.
async fn configure(node: &Node, link: &Link, assignment: &Assignment) -> anyhow::Result<()> {
    let netlink = &node.netlink;
    let mtu = node.overlay_mtu().await?;
    if link.mac != Some(assignment.mac) || link.mtu != mtu || !link.up {
        netlink
            .change(
                link.index,
                LinkChange {
                    mac: Some(assignment.mac),
                    mtu: Some(mtu),
                    up: true,
                    silent: false,
                },
            )
            .await?;
        info!(device = DEVICE, mac = %assignment.mac, mtu, "management port set up");
    }
    let (addresses, routes) = tokio::try_join!(netlink.addresses(), netlink.routes())?;
    let present: Vec<_> = addresses
        .iter()
        .filter(|address| address.index == link.index && address.global)
        .map(|address| address.net)
        .collect();
    for address in present.iter().filter(|address| !assignment.addresses.contains(address)) {
        netlink.delete_address(link.index, *address).await?;
        info!(device = DEVICE, %address, "address removed");
    }
    for address in assignment.addresses.iter().filter(|address| !present.contains(address)) {
        netlink.add_address(link.index, *address).await?;
        info!(device = DEVICE, %address, "address added");
    }
    let wanted = assignment.listed_routes();
    // Routes through a gateway on this device are ours; those without are the kernel's own for the subnets.
    let through = routes.iter().filter(|route| route.index == link.index);
    let present: Vec<_> = through.filter_map(|route| Some((route.destination, route.gateway?))).collect();
    for (destination, gateway) in present.iter().filter(|route| !wanted.contains(route)) {
        netlink.delete_route(link.index, *destination, *gateway).await?;
        info!(device = DEVICE, %destination, %gateway, "route removed");
    }
    for (destination, gateway) in wanted.iter().filter(|route| !present.contains(route)) {
        netlink.replace_route(link.index, *destination, *gateway).await?;
        info!(device = DEVICE, %destination, %gateway, "route set");
    }
    Ok(())
}
