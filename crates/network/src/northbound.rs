//! The Northbound database as a value: rows by identity, and the collections that grow with the cluster kept apart as members, so
//! that one pod's port is one member and not a rewritten set.
//!
//! Desired and observed are both of this type; [`crate::diff`] compares them. Rows without our mark are not compared; those among
//! them that may have lost it are remembered, because a row that exists cannot be inserted again.

use netloom_contract::external_id::{KEY, OWNER};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netloom_ovsdb::{Atom, Column, Datum, Row, Table};
use uuid::Uuid;

use crate::facts::HashMap;
use crate::key::Key;
use crate::problem::ObjectRef;
use crate::rows::{
    Acl, AddressSet, HaChassis, HaChassisGroup, LoadBalancer, LoadBalancerGroup, LoadBalancerHealthCheck, LogicalRouter,
    LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter, MeterBand, Nat, PortGroup,
};
use crate::unit::{EXTERNAL_NETWORK, Fragment};

/// The tables we write, with their columns.
pub const TABLES: &[(&str, &[Column])] = &[
    (Acl::TABLE, Acl::COLUMNS),
    (AddressSet::TABLE, AddressSet::COLUMNS),
    (HaChassis::TABLE, HaChassis::COLUMNS),
    (HaChassisGroup::TABLE, HaChassisGroup::COLUMNS),
    (LoadBalancer::TABLE, LoadBalancer::COLUMNS),
    (LoadBalancerGroup::TABLE, LoadBalancerGroup::COLUMNS),
    (LoadBalancerHealthCheck::TABLE, LoadBalancerHealthCheck::COLUMNS),
    (LogicalRouter::TABLE, LogicalRouter::COLUMNS),
    (LogicalRouterPolicy::TABLE, LogicalRouterPolicy::COLUMNS),
    (LogicalRouterPort::TABLE, LogicalRouterPort::COLUMNS),
    (LogicalRouterStaticRoute::TABLE, LogicalRouterStaticRoute::COLUMNS),
    (LogicalSwitch::TABLE, LogicalSwitch::COLUMNS),
    (LogicalSwitchPort::TABLE, LogicalSwitchPort::COLUMNS),
    (Meter::TABLE, Meter::COLUMNS),
    (MeterBand::TABLE, MeterBand::COLUMNS),
    (Nat::TABLE, Nat::COLUMNS),
    (PortGroup::TABLE, PortGroup::COLUMNS),
];

/// Columns kept as members, and the table whose rows they hold; none for columns of plain values.
const COLLECTIONS: &[(&str, &str, &str)] = &[
    (AddressSet::TABLE, "addresses", ""),
    (HaChassisGroup::TABLE, "ha_chassis", HaChassis::TABLE),
    (LoadBalancer::TABLE, "health_check", LoadBalancerHealthCheck::TABLE),
    (LoadBalancerGroup::TABLE, "load_balancer", LoadBalancer::TABLE),
    (LogicalRouter::TABLE, "load_balancer", LoadBalancer::TABLE),
    (LogicalRouter::TABLE, "load_balancer_group", LoadBalancerGroup::TABLE),
    (LogicalRouter::TABLE, "nat", Nat::TABLE),
    (LogicalRouter::TABLE, "policies", LogicalRouterPolicy::TABLE),
    (LogicalRouter::TABLE, "ports", LogicalRouterPort::TABLE),
    (LogicalRouter::TABLE, "static_routes", LogicalRouterStaticRoute::TABLE),
    (LogicalRouterPort::TABLE, "ha_chassis_group", HaChassisGroup::TABLE),
    (LogicalSwitch::TABLE, "load_balancer", LoadBalancer::TABLE),
    (LogicalSwitch::TABLE, "load_balancer_group", LoadBalancerGroup::TABLE),
    (LogicalSwitch::TABLE, "ports", LogicalSwitchPort::TABLE),
    (PortGroup::TABLE, "acls", Acl::TABLE),
    (PortGroup::TABLE, "ports", LogicalSwitchPort::TABLE),
];

/// Columns OVN writes, which are observed but never compared.
const WRITTEN_BY_OVN: &[(&str, &str)] = &[
    (LogicalRouterPort::TABLE, "ipv6_prefix"),
    (LogicalRouterPort::TABLE, "status"),
    (LogicalSwitchPort::TABLE, "dynamic_addresses"),
    (LogicalSwitchPort::TABLE, "tag"),
    (LogicalSwitchPort::TABLE, "up"),
];

/// Identity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId {
    /// Table name.
    pub table: &'static str,
    /// UUID, derived from the key.
    pub uuid: Uuid,
}

impl RowId {
    /// The row with `key` in `table`.
    pub fn of(table: &'static str, key: &Key) -> Self {
        Self {
            table,
            uuid: key.uuid(table),
        }
    }
}

/// One element of a collection column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The row that has the collection.
    pub row: RowId,
    /// Its column.
    pub column: &'static str,
    /// The element.
    pub value: Atom,
}

impl Member {
    /// The row it puts into the collection; none for a plain value.
    pub fn held(&self) -> Option<RowId> {
        let is_it = |(table, column, _): &&(&str, &str, &str)| *table == self.row.table && *column == self.column;
        let (_, _, table) = COLLECTIONS.iter().find(is_it)?;
        Some(RowId {
            table,
            uuid: self.value.as_uuid()?,
        })
    }
}

/// Rows and members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Northbound {
    rows: HashMap<RowId, Arc<Row>>,
    /// Observed rows without our mark whose UUID could be one of ours.
    unmarked: HashMap<RowId, Arc<Row>>,
    members: HashMap<(RowId, &'static str), BTreeSet<Atom>>,
}

impl Northbound {
    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = (&RowId, &Arc<Row>)> {
        self.rows.iter()
    }

    /// Rows of one table, typed.
    pub fn table<T: Table>(&self) -> impl Iterator<Item = (Uuid, T)> {
        self.rows
            .iter()
            .filter(|(id, _)| id.table == T::TABLE)
            .map(|(id, row)| (id.uuid, T::from_row(row)))
    }

    /// One row.
    pub fn row(&self, id: &RowId) -> Option<&Arc<Row>> {
        self.rows.get(id)
    }

    /// One row, whether it has our mark or may have lost it.
    pub fn existing(&self, id: &RowId) -> Option<&Arc<Row>> {
        self.rows.get(id).or_else(|| self.unmarked.get(id))
    }

    /// Whether a member is a row of ours or a plain value. Others may put rows of theirs into our collections; those are left alone.
    pub fn owns(&self, member: &Member) -> bool {
        member.held().is_none_or(|id| self.rows.contains_key(&id))
    }

    /// All collections.
    pub fn collections(&self) -> impl Iterator<Item = (&RowId, &'static str, &BTreeSet<Atom>)> {
        self.members.iter().map(|((id, column), values)| (id, *column, values))
    }

    /// Every element of every collection.
    pub fn all_members(&self) -> impl Iterator<Item = Member> {
        self.collections().flat_map(|(row, column, values)| {
            values.iter().map(move |value| Member {
                row: *row,
                column,
                value: value.clone(),
            })
        })
    }

    /// Elements of one collection.
    pub fn members(&self, id: RowId, column: &'static str) -> impl Iterator<Item = &Atom> {
        self.members.get(&(id, column)).into_iter().flatten()
    }

    /// Whether a collection has an element.
    pub fn has(&self, member: &Member) -> bool {
        self.members
            .get(&(member.row, member.column))
            .is_some_and(|values| values.contains(&member.value))
    }

    /// Adds or replaces a row.
    pub fn insert_row(&mut self, id: RowId, row: Arc<Row>) {
        self.rows.insert(id, row);
    }

    /// Takes a row away, not its members.
    pub fn remove_row(&mut self, id: &RowId) {
        self.rows.remove(id);
    }

    /// Adds an element to a collection.
    pub fn insert_member(&mut self, member: Member) {
        self.members.entry((member.row, member.column)).or_default().insert(member.value);
    }

    /// Takes an element out of a collection.
    pub fn remove_member(&mut self, member: &Member) {
        if let Some(values) = self.members.get_mut(&(member.row, member.column)) {
            values.remove(&member.value);
            if values.is_empty() {
                self.members.remove(&(member.row, member.column));
            }
        }
    }

    /// Takes over what the database says of one row (`None`: it is gone), if the row is ours, and returns every identity and member
    /// that may now differ from before.
    pub fn observe(&mut self, table: &str, uuid: Uuid, row: Option<&Row>) -> (Option<RowId>, Vec<Member>) {
        let Some((table, _)) = TABLES.iter().copied().find(|(known, _)| *known == table) else {
            return (None, Vec::new());
        };
        let id = RowId { table, uuid };
        let row = row.filter(|row| is_ours(&id, row) || could_be_ours(&id));
        if row.is_none() && self.existing(&id).is_none() {
            return (None, Vec::new());
        }
        let mut touched = Vec::new();
        for column in collections(table) {
            let new = row.and_then(|row| row.get(column));
            let changed = self.members.get(&(id, column)).map_or_else(
                || new.map(|new| new.atoms().cloned().collect()).unwrap_or_default(),
                |old| symmetric_difference(old, new),
            );
            let members = changed.into_iter().map(|value| Member { row: id, column, value });
            for member in members {
                if self.has(&member) {
                    self.remove_member(&member);
                } else {
                    self.insert_member(member.clone());
                }
                touched.push(member);
            }
        }
        self.rows.remove(&id);
        self.unmarked.remove(&id);
        if let Some(row) = row {
            let own = row
                .iter()
                .filter(|(column, _)| !is_apart(table, column))
                .map(|(column, datum)| (column, datum.clone()));
            let rows = if is_ours(&id, row) { &mut self.rows } else { &mut self.unmarked };
            rows.insert(id, Arc::new(own.collect()));
        }
        (Some(id), touched)
    }

    /// Lets equal rows share memory with `other`.
    pub fn share(&mut self, id: &RowId, other: &Self) {
        if let (Some(mine), Some(theirs)) = (self.rows.get_mut(id), other.rows.get(id))
            && !Arc::ptr_eq(mine, theirs)
            && mine == theirs
        {
            *mine = Arc::clone(theirs);
        }
    }
}

/// Collection columns of a table.
pub fn collections(table: &str) -> impl Iterator<Item = &'static str> {
    COLLECTIONS.iter().filter(move |(t, ..)| *t == table).map(|(_, column, _)| *column)
}

/// How deep a table lies under those whose rows hold its rows. Rows nobody wants go top down: what is held cannot go first.
pub(crate) fn depth(table: &str) -> usize {
    let holders = COLLECTIONS.iter().filter(|(_, _, held)| *held == table);
    holders.map(|(holder, ..)| depth(holder) + 1).max().unwrap_or(0)
}

/// The key a row carries. Groups of load balancers have no external ids; their name, which is unique, is their key.
pub(crate) fn key_of(table: &str, row: &Row) -> Option<String> {
    if table == LoadBalancerGroup::TABLE {
        return Some(group_key(row.get("name")?.as_str()?).as_str().to_owned());
    }
    Some(row.get("external_ids")?.get(KEY)?.to_owned())
}

/// Key of the group of load balancers with this name.
pub(crate) fn group_key(name: &str) -> Key {
    Key::new(format!("lb-group/{name}"))
}

/// Columns of a table that only OVN writes.
pub fn written_by_ovn(table: &str) -> impl Iterator<Item = &'static str> {
    WRITTEN_BY_OVN.iter().filter(move |(t, _)| *t == table).map(|(_, column)| *column)
}

/// External ids every row of ours carries.
pub(crate) fn ids(key: &Key, owner: &ObjectRef) -> BTreeMap<String, String> {
    BTreeMap::from([(KEY.to_owned(), key.as_str().to_owned()), (OWNER.to_owned(), owner.to_string())])
}

/// Adds a row to a fragment; the returned value puts it into a parent's collection.
pub(crate) fn put<T: Table>(fragment: &mut Fragment, key: &Key, row: T) -> Placed {
    let id = RowId::of(T::TABLE, key);
    fragment.rows.push((id, row.to_row()));
    Placed(id.uuid)
}

/// A row just added.
#[derive(Clone, Copy)]
pub(crate) struct Placed(Uuid);

impl Placed {
    /// For rows that refer to it in a column of their own.
    pub(crate) fn uuid(self) -> Uuid {
        self.0
    }

    /// The row with `key`, which this or another unit adds.
    pub(crate) fn of<T: Table>(key: &Key) -> Self {
        Self(key.uuid(T::TABLE))
    }

    pub(crate) fn add_to<Parent: Table>(self, fragment: &mut Fragment, parent: &Key, column: &'static str) {
        fragment.members.push(Member {
            row: RowId::of(Parent::TABLE, parent),
            column,
            value: Atom::Uuid(self.0),
        });
    }
}

impl LogicalSwitchPort {
    /// A switch's way out to the physical network.
    pub(crate) fn uplink(name: String, external_ids: BTreeMap<String, String>) -> Self {
        Self {
            name,
            type_: "localnet".to_owned(),
            addresses: ["unknown".to_owned()].into(),
            options: [("network_name".to_owned(), EXTERNAL_NETWORK.to_owned())].into(),
            external_ids,
            ..Default::default()
        }
    }

    /// A switch's side of a connection to a router port.
    pub(crate) fn router(name: String, router_port: String, external_ids: BTreeMap<String, String>) -> Self {
        Self {
            name,
            type_: "router".to_owned(),
            addresses: ["router".to_owned()].into(),
            options: [("router-port".to_owned(), router_port)].into(),
            external_ids,
            ..Default::default()
        }
    }
}

/// What is in one of them only. Large collections change by few members, so nothing else is copied.
fn symmetric_difference(old: &BTreeSet<Atom>, new: Option<&Datum>) -> Vec<Atom> {
    let (mut old, mut new) = (old.iter().peekable(), new.into_iter().flat_map(Datum::atoms).peekable());
    let mut only_one = Vec::new();
    loop {
        let next = match (old.peek(), new.peek()) {
            (Some(a), Some(b)) if a == b => {
                old.next();
                new.next();
                continue;
            }
            (Some(a), Some(b)) if a > b => new.next(),
            (Some(_), _) => old.next(),
            (None, _) => new.next(),
        };
        match next {
            Some(atom) => only_one.push(atom.clone()),
            None => return only_one,
        }
    }
}

fn is_ours(id: &RowId, row: &Row) -> bool {
    key_of(id.table, row).is_some_and(|key| Key::new(key).uuid(id.table) == id.uuid)
}

/// The server's own UUIDs are random ones.
fn could_be_ours(id: &RowId) -> bool {
    id.uuid.get_version_num() == 5
}

fn is_apart(table: &str, column: &str) -> bool {
    collections(table).chain(written_by_ovn(table)).any(|apart| apart == column)
}

/// The contents of a column that a row does not set.
pub(crate) fn default_of(table: &str, column: &str) -> Datum {
    let columns = TABLES
        .iter()
        .find(|(known, _)| *known == table)
        .map_or(&[][..], |(_, columns)| columns);
    columns
        .iter()
        .find(|known| known.name == column)
        .map_or_else(Datum::empty_set, Column::default_datum)
}
