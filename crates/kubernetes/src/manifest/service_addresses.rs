//! What the API server does with services: it gives them families and cluster addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netloom_network::Object;
use netloom_network::service::{Family, ServiceKind};
use netloom_network::settings::Settings;
use serde_json::{Value, json};

use super::{Document, text};
use crate::Kind;

/// A service that says nothing about addresses gets one of IPv4.
pub fn complete(service: &mut Value) {
    let unsaid = service["spec"]["ipFamilies"].as_array().is_none_or(Vec::is_empty);
    if unsaid && wants_address(service) {
        service["spec"]["ipFamilies"] = json!([Family::Ipv4.to_string()]);
    }
}

/// Gives services that have none the next free cluster address of each of their families.
pub fn assign(documents: &mut [Document]) {
    let mut written = documents.iter().filter(|document| document.kind == Kind::ClusterNetwork);
    let settings = written.find_map(|document| match document.read() {
        Ok(Some(Object::ClusterNetwork(network))) => Settings::from_spec(&network.spec).ok(),
        _ => None,
    });
    let ranges = settings.unwrap_or_default().services.cidrs;
    let mut services: Vec<&mut Value> = documents
        .iter_mut()
        .filter(|document| document.kind == Kind::Service)
        .map(|document| &mut document.value)
        .collect();
    let mut taken: BTreeSet<IpAddr> = services
        .iter()
        .flat_map(|service| addresses(service))
        .filter_map(|ip| ip.parse().ok())
        .collect();
    for service in services.iter_mut().filter(|service| wants_address(service)) {
        let families = service["spec"]["ipFamilies"].as_array().into_iter().flatten();
        let families = families.filter_map(|family| Family::parse(family.as_str()?));
        let mut given = Vec::new();
        for family in families {
            let range = ranges.iter().find(|range| Family::of(range.addr()) == family);
            // The first address of a range is the range's own, in IPv6 as well.
            let free = range.and_then(|range| range.hosts().find(|ip| *ip != range.network() && !taken.contains(ip)));
            taken.extend(free);
            given.extend(free);
        }
        service["spec"]["clusterIPs"] = json!(given);
    }
}

/// Whether it has no cluster address yet, and is neither headless nor a name alone.
fn wants_address(service: &Value) -> bool {
    let spec = &service["spec"];
    (spec.is_null() || spec.is_object()) && ServiceKind::parse(text(spec, "/type")).is_some() && addresses(service).is_empty()
}

/// Its cluster addresses, as written; of a headless service that is `None`.
fn addresses(service: &Value) -> Vec<&str> {
    let spec = &service["spec"];
    let several = spec["clusterIPs"].as_array().into_iter().flatten();
    let several = several.filter_map(Value::as_str).chain(spec["clusterIP"].as_str());
    several.filter(|address| !address.is_empty()).collect()
}
