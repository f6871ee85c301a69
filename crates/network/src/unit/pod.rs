//! A pod's port: named `namespace/pod`, on its node's switch, with its recorded addresses and no others, and in the
//! groups and sets of everything that says who reaches it.

use ipnet::IpNet;

use crate::cluster::{Cluster, PodName};
use crate::ipam::{GATEWAY_HOST, decide_addresses};
use crate::key::{ADDRESSES, GATEWAYS, Key, UID};
use crate::northbound::{ids, put};
use crate::rows::{LogicalSwitch, LogicalSwitchPort};
use crate::settings::nth_host;
use crate::unit::node::switch;
use crate::unit::policy::{app, group, isolation, network, selection};
use crate::unit::{Fragment, join};

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
    let subnets = cluster.records.subnets(node);
    let within = |ip| subnets.iter().find(|subnet| subnet.contains(ip));
    let with_prefix = assignment
        .addresses
        .iter()
        .filter_map(|ip| IpNet::new(*ip, within(ip)?.prefix_len()).ok());
    let gateways = assignment
        .addresses
        .iter()
        .filter_map(|ip| Some(nth_host(within(ip)?, GATEWAY_HOST)?.addr()));

    let key = port(name);
    let mut external_ids = ids(&key, &cluster.pod_ref(name));
    external_ids.insert(UID.to_owned(), pod.uid.clone());
    external_ids.insert(ADDRESSES.to_owned(), join(with_prefix));
    external_ids.insert(GATEWAYS.to_owned(), join(gateways));
    let addresses = std::iter::once(assignment.mac.to_string()).chain(assignment.addresses.iter().map(ToString::to_string));
    let addresses = addresses.collect::<Vec<_>>().join(" ");
    let row = LogicalSwitchPort {
        name: name.port(),
        addresses: [addresses.clone()].into(),
        port_security: [addresses].into(),
        options: [("requested-chassis".to_owned(), node.clone())].into(),
        external_ids,
        ..Default::default()
    };
    let placed = put(fragment, &key, row);
    placed.add_to::<LogicalSwitch>(fragment, &switch(node), "ports");
    // In the same transaction as the port: there is no moment in which it is not isolated.
    selection::join(cluster, name, pod, placed, fragment);
    network::join(cluster, name, pod, placed, fragment);
    let in_app = app::join(cluster, name, pod, placed, fragment);
    let in_group = group::join(cluster, name, pod, placed, fragment);
    if in_app || in_group {
        isolation::join(node, placed, fragment);
    }
}
