//! The node's own ports on its pods' switch: OVS internal devices that the agent makes and configures. Through the
//! management port the host reaches its pods, through the service port it meets services. Their configuration comes from
//! their Southbound bindings; it is applied again when that changes, and when a device disappears and comes back
//! (vswitchd was restarted), as netlink and the switch's database tell.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use ipnet::{IpNet, Ipv4Net};
use netloom_retry::{Changes, Converge};
use tokio::sync::watch;
use tracing::info;
use uuid::Uuid;

use crate::assignment::Assignment;
use crate::net::netlink::{Address, Link, LinkChange};
use crate::net::route::{MAIN, NextHop};
use crate::net::sysctl;
use crate::node::{INTEGRATION_BRIDGE, Node};
use crate::southbound::Binding;
use crate::switch::{Interface, Plug};
use netloom_contract::external_id;
use netloom_contract::name::{management_port, service_port};

/// Device settings of both ports: a packet from a pod to a node port comes in by one and leaves by the other, and what
/// comes in may have a source that is routed elsewhere (loose reverse path filter).
const COMMON: [(&str, &str, &str); 6] = [
    ("ipv4", "rp_filter", "2"),
    ("ipv4", "forwarding", "1"),
    ("ipv6", "forwarding", "1"),
    // Kernels without it forward IPv6 only if the node as a whole does (net.ipv6.conf.all.forwarding).
    ("ipv6", "force_forwarding", "1"),
    // Their addresses come from the controller, which keeps them unique: they can be used at once.
    ("ipv6", "accept_dad", "0"),
    // No pod is the node's router.
    ("ipv6", "accept_ra", "0"),
];
/// Further settings of the service port: it must not answer for the addresses of others.
const SERVICE: [(&str, &str, &str); 1] = [("ipv4", "arp_ignore", "1")];

/// An address the service port has although nobody uses it: on a device without any, the kernel's reverse path filter
/// is always strict, and the host's global setting may turn it on.
const PLACEHOLDER: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 108, 111), 32);

/// Which of the node's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `netloom0`: the host and its pods. It has the node's addresses in the pods' subnet.
    Management,
    /// `netloom1`: the host and services. What leaves there is translated to the port's address, which no device has.
    Service,
}

impl Role {
    /// The device's name on the host.
    pub fn device(self) -> &'static str {
        match self {
            Self::Management => "netloom0",
            Self::Service => "netloom1",
        }
    }

    /// The logical port of a node.
    pub fn port_of(self, node: &str) -> String {
        match self {
            Self::Management => management_port(node),
            Self::Service => service_port(node),
        }
    }

    fn addresses(self, assignment: &Assignment) -> &[IpNet] {
        match self {
            Self::Management => &assignment.addresses,
            Self::Service => &[],
        }
    }

    fn settings(self) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str)> {
        let own: &[_] = match self {
            Self::Management => &[],
            Self::Service => &SERVICE,
        };
        COMMON.iter().chain(own)
    }
}

/// Keeps one port as it should be.
pub struct HostPort {
    node: Arc<Node>,
    role: Role,
    changes: Changes,
    kernel: watch::Receiver<u64>,
}

/// What the port depends on. Most changes of the databases are about pods and leave it as it is.
#[derive(PartialEq)]
pub struct Inputs {
    binding: Option<Arc<Binding>>,
    bridge: Option<Uuid>,
    interface: Option<Arc<Interface>>,
    kernel: u64,
}

impl HostPort {
    /// Watches both databases and, through `kernel`, the host's links, addresses and routes.
    pub fn new(node: Arc<Node>, role: Role, kernel: watch::Receiver<u64>) -> Self {
        let changes = Changes::default()
            .of(node.southbound.changes())
            .of(node.switch.changes())
            .of(kernel.clone());
        Self {
            node,
            role,
            changes,
            kernel,
        }
    }
}

impl Converge for HostPort {
    const NAME: &'static str = "host port";
    type Inputs = Inputs;

    fn inputs(&self) -> Inputs {
        let port = self.role.port_of(&self.node.name);
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

    async fn changed(&mut self) {
        self.changes.next().await;
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let port = self.role.port_of(&self.node.name);
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
            device: self.role.device().to_owned(),
            internal: true,
            keep_existing: true,
            external_ids: vec![
                (external_id::IFACE_ID, port),
                (external_id::ATTACHED_MAC, assignment.mac.to_string()),
            ],
        };
        self.node.switch.plug(INTEGRATION_BRIDGE, plug).await?;
        match self.node.netlink.link(self.role.device()).await? {
            Some(link) => configure(&self.node, self.role, &link, &assignment).await,
            // vswitchd has not made it yet; netlink will tell.
            None => Ok(()),
        }
    }
}

/// Corrects what differs, and only that: every correction comes back as a notification.
async fn configure(node: &Node, role: Role, link: &Link, assignment: &Assignment) -> anyhow::Result<()> {
    let (netlink, device) = (&node.netlink, role.device());
    for (family, setting, value) in role.settings() {
        sysctl::set(&format!("{family}/conf/{device}/{setting}"), value)?;
    }
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
        info!(device, mac = %assignment.mac, mtu, "port set up");
    }
    let wanted = role.addresses(assignment);
    let addresses = netlink.addresses().await?;
    let present: Vec<_> = addresses
        .iter()
        .filter(|address| address.index == link.index && address.global)
        .map(|address| address.net)
        .collect();
    for address in present.iter().filter(|address| !wanted.contains(address)) {
        netlink.delete_address(link.index, *address).await?;
        info!(device, %address, "address removed");
    }
    for address in wanted.iter().filter(|address| !present.contains(address)) {
        netlink.add_address(link.index, *address).await?;
        info!(device, %address, "address added");
    }
    let is_placeholder = |address: &Address| address.index == link.index && address.net == IpNet::V4(PLACEHOLDER);
    if role == Role::Service && !addresses.iter().any(is_placeholder) {
        netlink.add_link_address(link.index, IpNet::V4(PLACEHOLDER)).await?;
    }
    set_routes(node, role, link, assignment).await
}

/// A route that is refused does not keep the others out.
async fn set_routes(node: &Node, role: Role, link: &Link, assignment: &Assignment) -> anyhow::Result<()> {
    let (netlink, device) = (&node.netlink, role.device());
    let next = |gateway| NextHop {
        index: link.index,
        gateway,
        onlink: role == Role::Service,
        source: None,
    };
    let wanted = assignment.listed_routes();
    let routes = netlink.routes(MAIN).await?;
    // Routes through a gateway on this device are ours; those without are the kernel's own for the subnets.
    let through = routes.iter().filter(|route| route.index == link.index);
    let present: Vec<_> = through.filter_map(|route| Some((route.destination, route.gateway?))).collect();
    let mut outcome = Ok(());
    for (destination, gateway) in present.iter().filter(|route| !wanted.contains(route)) {
        match netlink.delete_route(MAIN, *destination, next(*gateway)).await {
            Ok(()) => info!(device, %destination, %gateway, "route removed"),
            Err(error) => outcome = Err(error).context(device),
        }
    }
    for (destination, gateway) in wanted.iter().filter(|route| !present.contains(route)) {
        match netlink.replace_route(MAIN, *destination, next(*gateway)).await {
            Ok(()) => info!(device, %destination, %gateway, "route set"),
            Err(error) => outcome = Err(error).context(device),
        }
    }
    outcome
}
