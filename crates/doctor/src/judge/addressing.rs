//! Judges the ranges of the cluster: pods, services, join and nodes share no address, and all of the services' are known.

use ipnet::IpNet;
use netloom_network::settings::{ServiceMode, Settings};

use super::some;
use crate::cluster::ClusterFacts;
use crate::finding::{Check, Finding};

/// All about addresses; nothing where the ClusterNetwork could not be read, which is told elsewhere.
pub fn judge(facts: &ClusterFacts) -> Vec<Finding> {
    let Ok(network) = &facts.network else { return Vec::new() };
    let spec = network.as_ref().map(|network| network.spec.clone()).unwrap_or_default();
    let settings = match Settings::from_spec(&spec) {
        Ok(settings) => settings,
        Err(why) => {
            return vec![
                Check("addresses", "ranges").failed(format!("ClusterNetwork default: {why}"), "change its spec as the message says"),
            ];
        }
    };
    vec![
        ranges(facts, &settings),
        service_ranges(facts, &settings),
        node_addresses(facts, &settings),
    ]
}

/// The ranges that are the network's own, with what they are for.
fn own(settings: &Settings) -> Vec<(&'static str, IpNet)> {
    let pods = settings.cluster_cidrs.iter().map(|range| ("pods", range.cidr));
    let join = settings.join_cidrs.iter().map(|range| ("spec.joinCIDRs", *range));
    pods.chain(join).collect()
}

fn ranges(facts: &ClusterFacts, settings: &Settings) -> Finding {
    let check = Check("addresses", "ranges");
    let services = match &facts.service_cidrs {
        Ok(ranges) => ranges.iter().filter_map(|text| text.parse::<IpNet>().ok()),
        Err(unseen) => return unseen.warning(check, "ServiceCIDRs"),
    };
    for service in services {
        if let Some((use_, range)) = own(settings).into_iter().find(|(_, range)| overlap(range, &service)) {
            return check.failed(
                format!("ServiceCIDR {service} overlaps with {range} ({use_}): some services or pods cannot be reached"),
                "choose another range in ClusterNetwork default before pods use it, or start the API server with another --service-cluster-ip-range",
            );
        }
    }
    let shown: Vec<String> = own(settings).iter().map(|(_, range)| range.to_string()).collect();
    check.ok(format!("{} share no address with services", some(&shown)))
}

fn service_ranges(facts: &ClusterFacts, settings: &Settings) -> Finding {
    let check = Check("addresses", "service-ranges");
    let Ok(ranges) = &facts.service_cidrs else {
        return check.warning(
            "not known: ServiceCIDRs could not be read",
            "look with an account that may list servicecidrs",
        );
    };
    let known = |range: &IpNet| settings.services.cidrs.iter().any(|known| known.contains(range));
    // One that overlaps with ranges of ours has its own finding and cannot be added.
    let addable = |range: &IpNet| !own(settings).iter().any(|(_, own)| overlap(own, range));
    let unknown: Vec<String> = ranges
        .iter()
        .filter(|text| text.parse::<IpNet>().is_ok_and(|range| !known(&range) && addable(&range)))
        .cloned()
        .collect();
    if unknown.is_empty() {
        return check.ok("the ClusterNetwork has all ranges of services");
    }
    let who = match settings.services.mode {
        ServiceMode::Native => "nodes and pods on their network",
        ServiceMode::KubeProxy => "pods and nodes",
    };
    check.failed(
        format!(
            "the API server gives services addresses from {}, which are not in the ClusterNetwork: {who} do not reach all of them",
            some(&unknown)
        ),
        format!("add it to spec.services.cidrs of ClusterNetwork default: {}", some(&unknown)),
    )
}

fn node_addresses(facts: &ClusterFacts, settings: &Settings) -> Finding {
    let check = Check("addresses", "nodes");
    let nodes = match &facts.nodes {
        Ok(nodes) => nodes,
        Err(unseen) => return unseen.warning(check, "nodes"),
    };
    let services = settings.services.cidrs.iter().map(|range| ("services", *range));
    let ranges: Vec<(&str, IpNet)> = own(settings).into_iter().chain(services).collect();
    for node in nodes {
        for address in &node.addresses {
            if let Some((use_, range)) = ranges.iter().find(|(_, range)| range.contains(address)) {
                return check.failed(
                    format!(
                        "node {} has address {address}, which is in {range} ({use_}): the node cannot be reached from pods",
                        node.name
                    ),
                    "choose ranges in ClusterNetwork default that the nodes' network does not use",
                );
            }
        }
    }
    check.ok("no node's address is in a pod, service or join range")
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}
