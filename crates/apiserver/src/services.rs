//! Cluster addresses and node ports of Services. What is free is computed from the Services that exist, so there is no
//! allocation record to repair; the caller holds the allocation lock from reading the list until the write.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::{json, status::Cause, store::Object};

const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// The address ranges Services get their cluster addresses from; the first one's family is the default.
pub struct Addresses {
    cidrs: Vec<IpNet>,
}

impl Addresses {
    /// Allocates from these ranges.
    pub fn new(cidrs: &[IpNet]) -> Self {
        Self { cidrs: cidrs.to_vec() }
    }

    /// The first address of each range: the API server's own service.
    pub fn first(&self) -> Vec<IpAddr> {
        self.cidrs.iter().filter_map(|cidr| nth(cidr, 1)).collect()
    }

    /// Gives a Service the addresses and node ports it needs and lacks, and releases those it needs no more.
    pub fn assign(&self, service: &mut Value, old: Option<&Value>, existing: &[Arc<Object>]) -> Vec<Cause> {
        let others = || existing.iter().map(|o| &o.value).filter(|o| !same_object(o, service));
        let used: BTreeSet<String> = others()
            .flat_map(|o| json::list(o, "/spec/clusterIPs"))
            .filter_map(|a| a.as_str().map(str::to_owned))
            .collect();
        let ports: BTreeSet<i64> = others().flat_map(node_ports).collect();
        if let Some(old) = old {
            inherit(service, old);
        }
        if json::text(service, "/spec/type") == "ExternalName" {
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                json::remove(service, &format!("/spec/{field}"));
            }
            return Vec::new();
        }
        let mut causes = self.assign_families(service);
        causes.extend(self.assign_addresses(service, &used));
        causes.extend(assign_node_ports(service, ports));
        causes
    }

    fn assign_families(&self, service: &mut Value) -> Vec<Cause> {
        let available: Vec<_> = self.cidrs.iter().map(family).collect();
        let mut wanted: Vec<String> = json::list(service, "/spec/ipFamilies")
            .iter()
            .filter_map(|f| f.as_str().map(str::to_owned))
            .collect();
        for address in json::list(service, "/spec/clusterIPs") {
            let family = address.as_str().and_then(|a| a.parse::<IpAddr>().ok());
            let family = family.map(|a| if a.is_ipv4() { "IPv4" } else { "IPv6" });
            if let Some(family) = family.filter(|f| !wanted.iter().any(|w| w == f)) {
                wanted.push(family.to_owned());
            }
        }
        let mut causes = Vec::new();
        for (index, wanted) in wanted.iter().enumerate() {
            if !available.iter().any(|family| family == wanted) {
                let why = "not configured on this cluster";
                causes.push(Cause::invalid(format!("spec.ipFamilies[{index}]"), &json!(wanted), why));
            }
        }
        let policy = json::text(service, "/spec/ipFamilyPolicy").to_owned();
        let dual = policy.ends_with("DualStack");
        if policy == "RequireDualStack" && available.len() < 2 {
            let why = "this cluster is not configured for dual-stack services";
            causes.push(Cause::invalid("spec.ipFamilyPolicy", &json!(policy), why));
        }
        if wanted.is_empty() {
            wanted.extend(available.first().map(|&f| f.to_owned()));
        }
        if dual {
            let more = available.iter().filter(|f| !wanted.iter().any(|w| w == *f)).map(|&f| f.to_owned());
            wanted.extend(more.collect::<Vec<_>>());
        }
        if policy == "SingleStack" {
            wanted.truncate(1);
        }
        let default = if wanted.len() > 1 { "PreferDualStack" } else { "SingleStack" };
        json::default(service, "/spec/ipFamilyPolicy", default);
        json::set(service, "/spec/ipFamilies", wanted);
        causes
    }

    fn assign_addresses(&self, service: &mut Value, used: &BTreeSet<String>) -> Vec<Cause> {
        let first = json::text(service, "/spec/clusterIP").to_owned();
        if first == "None" {
            json::set(service, "/spec/clusterIPs", json!(["None"]));
            return Vec::new();
        }
        let mut given: Vec<String> = json::list(service, "/spec/clusterIPs")
            .iter()
            .filter_map(|a| a.as_str().map(str::to_owned))
            .collect();
        if given.is_empty() && !first.is_empty() {
            given.push(first);
        }
        let mut causes = Vec::new();
        let families: Vec<_> = json::list(service, "/spec/ipFamilies")
            .iter()
            .filter_map(|f| f.as_str().map(str::to_owned))
            .collect();
        given.truncate(families.len());
        for (index, address) in given.iter().enumerate() {
            let field = format!("spec.clusterIPs[{index}]");
            let inside = address
                .parse::<IpAddr>()
                .is_ok_and(|a| self.cidrs.iter().any(|cidr| cidr.contains(&a)));
            if used.contains(address) {
                causes.push(Cause::invalid(
                    field,
                    &json!([address]),
                    "failed to allocate IP: provided IP is already allocated",
                ));
            } else if !inside {
                let ranges: Vec<_> = self.cidrs.iter().map(ToString::to_string).collect();
                let why = format!(
                    "failed to allocate IP: the provided IP is not in the valid range. The range of valid IPs is {}",
                    ranges.join(",")
                );
                causes.push(Cause::invalid(field, &json!([address]), why));
            }
        }
        for wanted in families.iter().skip(given.len()) {
            let Some(cidr) = self.cidrs.iter().find(|cidr| family(cidr) == wanted) else {
                continue;
            };
            // The first address is the API server's own.
            let free = (2..).map_while(|n| nth(cidr, n)).map(|a| a.to_string()).find(|a| !used.contains(a));
            match free {
                Some(free) => given.push(free),
                None => causes.push(Cause::invalid(
                    "spec.clusterIPs",
                    &json!(given),
                    format!("no address is free in {cidr}"),
                )),
            }
        }
        json::set(service, "/spec/clusterIP", given.first().cloned().unwrap_or_default());
        json::set(service, "/spec/clusterIPs", given);
        causes
    }
}

/// What an update leaves out stays as it was.
fn inherit(service: &mut Value, old: &Value) {
    if json::text(old, "/spec/type") == "ExternalName" {
        return;
    }
    for field in ["/spec/clusterIP", "/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy"] {
        let before = json::at(old, field);
        if !before.is_null() && matches!(json::at(service, field), Value::Null) {
            json::set(service, field, before.clone());
        }
    }
    if json::text(service, "/spec/clusterIP").is_empty() {
        json::set(service, "/spec/clusterIP", json::at(old, "/spec/clusterIP").clone());
    }
    let known: Vec<_> = json::list(old, "/spec/ports").to_vec();
    for port in json::list_mut(service, "/spec/ports") {
        let same = |other: &&Value| {
            json::at(other, "/port") == json::at(port, "/port") && json::at(other, "/protocol") == json::at(port, "/protocol")
        };
        let before = known.iter().find(same).map(|other| json::at(other, "/nodePort").clone());
        if let Some(before) = before.filter(|b| !b.is_null())
            && json::number(port, "/nodePort").unwrap_or(0) == 0
        {
            json::set(port, "/nodePort", before);
        }
    }
}

fn assign_node_ports(service: &mut Value, mut used: BTreeSet<i64>) -> Vec<Cause> {
    let kind = json::text(service, "/spec/type");
    let balanced = kind == "LoadBalancer" && json::at(service, "/spec/allocateLoadBalancerNodePorts") != false;
    let needed = kind == "NodePort" || balanced;
    let mut causes = Vec::new();
    let local = kind == "LoadBalancer" && json::text(service, "/spec/externalTrafficPolicy") == "Local";
    for (index, port) in json::list_mut(service, "/spec/ports").iter_mut().enumerate() {
        let field = format!("spec.ports[{index}].nodePort");
        let given = json::number(port, "/nodePort").unwrap_or(0);
        if !needed {
            json::remove(port, "/nodePort");
            continue;
        }
        if given == 0 {
            match NODE_PORTS.into_iter().find(|p| !used.contains(p)) {
                Some(free) => {
                    used.insert(free);
                    json::set(port, "/nodePort", free);
                }
                None => causes.push(Cause::invalid(field, &json!(0), "no node port is free")),
            }
        } else if !NODE_PORTS.contains(&given) {
            causes.push(Cause::invalid(
                field,
                &json!(given),
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            ));
        } else if !used.insert(given) {
            causes.push(Cause::invalid(field, &json!(given), "provided port is already allocated"));
        }
    }
    if local && json::number(service, "/spec/healthCheckNodePort").unwrap_or(0) == 0 {
        used.extend(node_ports(service));
        if let Some(free) = NODE_PORTS.rev().find(|p| !used.contains(p)) {
            json::set(service, "/spec/healthCheckNodePort", free);
        }
    }
    causes
}

fn node_ports(service: &Value) -> Vec<i64> {
    let ports = json::list(service, "/spec/ports")
        .iter()
        .filter_map(|port| json::number(port, "/nodePort"));
    ports.chain(json::number(service, "/spec/healthCheckNodePort")).collect()
}

fn same_object(a: &Value, b: &Value) -> bool {
    json::name(a) == json::name(b) && json::namespace(a) == json::namespace(b)
}

fn family(cidr: &IpNet) -> &'static str {
    if cidr.addr().is_ipv4() { "IPv4" } else { "IPv6" }
}

/// The n-th address of a range, if the range is that large (and n small enough to search through).
fn nth(cidr: &IpNet, n: u32) -> Option<IpAddr> {
    let address = match cidr.network() {
        IpAddr::V4(first) => IpAddr::V4(u32::from(first).checked_add(n)?.into()),
        IpAddr::V6(first) => IpAddr::V6(u128::from(first).checked_add(u128::from(n))?.into()),
    };
    (cidr.contains(&address) && address != cidr.broadcast()).then_some(address)
}
