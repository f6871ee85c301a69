//! Load balancers: an address and port has one of them wherever a packet meets it, and what OVN probes is there.

use std::collections::{BTreeMap, HashMap};

use netloom_ovsdb::{Row, Table as _};

use crate::check::Broken;
use crate::check::reading::{Reading, entries, text};
use crate::northbound::RowId;
use crate::rows::{LoadBalancer, LoadBalancerGroup, LoadBalancerHealthCheck, LogicalRouter, LogicalSwitch, LogicalSwitchPort};

/// Protocol, and address and port.
type Frontend<'a> = (&'a str, &'a str);

pub(super) fn frontends(reading: &Reading<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut groups: HashMap<RowId, BTreeMap<Frontend<'_>, RowId>> = HashMap::new();
    for (group, _) in reading.rows(LoadBalancerGroup::TABLE) {
        let frontends = groups.entry(group).or_default();
        add(reading, group, frontends, &mut broken);
    }
    for (place, _) in reading.rows(LogicalSwitch::TABLE).chain(reading.rows(LogicalRouter::TABLE)) {
        let mut own = BTreeMap::new();
        add(reading, place, &mut own, &mut broken);
        let of_groups: Vec<_> = reading
            .held(place, "load_balancer_group", LoadBalancerGroup::TABLE)
            .filter_map(|(id, _)| groups.get(&id))
            .collect();
        let mut seen: Vec<&BTreeMap<Frontend<'_>, RowId>> = Vec::new();
        for frontends in of_groups.into_iter().chain([&own]) {
            for (frontend, id) in frontends {
                if let Some(other) = seen.iter().find_map(|seen| seen.get(frontend)) {
                    broken.push(clash(reading, *frontend, *id, *other, place));
                }
            }
            seen.push(frontends);
        }
    }
    broken
}

/// Adds what the load balancers of a switch, router or group serve.
fn add<'a>(reading: &Reading<'a>, at: RowId, frontends: &mut BTreeMap<Frontend<'a>, RowId>, broken: &mut Vec<Broken>) {
    for (id, row) in reading.held(at, "load_balancer", LoadBalancer::TABLE) {
        for (vip, _) in entries(row, "vips") {
            let frontend = (protocol(row), vip);
            if let Some(other) = frontends.insert(frontend, id) {
                broken.push(clash(reading, frontend, id, other, at));
            }
        }
    }
}

fn clash(reading: &Reading<'_>, (protocol, vip): Frontend<'_>, id: RowId, other: RowId, at: RowId) -> Broken {
    let (other, at) = (reading.named(other), reading.named(at));
    (reading.named(id), format!("{vip}/{protocol} is also that of {other}, on {at}"))
}

fn protocol(row: &Row) -> &str {
    Some(text(row, "protocol")).filter(|protocol| !protocol.is_empty()).unwrap_or("tcp")
}

pub(super) fn probes(reading: &Reading<'_>) -> Vec<Broken> {
    let ports = reading.by_name(LogicalSwitchPort::TABLE);
    let mut broken = Vec::new();
    for (id, row) in reading.rows(LoadBalancer::TABLE) {
        for (_, mapping) in entries(row, "ip_port_mappings") {
            let port = mapping.split(':').next().unwrap_or_default();
            if !ports.contains_key(port) {
                broken.push((reading.named(id), format!("it probes the port {port}, which does not exist")));
            }
        }
        let vips = entries(row, "vips");
        for (check, row) in reading.held(id, "health_check", LoadBalancerHealthCheck::TABLE) {
            let vip = text(row, "vip");
            if !vips.iter().any(|(known, _)| *known == vip) {
                broken.push((
                    reading.named(check),
                    format!("it is of {vip}, which {} does not have", reading.named(id)),
                ));
            }
        }
    }
    broken
}
