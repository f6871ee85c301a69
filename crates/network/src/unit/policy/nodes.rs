//! Address sets of the nodes that cluster-wide policies speak of, one pair for each selector. Nodes put themselves in.

use netloom_ovsdb::{Atom, Table as _};

use crate::cluster::View;
use crate::key::Key;
use crate::northbound::{Member, RowId};
use crate::policy::Selector;
use crate::rows::AddressSet;
use crate::service::Family;
use crate::unit::Fragment;
use crate::unit::policy::clause::Kind;
use crate::unit::policy::selection::{put_address_set, set_name};

/// What sets of nodes there are: they are on no network.
pub(super) const KINDS: [Kind; 2] = [Kind::Ipv4, Kind::Ipv6];

fn address_set(labels: &Selector, kind: Kind) -> Key {
    Key::new(format!("nodes/{labels}/{}", kind.as_str()))
}

/// Name of the set of the addresses of nodes with these labels.
pub(super) fn set(labels: &Selector, kind: Kind) -> String {
    set_name::<AddressSet>(&address_set(labels, kind))
}

pub(in crate::unit) fn compile(view: &View<'_>, labels: &Selector, fragment: &mut Fragment) {
    for kind in KINDS {
        put_address_set(address_set(labels, kind), &view.network_ref(), fragment);
    }
}

/// Adds a node's addresses to the sets it is in, whether or not it has subnets.
pub(in crate::unit) fn join(view: &View<'_>, name: &str, fragment: &mut Fragment) {
    let Some(node) = view.node(name) else { return };
    for labels in view.node_sets(name) {
        for address in node.addresses.iter().chain(&node.other_addresses) {
            fragment.members.push(Member {
                row: RowId::of(AddressSet::TABLE, &address_set(labels, Family::of(*address).into())),
                column: "addresses",
                value: Atom::from(address.to_string()),
            });
        }
    }
}
