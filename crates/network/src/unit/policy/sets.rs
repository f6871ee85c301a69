//! Groups and sets that are named after their key: what virtual networks, apps and security groups have in common.

use std::net::IpAddr;

use netloom_ovsdb::{Atom, Table};

use crate::cluster::View;
use crate::ipam::Assignment;
use crate::key::Key;
use crate::northbound::{Member, RowId, ids, put};
use crate::problem::ObjectRef;
use crate::rows::{AddressSet, PortGroup};
use crate::service::Family;
use crate::unit::Fragment;
use crate::unit::policy::clause::{Addresses, Kind, Side, Term};

/// The set of one kind.
fn of_kind(set: &Key, kind: Kind) -> Key {
    Key::new(format!("{set}/{}", kind.as_str()))
}

/// OVN does not read every key as a name in a match, so the name follows from the key as the UUID does.
fn name<T: Table>(key: &Key) -> String {
    let kind = key.as_str().split('/').next().unwrap_or_default().replace('-', "_");
    let digest: String = key.uuid(T::TABLE).simple().to_string().chars().take(16).collect();
    format!("{kind}_{digest}")
}

/// Name of the port group with this key.
pub(super) fn group_name(group: &Key) -> String {
    name::<PortGroup>(group)
}

/// Packets whose address on one side is in any of these sets.
pub(super) fn among<'a>(view: &View<'_>, side: Side, sets: impl IntoIterator<Item = &'a Key>) -> Vec<Term> {
    among_kinds(&Kind::of_pods(view), side, sets)
}

/// The same of some kinds only.
pub(super) fn among_kinds<'a>(kinds: &[Kind], side: Side, sets: impl IntoIterator<Item = &'a Key>) -> Vec<Term> {
    let mut addresses = Addresses::new(side);
    for set in sets {
        addresses.add_sets(kinds, |kind| name::<AddressSet>(&of_kind(set, kind)));
    }
    addresses.terms()
}

/// Packets that pods of a set of Ethernet addresses sent.
pub(super) fn sent_by(set: &Key) -> String {
    format!("eth.src == ${}", name::<AddressSet>(&of_kind(set, Kind::Link)))
}

pub(super) fn put_group(key: &Key, owner: &ObjectRef, fragment: &mut Fragment) {
    let row = PortGroup {
        name: group_name(key),
        external_ids: ids(key, owner),
        ..Default::default()
    };
    put(fragment, key, row);
}

/// A set of each kind.
pub(super) fn put_sets(view: &View<'_>, set: &Key, owner: &ObjectRef, fragment: &mut Fragment) {
    Kind::of_pods(view).iter().for_each(|kind| put_set(set, *kind, owner, fragment));
}

/// A set of one kind.
pub(super) fn put_set(set: &Key, kind: Kind, owner: &ObjectRef, fragment: &mut Fragment) {
    let key = of_kind(set, kind);
    let row = AddressSet {
        name: name::<AddressSet>(&key),
        external_ids: ids(&key, owner),
        ..Default::default()
    };
    put(fragment, &key, row);
}

/// Adds addresses to the sets of their families, if the cluster has them.
pub(super) fn add_addresses(view: &View<'_>, set: &Key, addresses: &[IpAddr], fragment: &mut Fragment) {
    let kinds = Kind::of_pods(view);
    let known = addresses.iter().filter(|ip| kinds.contains(&Family::of(**ip).into()));
    fragment.members.extend(known.map(|address| Member {
        row: RowId::of(AddressSet::TABLE, &of_kind(set, Family::of(*address).into())),
        column: "addresses",
        value: Atom::from(address.to_string()),
    }));
}

/// Adds what a pod has to the sets of its kinds.
pub(super) fn add_pod(view: &View<'_>, set: &Key, pod: &Assignment, fragment: &mut Fragment) {
    add_addresses(view, set, &pod.addresses, fragment);
    add_link(set, pod, fragment);
}

/// Adds the Ethernet address of a pod that is on a network.
pub(super) fn add_link(set: &Key, pod: &Assignment, fragment: &mut Fragment) {
    fragment.members.extend(pod.link().map(|mac| Member {
        row: RowId::of(AddressSet::TABLE, &of_kind(set, Kind::Link)),
        column: "addresses",
        value: Atom::from(mac.to_string()),
    }));
}
