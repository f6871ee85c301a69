//! A node's switch: its subnets, the router port that is its pods' gateway, the management port that is the node itself, and the
//! routes by which pods reach the node's own addresses without translation.

use crate::cluster::Cluster;
use crate::ipam::{GATEWAY_HOST, MANAGEMENT_HOST, Mac, decide_slot};
use crate::key::{ADDRESSES, GATEWAYS, Key, ROUTES, SLOT};
use crate::northbound::{ids, put};
use crate::problem::Problem;
use crate::rows::{LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort};
use crate::settings::nth_host;
use crate::unit::network::router;
use crate::unit::{CLUSTER_ROUTER, Fragment, join};

pub(super) fn switch(node: &str) -> Key {
    Key::new(format!("switch/node/{node}"))
}

/// Name of a node's management port.
pub fn management_port(node: &str) -> String {
    format!("management_{node}")
}

pub(super) fn compile(cluster: &Cluster, name: &str, fragment: &mut Fragment) {
    fragment.problems.extend(problems(cluster, name));
    let subnets = cluster.records.subnets(name);
    let (Some(settings), Some(slot)) = (&cluster.records.settings, cluster.records.slot(name)) else {
        return;
    };
    let owner = cluster.node_ref(name);
    let hosts = |number| {
        subnets
            .iter()
            .filter_map(move |subnet| nth_host(subnet, number))
            .collect::<Vec<_>>()
    };
    let (gateways, management) = (hosts(GATEWAY_HOST), hosts(MANAGEMENT_HOST));
    let (Some(gateway), Some(first)) = (gateways.first(), management.first()) else {
        return;
    };

    let mut external_ids = ids(&switch(name), &owner);
    external_ids.insert(SLOT.to_owned(), slot.to_string());
    external_ids.insert("netloom.io/subnets".to_owned(), join(&subnets));
    put(
        fragment,
        &switch(name),
        LogicalSwitch {
            name: name.to_owned(),
            external_ids,
            ..Default::default()
        },
    );

    let port = Key::new(format!("router-port/cluster/node/{name}"));
    let port_name = format!("{CLUSTER_ROUTER}_to_switch_{name}");
    let row = LogicalRouterPort {
        name: port_name.clone(),
        mac: Mac::of(gateway.addr()).to_string(),
        networks: gateways.iter().map(ToString::to_string).collect(),
        external_ids: ids(&port, &owner),
        ..Default::default()
    };
    put(fragment, &port, row).add_to::<LogicalRouter>(fragment, &router(), "ports");

    let peer = Key::new(format!("router-peer/node/{name}"));
    let row = LogicalSwitchPort::router(format!("switch_{name}_to_{CLUSTER_ROUTER}"), port_name, ids(&peer, &owner));
    put(fragment, &peer, row).add_to::<LogicalSwitch>(fragment, &switch(name), "ports");

    let port = Key::new(format!("management/{name}"));
    let mut external_ids = ids(&port, &owner);
    external_ids.insert(ADDRESSES.to_owned(), join(&management));
    external_ids.insert(GATEWAYS.to_owned(), join(gateways.iter().map(|gateway| gateway.addr())));
    external_ids.insert(ROUTES.to_owned(), join(settings.cluster_cidrs.iter().map(|range| range.cidr)));
    let addresses = std::iter::once(Mac::of(first.addr()).to_string()).chain(management.iter().map(|ip| ip.addr().to_string()));
    let row = LogicalSwitchPort {
        name: management_port(name),
        addresses: [addresses.collect::<Vec<_>>().join(" ")].into(),
        options: [("requested-chassis".to_owned(), name.to_owned())].into(),
        external_ids,
        ..Default::default()
    };
    put(fragment, &port, row).add_to::<LogicalSwitch>(fragment, &switch(name), "ports");

    for address in cluster.nodes.get(name).into_iter().flat_map(|node| &node.addresses) {
        let Some(via) = management.iter().find(|ip| ip.addr().is_ipv4() == address.is_ipv4()) else {
            continue;
        };
        let route = Key::new(format!("route/node/{name}/{address}"));
        let row = LogicalRouterStaticRoute {
            ip_prefix: address.to_string(),
            nexthop: via.addr().to_string(),
            external_ids: ids(&route, &owner),
            ..Default::default()
        };
        put(fragment, &route, row).add_to::<LogicalRouter>(fragment, &router(), "static_routes");
    }
}

fn problems(cluster: &Cluster, name: &str) -> Vec<Problem> {
    let Some(node) = cluster.nodes.get(name) else { return Vec::new() };
    let mut problems: Vec<Problem> = decide_slot(cluster, name).err().into_iter().collect();
    let problem = |reason, why| Problem::new(cluster.node_ref(name), reason, why);
    if node.addresses.is_empty() {
        problems.push(problem(
            "NodeWithoutAddress",
            "status.addresses has no InternalIP, so pods cannot reach this node; give kubelet an address (--node-ip)".to_owned(),
        ));
    }
    for address in &node.addresses {
        if let Some(range) = cluster.records.settings.as_ref().and_then(|settings| settings.range_of(*address)) {
            problems.push(problem(
                "AddressOverlap",
                format!(
                    "its address {address} lies in {range} of the cluster network; change the node's address or ClusterNetwork/default"
                ),
            ));
        }
    }
    problems
}
