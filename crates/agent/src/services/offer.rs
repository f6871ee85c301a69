//! What this node has to offer of services, from the Southbound's point of view: the terms its own ports' bindings
//! set, and the addresses and ports the gateways' load balancers serve. Pure; nftables and the flows of br-ex are both
//! made from it, and compare it with what they made before.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::host_port::Role;
use crate::southbound::balancer::{Balancer, Vip};
use crate::southbound::{Binding, SouthboundState};
use netloom_contract::ServiceMode;
use netloom_contract::balancer::Local;

/// What the service port's binding says. Changes rarely, and everything is made anew when it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Who serves services here.
    pub gateway: ServiceMode,
    /// The node's addresses in front of services, one per family; no device has them.
    pub addresses: Vec<IpAddr>,
    /// The routers to services, one per family.
    pub gateways: Vec<IpAddr>,
    /// The addresses that stand for any node's own where node ports are served, one per family.
    pub node_port_addresses: Vec<IpAddr>,
}

impl Terms {
    /// Reads the binding of the service port; none if it is not complete.
    pub fn parse(binding: &Binding) -> Option<Self> {
        let assignment = binding.assignment.as_ref().ok()?;
        // Whole ranges are those of services; single addresses are where node ports are served.
        let single = assignment
            .routes
            .iter()
            .filter(|route| route.prefix_len() == route.max_prefix_len());
        Some(Self {
            gateway: binding.service_gateway?,
            addresses: assignment.addresses.iter().map(|net| net.addr()).collect(),
            gateways: assignment.gateways.clone(),
            node_port_addresses: single.map(|route| route.addr()).collect(),
        })
    }

    /// Reads them for this node.
    pub fn read(state: &SouthboundState, node: &str) -> Option<Self> {
        Self::parse(state.binding(&Role::Service.port_of(node))?)
    }

    /// The node-port address of a family.
    pub fn node_port_address(&self, ipv4: bool) -> Option<IpAddr> {
        of_family(&self.node_port_addresses, ipv4)
    }

    /// The node's address in front of services.
    pub fn address(&self, ipv4: bool) -> Option<IpAddr> {
        of_family(&self.addresses, ipv4)
    }
}

/// The first address of a family.
pub fn of_family(addresses: &[IpAddr], ipv4: bool) -> Option<IpAddr> {
    addresses.iter().copied().find(|address| address.is_ipv4() == ipv4)
}

/// The addresses and ports served at gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vips {
    /// Those on a node-port address.
    pub node_ports: BTreeSet<Vip>,
    /// Those on a node-port address whose service every node serves with its own backends only.
    pub local_node_ports: BTreeSet<Vip>,
    /// Those of these that the node itself reaches through its management port: their backends are to see its own address.
    pub own_by_management_port: BTreeSet<Vip>,
    /// Those on addresses of the world outside.
    pub external: BTreeSet<Vip>,
    /// Those this node itself reaches through its service port: the external ones, and node ports of other nodes whose own
    /// backends are meant.
    pub by_service_port: BTreeSet<Vip>,
    /// Such node ports whose backends are to see this node's address: it reaches them through its management port.
    pub by_management_port: BTreeSet<Vip>,
}

impl Vips {
    /// What the load balancers serve under these terms; nothing if it is not OVN that serves.
    pub fn read(state: &SouthboundState, terms: &Terms, node: &str) -> Self {
        let mut vips = Self::default();
        if terms.gateway == ServiceMode::Native {
            for balancer in state.balancers() {
                for vip in &balancer.vips {
                    if terms.node_port_addresses.contains(&vip.address) {
                        vips.add_node_port(balancer, *vip, node);
                    } else {
                        vips.external.insert(*vip);
                        vips.by_service_port.insert(*vip);
                    }
                }
            }
        }
        vips
    }

    fn add_node_port(&mut self, balancer: &Balancer, vip: Vip, node: &str) {
        self.node_ports.insert(vip);
        if balancer.local.is_some() {
            self.local_node_ports.insert(vip);
        }
        if balancer.local == Some(Local::Pods) {
            self.own_by_management_port.insert(vip);
        }
        if balancer.node.as_deref() != Some(node) {
            let same_family = balancer.node_addresses.iter().filter(|ip| ip.is_ipv4() == vip.address.is_ipv4());
            let by = if balancer.keeps_source {
                &mut self.by_management_port
            } else {
                &mut self.by_service_port
            };
            by.extend(same_family.map(|address| Vip { address: *address, ..vip }));
        }
    }

    /// What is here and not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        let without = |of: fn(&Self) -> &BTreeSet<Vip>| of(self).difference(of(other)).copied().collect();
        Self {
            node_ports: without(|vips| &vips.node_ports),
            local_node_ports: without(|vips| &vips.local_node_ports),
            own_by_management_port: without(|vips| &vips.own_by_management_port),
            external: without(|vips| &vips.external),
            by_service_port: without(|vips| &vips.by_service_port),
            by_management_port: without(|vips| &vips.by_management_port),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.node_ports.len() + self.external.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        let more = [
            &self.local_node_ports,
            &self.own_by_management_port,
            &self.by_service_port,
            &self.by_management_port,
        ];
        self.len() == 0 && more.iter().all(|set| set.is_empty())
    }
}
