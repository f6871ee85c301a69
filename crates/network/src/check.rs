//! Invariants of a Northbound we made: what is never the user's fault. Tests call this on everything they compile; a violation is a
//! bug of ours.

use std::collections::{HashMap, HashSet};
use std::fmt;

use netloom_ovsdb::{Atom, Table};

use crate::key::{Key, NETWORK};
use crate::northbound::{Northbound, RowId, key_of};
use crate::rows::{
    Acl, AddressSet, HaChassis, LoadBalancerHealthCheck, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalSwitchPort, Nat,
};

/// Tables whose rows live only while a collection holds them.
const HELD: &[&str] = &[
    Acl::TABLE,
    HaChassis::TABLE,
    LoadBalancerHealthCheck::TABLE,
    LogicalRouterPolicy::TABLE,
    LogicalRouterPort::TABLE,
    LogicalRouterStaticRoute::TABLE,
    LogicalSwitchPort::TABLE,
    Nat::TABLE,
];

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// A row without our mark, or whose UUID does not follow from its key.
    Unmarked(String),
    /// A collection of a row that does not exist.
    Homeless(String),
    /// A reference to a row that does not exist.
    Dangling(String),
    /// A row no collection holds, which the database would drop at once.
    Unheld(String),
    /// Two ports of one name.
    SameName(String),
    /// Two ports with one address.
    SameAddress(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmarked(row) => write!(f, "{row} does not carry its key"),
            Self::Homeless(row) => write!(f, "members of {row}, which does not exist"),
            Self::Dangling(row) => write!(f, "{row} refers to a row that does not exist"),
            Self::Unheld(row) => write!(f, "{row} is held by no collection"),
            Self::SameName(name) => write!(f, "two rows are named {name}"),
            Self::SameAddress(address) => write!(f, "two ports have {address}"),
        }
    }
}

/// Every broken invariant, none if all is well.
pub fn check(northbound: &Northbound) -> Vec<Violation> {
    let mut violations = Vec::new();
    let keys: HashMap<RowId, String> = northbound
        .rows()
        .map(|(id, row)| (*id, key_of(id.table, row).unwrap_or_default()))
        .collect();
    let uuids: HashSet<_> = keys.keys().map(|id| id.uuid).collect();
    let named = |id: &RowId| format!("{} {}", id.table, keys.get(id).map_or("(unknown)", String::as_str));

    for (id, key) in &keys {
        if Key::new(key.as_str()).uuid(id.table) != id.uuid {
            violations.push(Violation::Unmarked(named(id)));
        }
    }
    let mut held = HashSet::new();
    for (id, column, values) in northbound.collections() {
        if !keys.contains_key(id) {
            violations.push(Violation::Homeless(named(id)));
        }
        for value in values {
            match value {
                Atom::Uuid(uuid) if uuids.contains(uuid) => {
                    held.insert(*uuid);
                }
                Atom::String(_) if id.table == AddressSet::TABLE => {}
                _ => violations.push(Violation::Dangling(format!("{}.{column}", named(id)))),
            }
        }
    }
    violations.extend(
        keys.keys()
            .filter(|id| HELD.contains(&id.table) && !held.contains(&id.uuid))
            .map(|id| Violation::Unheld(named(id))),
    );
    violations.extend(ports(northbound));
    violations.sort();
    violations
}

fn ports(northbound: &Northbound) -> Vec<Violation> {
    let (mut names, mut addresses, mut violations) = (HashSet::new(), HashSet::new(), Vec::new());
    for (_, port) in northbound.table::<LogicalSwitchPort>() {
        // Networks may have the same addresses.
        let network = port.external_ids.get(NETWORK);
        for address in port.addresses.iter().flat_map(|entry| entry.split(' ').skip(1)) {
            if !addresses.insert((network.cloned(), address.to_owned())) {
                violations.push(Violation::SameAddress(address.to_owned()));
            }
        }
        if !names.insert(port.name.clone()) {
            violations.push(Violation::SameName(port.name));
        }
    }
    violations
}
