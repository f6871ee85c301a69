//! Addresses in networks that users define.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::annotations::{self, Request};
use crate::cluster::{Cluster, Pod, PodName};
use crate::custom_network::{NETWORK, Read, is_host};
use crate::ipam::{Attachment, Records};
use crate::settings::{hosts, is_ipv4, nth_host};

/// Decides a pod's place in the network it names, if it names one.
pub(super) fn attachment(
    cluster: &Cluster,
    name: &PodName,
    pod: &Pod,
    asked: &Request,
) -> Result<Option<Attachment>, (&'static str, String)> {
    let Some(network) = cluster.network_named(name, pod) else {
        // One that runs already may have been on a network that nobody names any more.
        return match asked.network_addresses.first().filter(|_| pod.addresses.is_empty()) {
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
