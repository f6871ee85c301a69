//! Virtual networks of isolated namespaces, and what keeps the others out. A namespace's network is a port group and sets of addresses,
//! not a switch: its pods stay where they are. Who may not be reached is dropped where the packet is sent, before services are
//! translated, so that services still lead there; what not even services may reach is dropped after.

use std::net::IpAddr;

use crate::cluster::{Feature, View};
use crate::isolation::{self, Isolation};
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::Direction;
use crate::policy::log::Verdict;
use crate::problem::{ObjectRef, Problem};
use crate::rows::{Acl, PortGroup};
use crate::unit::Fragment;
use crate::unit::policy::clause::{self, Kind, Side, Term};
use crate::unit::policy::sets::{add_addresses, add_link, add_pod, among, among_kinds, group_name, put_group, put_set, put_sets, sent_by};
use crate::unit::policy::{ALLOW, DENY, DENY_ALL, Tier, acl};
use crate::unit::port::Joining;

/// Above what security groups say in the same tier.
const CLOSED: i64 = 2000;

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
    /// Ethernet addresses of pods on networks.
    Neighbours,
}

impl Shared {
    fn key(self) -> Key {
        Key::new(match self {
            Self::Pods => "isolation/pods",
            Self::Outsiders => "isolation/outsiders",
            Self::Closed => "isolation/closed",
            Self::Services => "isolation/services",
            Self::Neighbours => "isolation/neighbours",
        })
    }
}

/// Key of a namespace's network, and of its services' addresses.
fn network(namespace: &str) -> Key {
    Key::new(format!("network/{namespace}-vn"))
}

/// Key of the pods of a `Network` that is isolated.
fn custom(network: &str) -> Key {
    Key::new(format!("custom-network/{network}"))
}

fn services(namespace: &str) -> Key {
    Key::new(format!("network/{namespace}-vn/services"))
}

/// Packets addressed to what these sets have.
fn to<'a>(view: &View<'_>, sets: impl IntoIterator<Item = &'a Key>) -> Vec<(String, String)> {
    clause::every(&[among(view, Side::Destination, sets)])
}

/// What all isolated namespaces have in common.
pub(in crate::unit) fn compile_shared(view: &View<'_>, fragment: &mut Fragment) {
    if !view.uses(Feature::Isolates) {
        return;
    }
    let mut it = Rows {
        view,
        owner: view.network_ref(),
        fragment,
    };
    let [pods, outsiders, closed, services] = [Shared::Pods, Shared::Outsiders, Shared::Closed, Shared::Services].map(Shared::key);
    it.put_group(&pods);
    for set in [&pods, &closed, &services] {
        it.put_sets(set);
    }
    if view.uses(Feature::Networks) {
        put_set(&Shared::Neighbours.key(), Kind::Link, &it.owner, it.fragment);
    }
    // Later packets of a connection through a service come here translated already. That something is allowed also makes OVN follow
    // connections on every switch with pods, without which the denial would meet replies.
    // What a service leads to is reached by the router, so nothing of it is addressed to a pod on the link.
    let translated: Vec<(String, String)> = clause::every(&[among_kinds(&Kind::of_families(view), Side::Destination, [&pods])])
        .into_iter()
        .map(|(part, condition)| (part, format!("{condition} && ct_mark.natted")))
        .collect();
    it.put_acl("translated", &pods, Stage::BeforeServices, ALLOW, "allow-related", &translated);
    it.put_acl(
        "direct",
        &pods,
        Stage::BeforeServices,
        DENY_ALL,
        "drop",
        &to(view, [&pods, &services]),
    );
    if view.uses(Feature::Closes) {
        it.put_group(&outsiders);
        it.put_acl("closed", &outsiders, Stage::AfterServices, CLOSED, "drop", &to(view, [&closed]));
    }
}

/// The network of a namespace.
pub(in crate::unit) fn compile(view: &View<'_>, namespace: &str, fragment: &mut Fragment) {
    let isolation = view.isolation(namespace);
    if isolation == Isolation::None {
        return;
    }
    let owner = view.namespace_ref(namespace);
    let annotations = view.namespace(namespace).map(|namespace| &namespace.annotations);
    let complaints = annotations.map(|annotations| isolation::read(annotations).1).unwrap_or_default();
    let problems = complaints.into_iter().map(|(reason, why)| Problem::new(owner.clone(), reason, why));
    fragment.problems.extend(problems);
    let (group, own_services) = (network(namespace), services(namespace));
    let mut it = Rows { view, owner, fragment };
    it.put_network(&group);
    let closed = isolation >= Isolation::Services;
    if closed {
        it.put_sets(&own_services);
    }
    let inside = to(view, std::iter::once(&group).chain(closed.then_some(&own_services)));
    it.put_acl("inside", &group, Stage::BeforeServices, ALLOW, "allow-related", &inside);
    it.log_direct(namespace, &group, &inside);
    if !closed {
        return;
    }
    let others: Vec<Key> = view
        .isolated(Isolation::Services)
        .filter(|other| *other != namespace)
        .map(|other| network(other))
        .collect();
    if !others.is_empty() {
        it.put_acl("closed", &group, Stage::AfterServices, CLOSED, "drop", &to(view, &others));
    }
}

/// What keeps others out of a `Network` that is isolated.
pub(in crate::unit) fn compile_custom(view: &View<'_>, name: &str, fragment: &mut Fragment) {
    if !view.is_isolated_network(name) {
        return;
    }
    let (owner, group) = (view.custom_network_ref(name), custom(name));
    let mut it = Rows { view, owner, fragment };
    // Its pods share the link, so what is sent on it stays among them.
    it.put_group(&group);
    it.put_sets(&group);
    it.put_acl("inside", &group, Stage::BeforeServices, ALLOW, "allow-related", &to(view, [&group]));
}

/// Adds a port and its addresses to the networks it is in, and to the groups of those that have to be kept out of others.
pub(in crate::unit) fn join(it: &Joining<'_>, fragment: &mut Fragment) {
    let (view, namespace) = (it.view, &it.name.namespace);
    if !view.uses(Feature::Isolates) {
        return;
    }
    let own = view.isolation(namespace);
    let (mut groups, mut sets) = (vec![Shared::Pods.key()], Vec::new());
    if own < Isolation::Services && view.uses(Feature::Closes) {
        groups.push(Shared::Outsiders.key());
    }
    if own >= Isolation::Pods {
        groups.push(network(namespace));
        sets.extend([Shared::Pods.key(), network(namespace)]);
    }
    if own >= Isolation::Services {
        sets.push(Shared::Closed.key());
    }
    let attachment = it.assignment.attachment.as_ref();
    if let Some(on) = attachment.filter(|on| view.is_isolated_network(&on.network)) {
        groups.push(custom(&on.network));
        // A namespace that is isolated is so from others on the network as well.
        if own == Isolation::None {
            sets.extend([Shared::Pods.key(), custom(&on.network)]);
        }
    }
    for group in groups {
        it.port.add_to::<PortGroup>(fragment, &group, "ports");
    }
    add_link(&Shared::Neighbours.key(), it.assignment, fragment);
    sets.iter().for_each(|set| add_pod(view, set, it.assignment, fragment));
}

/// Adds a service's addresses to those that pods of other namespaces may not use.
pub(in crate::unit) fn close_service(view: &View<'_>, namespace: &str, addresses: &[IpAddr], fragment: &mut Fragment) {
    add_addresses(view, &Shared::Services.key(), addresses, fragment);
    add_addresses(view, &services(namespace), addresses, fragment);
}

/// Where a packet is judged: where it is sent, before or after services are translated, or where it arrives.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    BeforeServices,
    AfterServices,
    Arrival,
}

/// Rows of one owner.
struct Rows<'a> {
    view: &'a View<'a>,
    owner: ObjectRef,
    fragment: &'a mut Fragment,
}

impl Rows<'_> {
    fn put_group(&mut self, key: &Key) {
        put_group(key, &self.owner, self.fragment);
    }

    /// The pods of a network that others do not reach directly.
    fn put_network(&mut self, group: &Key) {
        self.put_group(group);
        self.put_sets(group);
        let mut from = vec![Term::new("pods", format!("inport == @{}", group_name(&Shared::Pods.key())))];
        if self.view.uses(Feature::Networks) {
            // A network spans nodes, and on each OVN knows no ports of a group but the node's own.
            from.push(Term::new("neighbours", sent_by(&Shared::Neighbours.key())));
        }
        // What is sent on the link names no address of a pod: to all, or to the address every interface makes for itself. A frame for one
        // pod may hold a packet for all.
        let to = vec![
            Term::new("all", "ip && eth.mcast".to_owned()),
            Term::new("multicast", "ip4.dst == {224.0.0.0/4, 255.255.255.255}".to_owned()),
            Term::new("link-local", "ip6.dst == {fe80::/10, ff00::/8}".to_owned()),
        ];
        self.put_acl("link", group, Stage::Arrival, CLOSED, "drop", &clause::every(&[from, to]));
    }

    /// What all isolated namespaces deny, of one of them and logged.
    fn log_direct(&mut self, namespace: &str, network: &Key, inside: &[(String, String)]) {
        let Some(log) = self.view.log(namespace, Verdict::Dropped) else {
            return;
        };
        for (part, condition) in inside {
            let (key, pods) = (Key::new(format!("{network}/direct{part}")), Shared::Pods.key());
            let row = self.acl(&key, &pods, Stage::BeforeServices, DENY, "drop", condition);
            let row = log.on(row, &format!("namespace {namespace} isolated"));
            put(self.fragment, &key, row).add_to::<PortGroup>(self.fragment, &pods, "acls");
        }
    }

    fn put_sets(&mut self, set: &Key) {
        put_sets(self.view, set, &self.owner, self.fragment);
    }

    /// An ACL for each part of a condition.
    fn put_acl(&mut self, what: &str, group: &Key, stage: Stage, priority: i64, action: &str, parts: &[(String, String)]) {
        for (part, condition) in parts {
            let key = Key::new(format!("{group}/{what}{part}"));
            let row = self.acl(&key, group, stage, priority, action, condition);
            put(self.fragment, &key, row).add_to::<PortGroup>(self.fragment, group, "acls");
        }
    }

    fn acl(&self, key: &Key, group: &Key, stage: Stage, priority: i64, action: &str, condition: &str) -> Acl {
        let direction = match stage {
            Stage::Arrival => Direction::Ingress,
            _ => Direction::Egress,
        };
        let condition = format!("{} && {condition}", direction.of_group(&group_name(group)));
        let mut row = Acl {
            external_ids: ids(key, &self.owner),
            ..acl(Tier::Always, direction, priority, action, condition)
        };
        if stage == Stage::BeforeServices {
            row.options.clear();
        }
        row
    }
}
