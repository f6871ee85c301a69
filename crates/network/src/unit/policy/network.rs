//! Virtual networks of isolated namespaces, and what keeps the others out. A namespace's network is a port group and sets of addresses,
//! not a switch: its pods stay where they are. Who may not be reached is dropped where the packet is sent, before services are
//! translated, so that services still lead there; what not even services may reach is dropped after.

use std::net::IpAddr;

use netloom_ovsdb::{Atom, Table};

use crate::cluster::{Cluster, Pod, PodName};
use crate::isolation::{self, Isolation};
use crate::key::Key;
use crate::northbound::{Member, Placed, RowId, ids, put};
use crate::policy::Direction;
use crate::problem::{ObjectRef, Problem};
use crate::rows::{Acl, AddressSet, PortGroup};
use crate::service::Family;
use crate::unit::Fragment;
use crate::unit::policy::clause::{Addresses, Side};
use crate::unit::policy::{ALLOW, DENY, Tier, acl};

/// Above what security groups say in the same tier.
const CLOSED: i64 = 2000;
const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// What there is one of.
#[derive(Clone, Copy)]
enum Shared {
    /// Group of all pods; addresses of those that are not reached directly.
    Pods,
    /// Group of the pods that may not use what is closed: all but those of closed namespaces.
    Outsiders,
    /// Addresses of pods that are not reached through services either.
    Closed,
    /// Addresses of services that pods of other namespaces may not use.
    Services,
}

impl Shared {
    fn key(self) -> Key {
        Key::new(match self {
            Self::Pods => "isolation/pods",
            Self::Outsiders => "isolation/outsiders",
            Self::Closed => "isolation/closed",
            Self::Services => "isolation/services",
        })
    }
}

/// Key of a namespace's network, and of its services' addresses.
fn network(namespace: &str) -> Key {
    Key::new(format!("network/{namespace}-vn"))
}

fn services(namespace: &str) -> Key {
    Key::new(format!("network/{namespace}-vn/services"))
}

fn of_family(set: &Key, family: Family) -> Key {
    let number = if family == Family::Ipv4 { 4 } else { 6 };
    Key::new(format!("{set}/{number}"))
}

/// A namespace may have a hyphen, which OVN does not read in a name, so the name follows from the key as the UUID does.
fn name<T: Table>(key: &Key) -> String {
    let kind = key.as_str().split('/').next().unwrap_or_default();
    let digest: String = key.uuid(T::TABLE).simple().to_string().chars().take(16).collect();
    format!("{kind}_{digest}")
}

/// Packets addressed to what these sets have.
fn to<'a>(sets: impl IntoIterator<Item = &'a Key>) -> String {
    let mut addresses = Addresses::new(Side::Destination);
    for set in sets {
        addresses.add_sets(|family| name::<AddressSet>(&of_family(set, family)));
    }
    addresses.to_clause().unwrap_or_default()
}

/// What all isolated namespaces have in common.
pub(in crate::unit) fn compile_shared(cluster: &Cluster, fragment: &mut Fragment) {
    if cluster.isolated(Isolation::Pods).next().is_none() {
        return;
    }
    let mut it = Rows {
        owner: cluster.network_ref(),
        fragment,
    };
    let [pods, outsiders, closed, services] = [Shared::Pods, Shared::Outsiders, Shared::Closed, Shared::Services].map(Shared::key);
    it.put_group(&pods);
    for set in [&pods, &closed, &services] {
        it.put_sets(set);
    }
    // Later packets of a connection through a service come here translated already. That something is allowed also makes OVN follow
    // connections on every switch with pods, without which the denial would meet replies.
    let translated = format!("{} && ct_mark.natted", to([&pods]));
    it.put_acl("translated", &pods, Stage::BeforeServices, ALLOW, "allow-related", &translated);
    it.put_acl("direct", &pods, Stage::BeforeServices, DENY, "drop", &to([&pods, &services]));
    if cluster.isolated(Isolation::Services).next().is_some() {
        it.put_group(&outsiders);
        it.put_acl("closed", &outsiders, Stage::AfterServices, CLOSED, "drop", &to([&closed]));
    }
}

/// The network of a namespace.
pub(in crate::unit) fn compile(cluster: &Cluster, namespace: &str, fragment: &mut Fragment) {
    let isolation = cluster.isolation(namespace);
    if isolation == Isolation::None {
        return;
    }
    let owner = cluster.namespace_ref(namespace);
    let annotations = cluster.namespaces.get(namespace).map(|namespace| &namespace.annotations);
    let complaints = annotations.map(|annotations| isolation::read(annotations).1).unwrap_or_default();
    let problems = complaints.into_iter().map(|(reason, why)| Problem::new(owner.clone(), reason, why));
    fragment.problems.extend(problems);
    let (group, own_services) = (network(namespace), services(namespace));
    let mut it = Rows { owner, fragment };
    it.put_group(&group);
    it.put_sets(&group);
    if isolation < Isolation::Services {
        it.put_acl("inside", &group, Stage::BeforeServices, ALLOW, "allow-related", &to([&group]));
        return;
    }
    it.put_sets(&own_services);
    let inside = to([&group, &own_services]);
    it.put_acl("inside", &group, Stage::BeforeServices, ALLOW, "allow-related", &inside);
    let others: Vec<Key> = cluster
        .isolated(Isolation::Services)
        .filter(|other| *other != namespace)
        .map(|other| network(other))
        .collect();
    if !others.is_empty() {
        it.put_acl("closed", &group, Stage::AfterServices, CLOSED, "drop", &to(&others));
    }
}

/// Adds a pod's port and addresses to the networks it is in, and to the groups of those that have to be kept out of others.
pub(in crate::unit) fn join(cluster: &Cluster, pod: &PodName, of: &Pod, port: Placed, fragment: &mut Fragment) {
    if cluster.isolated(Isolation::Pods).next().is_none() {
        return;
    }
    let own = cluster.isolation(&pod.namespace);
    let (mut groups, mut sets) = (vec![Shared::Pods.key()], Vec::new());
    if own < Isolation::Services && cluster.isolated(Isolation::Services).next().is_some() {
        groups.push(Shared::Outsiders.key());
    }
    if own >= Isolation::Pods {
        groups.push(network(&pod.namespace));
        sets.extend([Shared::Pods.key(), network(&pod.namespace)]);
    }
    if own >= Isolation::Services {
        sets.push(Shared::Closed.key());
    }
    for group in groups {
        port.add_to::<PortGroup>(fragment, &group, "ports");
    }
    let addresses = cluster.records.assignment(pod, &of.uid).map(|assignment| &assignment.addresses);
    for address in addresses.into_iter().flatten() {
        sets.iter().for_each(|set| add_address(set, *address, fragment));
    }
}

/// Adds a service's addresses to those that pods of other namespaces may not use.
pub(in crate::unit) fn close_service(namespace: &str, addresses: &[IpAddr], fragment: &mut Fragment) {
    for address in addresses {
        add_address(&Shared::Services.key(), *address, fragment);
        add_address(&services(namespace), *address, fragment);
    }
}

fn add_address(set: &Key, address: IpAddr, fragment: &mut Fragment) {
    fragment.members.push(Member {
        row: RowId::of(AddressSet::TABLE, &of_family(set, Family::of(address))),
        column: "addresses",
        value: Atom::from(address.to_string()),
    });
}

/// Where a packet that a pod sends is judged.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    BeforeServices,
    AfterServices,
}

/// Rows of one owner.
struct Rows<'a> {
    owner: ObjectRef,
    fragment: &'a mut Fragment,
}

impl Rows<'_> {
    fn put_group(&mut self, key: &Key) {
        let row = PortGroup {
            name: name::<PortGroup>(key),
            external_ids: ids(key, &self.owner),
            ..Default::default()
        };
        put(self.fragment, key, row);
    }

    fn put_sets(&mut self, set: &Key) {
        for family in FAMILIES {
            let key = of_family(set, family);
            let row = AddressSet {
                name: name::<AddressSet>(&key),
                external_ids: ids(&key, &self.owner),
                ..Default::default()
            };
            put(self.fragment, &key, row);
        }
    }

    fn put_acl(&mut self, what: &str, group: &Key, stage: Stage, priority: i64, action: &str, condition: &str) {
        let key = Key::new(format!("{group}/{what}"));
        let condition = format!("inport == @{} && {condition}", name::<PortGroup>(group));
        let mut row = Acl {
            external_ids: ids(&key, &self.owner),
            ..acl(Tier::Always, Direction::Egress, priority, action, condition)
        };
        if stage == Stage::BeforeServices {
            row.options.clear();
        }
        put(self.fragment, &key, row).add_to::<PortGroup>(self.fragment, group, "acls");
    }
}
