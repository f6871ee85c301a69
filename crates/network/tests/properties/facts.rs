//! What a Northbound says of addresses, read from its rows, and what objects must have by what the world says. Rows are read here, not the
//! planner's records; of the planner's own accessors only those in the first two functions are used.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use netloom_contract::external_id;
use netloom_network::annotations::{ADDRESSES, EXTERNAL_ADDRESSES, SUBNETS};
use netloom_network::custom_network::Read;
use netloom_network::ipam::PortName;
use netloom_network::policy::{Role, Selection, Selector};
use netloom_network::rows::{LogicalRouter, LogicalSwitch, LogicalSwitchPort, PortGroup};
use netloom_network::settings::Settings;
use netloom_network::{Key, Namespace, Namespaced, Northbound, Object, Planner, Pod, PodName, RowId, Service, ServiceName, custom_network};
use serde_json::Value;

use crate::membership::groups_of;
use crate::world::World;

/// Sets of pods that policies speak of.
fn selections(planner: &Planner) -> Vec<(Selection, Role)> {
    let all = planner.cluster().selections();
    all.map(|(selection, role)| (selection.clone(), role.clone())).collect()
}

/// Sets of nodes that policies speak of.
fn node_selectors(planner: &Planner) -> Vec<Selector> {
    planner.cluster().node_selectors().cloned().collect()
}

/// Who has what.
pub struct Facts<'a> {
    pub world: &'a World,
    settings: Option<Settings>,
    /// Subnets of nodes, as text.
    nodes: BTreeMap<String, String>,
    /// Ports of pods and machines.
    pub ports: BTreeMap<PodName, Port>,
    externals: BTreeMap<ServiceName, (String, Vec<IpAddr>)>,
    /// What networks said when they could last be read.
    pub networks: BTreeMap<String, Value>,
}

/// The port of a pod.
pub struct Port {
    uid: String,
    /// The node it is bound to.
    node: String,
    pub mac: String,
    pub addresses: Vec<IpAddr>,
    pub network: Option<String>,
}

/// Of the addresses of a load balancer, those its status shows.
fn in_status(service: &Service, addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let asked = [service.requested.clone(), service.annotations.get(EXTERNAL_ADDRESSES).cloned()];
    let asks = |ip: &IpAddr| asked.iter().flatten().any(|text| text.contains(&ip.to_string()));
    let listed = |ip: &IpAddr| service.external_ips.contains(ip) && !asks(ip);
    addresses.into_iter().filter(|ip| !listed(ip)).collect()
}

/// Whether a service may have external addresses of pools.
fn wants_external(service: &Service) -> bool {
    service.is_ours() || !service.external_ips.is_empty()
}

impl<'a> Facts<'a> {
    pub fn of(northbound: &Northbound, world: &'a World) -> Self {
        let mut facts = Self {
            world,
            settings: None,
            nodes: BTreeMap::new(),
            ports: BTreeMap::new(),
            externals: BTreeMap::new(),
            networks: BTreeMap::new(),
        };
        for (_, switch) in northbound.table::<LogicalSwitch>() {
            if let Some(node) = switch.external_ids[external_id::KEY].strip_prefix("switch/node/") {
                facts.nodes.insert(node.to_owned(), switch.external_ids[SUBNETS].clone());
            }
        }
        for (_, port) in northbound.table::<LogicalSwitchPort>() {
            let (Some(pod), Some(uid)) = (
                PortName::parse(&port.name).map(|port| port.owner.clone()),
                port.external_ids.get(external_id::UID),
            ) else {
                continue;
            };
            let mac = port.addresses.iter().next().and_then(|entry| entry.split(' ').next());
            let port = Port {
                node: port.options.get("requested-chassis").cloned().unwrap_or_default(),
                uid: uid.clone(),
                mac: mac.unwrap_or_default().to_owned(),
                addresses: addresses(&port.external_ids[external_id::ADDRESSES]),
                network: port.external_ids.get(external_id::NETWORK).cloned(),
            };
            facts.ports.insert(pod, port);
        }
        for (_, router) in northbound.table::<LogicalRouter>() {
            let ids = &router.external_ids;
            let name = &ids[external_id::KEY];
            facts.settings = facts
                .settings
                .or_else(|| ids.get(external_id::SETTINGS).map(|text| text.parse().unwrap()));
            if let Some((namespace, name)) = name.strip_prefix("announcer/").and_then(|name| name.split_once('/')) {
                let service = named(namespace, name);
                facts
                    .externals
                    .insert(service, (ids[external_id::UID].clone(), addresses(&ids[external_id::ADDRESSES])));
            } else if let Some(network) = name.strip_prefix("router/network/") {
                let spec = ids.get(external_id::SPEC).map(|text| serde_json::from_str(text).unwrap());
                facts.networks.insert(network.to_owned(), spec.unwrap_or_default());
            }
        }
        facts
    }

    pub fn pods(&self) -> impl Iterator<Item = (&'a PodName, &'a Pod)> {
        self.world.all().filter_map(|object| {
            if let Object::Pod(name, pod) = object {
                Some((name, pod))
            } else {
                None
            }
        })
    }

    pub fn namespace(&self, name: &str) -> Option<&'a Namespace> {
        self.world.all().find_map(|object| match object {
            Object::Namespace(known, namespace) if known == name => Some(namespace),
            _ => None,
        })
    }

    /// Whether pods that are not on a network are kept from those that are. One that cannot be read, is no more, or may not become what it says
    /// while pods are on it, is what it was.
    pub fn is_isolated_network(&self, network: &str) -> bool {
        let written = self.world.all().find_map(|object| match object {
            Object::CustomNetwork(name, written) if name == network => custom_network::read(&written.spec).ok(),
            _ => None,
        });
        // One for whose router the join range has no room is not in force.
        let Some(before) = self.networks.get(network) else { return false };
        let before = custom_network::read(before).ok();
        let before = before.as_ref();
        let populated = self.ports.values().any(|port| port.network.as_deref() == Some(network));
        let stays = |read: &Read| populated && before.is_some_and(|old| (&old.subnets, &old.gateways) != (&read.subnets, &read.gateways));
        let clashes = |read: &Read| self.settings.as_ref().is_some_and(|settings| read.conflict(settings).is_some());
        let sound = written.filter(|read| !stays(read) && !clashes(read));
        sound.as_ref().or(before).is_some_and(|read| read.isolated)
    }

    /// Networks that exist, or that pods are still on.
    pub fn network_names(&self) -> BTreeSet<&str> {
        let written = self.world.all().filter_map(|object| match object {
            Object::CustomNetwork(name, _) => Some(name.as_str()),
            _ => None,
        });
        written.chain(self.networks.keys().map(String::as_str)).collect()
    }

    /// Addresses that two have, or one that has none to have.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut owners: HashMap<IpAddr, String> = HashMap::new();
        let mut give = |ip: &IpAddr, who: String, complaints: &mut Vec<String>| {
            if let Some(other) = owners.insert(*ip, who.clone()) {
                complaints.push(format!("{ip} belongs to {who} and {other}"));
            }
        };
        let living: HashMap<&PodName, &Pod> = self.pods().filter(|(_, pod)| pod.wants_port()).collect();
        for (name, port) in &self.ports {
            if living.get(name).is_none_or(|pod| pod.uid != port.uid) {
                complaints.push(format!("{name} is gone and keeps {:?}", port.addresses));
            }
            port.addresses.iter().for_each(|ip| give(ip, name.to_string(), &mut complaints));
        }
        for (name, (uid, addresses)) in &self.externals {
            let is_it = |object: &&Object| matches!(object, Object::Service(known, service) if known == name && wants_external(service) && service.uid == *uid);
            if !self.world.all().any(|object| is_it(&object)) {
                complaints.push(format!("{name} is gone and keeps {addresses:?}"));
            }
            addresses.iter().for_each(|ip| give(ip, format!("service {name}"), &mut complaints));
        }
        complaints
    }

    /// The objects with what the controller writes on them, by which records are found again when the database is lost.
    pub fn shown(&self, objects: Vec<Object>) -> Vec<Object> {
        let shown = |mut object: Object| {
            match &mut object {
                Object::Service(name, service) if service.is_ours() => {
                    let given = self.externals.get(name).map(|(_, addresses)| addresses.clone()).unwrap_or_default();
                    service.status_addresses = in_status(service, given);
                }
                Object::Node(name, node) => {
                    node.annotations.remove(SUBNETS);
                    node.annotations
                        .extend(self.nodes.get(name).map(|subnets| (SUBNETS.to_owned(), subnets.clone())));
                }
                Object::Pod(name, pod) => {
                    let port = self.ports.get(name).filter(|port| port.uid == pod.uid);
                    pod.addresses = port
                        .filter(|port| port.network.is_none())
                        .map(|port| port.addresses.clone())
                        .unwrap_or_default();
                    if !pod.addresses.is_empty() {
                        pod.annotations.remove(ADDRESSES);
                    }
                }
                _ => {}
            }
            object
        };
        objects.into_iter().map(shown).collect()
    }

    /// What those that show it no longer have in `other`.
    pub fn lost(&self, other: &Self) -> Vec<String> {
        let mut lost = Vec::new();
        if self.settings != other.settings {
            return lost; // another addressing
        }
        let nodes: BTreeSet<&String> = self
            .world
            .all()
            .filter_map(|object| if let Object::Node(name, _) = object { Some(name) } else { None })
            .collect();
        for (name, subnets) in self.nodes.iter().filter(|(name, _)| nodes.contains(name)) {
            if other.nodes.get(name) != Some(subnets) {
                lost.push(format!("node {name} had {subnets} and has {:?}", other.nodes.get(name)));
            }
        }
        for object in self.world.all() {
            let Object::Service(name, service) = object else { continue };
            // Without its namespace it waits. What it lists in its spec is recorded nowhere else.
            let of = |facts: &Self| {
                facts
                    .externals
                    .get(name)
                    .map(|(_, addresses)| addresses.clone())
                    .unwrap_or_default()
            };
            let (had, has) = (in_status(service, of(self)), of(other));
            let keeps = had.iter().all(|address| has.contains(address));
            if service.is_ours() && self.namespace(&name.namespace).is_some() && !keeps {
                lost.push(format!("service {name} had {had:?} and has {has:?}"));
            }
        }
        lost
    }
}

fn named(namespace: &str, name: &str) -> Namespaced {
    Namespaced {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn addresses(text: &str) -> Vec<IpAddr> {
    text.split(',').map(|text| text.parse::<IpNet>().unwrap().addr()).collect()
}

/// Members of a collection, as text.
pub fn members(northbound: &Northbound, table: &'static str, key: &str, column: &'static str) -> BTreeSet<String> {
    let values = northbound.members(RowId::of(table, &Key::new(key)), column);
    values
        .map(|value| value.as_str().map_or_else(|| value.as_uuid().unwrap().to_string(), str::to_owned))
        .collect()
}

/// UUID of a pod's port, as text.
pub fn port_uuid(name: &PodName) -> String {
    Key::new(format!("port/{}/{}/eth0", name.namespace, name.name))
        .uuid("Logical_Switch_Port")
        .to_string()
}

/// Every set has the pods, or the nodes, it must have and no other.
pub fn wrong_sets(planner: &Planner, facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut compare = |table, key: &str, column, expected: &BTreeSet<String>| {
        let found = members(planner.desired(), table, key, column);
        if found != *expected {
            wrong.push(format!("{table} {key}: {found:?} instead of {expected:?}"));
        }
    };
    for labels in node_selectors(planner) {
        let nodes = facts
            .world
            .all()
            .filter_map(|object| if let Object::Node(_, node) = object { Some(node) } else { None });
        let selected = nodes.filter(|node| labels.matches(&node.labels));
        let all: Vec<IpAddr> = selected
            .flat_map(|node| node.addresses.iter().chain(&node.other_addresses))
            .copied()
            .collect();
        for (kind, ipv4) in [("4", true), ("6", false)] {
            let expected = all.iter().filter(|ip| ip.is_ipv4() == ipv4).map(ToString::to_string).collect();
            compare("Address_Set", &format!("nodes/{labels}/{kind}"), "addresses", &expected);
        }
    }
    let mut denied: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (selection, role) in selections(planner) {
        let mut sets: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut ports = BTreeSet::new();
        if role == Role::Peers {
            sets.extend(["4", "6", "link"].map(|kind| (format!("peers/{selection}/{kind}"), BTreeSet::new())));
        }
        for (name, pod) in facts.pods().filter(|(name, pod)| is_in(facts, &selection, name, pod)) {
            let Some(port) = facts.ports.get(name).filter(|_| pod.wants_port()) else {
                continue;
            };
            ports.insert(port_uuid(name));
            if let Role::Denied(direction) = role {
                let group = format!("denied/{}/{}", port.node, direction.as_str());
                denied.entry(group).or_default().insert(port_uuid(name));
            }
            let keys: Vec<String> = match &role {
                Role::Port(wanted, protocol) => {
                    let named = pod.ports.iter().filter(|port| port.name == *wanted && port.protocol == *protocol);
                    named
                        .map(|port| format!("named-port/{wanted}/{protocol}/{}/{selection}", port.number))
                        .collect()
                }
                Role::Peers => vec![format!("peers/{selection}")],
                Role::Subject | Role::ClusterSubject | Role::Denied(_) => vec![],
            };
            let own = port
                .addresses
                .iter()
                .map(|ip| (if ip.is_ipv4() { "4" } else { "6" }, ip.to_string()));
            let link = port.network.iter().map(|_| ("link", port.mac.clone()));
            for (kind, address) in own.chain(link) {
                for key in &keys {
                    sets.entry(format!("{key}/{kind}")).or_default().insert(address.clone());
                }
            }
        }
        match role {
            Role::Subject => compare("Port_Group", &format!("subject/{selection}"), "ports", &ports),
            Role::ClusterSubject => compare("Port_Group", &format!("cluster-subject/{selection}"), "ports", &ports),
            _ => sets
                .iter()
                .for_each(|(key, expected)| compare("Address_Set", key, "addresses", expected)),
        }
    }
    for (name, pod) in facts.pods().filter(|(_, pod)| pod.wants_port()) {
        let Some(port) = facts.ports.get(name) else { continue };
        if groups_of(facts, name, pod, port).iter().any(|group| group.starts_with("app/")) {
            let group = format!("denied/{}/ingress", port.node);
            denied.entry(group).or_default().insert(port_uuid(name));
        }
    }
    let groups = planner.desired().table::<PortGroup>();
    for (_, group) in groups {
        let key = &group.external_ids["netloom.io/key"];
        if key.starts_with("denied/") {
            compare("Port_Group", key, "ports", denied.get(key).unwrap_or(&BTreeSet::new()));
        }
    }
    wrong
}

fn is_in(facts: &Facts<'_>, selection: &Selection, name: &PodName, pod: &Pod) -> bool {
    let known = facts.namespace(&name.namespace).map(|namespace| &namespace.labels);
    selection.pods.matches(&pod.labels) && selection.reaches(&name.namespace, known)
}
