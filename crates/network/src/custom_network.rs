//! Networks that users define: what a `Network` says, read into addresses without anything left to interpret. Pods name one by annotation,
//! themselves or by their namespace. What cannot be read is no network: no pod gets a port on it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use crate::policy::{LabelSelector, Selector};
use crate::settings::{Settings, host_number, hosts, is_ipv4, nth_host, range};

/// Annotation of a pod, or of a namespace for its pods: the name of the `Network` they are on.
pub const NETWORK: &str = "netloom.io/network";

/// A subnet has at least this many addresses: its own, the gateway's, a pod's and the one to all.
const FEWEST: u64 = 4;

/// A `Network` as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomNetwork {
    /// UID.
    pub uid: String,
    /// Its spec, kept as written: a field that is misspelt must be seen, for it may be the one that says who is let in.
    pub spec: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NetworkSpec {
    subnets: Vec<String>,
    #[serde(default)]
    gateways: Vec<String>,
    #[serde(default)]
    routes: Vec<RouteSpec>,
    #[serde(default)]
    isolated: bool,
    namespace_selector: Option<LabelSelector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteSpec {
    to: String,
    via: String,
}

/// A network that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// At most one of each family, in the order written.
    pub subnets: Vec<IpNet>,
    /// Addresses of its router, one in each subnet.
    pub gateways: Vec<IpAddr>,
    /// Destinations behind somebody in the network.
    pub routes: Vec<Route>,
    /// Pods that are not on it do not reach those that are, but through services.
    pub isolated: bool,
    /// Namespaces whose pods may be on it; none: every namespace.
    pub namespaces: Option<Selector>,
}

/// A way out of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub to: IpNet,
    /// The address in the network that leads there.
    pub via: IpAddr,
}

impl Read {
    /// The subnet an address is in.
    pub fn subnet_of(&self, address: IpAddr) -> Option<&IpNet> {
        self.subnets.iter().find(|subnet| subnet.contains(&address))
    }

    /// Destinations that whoever has this address leads to.
    pub fn routes_via(&self, address: IpAddr) -> impl Iterator<Item = &IpNet> {
        self.routes.iter().filter(move |route| route.via == address).map(|route| &route.to)
    }

    /// What of the cluster's own addressing it would hide from its pods.
    pub fn conflict(&self, settings: &Settings) -> Option<String> {
        let own: Vec<IpNet> = settings.ranges().chain(settings.services.cidrs.iter().copied()).collect();
        let overlapping = |net: &IpNet| own.iter().find(|range| net.contains(*range) || range.contains(net));
        let subnet = self.subnets.iter().find_map(|subnet| {
            let range = overlapping(subnet)?;
            Some(format!(
                "subnet {subnet} overlaps {range}, which the cluster itself uses; choose another range. Subnets of networks may overlap each other"
            ))
        });
        let route = || {
            let route = self.routes.iter().find_map(|route| Some((route.to, overlapping(&route.to)?)));
            route.map(|(to, range)| format!("route to {to} overlaps {range}, which the cluster itself uses; give a range outside of it"))
        };
        subnet.or_else(route)
    }
}

/// The network that annotations name.
pub fn named(annotations: &BTreeMap<String, String>) -> Option<&str> {
    annotations.get(NETWORK).map(|name| name.trim())
}

/// Reads a network; the error says what to change.
pub fn read(spec: &Value) -> Result<Read, String> {
    let spec = NetworkSpec::deserialize(spec).map_err(|error| format!("spec: {error}"))?;
    let subnets = spec
        .subnets
        .iter()
        .map(|text| range("spec.subnets", text))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(small) = subnets.iter().find(|subnet| hosts(subnet) < FEWEST) {
        return Err(format!("spec.subnets: {small} has no room for pods; give a larger one"));
    }
    let families = |ipv4| subnets.iter().filter(|subnet| is_ipv4(subnet) == ipv4).count();
    if subnets.is_empty() || families(true) > 1 || families(false) > 1 {
        return Err("spec.subnets: give one subnet of each family, for example 192.168.10.0/24 and fd01:10::/64".to_owned());
    }
    let addresses = |field: &str, texts: &[String]| {
        let parse = |text: &String| {
            text.trim()
                .parse::<IpAddr>()
                .map_err(|_| format!("{field}: \"{text}\" is not an IP address"))
        };
        texts.iter().map(parse).collect::<Result<Vec<_>, _>>()
    };
    let written = addresses("spec.gateways", &spec.gateways)?;
    let mut gateways = Vec::new();
    for subnet in &subnets {
        let mut of_it = written.iter().filter(|address| address.is_ipv4() == is_ipv4(subnet));
        let gateway = of_it.next().copied().or_else(|| Some(nth_host(subnet, 1)?.addr()));
        match (gateway.filter(|gateway| is_host(subnet, *gateway)), of_it.next()) {
            (Some(gateway), None) => gateways.push(gateway),
            _ => return Err(format!("spec.gateways: give one address of {subnet}, or none to have its first")),
        }
    }
    if let Some(stray) = written.iter().find(|address| !gateways.contains(address)) {
        return Err(format!("spec.gateways: {stray} is in no subnet of the network; choose one that is"));
    }
    let mut read = Read {
        subnets,
        gateways,
        routes: Vec::new(),
        isolated: spec.isolated,
        namespaces: spec.namespace_selector.map(|labels| namespaces(&labels)).transpose()?,
    };
    for (number, route) in spec.routes.iter().enumerate() {
        let field = format!("spec.routes[{number}]");
        let to = range(&format!("{field}.to"), &route.to)?;
        let via = addresses(&format!("{field}.via"), std::slice::from_ref(&route.via))?[0];
        let subnet = read
            .subnet_of(via)
            .filter(|subnet| is_host(subnet, via) && !read.gateways.contains(&via));
        match subnet {
            Some(subnet) if is_ipv4(subnet) == is_ipv4(&to) && !subnet.contains(&to) && !to.contains(subnet) => {}
            Some(subnet) => {
                return Err(format!(
                    "{field}.to: {to} is not behind {subnet}; give a range of its family outside of it"
                ));
            }
            None => {
                return Err(format!(
                    "{field}.via: {via} is no address a pod of the network can have; choose one in its subnets"
                ));
            }
        }
        read.routes.push(Route { to, via });
    }
    Ok(read)
}

/// A selector that cannot be read would let in more than was meant.
fn namespaces(labels: &LabelSelector) -> Result<Selector, String> {
    match Selector::read(labels) {
        (selector, complaints) if complaints.is_empty() => Ok(selector),
        (_, complaints) => Err(format!("spec.namespaceSelector: {}", complaints.join("; "))),
    }
}

/// Whether somebody can have an address in a subnet.
pub(crate) fn is_host(subnet: &IpNet, address: IpAddr) -> bool {
    host_number(subnet, address).is_some_and(|host| host >= 1 && !(is_ipv4(subnet) && host + 1 >= hosts(subnet)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(spec: Value) -> String {
        read(&spec).unwrap_err()
    }

    #[test]
    fn what_is_not_written_has_its_default() {
        let network = read(&json!({ "subnets": ["192.168.10.0/24", "fd01:10::/64"] })).unwrap();
        let shown: Vec<String> = network.gateways.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["192.168.10.1", "fd01:10::1"]);
        assert!(!network.isolated && network.namespaces.is_none() && network.routes.is_empty());
    }

    #[test]
    fn mistakes_are_named_with_what_to_write() {
        let with = |field: &str, value: Value| {
            let mut spec = json!({ "subnets": ["192.168.10.0/24"] });
            spec[field] = value;
            wrong(spec)
        };
        assert!(wrong(json!({})).contains("missing field `subnets`"));
        assert!(wrong(json!({ "subnets": [] })).contains("one subnet of each family"));
        assert!(wrong(json!({ "subnets": ["10.0.0.0/24", "10.1.0.0/24"] })).contains("one subnet of each family"));
        assert!(wrong(json!({ "subnets": ["10.0.0.1/24"] })).contains("write 10.0.0.0/24"));
        assert!(wrong(json!({ "subnets": ["10.0.0.0/31"] })).contains("no room"));
        assert!(with("namespaceSelektor", json!({})).contains("unknown field `namespaceSelektor`"));
        assert!(with("namespaceSelector", json!({ "matchLabels": { "no label": "x" } })).contains("spec.namespaceSelector"));
        assert!(with("gateways", json!(["10.0.0.1"])).contains("one address of 192.168.10.0/24"));
        assert!(with("gateways", json!(["192.168.10.255"])).contains("one address of 192.168.10.0/24"));
        assert!(with("gateways", json!(["fd01::1"])).contains("fd01::1 is in no subnet"));
        assert!(with("routes", json!([{ "to": "10.9.0.0/16", "via": "10.0.0.1" }])).contains("no address a pod"));
        assert!(with("routes", json!([{ "to": "fd09::/64", "via": "192.168.10.9" }])).contains("not behind"));
        assert!(with("routes", json!([{ "to": "192.168.0.0/16", "via": "192.168.10.9" }])).contains("not behind"));
    }

    #[test]
    fn it_may_overlap_other_networks_but_not_the_cluster() {
        let network = |subnet: &str| read(&json!({ "subnets": [subnet] })).unwrap();
        let settings = Settings::default();
        assert!(
            network("10.244.7.0/24")
                .conflict(&settings)
                .unwrap()
                .contains("overlaps 10.244.0.0/16")
        );
        assert!(network("10.0.0.0/8").conflict(&settings).is_some());
        let routed = read(&json!({ "subnets": ["192.168.0.0/24"], "routes": [{ "to": "10.244.0.5/32", "via": "192.168.0.2" }] })).unwrap();
        assert!(
            routed
                .conflict(&settings)
                .unwrap()
                .contains("route to 10.244.0.5/32 overlaps 10.244.0.0/16")
        );
        assert_eq!(network("192.168.10.0/24").conflict(&settings), None);
    }
}
