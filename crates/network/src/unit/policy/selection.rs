//! The sets policies speak of, one for each selection however many policies use it: a port group of the pods to isolate; address sets of the pods to allow; and address sets of pods by the number they give to a port's name. Pods put themselves in.

use netloom_ovsdb::{Atom, Table};

use crate::cluster::View;
use crate::key::Key;
use crate::northbound::{Member, RowId, ids, put};
use crate::policy::log::Verdict;
use crate::policy::{Direction, Namespaces, PolicyName, Role, Selection, User};
use crate::problem::ObjectRef;
use crate::rows::{Acl, AddressSet, PortGroup};
use crate::service::{Family, Protocol};
use crate::unit::Fragment;
use crate::unit::policy::clause::Kind;
use crate::unit::policy::{DENY, Tier, acl, isolation};
use crate::unit::port::Joining;

/// Key of the port group of the pods that policies isolate.
pub(super) fn port_group(pods: &Selection) -> Key {
    Key::new(format!("subject/{pods}"))
}

/// Key of the port group of the pods that cluster-wide policies judge.
pub(super) fn cluster_group(pods: &Selection) -> Key {
    Key::new(format!("cluster-subject/{pods}"))
}

fn address_set(pods: &Selection, kind: Kind) -> Key {
    Key::new(format!("peers/{pods}/{}", kind.as_str()))
}

fn named_set(pods: &Selection, port: &str, protocol: Protocol, port_number: u16, kind: Kind) -> Key {
    Key::new(format!("named-port/{port}/{protocol}/{port_number}/{pods}/{}", kind.as_str()))
}

/// Name of the set of a selection's addresses.
pub(super) fn peers(pods: &Selection, kind: Kind) -> String {
    set_name::<AddressSet>(&address_set(pods, kind))
}

/// Name of the set of the addresses whose pods give this number to a port's name.
pub(super) fn named_port(pods: &Selection, port: &str, protocol: Protocol, number: u16, kind: Kind) -> String {
    set_name::<AddressSet>(&named_set(pods, port, protocol, number, kind))
}

/// A selector is no name OVN can read in a match, so the name follows from the key as the UUID does.
pub(super) fn set_name<T: Table>(key: &Key) -> String {
    let kind = if T::TABLE == PortGroup::TABLE { "subject" } else { "peers" };
    let digest: String = key.uuid(T::TABLE).simple().to_string().chars().take(16).collect();
    format!("{kind}_{digest}")
}

/// Whose sets these are: a namespace's, or everybody's.
pub(in crate::unit) fn owner(view: &View<'_>, pods: &Selection) -> ObjectRef {
    match &pods.namespaces {
        Namespaces::Named(name) => view.namespace_ref(name),
        Namespaces::Labelled(_) => view.network_ref(),
    }
}

pub(in crate::unit) fn compile(view: &View<'_>, pods: &Selection, role: &Role, fragment: &mut Fragment) {
    let owner = owner(view, pods);
    match role {
        Role::Subject => drop(put_port_group(&port_group(pods), &owner, fragment)),
        Role::Denied(direction) => log_denial(view, pods, *direction, &owner, fragment),
        Role::ClusterSubject => drop(put_port_group(&cluster_group(pods), &owner, fragment)),
        Role::Peers => {
            for kind in Kind::of_pods(view) {
                put_address_set(address_set(pods, kind), &owner, fragment);
            }
        }
        Role::Port(port, protocol) => {
            for port_number in view.numbers(pods, port, *protocol) {
                for kind in Kind::of_pods(view) {
                    put_address_set(named_set(pods, port, *protocol, port_number, kind), &owner, fragment);
                }
            }
        }
    }
}

/// Adds a port and its addresses to the sets its pod is in.
pub(in crate::unit) fn join(it: &Joining<'_>, fragment: &mut Fragment) {
    let kinds = Kind::of_pods(it.view);
    let addresses = it.assignment.addresses.iter().map(|ip| (Family::of(*ip).into(), ip.to_string()));
    let addresses: Vec<(Kind, String)> = addresses
        .chain(it.assignment.link().map(|mac| (Kind::Link, mac.to_string())))
        .filter(|(kind, _)| kinds.contains(kind))
        .collect();
    let mut add_addresses = |key: &dyn Fn(Kind) -> Key| {
        for (kind, address) in &addresses {
            fragment.members.push(Member {
                row: RowId::of(AddressSet::TABLE, &key(*kind)),
                column: "addresses",
                value: Atom::from(address.clone()),
            });
        }
    };
    let mut groups = Vec::new();
    for (pods, roles) in it.view.selections_of(it.name, it.pod) {
        for role in roles {
            match role {
                Role::Subject => groups.push(port_group(pods)),
                Role::Denied(direction) => groups.push(isolation::denied(&it.assignment.node, *direction)),
                Role::ClusterSubject => groups.push(cluster_group(pods)),
                Role::Peers => add_addresses(&|kind| address_set(pods, kind)),
                Role::Port(port, protocol) => {
                    let numbers = it.pod.offers().into_iter();
                    for (_, number) in numbers.filter(|(offer, _)| offer.0 == *port && offer.1 == *protocol) {
                        add_addresses(&|kind| named_set(pods, port, *protocol, number, kind));
                    }
                }
            }
        }
    }
    if !groups.is_empty() {
        isolation::join(it, fragment);
    }
    for group in groups {
        it.port.add_to::<PortGroup>(fragment, &group, "ports");
    }
}

/// The denial of all isolated pods, of the pods of one selection and logged.
fn log_denial(view: &View<'_>, pods: &Selection, direction: Direction, owner: &ObjectRef, fragment: &mut Fragment) {
    let users = view.users(pods, &Role::Denied(direction)).filter_map(|user| match user {
        User::Policy(policy) => Some(policy),
        User::Cluster(_) => None,
    });
    let policies: Vec<&PolicyName> = users.collect();
    let Some(first) = policies.first() else { return };
    let Some(log) = view.log(&first.namespace, Verdict::Dropped) else {
        return;
    };
    let (group, key) = (port_group(pods), Key::new(format!("deny/{pods}/{}", direction.as_str())));
    let condition = format!("{} && ip", direction.of_group(&set_name::<PortGroup>(&group)));
    let row = Acl {
        external_ids: ids(&key, owner),
        ..acl(Tier::Policy, direction, DENY, "drop", condition)
    };
    let names: Vec<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
    let row = log.on(row, &format!("{}/{}", first.namespace, names.join(",")));
    put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
}

/// Puts an empty port group; returns its name.
fn put_port_group(key: &Key, owner: &ObjectRef, fragment: &mut Fragment) -> String {
    let name = set_name::<PortGroup>(key);
    let row = PortGroup {
        name: name.clone(),
        external_ids: ids(key, owner),
        ..Default::default()
    };
    put(fragment, key, row);
    name
}

pub(super) fn put_address_set(key: Key, owner: &ObjectRef, fragment: &mut Fragment) {
    let row = AddressSet {
        name: set_name::<AddressSet>(&key),
        external_ids: ids(&key, owner),
        ..Default::default()
    };
    put(fragment, &key, row);
}
