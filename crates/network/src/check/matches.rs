//! Matches of ACLs and router policies: OVN can read them, what they name exists, and two of them do not contradict each other.

use std::collections::{BTreeMap, HashSet};

use netloom_ovsdb::{Atom, Table as _};

use crate::check::Broken;
use crate::check::expression::{Comparison, Value};
use crate::check::reading::{Reading, entry, number, text};
use crate::ipam::Mac;
use crate::northbound::RowId;
use crate::rows::{Acl, AddressSet, LogicalRouterPort, LogicalSwitchPort, PortGroup};

pub(super) fn readable(reading: &Reading<'_>) -> Vec<Broken> {
    let unread = reading.matches.iter().filter_map(|(id, read)| Some((*id, read.as_ref().err()?)));
    unread.map(|(id, why)| (reading.named(id), why.clone())).collect()
}

/// Comparisons of all matches that can be read.
fn comparisons<'a>(reading: &'a Reading<'_>) -> impl Iterator<Item = (RowId, &'a Comparison)> {
    let read = reading.matches.iter().filter_map(|(id, read)| Some((*id, read.as_ref().ok()?)));
    read.flat_map(|(id, tree)| tree.comparisons().into_iter().map(move |(comparison, _)| (id, comparison)))
}

pub(super) fn operands(reading: &Reading<'_>) -> Vec<Broken> {
    let names = |table| reading.rows(table).map(|(_, row)| text(row, "name")).collect::<HashSet<_>>();
    let (groups, sets) = (names(PortGroup::TABLE), names(AddressSet::TABLE));
    let ports: HashSet<&str> = names(LogicalSwitchPort::TABLE)
        .union(&names(LogicalRouterPort::TABLE))
        .copied()
        .collect();
    let mut broken = Vec::new();
    for (id, comparison) in comparisons(reading) {
        for value in &comparison.values {
            let missing = match value {
                Value::Group(name) if !groups.contains(name.as_str()) => format!("port group {name}"),
                Value::Set(name) if !sets.contains(name.as_str()) => format!("address set {name}"),
                Value::Text(name) if !ports.contains(name.as_str()) => format!("port {name}"),
                _ => continue,
            };
            broken.push((reading.named(id), format!("there is no {missing}")));
        }
    }
    broken
}

pub(super) fn sets(reading: &Reading<'_>) -> Vec<Broken> {
    let sets = reading.by_name(AddressSet::TABLE);
    let mut broken = Vec::new();
    for (id, comparison) in comparisons(reading) {
        for value in &comparison.values {
            let Value::Set(name) = value else { continue };
            let Some(set) = sets.get(name.as_str()) else { continue };
            let members = reading.northbound.members(*set, "addresses").filter_map(Atom::as_str);
            if let Some(stray) = members.into_iter().find(|member| !fits(&comparison.field, member)) {
                let why = format!("{stray} of {} is no {}", reading.named(*set), comparison.field);
                broken.push((reading.named(id), why));
            }
        }
    }
    broken
}

fn fits(field: &str, member: &str) -> bool {
    let address = member.split('/').next().unwrap_or_default();
    match field.split('.').next() {
        Some("ip4") => address.parse::<std::net::Ipv4Addr>().is_ok(),
        Some("ip6") => address.parse::<std::net::Ipv6Addr>().is_ok(),
        _ => member.parse::<Mac>().is_ok(),
    }
}

pub(super) fn verdicts(reading: &Reading<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (group, _) in reading.rows(PortGroup::TABLE) {
        let mut first = BTreeMap::new();
        for (id, row) in reading.held(group, "acls", Acl::TABLE) {
            let stage = (text(row, "direction"), entry(row, "options", "apply-after-lb"), number(row, "tier"));
            let about = (stage, number(row, "priority"), text(row, "match"));
            let action = text(row, "action");
            if let Some((other, did)) = first.insert(about, (id, action))
                && did != action
            {
                broken.push((
                    reading.named(id),
                    format!("it does {action}, and {} does {did}", reading.named(other)),
                ));
            }
        }
    }
    broken
}
