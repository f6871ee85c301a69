//! Names by which OVN, or whoever looks into it, finds rows: each is that of one row, and what is named exists.

use netloom_contract::external_id::KEY;
use std::collections::{BTreeMap, BTreeSet};

use netloom_ovsdb::Table as _;

use crate::check::Broken;
use crate::check::reading::{Reading, entry, text};
use crate::northbound::RowId;
use crate::rows::{
    Acl, AddressSet, HaChassis, HaChassisGroup, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch,
    LogicalSwitchPort, Meter, PortGroup,
};

/// Tables whose names must differ, each with the others it shares its names with: both kinds of ports become port bindings. Nothing is found by
/// the name of a switch, and that of a node's switch is the node's.
const SPACES: &[&[&str]] = &[
    &[LogicalSwitchPort::TABLE, LogicalRouterPort::TABLE],
    &[AddressSet::TABLE],
    &[HaChassisGroup::TABLE],
    &[LoadBalancer::TABLE],
    &[LoadBalancerGroup::TABLE],
    &[LogicalRouter::TABLE],
    &[Meter::TABLE],
    &[PortGroup::TABLE],
];

pub(super) fn unique(reading: &Reading<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    for space in SPACES {
        let mut first: BTreeMap<String, RowId> = BTreeMap::new();
        let rows = space.iter().flat_map(|table| reading.rows(table));
        // OVN makes sets of the addresses of a port group by itself.
        let made = |name: &str| ["_ip4", "_ip6"].map(|family| format!("{name}{family}"));
        let groups = reading.rows(PortGroup::TABLE).filter(|_| space.contains(&AddressSet::TABLE));
        let made = groups.flat_map(|(id, row)| made(text(row, "name")).map(|name| (id, name)));
        for (id, name) in rows.map(|(id, row)| (id, text(row, "name").to_owned())).chain(made) {
            if let Some(other) = first.insert(name.clone(), id) {
                broken.push((
                    reading.named(id),
                    format!("its name {name} is also that of {}", reading.named(other)),
                ));
            }
        }
    }
    broken
}

pub(super) fn named(reading: &Reading<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    let (router_ports, meters) = (reading.by_name(LogicalRouterPort::TABLE), reading.by_name(Meter::TABLE));
    let switches = reading.rows(LogicalSwitch::TABLE);
    let keys = switches.filter_map(|(_, row)| entry(row, "external_ids", KEY));
    let nodes: BTreeSet<&str> = keys.filter_map(|key| key.strip_prefix("switch/node/")).collect();
    let mut missing = |id: RowId, what: &str, name: &str| {
        broken.push((reading.named(id), format!("it names the {what} {name}, which does not exist")));
    };
    for (id, row) in reading.rows(LogicalSwitchPort::TABLE) {
        if let Some(name) = entry(row, "options", "router-port").filter(|name| !router_ports.contains_key(name)) {
            missing(id, "router port", name);
        }
        if let Some(name) = entry(row, "options", "requested-chassis").filter(|name| !nodes.contains(name)) {
            missing(id, "chassis", name);
        }
    }
    for (id, row) in reading.rows(LogicalRouter::TABLE) {
        if let Some(name) = entry(row, "options", "chassis").filter(|name| !nodes.contains(name)) {
            missing(id, "chassis", name);
        }
    }
    for (id, row) in reading.rows(HaChassis::TABLE) {
        let name = text(row, "chassis_name");
        if !nodes.contains(name) {
            missing(id, "chassis", name);
        }
    }
    for (id, row) in reading.rows(Acl::TABLE) {
        let name = text(row, "meter");
        if !name.is_empty() && !meters.contains_key(name) {
            missing(id, "meter", name);
        }
    }
    broken
}
