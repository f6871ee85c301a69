//! `spec.loadBalancerSourceRanges`: a service's load balancer addresses take packets of these sources only. Where a range cannot be
//! read, nobody is let in: a mistake must not open what the user meant to close. A node whose own address is let in is let in by its
//! service port too, whose address its packets have.
//!
//! What is let in is passed on to policies, above a denial of everything else: of "all but these" OVN would make a flow for each bit.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::{Host, View};
use crate::decide::external::of_load_balancer;
use crate::ipam::SERVICE_HOST;
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::MOST_RANGES;
use crate::problem::Problem;
use crate::rows::{Acl, PortGroup};
use crate::service::{Family, Protocol, Service, ServiceKind, ServiceName};
use crate::settings::{Settings, nth_host};
use crate::unit::Fragment;
use crate::unit::network::edge;
use crate::unit::service::frontends::given_by_others;

/// Above what policies allow.
const CLOSED: i64 = 2000;
const OPEN: i64 = 2001;

pub(super) fn compile(view: &View<'_>, settings: &Settings, name: &ServiceName, service: &Service, fragment: &mut Fragment) {
    let restricted = service.kind == ServiceKind::LoadBalancer && !service.source_ranges.is_empty();
    if !restricted {
        return;
    }
    // An address of ours is the service's alone; one that another controller gave it may be that of others too, at other ports.
    let (addresses, ports) = if service.is_ours() {
        let recorded = view.external_addresses(name, &service.uid);
        (of_load_balancer(service, recorded), vec![(String::new(), String::new())])
    } else {
        let given = given_by_others(view, settings, name, service, &mut Vec::new());
        (given.into_iter().collect(), ports(service))
    };
    let owner = view.service_ref(name);
    let ranges = read(&service.source_ranges).unwrap_or_else(|why| {
        fragment.problems.push(Problem::new(owner.clone(), "InvalidSourceRange", why));
        Vec::new()
    });
    for (family, ip, number) in [(Family::Ipv4, "ip4", 4), (Family::Ipv6, "ip6", 6)] {
        let of_family = |address: IpAddr| Family::of(address) == family;
        let closed: Vec<String> = addresses.iter().filter(|a| of_family(**a)).map(ToString::to_string).collect();
        let mut open: Vec<IpNet> = ranges.iter().filter(|range| of_family(range.addr())).copied().collect();
        if closed.is_empty() || open.iter().any(|range| range.prefix_len() == 0) {
            continue;
        }
        open.extend(service_ports(view, &open, family));
        let mut put_acl = |key: Key, action: &str, priority, condition| {
            let row = Acl {
                action: action.to_owned(),
                direction: "from-lport".to_owned(),
                priority,
                match_: condition,
                external_ids: ids(&key, &owner),
                ..Default::default()
            };
            put(fragment, &key, row).add_to::<PortGroup>(fragment, &edge(), "acls");
        };
        for (part, condition) in &ports {
            let addressed = format!("{ip}.dst == {{{}}}{condition}", closed.join(", "));
            let key = format!("source-ranges/{name}/{number}{part}");
            if !open.is_empty() {
                let sources: Vec<String> = open.iter().map(ToString::to_string).collect();
                let condition = format!("{addressed} && {ip}.src == {{{}}}", sources.join(", "));
                put_acl(Key::new(format!("{key}/open")), "pass", OPEN, condition);
            }
            put_acl(Key::new(key), "drop", CLOSED, addressed);
        }
    }
}

/// A service's ports, by protocol, as parts of keys and of conditions.
fn ports(service: &Service) -> Vec<(String, String)> {
    let part = |protocol: Protocol| {
        let ports = service.ports.iter().filter(|port| port.protocol == protocol);
        let ports: Vec<String> = ports.map(|port| port.port.to_string()).collect();
        (!ports.is_empty()).then(|| (format!("/{protocol}"), format!(" && {protocol}.dst == {{{}}}", ports.join(", "))))
    };
    Protocol::ALL.into_iter().filter_map(part).collect()
}

/// Addresses of the service ports of nodes whose own address is in these ranges.
fn service_ports(view: &View<'_>, ranges: &[IpNet], family: Family) -> Vec<IpNet> {
    let let_in = |host: &Host| host.addresses.iter().any(|ip| ranges.iter().any(|range| range.contains(ip)));
    let nodes = view.hosts().filter(|(_, host)| let_in(host));
    let subnets = nodes.flat_map(|(name, _)| view.subnets(name));
    let hosts = subnets.filter_map(|subnet| nth_host(&subnet, SERVICE_HOST));
    hosts
        .map(|host| IpNet::from(host.addr()))
        .filter(|host| Family::of(host.addr()) == family)
        .collect()
}

fn read(texts: &[String]) -> Result<Vec<IpNet>, String> {
    let read = |text: &String| {
        text.trim().parse::<IpNet>().map(|range| range.trunc()).map_err(|_| {
            format!(
                "spec.loadBalancerSourceRanges: \"{text}\" is not a CIDR, so no client may use the address; write for example 192.0.2.0/24"
            )
        })
    };
    if texts.len() > MOST_RANGES {
        return Err(format!(
            "spec.loadBalancerSourceRanges: it has more than {MOST_RANGES} ranges, so no client may use the address; write fewer, larger ones"
        ));
    }
    let mut ranges = texts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    ranges.sort();
    ranges.dedup();
    Ok(ranges)
}
