//! Node ports of Services: those of their ports, and the one a load balancer asks for the health of a node. Given when the
//! type of a Service needs them and given back when it does not; [`crate::services`] calls this under its lock.

use std::{collections::BTreeSet, ops::RangeInclusive};

use serde_json::{Value, json};

use crate::{json, status::Cause};

const RANGE: RangeInclusive<i64> = 30000..=32767;
const OUTSIDE: &str = "provided port is not in the valid range. The range of valid ports is 30000-32767";
const TAKEN: &str = "provided port is already allocated";
const HEALTH: &str = "/spec/healthCheckNodePort";

/// All node ports a Service has.
pub(crate) fn of(service: &Value) -> Vec<i64> {
    let ports = json::list(service, "/spec/ports")
        .iter()
        .filter_map(|port| json::number(port, "/nodePort"));
    ports.chain(json::number(service, HEALTH)).filter(|port| *port != 0).collect()
}

/// Takes away what the new type of a Service cannot have and its writer did not ask for, before that is found wrong.
pub(crate) fn release(service: &mut Value, old: &Value) {
    let (can, known) = (has_node_ports(service), json::list(old, "/spec/ports").to_vec());
    for port in json::list_mut(service, "/spec/ports") {
        if !can && before(&known, port).is_some_and(|before| Some(before) == json::number(port, "/nodePort")) {
            json::remove(port, "/nodePort");
        }
    }
    let external = can || !json::list(service, "/spec/externalIPs").is_empty();
    for (field, kept) in [
        ("/spec/externalTrafficPolicy", external),
        ("/spec/allocateLoadBalancerNodePorts", is_load_balancer(service)),
        ("/spec/loadBalancerClass", is_load_balancer(service)),
        (HEALTH, needs_health_check(service)),
    ] {
        if !kept && json::at(service, field) == json::at(old, field) {
            json::remove(service, field);
        }
    }
}

/// What an update leaves out stays as it was.
pub(crate) fn inherit(service: &mut Value, old: &Value) {
    let (can, known) = (has_node_ports(service), json::list(old, "/spec/ports").to_vec());
    for port in json::list_mut(service, "/spec/ports") {
        if let Some(before) = before(&known, port).filter(|_| can && json::number(port, "/nodePort").unwrap_or(0) == 0) {
            json::set(port, "/nodePort", before);
        }
    }
    if needs_health_check(service) && needs_health_check(old) && json::number(service, HEALTH).unwrap_or(0) == 0 {
        json::set(service, HEALTH, json::at(old, HEALTH).clone());
    }
}

/// The node port the same port had.
fn before(known: &[Value], port: &Value) -> Option<i64> {
    let same =
        |other: &&Value| json::at(other, "/port") == json::at(port, "/port") && json::at(other, "/protocol") == json::at(port, "/protocol");
    known.iter().find(same).and_then(|other| json::number(other, "/nodePort"))
}

/// Gives a Service the node ports it needs and lacks; `taken` are those of all others.
pub(crate) fn assign(service: &mut Value, taken: impl Fn(i64) -> bool) -> Vec<Cause> {
    let kind = json::text(service, "/spec/type").to_owned();
    let can = has_node_ports(service);
    let automatic = kind == "NodePort" || (is_load_balancer(service) && json::at(service, "/spec/allocateLoadBalancerNodePorts") != false);
    let mut causes = Vec::new();
    // Own ports by number: TCP and UDP of one port share a node port.
    let mut own: Vec<(i64, Value, i64)> = Vec::new();
    for (index, port) in json::list(service, "/spec/ports").iter().enumerate() {
        let field = format!("spec.ports[{index}].nodePort");
        let protocol = json::at(port, "/protocol").clone();
        match json::number(port, "/nodePort").unwrap_or(0) {
            0 => {}
            _ if !can => causes.push(Cause::forbidden(field, format!("may not be used when `type` is '{kind}'"))),
            given if !RANGE.contains(&given) => causes.push(Cause::invalid(field, &json!(given), OUTSIDE)),
            given if taken(given) => causes.push(Cause::invalid(field, &json!(given), TAKEN)),
            given if own.iter().any(|(_, p, n)| *p == protocol && *n == given) => {
                causes.push(Cause::duplicate(field, &json!(given)));
            }
            given => own.push((json::number(port, "/port").unwrap_or(0), protocol, given)),
        }
    }
    let mut used: BTreeSet<i64> = own.iter().map(|(_, _, given)| *given).collect();
    for (index, port) in json::list_mut(service, "/spec/ports").iter_mut().enumerate() {
        if json::number(port, "/nodePort").unwrap_or(0) != 0 {
            continue;
        }
        json::remove(port, "/nodePort");
        if !automatic {
            continue;
        }
        let (number, protocol) = (json::number(port, "/port").unwrap_or(0), json::at(port, "/protocol").clone());
        let shared = own.iter().find(|(n, p, given)| {
            *n == number && *p != protocol && !own.iter().any(|(_, other, taken)| *other == protocol && taken == given)
        });
        let free = shared
            .map(|(_, _, given)| *given)
            .or_else(|| RANGE.into_iter().find(|p| !used.contains(p) && !taken(*p)));
        match free {
            Some(free) => {
                used.insert(free);
                own.push((number, protocol, free));
                json::set(port, "/nodePort", free);
            }
            None => causes.push(Cause::invalid(
                format!("spec.ports[{index}].nodePort"),
                &json!(0),
                "no node port is free",
            )),
        }
    }
    causes.extend(assign_health_check(service, |port| used.contains(&port) || taken(port)));
    causes
}

fn assign_health_check(service: &mut Value, taken: impl Fn(i64) -> bool) -> Option<Cause> {
    let given = json::number(service, HEALTH).unwrap_or(0);
    let field = "spec.healthCheckNodePort";
    if !needs_health_check(service) {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        json::remove(service, HEALTH);
        return (given != 0).then(|| Cause::invalid(field, &json!(given), why));
    }
    match given {
        0 => match RANGE.rev().find(|p| !taken(*p)) {
            Some(free) => json::set(service, HEALTH, free),
            None => return Some(Cause::invalid(field, &json!(0), "no node port is free")),
        },
        given if !RANGE.contains(&given) => return Some(Cause::invalid(field, &json!(given), OUTSIDE)),
        given if taken(given) => return Some(Cause::invalid(field, &json!(given), TAKEN)),
        _ => {}
    }
    None
}

fn has_node_ports(service: &Value) -> bool {
    ["NodePort", "LoadBalancer"].contains(&json::text(service, "/spec/type"))
}

fn is_load_balancer(service: &Value) -> bool {
    json::text(service, "/spec/type") == "LoadBalancer"
}

/// Whether a load balancer has to know which nodes have endpoints.
pub(crate) fn needs_health_check(service: &Value) -> bool {
    is_load_balancer(service) && json::text(service, "/spec/externalTrafficPolicy") == "Local"
}
