//! Annotations users and agents write, parsed. Every parser is total: any text gives a value or a sentence that says what was
//! expected, which the caller wraps into a problem of the annotated object.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_contract::annotation::{GATEWAY, PREFIX};
use netloom_contract::{Gateway, Mac};

use crate::custom_network::NETWORK;
use crate::security_group::SECURITY_GROUPS;

/// Addresses a pod asks for, comma separated: `10.244.1.7,fd00:10:244:1::7`.
pub const ADDRESSES: &str = "netloom.io/addresses";
/// Addresses a pod asks for in the `Network` it is on, comma separated.
pub const NETWORK_ADDRESSES: &str = "netloom.io/network-addresses";
/// MAC address a pod asks for.
pub const MAC: &str = "netloom.io/mac";
/// What people read on a node: its subnets. Written, and read back only when the Northbound database was lost.
pub const SUBNETS: &str = "netloom.io/subnets";

/// External addresses a service asks for, comma separated.
pub const EXTERNAL_ADDRESSES: &str = "netloom.io/external-addresses";
/// Whether OVN itself checks a service's backends, and how often.
pub const HEALTH_CHECK: &str = "netloom.io/health-check";

/// The longest time and the largest count a health check may have.
const MAX_HEALTH: u32 = 3600;

/// Annotations we understand on a pod; others under our prefix are a spelling mistake worth telling.
pub const ON_PODS: &[&str] = &[ADDRESSES, MAC, NETWORK, NETWORK_ADDRESSES, SECURITY_GROUPS];

/// Annotations we understand on a service.
pub const ON_SERVICES: &[&str] = &[EXTERNAL_ADDRESSES, HEALTH_CHECK];

/// What a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Addresses in its `Network`, at most one of each family.
    pub network_addresses: Vec<IpAddr>,
    /// MAC address.
    pub mac: Option<Mac>,
}

/// Parses the [`GATEWAY`] annotation.
pub fn gateway(text: &str) -> Result<Gateway, String> {
    let gateway: Gateway = serde_json::from_str(text)
        .map_err(|e| format!("{GATEWAY} is not what an agent writes ({e}); delete the annotation, the agent writes it again"))?;
    if gateway.addresses.is_empty() {
        return Err(format!("{GATEWAY} names no address; give the node's uplink an address"));
    }
    Ok(gateway)
}

/// Parses what a pod asks for out of its annotations.
pub fn request(annotations: &BTreeMap<String, String>) -> Result<Request, String> {
    let mut request = Request::default();
    for (name, value) in annotations {
        match name.as_str() {
            ADDRESSES => request.addresses = addresses(ADDRESSES, value)?,
            MAC => request.mac = Some(value.trim().parse().map_err(|e| format!("{MAC}: {e}"))?),
            NETWORK_ADDRESSES => request.network_addresses = addresses(NETWORK_ADDRESSES, value)?,
            NETWORK | SECURITY_GROUPS => {} // read where networks and groups are
            other if other.starts_with(PREFIX) => {
                return Err(format!("annotation {other} is unknown on a pod; known are {}", ON_PODS.join(", ")));
            }
            _ => {}
        }
    }
    Ok(request)
}

/// Parses the external addresses a service asks for.
pub fn external_addresses(annotations: &BTreeMap<String, String>) -> Result<Vec<IpAddr>, String> {
    annotations
        .get(EXTERNAL_ADDRESSES)
        .map_or(Ok(Vec::new()), |text| addresses(EXTERNAL_ADDRESSES, text))
}

/// How OVN checks the backends of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Seconds between two probes.
    pub interval: u32,
    /// Seconds to wait for an answer.
    pub timeout: u32,
    /// Probes without an answer after which a backend is taken out.
    pub failures: u32,
    /// Answers after which it is taken in again.
    pub successes: u32,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            interval: 5,
            timeout: 2,
            failures: 3,
            successes: 1,
        }
    }
}

/// Parses the [`HEALTH_CHECK`] annotation: `true`, `false`, or settings like `interval=2,timeout=1,failures=2,successes=1`.
pub fn health_check(annotations: &BTreeMap<String, String>) -> Result<Option<HealthCheck>, String> {
    let text = match annotations.get(HEALTH_CHECK).map(|text| text.trim()) {
        None | Some("false" | "") => return Ok(None),
        Some("true") => return Ok(Some(HealthCheck::default())),
        Some(text) => text,
    };
    let mut check = HealthCheck::default();
    for part in text.split(',').map(str::trim) {
        let wrong =
            || format!("{HEALTH_CHECK}: \"{part}\" is unknown; write true, or for example interval=2,timeout=1,failures=2,successes=1");
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        let value = value.trim().parse().ok().filter(|value| (1..=MAX_HEALTH).contains(value));
        let value = value.ok_or_else(|| format!("{HEALTH_CHECK}: \"{part}\": give a number from 1 to {MAX_HEALTH}"))?;
        match name.trim() {
            "interval" => check.interval = value,
            "timeout" => check.timeout = value,
            "failures" => check.failures = value,
            "successes" => check.successes = value,
            _ => return Err(wrong()),
        }
    }
    Ok(Some(check))
}

/// Names under our prefix that mean nothing on a service.
pub fn unknown_on_service(annotations: &BTreeMap<String, String>) -> Result<(), String> {
    let unknown = |name: &&String| name.starts_with(PREFIX) && !ON_SERVICES.contains(&name.as_str());
    match annotations.keys().find(unknown) {
        None => Ok(()),
        Some(name) => Err(format!(
            "annotation {name} is unknown on a service; known are {}",
            ON_SERVICES.join(", ")
        )),
    }
}

fn addresses(annotation: &str, text: &str) -> Result<Vec<IpAddr>, String> {
    let mut list: Vec<IpAddr> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let address: IpAddr = part
            .parse()
            .map_err(|_| format!("{annotation}: \"{part}\" is not an IP address; write for example 10.244.1.7"))?;
        if list.iter().any(|a| a.is_ipv4() == address.is_ipv4()) {
            return Err(format!("{annotation}: more than one address of a family; give one of each"));
        }
        list.push(address);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_pod_may_ask_for_one_address_of_each_family() {
        let asked = request(&annotated(ADDRESSES, "10.244.1.7, fd00::7")).unwrap();
        assert_eq!(
            asked.addresses,
            ["10.244.1.7".parse::<IpAddr>().unwrap(), "fd00::7".parse().unwrap()]
        );
        assert!(
            request(&annotated(ADDRESSES, "10.244.1.7,10.244.1.8"))
                .unwrap_err()
                .contains("more than one")
        );
        assert!(
            request(&annotated(ADDRESSES, "ten"))
                .unwrap_err()
                .contains("\"ten\" is not an IP address")
        );
    }

    #[test]
    fn unknown_names_under_our_prefix_are_told() {
        assert!(
            request(&annotated("netloom.io/adresses", "10.0.0.1"))
                .unwrap_err()
                .contains("known are netloom.io/addresses")
        );
        assert_eq!(request(&annotated("example.com/x", "y")), Ok(Request::default()));
    }

    #[test]
    fn a_health_check_is_on_off_or_spelt_out() {
        let check = |text| health_check(&annotated(HEALTH_CHECK, text));
        assert_eq!(health_check(&BTreeMap::new()), Ok(None));
        assert_eq!(check("false"), Ok(None));
        assert_eq!(check(" true "), Ok(Some(HealthCheck::default())));
        let spelt_out = check("interval=2, timeout=1,failures=4").unwrap().unwrap();
        assert_eq!(
            (spelt_out.interval, spelt_out.timeout, spelt_out.failures, spelt_out.successes),
            (2, 1, 4, 1)
        );
        assert!(check("often").unwrap_err().contains("\"often\" is unknown"));
        assert!(check("interval=0").unwrap_err().contains("from 1 to 3600"));
        assert!(check("interval=-1").unwrap_err().contains("from 1 to 3600"));
        assert!(check("jitter=1").unwrap_err().contains("\"jitter=1\" is unknown"));
    }

    #[test]
    fn a_service_asks_under_its_own_names() {
        let asked = external_addresses(&annotated(EXTERNAL_ADDRESSES, "192.0.2.1, fd01::1")).unwrap();
        assert_eq!(asked.len(), 2);
        assert!(
            external_addresses(&annotated(EXTERNAL_ADDRESSES, "192.0.2.1,192.0.2.2"))
                .unwrap_err()
                .starts_with("netloom.io/external-addresses: more than one")
        );
        assert!(unknown_on_service(&annotated(ADDRESSES, "192.0.2.1")).is_err());
        assert_eq!(unknown_on_service(&annotated(HEALTH_CHECK, "true")), Ok(()));
    }

    #[test]
    fn a_gateway_report_needs_an_address() {
        assert!(gateway("{}").unwrap_err().contains("delete the annotation"));
        assert!(
            gateway(r#"{"mac":"02:00:00:00:00:01","addresses":[]}"#)
                .unwrap_err()
                .contains("no address")
        );
        let report = gateway(r#"{"mac":"02:00:00:00:00:01","addresses":["172.30.0.11/24"],"nextHops":["172.30.0.254"]}"#).unwrap();
        assert_eq!(report.next_hops.len(), 1);
    }
}
