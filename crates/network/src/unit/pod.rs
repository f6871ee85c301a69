//! A pod's port: named `namespace/pod`, on its node's switch or that of its network, with its recorded addresses and no others, and in the
//! groups and sets of everything that says who reaches it.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::{Cluster, Pod, PodName};
use crate::ipam::{Assignment, Attachment, GATEWAY_HOST, decide_addresses};
use crate::key::{ADDRESSES, GATEWAYS, Key, NETWORK, NETWORK_ADDRESSES, UID};
use crate::northbound::{ids, put};
use crate::port::PortStatus;
use crate::problem::Problem;
use crate::rows::{LogicalSwitch, LogicalSwitchPort};
use crate::settings::nth_host;
use crate::unit::node::switch;
use crate::unit::policy::{app, group, isolation, network, selection};
use crate::unit::{Fragment, custom_network, join};

/// Key of a pod's first port.
pub(crate) fn port(name: &PodName) -> Key {
    Key::new(format!("port/{}/{}/eth0", name.namespace, name.name))
}

pub(super) fn compile(cluster: &Cluster, name: &PodName, fragment: &mut Fragment) {
    let Some(pod) = cluster.pods.get(name).filter(|pod| pod.wants_port()) else {
        return;
    };
    let (Some(node), Some(assignment)) = (&pod.node, cluster.records.assignment(name, &pod.uid)) else {
        fragment.problems.extend(decide_addresses(cluster, name).err());
        return;
    };
    fragment
        .problems
        .extend(misplaced(cluster, name, pod, assignment.attachment.as_ref()));
    let wiring = wire(cluster, node, assignment);
    let (key, owner) = (port(name), cluster.pod_ref(name));
    let mut external_ids = ids(&key, &owner);
    external_ids.insert(UID.to_owned(), pod.uid.clone());
    external_ids.insert(ADDRESSES.to_owned(), join(wiring.of_node));
    external_ids.insert(GATEWAYS.to_owned(), join(&wiring.gateways));
    let mut own = assignment.addresses.clone();
    let mut security = own.iter().map(ToString::to_string).collect::<Vec<_>>();
    let on = match &assignment.attachment {
        None => switch(node),
        Some(attachment) => {
            external_ids.insert(NETWORK.to_owned(), attachment.network.clone());
            external_ids.insert(NETWORK_ADDRESSES.to_owned(), join(&attachment.addresses));
            custom_network::lead(cluster, &owner, assignment, attachment, fragment);
            own.extend(attachment.addresses.iter().map(IpNet::addr));
            let network = cluster.network_in_force(&attachment.network);
            security = own.iter().map(ToString::to_string).collect();
            // Whoever leads out of the network also has what is behind it.
            let behind = own
                .iter()
                .flat_map(|ip| network.into_iter().flat_map(|network| network.routes_via(*ip)));
            security.extend(behind.map(ToString::to_string));
            custom_network::switch(&attachment.network)
        }
    };
    let mac = assignment.mac;
    let row = LogicalSwitchPort {
        name: name.port(),
        addresses: [format!(
            "{mac} {}",
            own.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        )]
        .into(),
        port_security: [format!("{mac} {}", security.join(" "))].into(),
        options: [("requested-chassis".to_owned(), node.clone())].into(),
        external_ids,
        ..Default::default()
    };
    let placed = put(fragment, &key, row);
    placed.add_to::<LogicalSwitch>(fragment, &on, "ports");
    // In the same transaction as the port: there is no moment in which it is not isolated.
    selection::join(cluster, name, pod, placed, fragment);
    network::join(cluster, name, pod, placed, fragment);
    let in_app = app::join(cluster, name, pod, placed, fragment);
    let in_group = group::join(cluster, name, pod, placed, fragment);
    if in_app || in_group {
        isolation::join(node, placed, fragment);
    }
}

/// How a pod's interface is configured.
struct Wiring {
    /// Its addresses, with the prefix of its node's subnets.
    of_node: Vec<IpNet>,
    /// The routers on its link.
    gateways: Vec<IpAddr>,
}

fn wire(cluster: &Cluster, node: &str, assignment: &Assignment) -> Wiring {
    let subnets = cluster.records.subnets(node);
    let within = |ip: &IpAddr| subnets.iter().find(|subnet| subnet.contains(ip));
    let of_node = assignment.addresses.iter();
    let gateways = match &assignment.attachment {
        None => {
            let gateway = |ip: &IpAddr| Some(nth_host(within(ip)?, GATEWAY_HOST)?.addr());
            assignment.addresses.iter().filter_map(gateway).collect()
        }
        Some(attachment) => {
            let families = |gateway: &IpAddr| assignment.addresses.iter().any(|ip| ip.is_ipv4() == gateway.is_ipv4());
            let network = cluster.network_in_force(&attachment.network).into_iter();
            let gateways = network.flat_map(|network| network.gateways.iter().copied());
            gateways.filter(families).collect()
        }
    };
    Wiring {
        of_node: of_node.filter_map(|ip| IpNet::new(*ip, within(ip)?.prefix_len()).ok()).collect(),
        gateways,
    }
}

/// What the machine behind a port has to be told, once it has addresses.
pub fn status(cluster: &Cluster, name: &PodName) -> Option<PortStatus> {
    let pod = cluster.pods.get(name)?;
    let assignment = cluster.records.assignment(name, &pod.uid)?;
    let wiring = wire(cluster, pod.node.as_deref()?, assignment);
    let on_network = assignment.attachment.as_ref();
    // On a network the subnet of its node is elsewhere, behind the gateway.
    let addresses = match on_network {
        None => wiring.of_node,
        Some(_) => assignment.addresses.iter().copied().map(IpNet::from).collect(),
    };
    let text = |addresses: &[IpNet]| addresses.iter().map(ToString::to_string).collect();
    Some(PortStatus {
        interface_id: name.port(),
        mac: assignment.mac.to_string(),
        addresses: text(&addresses),
        network_addresses: on_network.map(|on| text(&on.addresses)).unwrap_or_default(),
        gateways: wiring.gateways.iter().map(ToString::to_string).collect(),
    })
}

/// A pod stays on the network it was given an address in; another one needs another pod.
fn misplaced(cluster: &Cluster, name: &PodName, pod: &Pod, on: Option<&Attachment>) -> Option<Problem> {
    let on = on.map(|attachment| attachment.network.as_str());
    let wanted = cluster.network_named(name, pod);
    let shown = |network: Option<&str>| network.map_or_else(|| "the cluster's own network".to_owned(), |name| format!("network {name}"));
    let why = match on {
        _ if on != wanted => format!(
            "it is on {}, and its annotations or its namespace's now say {}; a pod cannot change networks: delete it, so that a new one is made",
            shown(on),
            shown(wanted)
        ),
        Some(network) if !cluster.custom_networks.contains_key(network) => {
            format!("network {network} was deleted; it serves the pods it has, but no new ones; create it again or delete the pod")
        }
        _ => return None,
    };
    Some(Problem::new(cluster.pod_ref(name), "NetworkNeedsNewPod", why))
}
