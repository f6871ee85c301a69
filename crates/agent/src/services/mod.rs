//! Services on the host itself: its nftables table, which also keeps out who pretends to be a pod, and the routing of
//! packets to external addresses, and to node ports of other nodes that only these serve, into its own switch. Only
//! single addresses and ports of services are led there, by a mark: a route for a whole address would cut the host off
//! from it. Table and routes are the agent's own; nothing else on the host is touched.

pub mod health_check;
pub mod offer;
mod table;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netloom_retry::{Changes, Converge};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::assignment::default_of;
use crate::host_port::Role;
use crate::net::route::{MarkRule, NextHop};
use crate::net::{nft, sysctl};
use crate::node::Node;
use crate::southbound::Binding;
use netloom_contract::ServiceMode;
use offer::{Terms, Vips};

/// The nftables table.
const TABLE: &str = "inet netloom";
/// Packets from the host that leave by the service port although its routes say otherwise. The mark is set and removed
/// within the host.
const BY_SERVICE_PORT: MarkRule = MarkRule {
    mark: 0x1000,
    table: 0x6c6f,
    priority: 1000,
};
/// Packets from the host whose receivers are to see its own address: they leave by the management port, where answers to
/// that address arrive.
const BY_MANAGEMENT_PORT: MarkRule = MarkRule {
    mark: 0x2000,
    table: 0x6c70,
    priority: 1001,
};
/// The agent's routing rules.
pub const RULES: [MarkRule; 2] = [BY_SERVICE_PORT, BY_MANAGEMENT_PORT];

/// Keeps the host's side of services as it should be.
pub struct Services {
    node: Arc<Node>,
    changes: Changes,
    kernel: watch::Receiver<u64>,
    deletions: watch::Receiver<u64>,
    checked: u64,
    programmed: Option<(Terms, Vec<IpNet>, Vips)>,
    warned: bool,
}

/// What it depends on. Most changes of the Southbound are about pods and leave it as it is.
#[derive(PartialEq)]
pub struct Inputs {
    bindings: [Option<Arc<Binding>>; 2],
    balancers: u64,
    kernel: u64,
    deletions: u64,
}

impl Services {
    /// Watches the Southbound database, through `kernel` the host's links, routes and rules, and through `deletions` its
    /// nftables.
    pub fn new(node: Arc<Node>, kernel: watch::Receiver<u64>, deletions: watch::Receiver<u64>) -> Self {
        let changes = Changes::default()
            .of(node.southbound.changes())
            .of(kernel.clone())
            .of(deletions.clone());
        Self {
            node,
            changes,
            kernel,
            deletions,
            checked: 0,
            programmed: None,
            warned: false,
        }
    }

    /// Writes the difference to what was written last; everything if that is not known, or the terms are others.
    async fn set_table(&mut self, terms: &Terms, inside: Vec<IpNet>, vips: Vips) -> anyhow::Result<()> {
        let deletions = *self.deletions.borrow();
        if self.checked != deletions {
            // Mostly our own: replacing the table deletes the old one.
            if !nft::has_table(TABLE).await? {
                self.programmed = None;
            }
            self.checked = deletions;
        }
        // Taken, so that after a failure everything is written: nobody knows what is there then.
        match self.programmed.take() {
            Some((old_terms, old_inside, old)) if old_terms == *terms && old_inside == inside => {
                let (removed, added) = (old.without(&vips), vips.without(&old));
                if !removed.is_empty() || !added.is_empty() {
                    nft::run("change the addresses of services", table::change(&removed, &added)).await?;
                    info!(
                        removed = removed.len(),
                        added = added.len(),
                        "addresses of services changed on the host"
                    );
                }
            }
            _ => {
                nft::run("write table inet netloom", table::replace(terms, &inside, &vips)).await?;
                info!(gateway = ?terms.gateway, addresses = vips.len(), "services set up on the host");
            }
        }
        self.programmed = Some((terms.clone(), inside, vips));
        Ok(())
    }

    /// Routes marked packets through these gateways of a port.
    async fn set_routes(&self, rule: MarkRule, port: Role, gateways: &[IpAddr]) -> anyhow::Result<()> {
        let netlink = &self.node.netlink;
        for ipv4 in [true, false] {
            let wanted = gateways.iter().any(|gateway| gateway.is_ipv4() == ipv4);
            match (netlink.has_rule(ipv4, rule).await?, wanted) {
                (false, true) => netlink.add_rule(ipv4, rule).await?,
                (true, false) => netlink.delete_rule(ipv4, rule).await?,
                _ => {}
            }
        }
        // Without the device there are no routes through it either; netlink will tell when it comes back.
        let Some(link) = netlink.link(port.device()).await?.filter(|link| link.up) else {
            return Ok(());
        };
        let next = |gateway: IpAddr| NextHop {
            index: link.index,
            gateway,
            onlink: true,
            source: None,
        };
        let routes = netlink.routes(rule.table).await?;
        let through = routes.iter().filter(|route| route.index == link.index);
        let present: Vec<IpAddr> = through.filter_map(|route| route.gateway).collect();
        for gateway in present.iter().filter(|gateway| !gateways.contains(gateway)) {
            netlink.delete_route(rule.table, default_of(*gateway), next(*gateway)).await?;
        }
        for gateway in gateways.iter().filter(|gateway| !present.contains(gateway)) {
            netlink.replace_route(rule.table, default_of(*gateway), next(*gateway)).await?;
        }
        Ok(())
    }

    /// Says once what the node lacks for pods to use IPv6 node ports: it is the host's own setting, not ours to change.
    fn check_forwarding(&mut self, terms: &Terms) -> anyhow::Result<()> {
        if self.warned || terms.address(false).is_none() {
            return Ok(());
        }
        let device = sysctl::read(&format!("ipv6/conf/{}/force_forwarding", Role::Service.device()))?;
        if device.is_none() && sysctl::read("ipv6/conf/all/forwarding")?.as_deref() == Some("0") {
            self.warned = true;
            warn!("this kernel forwards IPv6 only as a whole: set net.ipv6.conf.all.forwarding=1, or pods cannot use IPv6 node ports");
        }
        Ok(())
    }
}

impl Converge for Services {
    const NAME: &'static str = "services";
    type Inputs = Inputs;

    fn inputs(&self) -> Inputs {
        let ports = [Role::Service, Role::Management].map(|role| role.port_of(&self.node.name));
        let (kernel, deletions) = (*self.kernel.borrow(), *self.deletions.borrow());
        self.node.southbound.read(|state| Inputs {
            bindings: ports.each_ref().map(|port| state.binding(port).cloned()),
            balancers: state.balancers_revision,
            kernel,
            deletions,
        })
    }

    async fn changed(&mut self) {
        self.changes.next().await;
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let name = &self.node.name;
        let offer = self.node.southbound.read(|state| {
            let terms = Terms::read(state, name)?;
            let vips = Vips::read(state, &terms, name);
            let assignment = |role: Role| state.binding(&role.port_of(name))?.assignment.as_ref().ok();
            let management = assignment(Role::Management)?;
            // What leads to services is beside what leads to pods, or a part of it.
            let of_services = assignment(Role::Service).into_iter().flat_map(|service| &service.routes);
            let of_services = of_services.filter(|range| !management.routes.iter().any(|own| own.contains(*range)));
            let inside: Vec<IpNet> = management.routes.iter().chain(of_services).copied().collect();
            Some((terms, vips, management.clone(), inside))
        });
        // Not assigned, or the databases are away: what is there stays as it is.
        let Some((terms, vips, management, inside)) = offer else {
            return Ok(());
        };
        self.check_forwarding(&terms)?;
        self.set_table(&terms, inside, vips).await?;
        let native = |gateways: &[IpAddr]| match terms.gateway {
            ServiceMode::Native => gateways.to_vec(),
            // It has its own ways.
            ServiceMode::KubeProxy => Vec::new(),
        };
        self.set_routes(BY_SERVICE_PORT, Role::Service, &native(&terms.gateways)).await?;
        self.set_routes(BY_MANAGEMENT_PORT, Role::Management, &native(&management.gateways))
            .await
    }
}
