//! Identity and reachability: what a row refers to exists, and the server does not drop it.

use std::collections::HashSet;

use netloom_ovsdb::{Datum, Table as _};
use uuid::Uuid;

use crate::check::Broken;
use crate::check::reading::{Reading, is_ours};
use crate::key::Key;
use crate::northbound::{RowId, key_of};
use crate::rows::{
    Acl, AddressSet, HaChassis, HaChassisGroup, LoadBalancer, LoadBalancerGroup, LoadBalancerHealthCheck, LogicalRouter,
    LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter, MeterBand, Nat, PortGroup,
};

/// Those of our tables whose rows the server keeps for their own sake.
pub const ROOTS: &[&str] = &[
    AddressSet::TABLE,
    HaChassisGroup::TABLE,
    LoadBalancer::TABLE,
    LoadBalancerGroup::TABLE,
    LogicalRouter::TABLE,
    LogicalSwitch::TABLE,
    Meter::TABLE,
    PortGroup::TABLE,
];

/// Columns that keep the rows of another of our tables alive: holder, column, held. Members of a port group are not kept alive by it.
pub const HOLDERS: &[(&str, &str, &str)] = &[
    (HaChassisGroup::TABLE, "ha_chassis", HaChassis::TABLE),
    (LoadBalancer::TABLE, "health_check", LoadBalancerHealthCheck::TABLE),
    (LogicalRouter::TABLE, "nat", Nat::TABLE),
    (LogicalRouter::TABLE, "policies", LogicalRouterPolicy::TABLE),
    (LogicalRouter::TABLE, "ports", LogicalRouterPort::TABLE),
    (LogicalRouter::TABLE, "static_routes", LogicalRouterStaticRoute::TABLE),
    (LogicalSwitch::TABLE, "acls", Acl::TABLE),
    (LogicalSwitch::TABLE, "ports", LogicalSwitchPort::TABLE),
    (Meter::TABLE, "bands", MeterBand::TABLE),
    (PortGroup::TABLE, "acls", Acl::TABLE),
];

pub(super) fn keys(reading: &Reading<'_>) -> Vec<Broken> {
    let is_marked = |id: &RowId, row| key_of(id.table, row).is_some_and(|key| Key::new(key).uuid(id.table) == id.uuid);
    let unmarked = reading.northbound.rows().filter(|(id, row)| !is_marked(id, row));
    unmarked
        .map(|(id, _)| (reading.named(*id), "it does not carry its key".to_owned()))
        .collect()
}

pub(super) fn holders(reading: &Reading<'_>) -> Vec<Broken> {
    let collections = reading.northbound.collections();
    let homeless = collections.filter(|(id, ..)| reading.northbound.row(id).is_none());
    homeless
        .map(|(id, column, _)| (reading.named(*id), format!("it does not exist, and its {column} has members")))
        .collect()
}

/// Others may put rows of theirs into our collections; the server gives those random UUIDs.
pub(super) fn references(reading: &Reading<'_>) -> Vec<Broken> {
    let known: HashSet<Uuid> = reading.northbound.rows().map(|(id, _)| id.uuid).collect();
    let dangling = |uuid: &Uuid| is_ours(*uuid) && !known.contains(uuid);
    let mut broken = Vec::new();
    let mut found = |id: RowId, column: &str, count: usize| {
        if count > 0 {
            broken.push((reading.named(id), format!("{count} rows of its {column} do not exist")));
        }
    };
    for (id, column, values) in reading.northbound.collections() {
        found(
            *id,
            column,
            values.iter().filter_map(|value| value.as_uuid()).filter(dangling).count(),
        );
    }
    for (id, row) in reading.northbound.rows() {
        for (column, datum) in row.iter() {
            found(*id, column, datum.uuids().filter(dangling).count());
        }
    }
    broken
}

pub(super) fn roots(reading: &Reading<'_>) -> Vec<Broken> {
    let mut held: HashSet<RowId> = HashSet::new();
    for (holder, column, table) in HOLDERS {
        for (id, row) in reading.rows(holder) {
            let members = reading.northbound.members(id, column).filter_map(|value| value.as_uuid());
            let own = row.get(column).into_iter().flat_map(Datum::uuids);
            held.extend(members.chain(own).map(|uuid| RowId { table, uuid }));
        }
    }
    // Holders are all roots themselves, so one step is enough.
    let loose = |id: &&RowId| !ROOTS.contains(&id.table) && !held.contains(id);
    let rows = reading.northbound.rows().map(|(id, _)| id);
    rows.filter(loose)
        .map(|id| (reading.named(*id), "no row holds it, so the server drops it".to_owned()))
        .collect()
}
