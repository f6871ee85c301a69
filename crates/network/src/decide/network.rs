//! What of a `Network` is in force: what it says, unless that cannot be used; then what it said before, so that whoever deletes it or makes a
//! mistake in it neither cuts its pods off nor opens it. Its router's place on the join switch is decided once.

use std::sync::Arc;

use crate::cluster::View;
use crate::custom_network::Read;
use crate::decide::{Choice, Outcome};
use crate::ipam::{NetworkRecord, Segment};
use crate::problem::Problem;

pub(super) fn decide(view: &View<'_>, name: &str) -> Outcome {
    let record = view.network(name);
    let is_populated = || view.is_populated(&Segment::Network(name.to_owned()));
    let keep = || Outcome::of(Choice::Network(record.cloned()));
    let (Some(network), Some(read)) = (view.custom_network(name), view.read_network(name)) else {
        return Outcome::of(Choice::Network(record.filter(|_| is_populated()).cloned()));
    };
    let usable = read.as_ref().map_err(Clone::clone).and_then(|read| {
        let conflict = view.settings().and_then(|settings| read.conflict(settings));
        let hides = || hides_node(view, read);
        let in_use = || record.and_then(|record| in_use(&record.read, read)).filter(|_| is_populated());
        conflict.or_else(hides).or_else(in_use).map_or(Ok(read), Err)
    });
    let refuse = |reason, why: &str| keep().but(Problem::new(view.custom_network_ref(name), reason, why));
    match usable {
        Err(why) => refuse("InvalidNetwork", &why),
        Ok(read) => match record.map(|record| record.slot).or_else(|| free_slot(view)) {
            Some(slot) => Outcome::of(Choice::Network(Some(NetworkRecord {
                slot,
                spec: network.spec.clone(),
                read: Arc::clone(read),
            }))),
            None if view.settings().is_none() => keep(),
            None => refuse(
                "JoinRangeFull",
                "the join range has no address left for its router; give ClusterNetwork/default a larger one in spec.joinCIDRs",
            ),
        },
    }
}

/// A node whose address its pods would look for in the network, or behind a pod of it.
fn hides_node(view: &View<'_>, read: &Read) -> Option<String> {
    let routes = read.routes.iter().map(|route| ("route to", &route.to));
    let mut ranges = read.subnets.iter().map(|subnet| ("subnet", subnet)).chain(routes);
    let nodes = view.node_addresses();
    ranges.find_map(|(what, range)| {
        let address = nodes.keys().find(|address| range.contains(*address))?;
        Some(format!(
            "{what} {range} contains {address}, the address of a node; choose another range"
        ))
    })
}

/// Why what a network says now cannot be in force while pods are on it, which would lose their addresses.
fn in_use(old: &Read, new: &Read) -> Option<String> {
    if (&old.subnets, &old.gateways) == (&new.subnets, &new.gateways) {
        return None;
    }
    let list = |values: Vec<String>| values.join(" and ");
    Some(format!(
        "subnets and gateways cannot change while pods are on it, which keep {} with {}; delete them, or create another Network",
        list(old.subnets.iter().map(ToString::to_string).collect()),
        list(old.gateways.iter().map(ToString::to_string).collect())
    ))
}

fn free_slot(view: &View<'_>) -> Option<u64> {
    let (settings, taken) = (view.settings()?, view.network_slots());
    let slot = (0..).find(|slot| !taken.contains_key(slot))?;
    (!settings.network_join_addresses(slot).is_empty()).then_some(slot)
}
