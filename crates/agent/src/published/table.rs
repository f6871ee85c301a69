//! The nftables table `inet netloom-ports`: which port of the node leads to which port of which pod. Pure: what pods
//! publish in, a script of one transaction out. The table is separate from that of services (`inet netloom`), and runs
//! after it and after kube-proxy's in every hook: a node port of a service comes before the same port of a pod.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::IpAddr;

use uuid::Uuid;

use super::TABLE;
use super::mapping::Mapping;
use crate::host_port::Role;
use crate::services::offer::of_family;
use netloom_contract::Protocol;

/// Name space of the hash that tells one table from another.
const TABLES: Uuid = Uuid::from_u128(0x0f6a_52b1_93d7_4c0e_8a41_77c2_5be0_d9f3);

/// A pod that publishes ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Publisher {
    /// Namespace and name.
    pub pod: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// What it publishes.
    pub mappings: Vec<Mapping>,
}

/// A port of the node in one address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublishedPort {
    ipv4: bool,
    /// The one address it is published on; none for all of them.
    pub host_ip: Option<IpAddr>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

/// What the table should say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The pod's address and port behind each place.
    places: BTreeMap<PublishedPort, (IpAddr, u16)>,
    /// The node's addresses among its pods, one per family.
    sources: Vec<IpAddr>,
}

/// A port that two pods publish. The scheduler does not let this happen, but not every pod passes the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// Who has it: the pod whose name comes first, so that the outcome does not depend on when one looks.
    pub owner: String,
    /// Who does not.
    pub other: String,
    /// The port.
    pub mapping: Mapping,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mapping { host_port, protocol, .. } = self.mapping;
        let address = self
            .mapping
            .host_ip
            .map_or_else(|| "all addresses".to_owned(), |address| address.to_string());
        write!(
            f,
            "pod {} has {protocol} port {host_port} on {address}, so pod {} does not: give one of them another hostPort, hostIP or node",
            self.owner, self.other
        )
    }
}

impl Table {
    /// Decides who gets which port. `management` are the addresses of the node's management port: a family without one
    /// has no way back from the pod, and is left out.
    pub fn plan(publishers: &[Publisher], management: &[IpAddr]) -> (Self, Vec<Conflict>) {
        let mut sorted: Vec<&Publisher> = publishers.iter().collect();
        sorted.sort_unstable();
        let (mut table, mut owners, mut conflicts) = (Self::default(), BTreeMap::new(), Vec::new());
        for ipv4 in [true, false] {
            let Some(source) = of_family(management, ipv4) else { continue };
            for publisher in &sorted {
                let Some(address) = of_family(&publisher.addresses, ipv4) else {
                    continue;
                };
                for mapping in publisher.mappings.iter().filter(|mapping| serves(mapping.host_ip, ipv4)) {
                    let place = PublishedPort {
                        ipv4,
                        host_ip: mapping.host_ip,
                        protocol: mapping.protocol,
                        port: mapping.host_port,
                    };
                    let owner = *owners.entry(place).or_insert(&publisher.pod);
                    if *owner == publisher.pod {
                        table.places.entry(place).or_insert((address, mapping.container_port));
                    } else {
                        conflicts.push(Conflict {
                            owner: owner.clone(),
                            other: publisher.pod.clone(),
                            mapping: *mapping,
                        });
                    }
                }
            }
            table.sources.push(source);
        }
        if table.places.is_empty() {
            table.sources.clear();
        }
        // Both families have met the same ones.
        conflicts.sort_unstable();
        conflicts.dedup();
        (table, conflicts)
    }

    /// How many ports there are, of both families together.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nothing is published: then there is no table.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether a packet from a loopback address may have to leave the host for a pod.
    pub fn has_loopback(&self) -> bool {
        let loopback = |place: &PublishedPort| place.ipv4 && place.host_ip.is_none_or(|address| address.is_loopback());
        self.places.keys().any(loopback)
    }

    /// Whether ports of this family are published.
    pub fn has_family(&self, ipv4: bool) -> bool {
        self.places.keys().any(|place| place.ipv4 == ipv4)
    }

    /// The UDP ports that lead elsewhere than in `other`, or nowhere.
    pub fn moved_udp_ports(&self, other: &Self) -> Vec<u16> {
        let all = self.places.keys().chain(other.places.keys());
        let moved = all.filter(|place| place.protocol == Protocol::Udp && self.places.get(place) != other.places.get(place));
        let mut ports: Vec<u16> = moved.map(|place| place.port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// What the table says of itself, for an agent that finds it: the same for the same content, whoever wrote it.
    pub fn fingerprint(&self) -> String {
        Uuid::new_v5(&TABLES, self.body().as_bytes()).to_string()
    }

    /// Replaces the table, whatever it was; takes it away if there is nothing to say.
    pub fn script(&self) -> String {
        let clear = format!("add table {TABLE}\ndelete table {TABLE}\n");
        if self.is_empty() {
            return clear;
        }
        format!("{clear}table {TABLE} {{\n  comment \"{}\"\n{}}}\n", self.fingerprint(), self.body())
    }

    fn body(&self) -> String {
        let management = Role::Management.device();
        let (mut elements, mut publish, mut source) = (String::new(), String::new(), String::new());
        for address in &self.sources {
            let ipv4 = address.is_ipv4();
            let (number, family, kind) = if ipv4 { (4, "ip", "ipv4_addr") } else { (6, "ip6", "ipv6_addr") };
            self.write_elements(&mut elements, ipv4, number, kind);
            // One lookup each, however many ports there are. A port of one address comes before that of all addresses.
            let _ = write!(
                publish,
                "    dnat {family} to {family} daddr . meta l4proto . th dport map @one-address{number}\n\
                 \x20   dnat {family} to meta l4proto . th dport map @all-addresses{number}\n"
            );
            // A pod would answer a client by its own gateway, around the translation. Only what was translated above: a
            // service may lead to the same port of the same pod.
            let _ = writeln!(
                source,
                "    oifname \"{management}\" ct status dnat meta l4proto . ct original proto-dst . {family} daddr . th dport @published{number} \
                 snat {family} to {address}"
            );
        }
        // `guard`: pods must not use what makes room for loopback addresses on the management port to reach the host's own.
        // `prerouting`: nobody else sends to loopback addresses. The kernel does not let ::1 leave the host at all,
        // and does not forward what comes from link-local addresses.
        format!(
            "{elements}\
             \x20 chain guard {{\n    type filter hook prerouting priority raw; policy accept;\n\
             \x20   iifname \"{management}\" ip saddr 127.0.0.0/8 drop\n\
             \x20   iifname \"{management}\" ip daddr 127.0.0.0/8 drop\n  }}\n\
             \x20 chain publish {{\n{publish}  }}\n\
             \x20 chain prerouting {{\n    type nat hook prerouting priority dstnat + 1; policy accept;\n\
             \x20   ip daddr != 127.0.0.0/8 fib daddr type local goto publish\n\
             \x20   ip6 daddr != {{ ::1, fe80::/10 }} fib daddr type local goto publish\n  }}\n\
             \x20 chain output {{\n    type nat hook output priority dstnat + 1; policy accept;\n\
             \x20   meta nfproto ipv4 fib daddr type local goto publish\n\
             \x20   ip6 daddr != {{ ::1, fe80::/10 }} fib daddr type local goto publish\n  }}\n\
             \x20 chain postrouting {{\n    type nat hook postrouting priority srcnat; policy accept;\n{source}  }}\n"
        )
    }

    fn write_elements(&self, script: &mut String, ipv4: bool, number: u8, kind: &str) {
        let (mut one, mut all, mut published) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (pod, port)) in self.places.iter().filter(|(place, _)| place.ipv4 == ipv4) {
            let from = format!("{} . {}", place.protocol, place.port);
            match place.host_ip {
                Some(address) => one.push(format!("{address} . {from} : {pod} . {port}")),
                None => all.push(format!("{from} : {pod} . {port}")),
            }
            published.push(format!("{from} . {pod} . {port}"));
        }
        published.sort_unstable();
        published.dedup();
        let mut write = |what: &str, kind: String, elements: Vec<String>| {
            let _ = write!(script, "  {what}{number} {{\n    type {kind}\n");
            if !elements.is_empty() {
                let _ = writeln!(script, "    elements = {{ {} }}", elements.join(", "));
            }
            script.push_str("  }\n");
        };
        write(
            "map one-address",
            format!("{kind} . inet_proto . inet_service : {kind} . inet_service"),
            one,
        );
        write(
            "map all-addresses",
            format!("inet_proto . inet_service : {kind} . inet_service"),
            all,
        );
        write(
            "set published",
            format!("inet_proto . inet_service . {kind} . inet_service"),
            published,
        );
    }
}

/// Whether a mapping concerns this address family. The kernel cannot lead packets for ::1 out of the host.
fn serves(host_ip: Option<IpAddr>, ipv4: bool) -> bool {
    host_ip.is_none_or(|address| address.is_ipv4() == ipv4 && (ipv4 || !address.is_loopback()))
}

#[cfg(test)]
mod tests;
