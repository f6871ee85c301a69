//! The cluster router and the join switch; the router's row records the addressing in force.

use crate::cluster::Cluster;
use crate::ipam::{Mac, decide_settings};
use crate::key::{Key, SETTINGS};
use crate::northbound::{ids, put};
use crate::rows::{LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use crate::unit::{CLUSTER_ROUTER, Fragment, JOIN_SWITCH};

pub(super) fn router() -> Key {
    Key::new("router/cluster")
}

pub(super) fn join_switch() -> Key {
    Key::new("switch/join")
}

pub(super) fn compile(cluster: &Cluster, fragment: &mut Fragment) {
    if let Err(problem) = decide_settings(cluster) {
        fragment.problems.push(problem);
    }
    let Some(settings) = &cluster.records.settings else { return };
    let owner = cluster.network_ref();

    let mut external_ids = ids(&router(), &owner);
    external_ids.insert(SETTINGS.to_owned(), settings.to_string());
    put(
        fragment,
        &router(),
        LogicalRouter {
            name: CLUSTER_ROUTER.to_owned(),
            external_ids,
            ..Default::default()
        },
    );
    put(
        fragment,
        &join_switch(),
        LogicalSwitch {
            name: JOIN_SWITCH.to_owned(),
            external_ids: ids(&join_switch(), &owner),
            ..Default::default()
        },
    );

    let addresses = settings.join_addresses(0);
    let Some(first) = addresses.first() else { return };
    let port = Key::new("router-port/cluster/join");
    let name = format!("{CLUSTER_ROUTER}_to_{JOIN_SWITCH}");
    let row = LogicalRouterPort {
        name: name.clone(),
        mac: Mac::of(first.addr()).to_string(),
        networks: addresses.iter().map(ToString::to_string).collect(),
        external_ids: ids(&port, &owner),
        ..Default::default()
    };
    put(fragment, &port, row).add_to::<LogicalRouter>(fragment, &router(), "ports");

    let peer = Key::new("router-peer/join");
    let row = LogicalSwitchPort::router(format!("{JOIN_SWITCH}_to_{CLUSTER_ROUTER}"), name, ids(&peer, &owner));
    put(fragment, &peer, row).add_to::<LogicalSwitch>(fragment, &join_switch(), "ports");
}
