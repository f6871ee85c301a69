//! A node's slot, from which its subnets follow: the recorded one, the one its annotation remembers, or the lowest free one. A node that is
//! gone keeps its slot until its last port is gone.

use crate::annotations;
use crate::cluster::View;
use crate::decide::{Choice, Outcome, Rank};
use crate::ipam::Segment;
use crate::problem::Problem;

pub(super) fn decide(view: &View<'_>, name: &str) -> Outcome {
    let slot = view.slot(name);
    let Some(node) = view.node(name) else {
        let kept = slot.filter(|_| view.is_populated(&Segment::Node(name.to_owned())));
        return Outcome::of(Choice::Slot(kept));
    };
    let (None, Some(settings)) = (slot, view.settings()) else {
        return Outcome::of(Choice::Slot(slot));
    };
    let remembered = node
        .annotations
        .get(annotations::SUBNETS)
        .and_then(|text| settings.slot_of(&text.split(',').next()?.trim().parse().ok()?));
    let (limit, holders) = (settings.slots(), view.slot_holders());
    let free = |slot: &u64| *slot < limit && !holders.contains_key(slot);
    match remembered.filter(free).or_else(|| (0..limit).find(free)) {
        Some(slot) => Outcome::of(Choice::Slot(Some(slot))),
        None => Outcome::of(Choice::Slot(None)).but(Problem::new(
            view.node_ref(name),
            "SubnetsExhausted",
            format!("all {limit} node subnets of {settings} are taken; add a range to ClusterNetwork/default spec.clusterCIDRs"),
        )),
    }
}

pub(super) fn rank(view: &View<'_>, name: &str) -> Rank {
    match view.node(name) {
        None => Rank::Release,
        Some(node) => Rank::Node {
            forgetful: !node.annotations.contains_key(annotations::SUBNETS),
        },
    }
}
