//! What there is one of: the cluster router and the join switch, the groups services put their load balancers into, the port group
//! at the edge and the switch external addresses are announced on. The router's row records the addressing in force.

use std::collections::BTreeMap;

use crate::cluster::{Feature, View};
use crate::decide::Decision;
use crate::ipam::Mac;
use crate::key::Key;
use crate::northbound::{group_key, ids, put};
use crate::problem::ObjectRef;
use crate::rows::{Acl, LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort, PortGroup};
use crate::settings::{ServiceMode, Settings, is_ipv4};
use crate::status::Shows;
use crate::unit::{
    ANNOUNCE_SWITCH, CLUSTER_ROUTER, EDGE, Fragment, GATEWAYS_GROUP, HOSTS, INSIDE, JOIN_SWITCH, NETWORKS_GROUP, SERVICES_GROUP, commas,
};
use netloom_contract::external_id::SETTINGS;
use netloom_contract::name::ANNOUNCE_UPLINK;

pub(super) fn router() -> Key {
    Key::new("router/cluster")
}

pub(super) fn join_switch() -> Key {
    Key::new("switch/join")
}

pub(super) fn announce_switch() -> Key {
    Key::new("switch/announce")
}

pub(super) fn edge() -> Key {
    Key::new("port-group/edge")
}

pub(super) fn inside() -> Key {
    Key::new("port-group/inside")
}

pub(super) fn hosts() -> Key {
    Key::new("port-group/hosts")
}

/// Above what policies and groups say.
const PRIORITY: i64 = 3000;
/// Where nodes take packets of each other for granted.
const GENEVE_PORT: u16 = 6081;

pub(super) fn compile(view: &View<'_>, fragment: &mut Fragment) {
    fragment.problems.extend(view.refusals(&Decision::Settings).iter().cloned());
    if view.cluster_network().is_some() {
        fragment.show(view.network_ref(), Shows::InForce);
    }
    let Some(settings) = view.settings() else { return };
    let owner = view.network_ref();

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
            other_config: quiet(),
            external_ids: ids(&join_switch(), &owner),
            ..Default::default()
        },
    );

    services(view.uses(Feature::Networks), fragment, &owner);
    guard_tunnels(&owner, fragment);
    guard_links(&owner, fragment);
    reject_unserved(settings, &owner, fragment);

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

/// Of a switch with a router for each node or service: who asks for an address that no router has is not heard by all of them.
fn quiet() -> BTreeMap<String, String> {
    [("broadcast-arps-to-all-routers".to_owned(), "false".to_owned())].into()
}

/// Nothing of what is inside a logical network may be taken for a packet between nodes.
fn guard_tunnels(owner: &ObjectRef, fragment: &mut Fragment) {
    let key = Key::new("hosts/tunnels");
    let row = Acl {
        action: "drop".to_owned(),
        direction: "to-lport".to_owned(),
        priority: PRIORITY,
        match_: format!("outport == @{HOSTS} && udp.dst == {GENEVE_PORT}"),
        external_ids: ids(&key, owner),
        ..Default::default()
    };
    put(fragment, &key, row).add_to::<PortGroup>(fragment, &hosts(), "acls");
}

/// No pod configures its neighbours: addresses are ours to give, and no switch here has a querier. OVN lets router advertisements and MLD queries
/// pass before any ACL; agents keep those away from pods.
fn guard_links(owner: &ObjectRef, fragment: &mut Fragment) {
    let rules = [
        ("dhcp4", "udp.src == 67 && udp.dst == 68"),
        ("dhcp6", "udp.src == 547 && udp.dst == 546"),
        // Queries and reports have one protocol, and a group's query goes to the address that reports to it go to.
        ("igmp", "igmp"),
    ];
    for (what, condition) in rules {
        let key = Key::new(format!("inside/link/{what}"));
        let row = Acl {
            action: "drop".to_owned(),
            direction: "from-lport".to_owned(),
            priority: PRIORITY,
            match_: condition.to_owned(),
            external_ids: ids(&key, owner),
            ..Default::default()
        };
        put(fragment, &key, row).add_to::<PortGroup>(fragment, &inside(), "acls");
    }
}

/// What is addressed to a service that does not exist, or to a port it does not have, would leave by the uplink. Whoever sends it is told.
fn reject_unserved(settings: &Settings, owner: &ObjectRef, fragment: &mut Fragment) {
    if settings.services.mode != ServiceMode::Native {
        return;
    }
    for (family, of_family) in [("4", true), ("6", false)] {
        let ranges = commas(settings.services.cidrs.iter().filter(|range| is_ipv4(range) == of_family));
        if ranges.is_empty() {
            continue;
        }
        let key = Key::new(format!("inside/unserved/{family}"));
        let row = Acl {
            action: "reject".to_owned(),
            direction: "from-lport".to_owned(),
            priority: PRIORITY,
            match_: format!("ip{family}.dst == {{{ranges}}}"),
            // What a service does have has another address by then.
            options: [("apply-after-lb".to_owned(), "true".to_owned())].into(),
            external_ids: ids(&key, owner),
            ..Default::default()
        };
        put(fragment, &key, row).add_to::<PortGroup>(fragment, &inside(), "acls");
    }
}

/// What services and nodes meet in, there whether or not there is any service.
fn services(networks: bool, fragment: &mut Fragment, owner: &ObjectRef) {
    let groups = [SERVICES_GROUP, GATEWAYS_GROUP].into_iter();
    for group in groups.chain(networks.then_some(NETWORKS_GROUP)) {
        let row = LoadBalancerGroup {
            name: group.to_owned(),
            ..Default::default()
        };
        put(fragment, &group_key(group), row);
    }
    for (key, name) in [(edge(), EDGE), (inside(), INSIDE), (hosts(), HOSTS)] {
        let row = PortGroup {
            name: name.to_owned(),
            external_ids: ids(&key, owner),
            ..Default::default()
        };
        put(fragment, &key, row);
    }
    let row = LogicalSwitch {
        name: ANNOUNCE_SWITCH.to_owned(),
        other_config: quiet(),
        external_ids: ids(&announce_switch(), owner),
        ..Default::default()
    };
    put(fragment, &announce_switch(), row);
    let uplink = Key::new("uplink/announce");
    let row = LogicalSwitchPort::uplink(ANNOUNCE_UPLINK.to_owned(), ids(&uplink, owner));
    put(fragment, &uplink, row).add_to::<LogicalSwitch>(fragment, &announce_switch(), "ports");
}
