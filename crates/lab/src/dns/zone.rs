//! The names of a cluster and what they say, by the rules Kubernetes has for its DNS (specification 1.1.0). Pure: objects in, answers out.
//!
//! Fed by the watches, asked by the server. Everything is found by key, so an answer costs the same in a cluster of any size.
//!
//! ```text
//! SERVICE.NAMESPACE.svc.cluster.local            its cluster addresses; headless: its ready endpoints; of an external name: that name
//! ENDPOINT.SERVICE.NAMESPACE.svc.cluster.local   an endpoint of a headless service, by host name or by its address with dashes
//! _PORT._PROTOCOL.SERVICE.NAMESPACE.svc…         SRV: host and number of a named port
//! A-B-C-D.NAMESPACE.pod.cluster.local            the address in the name
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::core::v1::Service as ServiceObject;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::message::{Answer, Code, Data, Name, Record, kind};

/// How long an answer may be believed, in seconds.
pub const LIFETIME: u32 = 5;
/// The zone, last label first as it is written.
const ZONE: [&str; 2] = ["cluster", "local"];
/// How many names an external name may lead through.
const LONGEST_CHAIN: usize = 8;

/// Namespace and name.
pub type Key = (String, String);

/// All names of a cluster.
#[derive(Debug, Default)]
pub struct Zone {
    namespaces: BTreeSet<String>,
    services: BTreeMap<Key, Service>,
    /// Slices by the service they belong to, then by their own name.
    slices: BTreeMap<Key, BTreeMap<String, Slice>>,
    /// The service of each slice, to find it again when its label changes.
    owners: BTreeMap<Key, Key>,
    /// Services by cluster address, and by the address of an endpoint.
    reverse: BTreeMap<IpAddr, BTreeSet<Key>>,
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Service {
    addresses: Vec<IpAddr>,
    headless: bool,
    unready_too: bool,
    external: Option<Name>,
    ports: Vec<Port>,
}

#[derive(Debug, Clone, PartialEq)]
struct Port {
    name: String,
    protocol: String,
    number: u16,
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Slice {
    ports: Vec<Port>,
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Clone, PartialEq)]
struct Endpoint {
    address: IpAddr,
    /// Its host name, or what stands for it.
    name: String,
    ready: bool,
}

impl Zone {
    /// A namespace is there.
    pub fn add_namespace(&mut self, name: String) {
        self.namespaces.insert(name);
    }

    /// A namespace is gone.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// A service is new or changed.
    pub fn add_service(&mut self, key: Key, object: &ServiceObject) {
        self.remove_service(&key);
        let service = Service::from(object);
        for address in &service.addresses {
            self.reverse.entry(*address).or_default().insert(key.clone());
        }
        self.services.insert(key, service);
    }

    /// A service is gone.
    pub fn remove_service(&mut self, key: &Key) {
        if let Some(service) = self.services.remove(key) {
            self.forget(key, &service.addresses);
        }
    }

    /// A slice is new or changed.
    pub fn add_slice(&mut self, key: Key, object: &EndpointSlice) {
        self.remove_slice(&key);
        let labels = object.metadata.labels.as_ref();
        let Some(service) = labels.and_then(|labels| labels.get("kubernetes.io/service-name")) else {
            return;
        };
        let owner = (key.0.clone(), service.clone());
        let slice = Slice::from(object);
        for endpoint in &slice.endpoints {
            self.reverse.entry(endpoint.address).or_default().insert(owner.clone());
        }
        self.owners.insert(key.clone(), owner.clone());
        self.slices.entry(owner).or_default().insert(key.1, slice);
    }

    /// A slice is gone.
    pub fn remove_slice(&mut self, key: &Key) {
        let Some(owner) = self.owners.remove(key) else { return };
        let Some(slices) = self.slices.get_mut(&owner) else { return };
        let gone = slices.remove(&key.1).unwrap_or_default();
        if slices.is_empty() {
            self.slices.remove(&owner);
        }
        let addresses: Vec<_> = gone.endpoints.iter().map(|endpoint| endpoint.address).collect();
        self.forget(&owner, &addresses);
    }

    /// Takes addresses from a service, unless it has them for another reason.
    fn forget(&mut self, owner: &Key, addresses: &[IpAddr]) {
        for address in addresses {
            let cluster = self.services.get(owner).is_some_and(|service| service.addresses.contains(address));
            let slices = self.slices.get(owner).into_iter().flat_map(BTreeMap::values);
            if cluster
                || slices
                    .flat_map(|slice| &slice.endpoints)
                    .any(|endpoint| endpoint.address == *address)
            {
                continue;
            }
            if let Some(owners) = self.reverse.get_mut(address) {
                owners.remove(owner);
                if owners.is_empty() {
                    self.reverse.remove(address);
                }
            }
        }
    }

    /// What a name says about a type of record.
    pub fn answer(&self, name: &Name, wanted: u16) -> Answer {
        let found = match (name.below(&ZONE), reverse_address(name)) {
            (Some(labels), _) => self.lookup(name, &labels),
            (None, Some(address)) => self
                .names_of(address)
                .map(|names| names.into_iter().map(|target| (name.clone(), target)).collect()),
            // The lab has no other names and nobody to ask for them. "No such name" lets a resolver go on at once and report just that;
            // a refusal would be reported as a failure that may pass.
            (None, None) => return Answer::bare(Code::NoSuchName),
        };
        let mut answer = Answer {
            authoritative: true,
            ..Answer::bare(if found.is_some() { Code::NoError } else { Code::NoSuchName })
        };
        let records: Vec<Record> = found.unwrap_or_default();
        answer.answers = records
            .into_iter()
            .filter(|(_, data)| wanted == kind::ANY || data.kind() == wanted || data.kind() == kind::CNAME)
            .collect();
        if [kind::A, kind::AAAA].contains(&wanted) {
            self.follow(&mut answer.answers, wanted);
        }
        if answer.answers.is_empty() {
            answer.authority.push((zone(), authority()));
        }
        answer.additional = self.targets(&answer.answers);
        answer
    }

    /// Adds what the external name at the end of `records` leads to, as far as that is here.
    fn follow(&self, records: &mut Vec<Record>, wanted: u16) {
        for _ in 0..LONGEST_CHAIN {
            let Some((_, Data::Cname(next))) = records.last() else { return };
            let next = next.clone();
            let found = next.below(&ZONE).and_then(|labels| self.lookup(&next, &labels)).unwrap_or_default();
            let useful = found
                .into_iter()
                .filter(|(_, data)| data.kind() == wanted || data.kind() == kind::CNAME);
            let before = records.len();
            records.extend(useful);
            if records.len() == before {
                return;
            }
        }
    }

    /// The addresses of the hosts that SRV records name.
    fn targets(&self, records: &[Record]) -> Vec<Record> {
        let targets: BTreeSet<_> = records
            .iter()
            .filter_map(|(_, data)| match data {
                Data::Srv { target, .. } => Some(target),
                _ => None,
            })
            .collect();
        let found = targets.into_iter().filter_map(|target| self.lookup(target, &target.below(&ZONE)?));
        found
            .flatten()
            .filter(|(_, data)| [kind::A, kind::AAAA].contains(&data.kind()))
            .collect()
    }

    /// All records of a name below the zone; `None` if there is no such name.
    fn lookup(&self, name: &Name, labels: &[&str]) -> Option<Vec<Record>> {
        let nothing = || Some(Vec::new());
        let data: Vec<Data> = match labels {
            [] => vec![authority(), Data::Ns(server())],
            ["dns-version"] => vec![Data::Txt("1.1.0".into())],
            ["svc" | "pod"] => return nothing(),
            [namespace, "svc" | "pod"] => return self.namespaces.contains(*namespace).then(Vec::new),
            [address, namespace, "pod"] => {
                let address = dashed(address).filter(|_| self.namespaces.contains(*namespace))?;
                vec![record(address)]
            }
            [below @ .., service, namespace, "svc"] => {
                let key = (namespace.to_string(), service.to_string());
                self.below_service(&key, self.services.get(&key)?, below)?
            }
            _ => return None,
        };
        Some(data.into_iter().map(|data| (name.clone(), data)).collect())
    }

    fn below_service(&self, key: &Key, service: &Service, below: &[&str]) -> Option<Vec<Data>> {
        match below {
            [] => {
                if let Some(external) = &service.external {
                    return Some(vec![Data::Cname(external.clone())]);
                }
                let addresses: BTreeSet<_> = if service.headless {
                    self.endpoints(key, service).map(|(endpoint, _)| endpoint.address).collect()
                } else {
                    service.addresses.iter().copied().collect()
                };
                let ports = self.ports(key, service, |_| true);
                Some(addresses.into_iter().map(record).chain(ports).collect())
            }
            [protocol] if protocol.starts_with('_') => {
                let any = self.ports(key, service, |port| port.protocol == protocol[1..]);
                (!any.is_empty()).then(Vec::new)
            }
            [name, protocol] if name.starts_with('_') && protocol.starts_with('_') => {
                let ports = self.ports(key, service, |port| port.name == name[1..] && port.protocol == protocol[1..]);
                (!ports.is_empty()).then_some(ports)
            }
            [host] if service.headless => {
                let own = self.endpoints(key, service).filter(|(endpoint, _)| endpoint.name == *host);
                let addresses: BTreeSet<_> = own.map(|(endpoint, _)| endpoint.address).collect();
                (!addresses.is_empty()).then(|| addresses.into_iter().map(record).collect())
            }
            _ => None,
        }
    }

    /// SRV data of the ports a service has: at its own name, or, if it is headless, at each of its endpoints.
    fn ports(&self, key: &Key, service: &Service, wanted: impl Fn(&Port) -> bool) -> Vec<Data> {
        let own = name_of(key, None);
        let hosts: BTreeSet<(u16, Name)> = if service.headless {
            self.endpoints(key, service)
                .flat_map(|(endpoint, ports)| ports.iter().map(move |port| (endpoint, port)))
                .filter(|(_, port)| wanted(port))
                .map(|(endpoint, port)| (port.number, name_of(key, Some(&endpoint.name))))
                .collect()
        } else {
            let ports = service.ports.iter().filter(|port| wanted(port));
            ports.map(|port| (port.number, own.clone())).collect()
        };
        // All alike; the standard wants a share that is not zero for each.
        let weight = u16::try_from(100 / hosts.len().max(1)).unwrap_or(1).max(1);
        let data = hosts.into_iter().map(|(port, target)| Data::Srv { weight, port, target });
        data.collect()
    }

    /// The endpoints of a service that may be told, with their ports.
    fn endpoints<'a>(&'a self, key: &Key, service: &'a Service) -> impl Iterator<Item = (&'a Endpoint, &'a [Port])> {
        let slices = self.slices.get(key).into_iter().flat_map(BTreeMap::values);
        slices
            .flat_map(|slice| slice.endpoints.iter().map(|endpoint| (endpoint, slice.ports.as_slice())))
            .filter(|(endpoint, _)| endpoint.ready || service.unready_too)
    }

    fn names_of(&self, address: IpAddr) -> Option<Vec<Data>> {
        let mut names = BTreeSet::new();
        for key in self.reverse.get(&address)? {
            let Some(service) = self.services.get(key) else { continue };
            if service.addresses.contains(&address) {
                names.insert(name_of(key, None));
            }
            if service.headless {
                let own = self.endpoints(key, service).filter(|(endpoint, _)| endpoint.address == address);
                names.extend(own.map(|(endpoint, _)| name_of(key, Some(&endpoint.name))));
            }
        }
        (!names.is_empty()).then(|| names.into_iter().map(Data::Ptr).collect())
    }
}

impl From<&ServiceObject> for Service {
    fn from(object: &ServiceObject) -> Self {
        let Some(spec) = &object.spec else { return Service::default() };
        let external = (spec.type_.as_deref() == Some("ExternalName")).then(|| Name::new(spec.external_name.as_deref().unwrap_or("")));
        let ports = spec.ports.iter().flatten().filter_map(|port| {
            Some(Port {
                name: port.name.clone().unwrap_or_default(),
                protocol: port.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase(),
                number: u16::try_from(port.port).ok()?,
            })
        });
        Service {
            addresses: spec
                .cluster_ips
                .iter()
                .flatten()
                .filter_map(|address| address.parse().ok())
                .collect(),
            headless: spec.cluster_ip.as_deref() == Some("None"),
            unready_too: spec.publish_not_ready_addresses == Some(true),
            ports: if external.is_some() { Vec::new() } else { ports.collect() },
            external,
        }
    }
}

impl From<&EndpointSlice> for Slice {
    fn from(object: &EndpointSlice) -> Self {
        let ports = object.ports.iter().flatten().filter_map(|port| {
            Some(Port {
                name: port.name.clone().unwrap_or_default(),
                protocol: port.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase(),
                number: u16::try_from(port.port?).ok()?,
            })
        });
        let endpoints = object.endpoints.iter().flatten().flat_map(|endpoint| {
            let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false);
            let addresses = endpoint.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
            addresses.map(move |address| Endpoint {
                address,
                name: endpoint
                    .hostname
                    .clone()
                    .unwrap_or_else(|| address.to_string().replace(['.', ':'], "-")),
                ready,
            })
        });
        Slice {
            ports: ports.collect(),
            endpoints: endpoints.collect(),
        }
    }
}

fn record(address: IpAddr) -> Data {
    match address {
        IpAddr::V4(address) => Data::A(address),
        IpAddr::V6(address) => Data::Aaaa(address),
    }
}

/// The full name of a service, or of a host below it.
fn name_of((namespace, service): &Key, host: Option<&str>) -> Name {
    let labels = host.into_iter().chain([service.as_str(), namespace, "svc"]).chain(ZONE);
    Name(labels.map(str::to_ascii_lowercase).collect())
}

fn zone() -> Name {
    Name(ZONE.map(String::from).to_vec())
}

fn server() -> Name {
    name_of(&("kube-system".into(), "kube-dns".into()), None)
}

fn authority() -> Data {
    let contact = ["hostmaster"].into_iter().chain(ZONE).map(String::from).collect();
    Data::Soa {
        server: server(),
        contact: Name(contact),
        serial: 1,
        minimum: LIFETIME,
    }
}

/// The address that a label spells with dashes.
fn dashed(label: &str) -> Option<IpAddr> {
    let v4 = label.replace('-', ".").parse().map(IpAddr::V4).ok();
    v4.or_else(|| label.replace('-', ":").parse().map(IpAddr::V6).ok())
}

/// The address a name below `in-addr.arpa` or `ip6.arpa` stands for.
fn reverse_address(name: &Name) -> Option<IpAddr> {
    if let Some(labels) = name.below(&["in-addr", "arpa"]) {
        let bytes: Vec<u8> = labels.iter().rev().map_while(|label| label.parse().ok()).collect();
        let bytes: [u8; 4] = bytes.try_into().ok().filter(|_| labels.len() == 4)?;
        return Some(Ipv4Addr::from(bytes).into());
    }
    let labels = name.below(&["ip6", "arpa"])?;
    let digit = |label: &&str| u128::from_str_radix(label, 16).ok().filter(|_| label.len() == 1);
    let digits: Vec<u128> = labels.iter().rev().map_while(digit).collect();
    let number = digits.iter().fold(0, |number, digit| (number << 4) | digit);
    (digits.len() == 32 && labels.len() == 32).then(|| Ipv6Addr::from(number).into())
}

#[cfg(test)]
#[path = "zone_tests.rs"]
mod tests;
