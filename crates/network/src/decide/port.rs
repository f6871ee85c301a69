//! A port's addresses: the recorded ones, those its pod's status shows, those the pod asks for, or the next free ones. A pod gives them back
//! when it is gone, finished, or another of the same name.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::annotations::{self, Request};
use crate::cluster::{Pod, View};
use crate::custom_network::{NETWORK, Read, is_host};
use crate::decide::allocator::{Allocator, Unavailable, next_on};
use crate::decide::{Choice, Decision, Outcome, Rank};
use crate::ipam::{
    Assignment, Attachment, FIRST_POD_HOST, GATEWAY_HOST, Holder, MANAGEMENT_HOST, Mac, PortName, SERVICE_HOST, Segment, Space,
};
use crate::problem::Problem;
use crate::settings::{host_number, is_ipv4, nth_host};

/// Why there is no address: a reason and what to change.
type Refusal = (&'static str, String);

pub(super) fn decide(view: &View<'_>, name: &PortName) -> Outcome {
    let Some(pod) = view.pod(&name.owner).filter(|pod| pod.wants_port()) else {
        return Outcome::of(Choice::Port(None));
    };
    if let Some(assignment) = view.assignment(name, &pod.uid) {
        return Outcome::of(Choice::Port(Some(assignment.clone())));
    }
    let port = NewPort {
        view,
        name,
        holder: Holder::Port(name.clone()),
        node: pod.node.as_deref().unwrap_or_default(),
        pod,
    };
    match port.assign() {
        Ok(assignment) => Outcome::of(Choice::Port(assignment)),
        Err((reason, why)) => Outcome::of(Choice::Port(None)).but(Problem::new(view.pod_ref(&name.owner), reason, why)),
    }
}

pub(super) fn rank(view: &View<'_>, name: &PortName) -> Rank {
    match view.pod(&name.owner).filter(|pod| pod.wants_port()) {
        None => Rank::Release,
        Some(pod) => Rank::Port {
            unknown: pod.addresses.is_empty(),
        },
    }
}

/// A port that has no addresses yet.
struct NewPort<'v> {
    view: &'v View<'v>,
    name: &'v PortName,
    holder: Holder,
    pod: &'v Pod,
    node: &'v str,
}

impl NewPort<'_> {
    /// None means it needs no address yet.
    fn assign(&self) -> Result<Option<Assignment>, Refusal> {
        let Self { view, name, pod, node, .. } = self;
        // What network it is on, who isolates it and who judges it, its namespace has to say.
        if !view.has_namespace(&name.owner.namespace) {
            return Ok(None);
        }
        let mut subnets = view.subnets(node);
        if subnets.is_empty() {
            // The scheduler chose the node of a pod, which will have subnets in time. A person chose that of a machine.
            if name.owner.machine().is_some() && !view.has_node(node) {
                let why = format!("there is no node {node}; create another Port with an existing node in spec.node");
                return Err(("NodeUnknown", why));
            }
            return Ok(None);
        }
        let asked = annotations::request(&pod.annotations).map_err(|why| ("InvalidAnnotation", why))?;
        let attachment = self.attachment(&asked)?;
        let segment = match &attachment {
            Some(on) => Segment::Network(on.network.clone()),
            None => Segment::Node((*node).to_owned()),
        };
        if let Some(mac) = asked.mac {
            self.request_mac(&segment, mac)?;
        }
        if let Some(attachment) = &attachment {
            // Of a family the network does not have, nothing would find the way to the pod.
            subnets.retain(|subnet| attachment.addresses.iter().any(|ip| is_ipv4(ip) == is_ipv4(subnet)));
            if subnets.is_empty() {
                let why = format!(
                    "network {} has no subnet of a family that the cluster has; give it one, or name another",
                    attachment.network
                );
                return Err(("NetworkUnusable", why));
            }
        }
        let routed = attachment.is_some();
        // Only the first address makes an Ethernet address, and no two pods have one made of the same IPv4 address. A router may.
        let taken =
            |ip: IpAddr| (routed || ip.is_ipv6()) && asked.mac.is_none() && self.mac_taken(&segment, self.made_up(ip, &subnets, routed));
        let free = |_: IpAddr| false;
        let mut addresses = self.adopted(&subnets, &taken);
        if addresses.is_empty() {
            for subnet in &subnets {
                let reserved: &dyn Fn(IpAddr) -> bool = if addresses.is_empty() && asked.mac.is_none() {
                    &taken
                } else {
                    &free
                };
                addresses.push(self.address(subnet, &asked, reserved)?);
            }
            if let Some(stray) = asked.addresses.iter().find(|ip| !addresses.contains(ip)) {
                return Err(("AddressRefused", format!("{stray} is of a family the node has no subnet of")));
            }
        }
        let Some(first) = addresses.first() else { return Ok(None) };
        Ok(Some(Assignment {
            uid: pod.uid.clone(),
            node: (*node).to_owned(),
            mac: asked.mac.unwrap_or_else(|| self.made_up(*first, &subnets, routed)),
            addresses,
            attachment,
        }))
    }

    /// One address of its node's subnet.
    fn address(&self, subnet: &IpNet, asked: &Request, reserved: &dyn Fn(IpAddr) -> bool) -> Result<IpAddr, Refusal> {
        let allocator = Allocator::of_subnet(self.view, Space::Cluster, subnet, FIRST_POD_HOST, reserved);
        let Some(ip) = asked.addresses.iter().find(|ip| ip.is_ipv4() == is_ipv4(subnet)) else {
            let segment = Segment::Node(self.node.to_owned());
            let full = || {
                format!(
                    "no free address in {subnet} of node {}; delete pods there or use another node (the pod gets an address as soon as one is free)",
                    self.node
                )
            };
            return next_on(self.view, &segment, allocator).ok_or_else(|| ("SubnetFull", full()));
        };
        let available = allocator.map_or(Err(Unavailable::Outside), |allocator| {
            allocator.request(self.view, *ip, &self.holder)
        });
        let why = match available {
            Ok(()) => return Ok(*ip),
            Err(Unavailable::Outside) if subnet.contains(ip) => format!("{ip} is reserved in {subnet}; ask for another"),
            Err(Unavailable::Outside) => {
                format!("{ip} is not in its node's subnet {subnet}; ask for one that is, or choose the node with spec.nodeName")
            }
            Err(Unavailable::Reserved) => format!("the Ethernet address made of {ip} is in use on the same switch; ask for another"),
            Err(Unavailable::Taken(holder)) => format!("{ip} is in use by {holder}; ask for another or delete that pod"),
        };
        Err(("AddressRefused", why))
    }

    /// The addresses its status shows, if it can have all of them: the records were lost.
    fn adopted(&self, subnets: &[IpNet], reserved: &dyn Fn(IpAddr) -> bool) -> Vec<IpAddr> {
        let first = self.pod.addresses.first();
        let usable = |ip: &IpAddr| {
            let subnet = subnets.iter().find(|subnet| subnet.contains(ip));
            let unreserved: &dyn Fn(IpAddr) -> bool = &|_| false;
            let reserved = if Some(ip) == first { reserved } else { unreserved };
            let allocator = subnet.and_then(|subnet| Allocator::of_subnet(self.view, Space::Cluster, subnet, FIRST_POD_HOST, reserved));
            allocator.is_some_and(|allocator| allocator.request(self.view, *ip, &self.holder).is_ok())
        };
        if self.pod.addresses.iter().all(usable) {
            self.pod.addresses.clone()
        } else {
            Vec::new()
        }
    }

    /// Its place in the network it names, if it names one.
    fn attachment(&self, asked: &Request) -> Result<Option<Attachment>, Refusal> {
        let Self { view, name, pod, .. } = self;
        let Some(network) = view.network_named(&name.owner, pod) else {
            // One that runs already may have been on a network that nobody names any more.
            return match asked.network_addresses.first().filter(|_| pod.addresses.is_empty()) {
                None => Ok(None),
                Some(ip) => Err((
                    "AddressRefused",
                    format!("it asks for {ip} in a network and names none; add the annotation {NETWORK}"),
                )),
            };
        };
        let read = self.usable(network)?;
        if asked.mac.is_some() {
            let why = format!(
                "a pod on a network cannot choose its MAC address, by which others on it know the pod; remove {}",
                annotations::MAC
            );
            return Err(("InvalidAnnotation", why));
        }
        let mut addresses = Vec::new();
        for subnet in &read.subnets {
            let ip = self.network_address(network, read, subnet, asked)?;
            addresses.extend(IpNet::new(ip, subnet.prefix_len()));
        }
        if let Some(stray) = asked.network_addresses.iter().find(|ip| read.subnet_of(**ip).is_none()) {
            return Err((
                "AddressRefused",
                format!("{stray} is in no subnet of network {network}; ask for one that is"),
            ));
        }
        let network = network.to_owned();
        Ok(Some(Attachment { network, addresses }))
    }

    /// A network that new pods may be on.
    fn usable(&self, network: &str) -> Result<&Read, Refusal> {
        let Self { view, name, .. } = self;
        let unusable = |why: &str| ("NetworkUnusable", format!("network {network}: {why}. The pod waits for it"));
        if !view.has_custom_network(network) {
            return Err(unusable(&format!("there is no Network {network}; create it or correct the name")));
        }
        if let Some(refusal) = view.refusals(&Decision::Network(network.to_owned())).first() {
            return Err(unusable(&refusal.message));
        }
        let Some(record) = view.network(network) else {
            let why = format!("network {network} is not in force; see what it says of itself");
            return Err(("NetworkUnusable", why));
        };
        if !view.may_attach(&name.owner.namespace, &record.read) {
            let why = format!(
                "pods of namespace {} may not be on network {network}: its namespaceSelector does not match the namespace's labels; label the namespace, change the Network, or name another",
                name.owner.namespace
            );
            return Err(("NetworkForbidden", why));
        }
        Ok(&record.read)
    }

    fn network_address(&self, network: &str, read: &Read, subnet: &IpNet, asked: &Request) -> Result<IpAddr, Refusal> {
        let space = Space::Network(network.to_owned());
        let gateway = |ip: IpAddr| read.gateways.contains(&ip);
        let leads = |ip: IpAddr| gateway(ip) || read.routes_via(ip).next().is_some();
        let Some(ip) = asked.network_addresses.iter().find(|ip| ip.is_ipv4() == is_ipv4(subnet)) else {
            let allocator = Allocator::of_subnet(self.view, space, subnet, 1, &leads);
            let full = || format!("no free address in {subnet} of network {network}; delete pods of it or give it a larger subnet");
            let found = next_on(self.view, &Segment::Network(network.to_owned()), allocator);
            return found.ok_or_else(|| ("SubnetFull", full()));
        };
        let allocator = Allocator::of_subnet(self.view, space, subnet, 1, &gateway).filter(|_| is_host(subnet, *ip));
        let available = allocator.map_or(Err(Unavailable::Outside), |allocator| {
            allocator.request(self.view, *ip, &self.holder)
        });
        let why = match available {
            Ok(()) => return Ok(*ip),
            Err(Unavailable::Outside | Unavailable::Reserved) => {
                format!("{ip} is not for pods of network {network}; ask for another in its subnets")
            }
            Err(Unavailable::Taken(holder)) => {
                format!("{ip} of network {network} is in use by {holder}; ask for another or delete that pod")
            }
        };
        Err(("AddressRefused", why))
    }

    /// The Ethernet address that is made up for a port with this first address.
    fn made_up(&self, first: IpAddr, subnets: &[IpNet], routed: bool) -> Mac {
        if routed && first.is_ipv6() {
            // The end of an IPv6 address is the same on all nodes.
            let host = subnets.iter().find_map(|subnet| host_number(subnet, first));
            return Mac::of_numbers(self.view.slot(self.node).unwrap_or_default(), host.unwrap_or_default());
        }
        Mac::of(first)
    }

    fn request_mac(&self, segment: &Segment, mac: Mac) -> Result<(), Refusal> {
        let refuse = |why: String| Err(("AddressRefused", why));
        if mac.may_be_made_up() {
            return refuse(format!(
                "Ethernet addresses that begin like {mac} are made up for others; ask for another"
            ));
        }
        match self.view.mac_holder(segment, mac).filter(|holder| **holder != self.holder) {
            Some(holder) => refuse(format!(
                "{mac} is in use by {holder} on the same node; ask for another or delete that one"
            )),
            None => Ok(()),
        }
    }

    /// Whether another port of the segment, the router's among them, has an Ethernet address: each would get what is meant for the other.
    fn mac_taken(&self, segment: &Segment, mac: Mac) -> bool {
        let held = || self.view.mac_holder(segment, mac).is_some_and(|holder| *holder != self.holder);
        let own = || match segment {
            Segment::Node(node) => {
                let first = self.view.subnets(node).into_iter().next();
                let host = |number| Some(Mac::of(nth_host(&first?, number)?.addr()));
                [GATEWAY_HOST, MANAGEMENT_HOST, SERVICE_HOST]
                    .into_iter()
                    .any(|number| host(number) == Some(mac))
            }
            Segment::Network(network) => {
                let router = self.view.network(network).and_then(|record| record.read.gateways.first());
                router.is_some_and(|router| Mac::of(*router) == mac)
            }
            Segment::Announce => false,
        };
        own() || held()
    }
}
