//! What is wrong with a Service. What depends on other Services or on the cluster's ranges (addresses and node ports that
//! are taken or outside) is found where those are given out, in [`crate::services`] and [`crate::node_ports`].

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::{Value, json};

use super::{LABEL, QUALIFIED, SUBDOMAIN, address_of, is_label, is_qualified, is_subdomain, one_of, port_number};
use crate::{json, node_ports::needs_health_check, status::Cause};

/// The longest time session affinity may be asked for: a day.
const LONGEST_AFFINITY: i64 = 86400;

/// Service.
pub fn service(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (field, allowed) in [
        ("type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"][..]),
        ("sessionAffinity", &["ClientIP", "None"]),
        ("internalTrafficPolicy", &["Cluster", "Local"]),
        ("externalTrafficPolicy", &["Cluster", "Local"]),
        ("ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]),
        ("trafficDistribution", &["PreferClose", "PreferSameNode", "PreferSameZone"]),
    ] {
        causes.extend(one_of(format!("spec.{field}"), json::at(new, &format!("/spec/{field}")), allowed));
    }
    causes.extend(ports(new));
    causes.extend(addresses(new));
    causes.extend(by_type(new));
    let timeout = json::number(new, "/spec/sessionAffinityConfig/clientIP/timeoutSeconds");
    if let Some(timeout) = timeout.filter(|timeout| !(1..=LONGEST_AFFINITY).contains(timeout)) {
        causes.push(Cause::invalid(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            &json!(timeout),
            format!("must be greater than 0 and less than or equal to {LONGEST_AFFINITY}"),
        ));
    }
    if let Some(old) = old {
        causes.extend(changes(new, old));
    }
    causes
}

fn ports(new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let ports = json::list(new, "/spec/ports");
    let headless = json::text(new, "/spec/clusterIP") == "None";
    if ports.is_empty() && json::text(new, "/spec/type") != "ExternalName" && !headless {
        causes.push(Cause::required("spec.ports", ""));
    }
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = json::text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            causes.push(Cause::required(format!("{path}.name"), ""));
        } else if !name.is_empty() && !is_label(name) {
            causes.push(Cause::invalid(format!("{path}.name"), &json!(name), LABEL));
        } else if !name.is_empty() && !names.insert(name) {
            causes.push(Cause::duplicate(format!("{path}.name"), &json!(name)));
        }
        causes.extend(port_number(format!("{path}.port"), json::at(port, "/port")));
        causes.extend(target_port(format!("{path}.targetPort"), json::at(port, "/targetPort")));
        let protocol = json::at(port, "/protocol");
        causes.extend(one_of(format!("{path}.protocol"), protocol, &["SCTP", "TCP", "UDP"]));
        if !numbers.insert((json::number(port, "/port"), protocol.as_str())) {
            causes.push(Cause::duplicate(
                path,
                &json!({ "port": json::at(port, "/port"), "protocol": protocol }),
            ));
        }
    }
    causes
}

fn target_port(field: String, value: &Value) -> Option<Cause> {
    let Some(name) = value.as_str() else {
        return if value.is_null() { None } else { port_number(field, value) };
    };
    let valid = is_label(name) && name.len() <= 15 && !name.contains("--") && name.contains(|c: char| c.is_ascii_lowercase());
    let why = "must be the name of a container's port: at most 15 lower case letters, digits and '-', at least one of them a letter";
    (!valid).then(|| Cause::invalid(field, value, why))
}

fn addresses(new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let first = json::text(new, "/spec/clusterIP");
    let all: Vec<_> = json::list(new, "/spec/clusterIPs").iter().filter_map(Value::as_str).collect();
    if let Some(listed) = all.first().filter(|listed| !first.is_empty() && **listed != first) {
        causes.push(Cause::invalid("spec.clusterIPs[0]", &json!(listed), "must match `clusterIP`"));
    }
    let given = if all.is_empty() { vec![first] } else { all };
    for (index, address) in given.iter().enumerate().filter(|(_, address)| !["", "None"].contains(*address)) {
        causes.extend(address_of(format!("spec.clusterIPs[{index}]"), &json!(address)));
    }
    let mut families: Vec<_> = given.iter().filter_map(|a| a.parse::<IpAddr>().ok()).map(|a| a.is_ipv4()).collect();
    let count = families.len();
    families.dedup();
    if count > 2 || families.len() < count {
        let why = "may only hold up to 2 values, no more than one for each IP family";
        causes.push(Cause::invalid("spec.clusterIPs", &json!(given), why));
    }
    let mut seen = BTreeSet::new();
    for (index, family) in json::list(new, "/spec/ipFamilies").iter().enumerate() {
        let field = format!("spec.ipFamilies[{index}]");
        causes.extend(one_of(&field, family, &["IPv4", "IPv6"]));
        if !seen.insert(family.as_str()) {
            causes.push(Cause::duplicate(field, family));
        }
    }
    for (index, address) in json::list(new, "/spec/externalIPs").iter().enumerate() {
        causes.extend(external_address(format!("spec.externalIPs[{index}]"), address));
    }
    causes
}

/// An address packets may come from outside for: not one that means something on every machine by itself.
fn external_address(field: String, value: &Value) -> Option<Cause> {
    let Some(address) = value.as_str().and_then(|text| text.parse::<IpAddr>().ok()) else {
        return address_of(field, value);
    };
    let special = [
        (address.is_unspecified(), "may not be unspecified (0.0.0.0 or ::)"),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (address.is_multicast(), "may not be a multicast address"),
        (
            matches!(address, IpAddr::V4(v4) if v4.is_link_local()) || matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()),
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
    ];
    let (_, why) = special.into_iter().find(|(is, _)| *is)?;
    Some(Cause::invalid(field, value, why))
}

/// What a Service of one type must have, and one of another may not.
fn by_type(new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = json::text(new, "/spec/type");
    let (balancer, external) = (kind == "LoadBalancer", ["NodePort", "LoadBalancer"].contains(&kind));
    let headless = json::text(new, "/spec/clusterIP") == "None";
    if kind == "ExternalName" {
        let name = json::text(new, "/spec/externalName");
        match name.strip_suffix('.').unwrap_or(name) {
            "" => causes.push(Cause::required("spec.externalName", "")),
            name if !is_subdomain(&name.to_lowercase()) => causes.push(Cause::invalid("spec.externalName", &json!(name), SUBDOMAIN)),
            _ => {}
        }
        if headless {
            let why = "may not be set when `type` is 'ExternalName'";
            causes.push(Cause::forbidden("spec.clusterIPs[0]", why));
        }
    }
    if headless && external {
        let why = format!("may not be set to 'None' for {kind} services");
        causes.push(Cause::invalid("spec.clusterIPs[0]", &json!("None"), why));
    }
    let unless_balancer = |field: &str| {
        let given = !balancer && !json::at(new, &format!("/spec/{field}")).is_null();
        given.then(|| Cause::forbidden(format!("spec.{field}"), "may only be used when `type` is 'LoadBalancer'"))
    };
    for field in ["loadBalancerSourceRanges", "loadBalancerClass", "allocateLoadBalancerNodePorts"] {
        causes.extend(unless_balancer(field));
    }
    if !external && json::list(new, "/spec/externalIPs").is_empty() && !json::at(new, "/spec/externalTrafficPolicy").is_null() {
        causes.push(Cause::invalid(
            "spec.externalTrafficPolicy",
            json::at(new, "/spec/externalTrafficPolicy"),
            "may only be set for externally-accessible services",
        ));
    }
    let class = json::at(new, "/spec/loadBalancerClass");
    if class.as_str().is_some_and(|class| !is_qualified(class)) {
        causes.push(Cause::invalid("spec.loadBalancerClass", class, QUALIFIED));
    }
    for (index, range) in json::list(new, "/spec/loadBalancerSourceRanges").iter().enumerate() {
        if range.as_str().is_none_or(|text| text.trim().parse::<ipnet::IpNet>().is_err()) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(Cause::invalid(format!("spec.loadBalancerSourceRanges[{index}]"), range, why));
        }
    }
    causes
}

/// What may not change in a Service that is there.
fn changes(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (before, after) = (json::text(old, "/spec/clusterIP"), json::text(new, "/spec/clusterIP"));
    if json::text(new, "/spec/type") != "ExternalName" && !before.is_empty() && !after.is_empty() && before != after {
        let value = json::at(new, "/spec/clusterIPs");
        causes.push(Cause::invalid("spec.clusterIPs[0]", value, "may not change once set"));
    }
    let balancers = [new, old].iter().all(|s| json::text(s, "/spec/type") == "LoadBalancer");
    let class = json::at(new, "/spec/loadBalancerClass");
    if balancers && class != json::at(old, "/spec/loadBalancerClass") {
        causes.push(Cause::invalid("spec.loadBalancerClass", class, "may not change once set"));
    }
    let port = json::number(new, "/spec/healthCheckNodePort").unwrap_or(0);
    let had = json::number(old, "/spec/healthCheckNodePort").unwrap_or(0);
    if needs_health_check(new) && needs_health_check(old) && port != 0 && port != had {
        causes.push(Cause::invalid("spec.healthCheckNodePort", &json!(port), "field is immutable"));
    }
    causes
}
