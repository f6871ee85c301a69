//! Segments: a switch, the ports on it, and the router ports that are connected to it. Whoever shares a segment must differ.

use std::collections::{BTreeMap, HashMap};

use ipnet::IpNet;
use netloom_ovsdb::{Row, Table as _};

use crate::check::Broken;
use crate::check::reading::{Reading, entry, strings, text};
use crate::northbound::RowId;
use crate::rows::{LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};

/// What is on a segment: who, and by which Ethernet address and IP addresses.
struct Station<'a> {
    row: RowId,
    ethernet: &'a str,
    addresses: Vec<String>,
}

pub(super) fn attached(reading: &Reading<'_>) -> Vec<Broken> {
    let mut switches: HashMap<&str, usize> = HashMap::new();
    for (switch, _) in reading.rows(LogicalSwitch::TABLE) {
        for (_, port) in reading.held(switch, "ports", LogicalSwitchPort::TABLE) {
            *switches
                .entry(entry(port, "options", "router-port").unwrap_or_default())
                .or_default() += 1;
        }
    }
    let count = |row: &Row| switches.get(text(row, "name")).copied().unwrap_or_default();
    let ports = reading.rows(LogicalRouterPort::TABLE).map(|(id, row)| (id, count(row)));
    ports
        .filter(|(_, count)| *count != 1)
        .map(|(id, count)| (reading.named(id), format!("it is on {count} switches")))
        .collect()
}

pub(super) fn ethernet(reading: &Reading<'_>) -> Vec<Broken> {
    twice(reading, |station| vec![station.ethernet.to_lowercase()])
}

pub(super) fn addresses(reading: &Reading<'_>) -> Vec<Broken> {
    twice(reading, |station| station.addresses.clone())
}

/// Stations of one segment that have something in common.
fn twice(reading: &Reading<'_>, what: impl Fn(&Station<'_>) -> Vec<String>) -> Vec<Broken> {
    let mut broken = Vec::new();
    let routers: HashMap<&str, (RowId, &Row)> = reading
        .rows(LogicalRouterPort::TABLE)
        .map(|(id, row)| (text(row, "name"), (id, row)))
        .collect();
    for (switch, _) in reading.rows(LogicalSwitch::TABLE) {
        let mut first: BTreeMap<String, RowId> = BTreeMap::new();
        for (id, row) in reading.held(switch, "ports", LogicalSwitchPort::TABLE) {
            for station in stations(id, row, &routers) {
                for one in what(&station) {
                    if let Some(other) = first.insert(one.clone(), station.row) {
                        let why = format!("it has {one} as {}, on {}", reading.named(other), reading.named(switch));
                        broken.push((reading.named(station.row), why));
                    }
                }
            }
        }
    }
    broken
}

fn stations<'a>(id: RowId, port: &'a Row, routers: &HashMap<&str, (RowId, &'a Row)>) -> Vec<Station<'a>> {
    let router = entry(port, "options", "router-port").and_then(|name| routers.get(name));
    let of_router = router.map(|(id, row)| Station {
        row: *id,
        ethernet: text(row, "mac"),
        addresses: strings(row, "networks").map(address).collect(),
    });
    // "unknown" and "router" are no addresses.
    let of_port = strings(port, "addresses").filter_map(|entry| {
        let mut words = entry.split(' ');
        let ethernet = words.next().filter(|word| word.contains(':'))?;
        Some(Station {
            row: id,
            ethernet,
            addresses: words.map(address).collect(),
        })
    });
    of_router.into_iter().chain(of_port).collect()
}

/// An address without its prefix.
fn address(text: &str) -> String {
    text.parse::<IpNet>()
        .map_or_else(|_| text.to_owned(), |network| network.addr().to_string())
}
