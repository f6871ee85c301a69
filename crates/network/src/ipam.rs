//! Addresses: which node has which subnets, which pod which addresses. Deciding (`decide_*`) only reads; recording (`Records`) only
//! notes what was decided. The durable record is the port's own Northbound row, owned by the pod's UID.
//!
//! Invariant: an address belongs to at most one pod; a released one returns to the pool and is used again as late as possible.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::annotations::{self, Request};
use crate::cluster::{Cluster, NodeName, Pod, PodName};
use crate::custom_network::{NETWORK, Read, is_host};
use crate::problem::Problem;
use crate::service::ServiceName;
use crate::settings::{Settings, host_number, hosts, is_ipv4, nth_host};

/// Number of the router's address in a node subnet.
pub const GATEWAY_HOST: u64 = 1;
/// Number of the management port's address in a node subnet.
pub const MANAGEMENT_HOST: u64 = 2;
/// Number of the service port's address in a node subnet.
pub const SERVICE_HOST: u64 = 3;
/// Number of the address OVN's health checks come from in a node subnet; no port has it.
pub const PROBE_HOST: u64 = 4;
const FIRST_POD_HOST: u64 = 5;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address of the port that has `ip`: locally administered and unique where `ip` is unique within its subnet.
    pub fn of(ip: IpAddr) -> Self {
        let low = match ip {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(ip) => {
                let o = ip.octets();
                [o[12], o[13], o[14], o[15]]
            }
        };
        Self([0x0a, 0x4e, low[0], low[1], low[2], low[3]])
    }

    /// The link-local address that follows from it, which is also the one OVN gives a router port.
    pub fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0.map(u16::from);
        Ipv6Addr::new(0xfe80, 0, 0, 0, ((a ^ 2) << 8) | b, (c << 8) | 0xff, 0xfe00 | d, (e << 8) | f)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a unicast MAC address; write for example 0a:4e:00:00:00:07");
        let octets: Vec<u8> = text
            .split(':')
            .map(|part| if part.len() == 2 { u8::from_str_radix(part, 16).ok() } else { None })
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let octets: [u8; 6] = octets.try_into().map_err(|_| wrong())?;
        if octets[0] & 1 == 1 || octets == [0; 6] {
            Err(wrong())
        } else {
            Ok(Self(octets))
        }
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The recorded addresses of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// UID of the pod they belong to.
    pub uid: String,
    /// Ethernet address.
    pub mac: Mac,
    /// One address of each family, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// The `Network` it is on, if it is on one.
    pub attachment: Option<Attachment>,
}

impl Assignment {
    /// The Ethernet address by which others in its network know it.
    pub(crate) fn link(&self) -> Option<Mac> {
        self.attachment.is_some().then_some(self.mac)
    }
}

/// A pod's place in a `Network`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The network's name.
    pub network: String,
    /// Addresses with the prefix of their subnet, one of each family of the network.
    pub addresses: Vec<IpNet>,
}

/// All recorded choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Addressing in force.
    pub settings: Option<Settings>,
    nodes: BTreeMap<NodeName, u64>,
    slots: BTreeSet<u64>,
    pods: HashMap<PodName, Assignment>,
    owners: HashMap<IpAddr, PodName>,
    cursors: HashMap<IpNet, u64>,
    external: BTreeMap<ServiceName, External>,
    external_owners: HashMap<IpAddr, ServiceName>,
    networks: BTreeMap<String, Members>,
    network_slots: BTreeMap<String, u64>,
}

/// Who is on a `Network`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Members {
    owners: HashMap<IpAddr, PodName>,
    cursors: HashMap<IpNet, u64>,
}

/// The recorded external addresses of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// UID of the service they belong to.
    pub uid: String,
    /// At most one address of each family, IPv4 first.
    pub addresses: Vec<IpAddr>,
}

impl Records {
    /// External addresses of a service, given from pools; they are what its status shows.
    pub fn external(&self, service: &ServiceName) -> &[IpAddr] {
        self.external.get(service).map_or(&[], |external| &external.addresses)
    }

    /// External addresses recorded for a service, if they belong to this `uid`.
    pub fn external_of(&self, service: &ServiceName, uid: &str) -> &[IpAddr] {
        let recorded = self.external.get(service).filter(|external| external.uid == uid);
        recorded.map_or(&[], |external| &external.addresses)
    }

    /// Everything recorded for services.
    pub fn externals(&self) -> impl Iterator<Item = (&ServiceName, &External)> {
        self.external.iter()
    }

    /// Notes a service's external addresses, less those that belong to another; none of them: it gives back what it had.
    pub fn record_external(&mut self, service: &ServiceName, mut external: External) {
        for ip in self.external.remove(service).into_iter().flat_map(|old| old.addresses) {
            self.external_owners.remove(&ip);
        }
        external.addresses.retain(|ip| !self.external_owners.contains_key(ip));
        for ip in &external.addresses {
            self.external_owners.insert(*ip, service.clone());
        }
        if !external.addresses.is_empty() {
            self.external.insert(service.clone(), external);
        }
    }

    /// The service an external address was given to.
    pub fn external_owner(&self, ip: IpAddr) -> Option<&ServiceName> {
        self.external_owners.get(&ip)
    }

    /// The slot of a node.
    pub fn slot(&self, node: &str) -> Option<u64> {
        self.nodes.get(node).copied()
    }

    /// Subnets of a node, one of each family; empty while it has no slot.
    pub fn subnets(&self, node: &str) -> Vec<IpNet> {
        match (&self.settings, self.slot(node)) {
            (Some(settings), Some(slot)) => settings.subnets(slot),
            _ => Vec::new(),
        }
    }

    /// Nodes that have a slot.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.keys()
    }

    /// The addresses recorded for a pod, if they belong to this `uid`.
    pub fn assignment(&self, pod: &PodName, uid: &str) -> Option<&Assignment> {
        self.pods.get(pod).filter(|assignment| assignment.uid == uid)
    }

    /// Everything recorded for pods.
    pub fn assignments(&self) -> impl Iterator<Item = (&PodName, &Assignment)> {
        self.pods.iter()
    }

    /// Networks with pods on them.
    pub fn networks(&self) -> impl Iterator<Item = &String> {
        self.networks
            .iter()
            .filter(|(_, members)| !members.owners.is_empty())
            .map(|(name, _)| name)
    }

    /// A pod's place in a network, whatever its UID.
    pub fn attachment(&self, pod: &PodName) -> Option<&Attachment> {
        self.pods.get(pod)?.attachment.as_ref()
    }

    /// Networks whose routers have an address on the join switch.
    pub fn joined_networks(&self) -> impl Iterator<Item = &String> {
        self.network_slots.keys()
    }

    /// Pods on a network.
    pub fn attached(&self, network: &str) -> BTreeSet<&PodName> {
        self.networks
            .get(network)
            .into_iter()
            .flat_map(|members| members.owners.values())
            .collect()
    }

    /// The pod that has an address of a network.
    pub fn network_owner(&self, network: &str, ip: IpAddr) -> Option<&PodName> {
        self.networks.get(network)?.owners.get(&ip)
    }

    /// The slot of a network.
    pub fn network_slot(&self, network: &str) -> Option<u64> {
        self.network_slots.get(network).copied()
    }

    /// The lowest slot no network has.
    pub fn free_network_slot(&self) -> u64 {
        let taken: BTreeSet<u64> = self.network_slots.values().copied().collect();
        (0..).find(|slot| !taken.contains(slot)).unwrap_or_default()
    }

    /// Notes a network's slot; refused (false) when another network has it.
    pub fn record_network(&mut self, network: &str, slot: u64) -> bool {
        let free = self.network_slots.iter().all(|(name, taken)| name == network || *taken != slot);
        free && self.network_slots.insert(network.to_owned(), slot) != Some(slot)
    }

    /// Gives a network's slot back; says whether it had one.
    pub fn release_network(&mut self, network: &str) -> bool {
        self.networks.remove(network);
        self.network_slots.remove(network).is_some()
    }

    /// Notes a node's slot; refused (false) when another node has it.
    pub fn record_node(&mut self, node: &str, slot: u64) -> bool {
        if self.nodes.get(node) == Some(&slot) {
            return true;
        }
        if !self.slots.insert(slot) {
            return false;
        }
        if let Some(old) = self.nodes.insert(node.to_owned(), slot) {
            self.slots.remove(&old);
        }
        true
    }

    /// Notes a pod's addresses; refused (false) when one of them belongs to another pod.
    pub fn record_pod(&mut self, pod: &PodName, assignment: Assignment) -> bool {
        if assignment
            .addresses
            .iter()
            .any(|ip| self.owners.get(ip).is_some_and(|owner| owner != pod))
        {
            return false;
        }
        if let Some(Attachment { network, addresses }) = &assignment.attachment {
            let taken = |ip: &IpNet| self.network_owner(network, ip.addr()).is_some_and(|owner| owner != pod);
            if addresses.iter().any(taken) {
                return false;
            }
        }
        self.release_pod(pod);
        for ip in &assignment.addresses {
            self.owners.insert(*ip, pod.clone());
        }
        if let Some(Attachment { network, addresses }) = &assignment.attachment {
            let members = self.networks.entry(network.clone()).or_default();
            addresses.iter().for_each(|ip| drop(members.owners.insert(ip.addr(), pod.clone())));
        }
        self.pods.insert(pod.clone(), assignment);
        true
    }

    /// Gives a pod's addresses back and returns them.
    pub fn release_pod(&mut self, pod: &PodName) -> Vec<IpAddr> {
        let Some(released) = self.pods.remove(pod) else { return Vec::new() };
        for ip in &released.addresses {
            self.owners.remove(ip);
        }
        if let Some(Attachment { network, addresses }) = released.attachment
            && let Some(members) = self.networks.get_mut(&network)
        {
            addresses.iter().for_each(|ip| drop(members.owners.remove(&ip.addr())));
        }
        released.addresses
    }

    /// Gives a node's slot back; says whether it had one.
    pub fn release_node(&mut self, node: &str) -> bool {
        self.nodes.remove(node).is_some_and(|slot| self.slots.remove(&slot))
    }

    /// The pod an address belongs to.
    pub fn owner(&self, ip: IpAddr) -> Option<&PodName> {
        self.owners.get(&ip)
    }

    /// Lets the search for a free address go on after the highest one found in use, when nobody remembers where it was.
    pub(crate) fn resume(&mut self, used: IpNet) {
        if let Some(host) = host_number(&used.trunc(), used.addr()) {
            let cursor = self.cursors.entry(used.trunc()).or_default();
            *cursor = (*cursor).max(host + 1);
        }
    }

    /// The same in a network.
    pub(crate) fn resume_in_network(&mut self, Attachment { network, addresses }: &Attachment) {
        let cursors = &mut self.networks.entry(network.clone()).or_default().cursors;
        for ip in addresses {
            let cursor = cursors.entry(ip.trunc()).or_default();
            *cursor = (*cursor).max(host_number(&ip.trunc(), ip.addr()).unwrap_or_default() + 1);
        }
    }

    fn advance_in_network(&mut self, Attachment { network, addresses }: &Attachment) {
        let cursors = &mut self.networks.entry(network.clone()).or_default().cursors;
        cursors.extend(
            addresses
                .iter()
                .filter_map(|ip| Some((ip.trunc(), host_number(&ip.trunc(), ip.addr())? + 1))),
        );
    }

    /// Remembers where the search for a free address goes on, so that a released address rests.
    fn advance(&mut self, subnets: &[IpNet], addresses: &[IpAddr]) {
        for ip in addresses {
            if let Some((subnet, host)) = subnets.iter().find_map(|subnet| Some((*subnet, host_number(subnet, *ip)?))) {
                self.cursors.insert(subnet, host + 1);
            }
        }
    }
}

/// Decides the addressing: what is written if it is sound and does not take away what is in use, else what is in force.
pub fn decide_settings(cluster: &Cluster) -> Result<Settings, Problem> {
    let wanted = match &cluster.network {
        None => return Ok(cluster.records.settings.clone().unwrap_or_default()),
        Some(network) => Settings::from_spec(&network.spec).map_err(|why| Problem::new(cluster.network_ref(), "InvalidNetwork", why))?,
    };
    match &cluster.records.settings {
        Some(current) if cluster.records.nodes.is_empty() || *current == wanted => Ok(wanted),
        Some(current) => match current.may_become(&wanted) {
            Ok(()) => Ok(wanted),
            Err(why) => Err(Problem::new(cluster.network_ref(), "ChangeRefused", why)),
        },
        None => Ok(wanted),
    }
}

/// Decides a node's slot: the recorded one, the one its annotation remembers, or the lowest free one.
pub fn decide_slot(cluster: &Cluster, name: &str) -> Result<Option<u64>, Problem> {
    let Some(settings) = &cluster.records.settings else {
        return Ok(None);
    };
    if let Some(slot) = cluster.records.slot(name) {
        return Ok(Some(slot));
    }
    let remembered = cluster
        .nodes
        .get(name)
        .and_then(|node| node.annotations.get(annotations::SUBNETS))
        .and_then(|text| settings.slot_of(&text.split(',').next()?.trim().parse().ok()?));
    let free = |slot: &u64| !cluster.records.slots.contains(slot);
    let limit = settings.slots();
    remembered
        .filter(|slot| *slot < limit && free(slot))
        .or_else(|| (0..limit).find(free))
        .map(Some)
        .ok_or_else(|| {
            Problem::new(
                cluster.node_ref(name),
                "SubnetsExhausted",
                format!("all {limit} node subnets of {settings} are taken; add a range to ClusterNetwork/default spec.clusterCIDRs"),
            )
        })
}

/// Decides a pod's addresses: the recorded ones, those its status shows, those it asks for, or the next free ones.
/// `None` means it needs none yet (no node, no subnet, host network, finished).
pub fn decide_addresses(cluster: &Cluster, name: &PodName) -> Result<Option<Assignment>, Problem> {
    let Some(pod) = cluster.pods.get(name).filter(|pod| pod.wants_port()) else {
        return Ok(None);
    };
    if let Some(assignment) = cluster.records.assignment(name, &pod.uid) {
        return Ok(Some(assignment.clone()));
    }
    let mut subnets = cluster.records.subnets(pod.node.as_deref().unwrap_or_default());
    if subnets.is_empty() {
        return Ok(None);
    }
    let problem = |reason, why: String| Problem::new(cluster.pod_ref(name), reason, why);
    let asked = annotations::request(&pod.annotations).map_err(|why| problem("InvalidAnnotation", why))?;
    let attachment = attachment(cluster, name, pod, &asked).map_err(|(reason, why)| problem(reason, why))?;
    if let Some(attachment) = &attachment {
        // Of a family the network does not have, nothing would find the way to the pod.
        subnets.retain(|subnet| attachment.addresses.iter().any(|ip| is_ipv4(ip) == is_ipv4(subnet)));
    }
    let mut addresses = adopted(cluster, name, pod, &subnets);
    if addresses.is_empty() {
        for subnet in &subnets {
            let same_family = |ip: &&IpAddr| ip.is_ipv4() == subnet.addr().is_ipv4();
            addresses.push(match asked.addresses.iter().find(same_family) {
                Some(ip) => requested(cluster, name, subnet, *ip).map_err(|why| problem("AddressRefused", why))?,
                None => next_free(&cluster.records, subnet).ok_or_else(|| problem("SubnetFull", full(pod, subnet)))?,
            });
        }
        if let Some(stray) = asked.addresses.iter().find(|ip| !addresses.contains(ip)) {
            return Err(problem(
                "AddressRefused",
                format!("{stray} is of a family the node has no subnet of"),
            ));
        }
    }
    let Some(first) = addresses.first() else { return Ok(None) };
    Ok(Some(Assignment {
        uid: pod.uid.clone(),
        mac: asked.mac.unwrap_or_else(|| Mac::of(*first)),
        addresses,
        attachment,
    }))
}

/// Decides a pod's place in the network it names, if it names one.
fn attachment(cluster: &Cluster, name: &PodName, pod: &Pod, asked: &Request) -> Result<Option<Attachment>, (&'static str, String)> {
    let Some(network) = cluster.network_named(name, pod) else {
        return match asked.network_addresses.first() {
            None => Ok(None),
            Some(ip) => Err((
                "AddressRefused",
                format!("it asks for {ip} in a network and names none; add the annotation {NETWORK}"),
            )),
        };
    };
    let read = cluster
        .custom_network(network)
        .map_err(|why| ("NetworkUnusable", format!("network {network}: {why}. The pod waits for it")))?;
    if cluster.records.network_slot(network).is_none() {
        return Err((
            "NetworkUnusable",
            format!("network {network} is not in force; see what it says of itself"),
        ));
    }
    if !cluster.may_attach(&name.namespace, read) {
        let why = format!(
            "pods of namespace {} may not be on network {network}: its namespaceSelector does not match the namespace's labels; label the namespace, change the Network, or name another",
            name.namespace
        );
        return Err(("NetworkForbidden", why));
    }
    if asked.mac.is_some() {
        let why = format!(
            "a pod on a network cannot choose its MAC address, by which others on it know the pod; remove {}",
            annotations::MAC
        );
        return Err(("InvalidAnnotation", why));
    }
    let mut addresses = Vec::new();
    for subnet in &read.subnets {
        let ip = match asked.network_addresses.iter().find(|ip| ip.is_ipv4() == is_ipv4(subnet)) {
            Some(ip) => requested_in_network(cluster, name, network, read, *ip).map_err(|why| ("AddressRefused", why))?,
            None => next_free_in_network(&cluster.records, network, read, subnet).ok_or_else(|| {
                let why = format!("no free address in {subnet} of network {network}; delete pods of it or give it a larger subnet");
                ("SubnetFull", why)
            })?,
        };
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

fn requested_in_network(cluster: &Cluster, name: &PodName, network: &str, read: &Read, ip: IpAddr) -> Result<IpAddr, String> {
    let usable = read.subnet_of(ip).is_some_and(|subnet| is_host(subnet, ip)) && !read.gateways.contains(&ip);
    match cluster.records.network_owner(network, ip) {
        _ if !usable => Err(format!("{ip} is not for pods of network {network}; ask for another in its subnets")),
        Some(owner) if owner != name => Err(format!(
            "{ip} of network {network} is in use by pod {owner}; ask for another or delete that pod"
        )),
        _ => Ok(ip),
    }
}

fn next_free_in_network(records: &Records, network: &str, read: &Read, subnet: &IpNet) -> Option<IpAddr> {
    let cursor = records.networks.get(network).and_then(|members| members.cursors.get(subnet));
    let start = cursor.copied().unwrap_or(1);
    let free = |host: u64| {
        let ip = nth_host(subnet, host)?.addr();
        let leads = read.gateways.contains(&ip) || read.routes_via(ip).next().is_some();
        (is_host(subnet, ip) && !leads && records.network_owner(network, ip).is_none()).then_some(ip)
    };
    (start..hosts(subnet)).chain(1..start).find_map(free)
}

/// Records a decision for a pod made by [`decide_addresses`]; says whether it is news.
pub fn record(cluster: &mut Cluster, name: &PodName, assignment: Assignment) -> bool {
    if cluster.records.assignment(name, &assignment.uid) == Some(&assignment) {
        return false; // the search for free addresses must not go back to it
    }
    let node = cluster.pods.get(name).and_then(|pod| pod.node.clone()).unwrap_or_default();
    let subnets = cluster.records.subnets(&node);
    cluster.records.advance(&subnets, &assignment.addresses);
    assignment
        .attachment
        .iter()
        .for_each(|attachment| cluster.records.advance_in_network(attachment));
    cluster.records.record_pod(name, assignment)
}

fn adopted(cluster: &Cluster, name: &PodName, pod: &Pod, subnets: &[IpNet]) -> Vec<IpAddr> {
    let usable = |ip: &IpAddr| {
        subnets
            .iter()
            .any(|subnet| host_number(subnet, *ip).is_some_and(|host| is_pod_host(subnet, host)))
            && cluster.records.owner(*ip).is_none_or(|owner| owner == name)
    };
    if pod.addresses.iter().all(usable) {
        pod.addresses.clone()
    } else {
        Vec::new()
    }
}

fn requested(cluster: &Cluster, name: &PodName, subnet: &IpNet, ip: IpAddr) -> Result<IpAddr, String> {
    match host_number(subnet, ip) {
        None => Err(format!(
            "{ip} is not in its node's subnet {subnet}; ask for one that is, or choose the node with spec.nodeName"
        )),
        Some(host) if !is_pod_host(subnet, host) => Err(format!("{ip} is reserved in {subnet}; ask for another")),
        Some(_) => match cluster.records.owner(ip) {
            Some(owner) if owner != name => Err(format!("{ip} is in use by pod {owner}; ask for another or delete that pod")),
            _ => Ok(ip),
        },
    }
}

fn next_free(records: &Records, subnet: &IpNet) -> Option<IpAddr> {
    let start = records.cursors.get(subnet).copied().unwrap_or(FIRST_POD_HOST);
    let free = |host: u64| {
        let ip = nth_host(subnet, host)?.addr();
        (is_pod_host(subnet, host) && records.owner(ip).is_none()).then_some(ip)
    };
    (start..hosts(subnet)).chain(FIRST_POD_HOST..start).find_map(free)
}

fn is_pod_host(subnet: &IpNet, host: u64) -> bool {
    host >= FIRST_POD_HOST && !(subnet.addr().is_ipv4() && host + 1 >= hosts(subnet))
}

fn full(pod: &Pod, subnet: &IpNet) -> String {
    let node = pod.node.as_deref().unwrap_or_default();
    format!(
        "no free address in {subnet} of node {node}; delete pods there or use another node (the pod gets an address as soon as one is free)"
    )
}
