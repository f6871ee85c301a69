//! Cluster addresses of Services; [`crate::node_ports`] does the same for their ports. What is free is told by the Services
//! that exist ([`crate::taken`]), so there is no allocation record to repair.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::{
    json, node_ports,
    status::Cause,
    taken::{Taken, key_of},
};

/// The address of each range that cluster DNS has by custom; given only to those who ask for it.
const DNS: u32 = 10;

const ADDRESS_FIELDS: [&str; 4] = ["/spec/clusterIP", "/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy"];

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
    pub(crate) fn assign(&self, service: &mut Value, old: Option<&Value>, taken: &Taken) -> Vec<Cause> {
        let key = key_of(service);
        let port_taken = |port: i64| taken.port(port, &key);
        if let Some(old) = old {
            inherit(service, old);
        }
        if json::text(service, "/spec/type") == "ExternalName" {
            for field in ADDRESS_FIELDS {
                json::remove(service, field);
            }
            return node_ports::assign(service, port_taken);
        }
        let mut causes = self.assign_families(service);
        causes.extend(self.assign_addresses(service, |address| taken.address(address, &key)));
        causes.extend(node_ports::assign(service, port_taken));
        causes
    }

    fn assign_families(&self, service: &mut Value) -> Vec<Cause> {
        let available: Vec<_> = self.cidrs.iter().map(family).collect();
        let mut wanted: Vec<String> = json::list(service, "/spec/ipFamilies")
            .iter()
            .filter_map(|f| f.as_str().map(str::to_owned))
            .collect();
        let first = [json::at(service, "/spec/clusterIP").clone()];
        for address in first.iter().chain(json::list(service, "/spec/clusterIPs")) {
            let family = address.as_str().and_then(|a| a.parse::<IpAddr>().ok());
            let family = family.map(|a| family_of(&a));
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
            // Nobody but its user knows of which family the endpoints of such a service are.
            let headless = json::text(service, "/spec/clusterIP") == "None";
            if headless && policy.is_empty() && json::entries(service, "/spec/selector").next().is_none() {
                wanted = available.iter().map(|&f| f.to_owned()).collect();
            }
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

    fn assign_addresses(&self, service: &mut Value, taken: impl Fn(&IpAddr) -> bool) -> Vec<Cause> {
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
            let parsed = address.parse::<IpAddr>();
            let inside = parsed
                .as_ref()
                .is_ok_and(|a| self.cidrs.iter().any(|cidr| cidr.contains(a) && cidr.network() != *a));
            if let (Ok(parsed), Some(wanted)) = (&parsed, families.get(index))
                && family_of(parsed) != wanted
            {
                let why = format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`");
                causes.push(Cause::invalid(field, &json!(address), why));
            } else if parsed.as_ref().is_ok_and(&taken) {
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
            let free = (2..)
                .filter(|&n| n != DNS)
                .map_while(|n| nth(cidr, n))
                .find(|address| !taken(address));
            match free {
                Some(free) => given.push(free.to_string()),
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

/// Takes away what a Service of the new type cannot have and its writer did not ask for.
pub(crate) fn release(service: &mut Value, old: &Value) {
    node_ports::release(service, old);
    if json::text(service, "/spec/type") == "ExternalName" && json::at(service, "/spec/clusterIP") == json::at(old, "/spec/clusterIP") {
        for field in ADDRESS_FIELDS {
            json::remove(service, field);
        }
    }
}

/// What an update leaves out stays as it was.
fn inherit(service: &mut Value, old: &Value) {
    if json::text(old, "/spec/type") == "ExternalName" {
        return;
    }
    for field in ADDRESS_FIELDS {
        let before = json::at(old, field);
        if !before.is_null() && matches!(json::at(service, field), Value::Null) {
            json::set(service, field, before.clone());
        }
    }
    if json::text(service, "/spec/clusterIP").is_empty() {
        json::set(service, "/spec/clusterIP", json::at(old, "/spec/clusterIP").clone());
    }
    node_ports::inherit(service, old);
}

fn family(cidr: &IpNet) -> &'static str {
    family_of(&cidr.addr())
}

fn family_of(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// The n-th address of a range, if the range is that large (and n small enough to search through).
fn nth(cidr: &IpNet, n: u32) -> Option<IpAddr> {
    let address = match cidr.network() {
        IpAddr::V4(first) => IpAddr::V4(u32::from(first).checked_add(n)?.into()),
        IpAddr::V6(first) => IpAddr::V6(u128::from(first).checked_add(u128::from(n))?.into()),
    };
    (cidr.contains(&address) && address != cidr.broadcast()).then_some(address)
}
