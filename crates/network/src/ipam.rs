//! Addresses: which node has which subnets, which pod which addresses. Deciding (`decide_*`) only reads; recording (`Records`) only
//! notes what was decided. The durable record is the port's own Northbound row, owned by the pod's UID.
//!
//! Invariant: an address belongs to at most one pod; a released one returns to the pool and is used again as late as possible.

mod mac;
mod network;
mod records;

use std::net::IpAddr;

use ipnet::IpNet;

pub use mac::Mac;
pub use records::{Assignment, Attachment, External, Records};

use crate::annotations;
use crate::cluster::{Cluster, Pod, PodName};
use crate::ipam::network::attachment;
use crate::problem::Problem;
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
    // What network it is to be on, its namespace may have to say.
    if cluster.has_custom_networks() && !cluster.namespaces.contains_key(&name.namespace) {
        return Ok(None);
    }
    let mut subnets = cluster.records.subnets(pod.node.as_deref().unwrap_or_default());
    let problem = |reason, why: String| Problem::new(cluster.pod_ref(name), reason, why);
    if subnets.is_empty() {
        let node = pod.node.as_deref().unwrap_or_default();
        // Nobody but its author chose the node of a machine's port.
        return if name.machine().is_some() && !cluster.nodes.contains_key(node) {
            let why = format!("there is no node {node}; make a port with the name of a node in spec.node");
            Err(problem("NodeUnknown", why))
        } else {
            Ok(None)
        };
    }
    let asked = annotations::request(&pod.annotations).map_err(|why| problem("InvalidAnnotation", why))?;
    let attachment = attachment(cluster, name, pod, &asked).map_err(|(reason, why)| problem(reason, why))?;
    if let Some(mac) = asked.mac {
        requested_mac(cluster, name, pod, mac).map_err(|why| problem("AddressRefused", why))?;
    }
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
    let numbers = || {
        let slot = cluster.records.slot(pod.node.as_deref().unwrap_or_default());
        let host = subnets.iter().find_map(|subnet| host_number(subnet, *first));
        Mac::of_numbers(slot.unwrap_or_default(), host.unwrap_or_default())
    };
    // The end of an IPv6 address is the same on all nodes.
    let given = if attachment.is_some() && first.is_ipv6() {
        numbers()
    } else {
        Mac::of(*first)
    };
    Ok(Some(Assignment {
        uid: pod.uid.clone(),
        mac: asked.mac.unwrap_or(given),
        addresses,
        attachment,
    }))
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

/// No two ports of a switch have the same Ethernet address: each would get what is meant for the other.
fn requested_mac(cluster: &Cluster, name: &PodName, pod: &Pod, mac: Mac) -> Result<(), String> {
    if mac.may_be_made_up() {
        return Err(format!(
            "Ethernet addresses that begin like {mac} are made up for others; ask for another"
        ));
    }
    let neighbour = |other: &&PodName| *other != name && cluster.pods.get(*other).is_some_and(|other| other.node == pod.node);
    match cluster.records.with_mac(mac).find(neighbour) {
        Some(owner) => Err(format!(
            "{mac} is in use by {} on the same node; ask for another or delete that one",
            cluster.pod_ref(owner)
        )),
        None => Ok(()),
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
