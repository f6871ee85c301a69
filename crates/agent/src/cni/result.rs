//! The result document of ADD, in the shape of the version asked for, and the comparison of such a document with what
//! CHECK finds. The versions differ little: `ips[].version` exists up to 0.4.0, `interfaces[].mtu` from 1.1.0.

use std::path::Path;

use serde_json::{Value, json};

use crate::assignment::Assignment;
use netloom_contract::cni::Version;

/// What ADD made, for the result document.
#[derive(Clone, Copy, Debug)]
pub struct Attached<'a> {
    /// The host's end of the veth.
    pub host: &'a str,
    /// The interface in the pod.
    pub ifname: &'a str,
    /// The pod's namespace.
    pub netns: &'a Path,
    /// Addresses, gateways and MAC.
    pub assignment: &'a Assignment,
    /// The interface's MTU.
    pub mtu: u32,
}

/// Renders the result.
pub fn render(version: Version, attached: &Attached<'_>) -> Value {
    let assignment = attached.assignment;
    let mut host = json!({ "name": attached.host });
    let mut inside = json!({
        "name": attached.ifname, "mac": assignment.mac.to_string(), "sandbox": attached.netns.to_string_lossy(),
    });
    if version >= Version::V1_1_0 {
        host["mtu"] = json!(attached.mtu);
        inside["mtu"] = json!(attached.mtu);
    }
    let ips: Vec<Value> = assignment
        .addresses
        .iter()
        .map(|address| {
            let mut ip = json!({ "address": address.to_string(), "interface": 1 });
            if version <= Version::V0_4_0 {
                ip["version"] = json!(if address.addr().is_ipv4() { "4" } else { "6" });
            }
            if let Some(gateway) = assignment.gateway_for(*address) {
                ip["gateway"] = json!(gateway.to_string());
            }
            ip
        })
        .collect();
    let routes: Vec<Value> = assignment
        .default_routes()
        .iter()
        .map(|(destination, gateway)| json!({ "dst": destination.to_string(), "gw": gateway.to_string() }))
        .collect();
    json!({
        "cniVersion": version.as_str(), "interfaces": [host, inside], "ips": ips, "routes": routes, "dns": {},
    })
}

/// Where `previous` disagrees with the assignment of `ifname`; `None` if it agrees. Other plugins of a chain may have
/// added interfaces and addresses of their own, so only ours are compared.
pub fn disagreement(previous: &Value, ifname: &str, assignment: &Assignment) -> Option<String> {
    let empty = Vec::new();
    let interfaces = previous["interfaces"].as_array().unwrap_or(&empty);
    let in_pod = |interface: &&Value| interface["sandbox"].as_str().is_some_and(|sandbox| !sandbox.is_empty());
    let Some(interface) = interfaces.iter().filter(in_pod).find(|interface| interface["name"] == ifname) else {
        return Some(format!("prevResult has no interface {ifname} in the pod"));
    };
    if let Some(mac) = interface["mac"]
        .as_str()
        .filter(|mac| !mac.eq_ignore_ascii_case(&assignment.mac.to_string()))
    {
        return Some(format!(
            "prevResult says {ifname} has MAC {mac}, it was assigned {}",
            assignment.mac
        ));
    }
    let addresses: Vec<&str> = previous["ips"]
        .as_array()
        .unwrap_or(&empty)
        .iter()
        .filter_map(|ip| ip["address"].as_str())
        .collect();
    let missing = assignment.addresses.iter().find(|address| {
        !addresses
            .iter()
            .any(|text| text.parse::<ipnet::IpNet>().is_ok_and(|parsed| parsed == **address))
    });
    missing.map(|address| format!("prevResult lacks address {address} of {ifname}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use netloom_contract::external_id;

    use super::*;
    use std::collections::BTreeMap;

    fn assignment() -> Assignment {
        let ids = BTreeMap::from([
            (external_id::ADDRESSES.to_owned(), "10.244.1.5/24,fd00:1::5/64".to_owned()),
            (external_id::GATEWAYS.to_owned(), "10.244.1.1,fd00:1::1".to_owned()),
        ]);
        Assignment::parse(&["0a:58:0a:f4:01:05 10.244.1.5 fd00:1::5"], &ids).unwrap()
    }

    fn result(version: Version) -> Value {
        let assignment = assignment();
        let netns = Path::new("/run/netns/a");
        render(
            version,
            &Attached {
                host: "nl0",
                ifname: "eth0",
                netns,
                assignment: &assignment,
                mtu: 1442,
            },
        )
    }

    #[test]
    fn the_versions_differ_where_the_specification_says() {
        for version in [Version::V0_3_1, Version::V0_4_0] {
            assert_eq!(result(version)["ips"][1]["version"], "6");
            assert!(result(version)["interfaces"][1]["mtu"].is_null());
        }
        assert!(result(Version::V1_0_0)["ips"][0]["version"].is_null());
        assert!(result(Version::V1_0_0)["interfaces"][1]["mtu"].is_null());
        assert_eq!(result(Version::V1_1_0)["interfaces"][1]["mtu"], 1442);
    }

    #[test]
    fn the_result_is_complete() {
        assert_eq!(
            result(Version::V1_0_0),
            json!({
                "cniVersion": "1.0.0",
                "interfaces": [
                    { "name": "nl0" },
                    { "name": "eth0", "mac": "0a:58:0a:f4:01:05", "sandbox": "/run/netns/a" },
                ],
                "ips": [
                    { "address": "10.244.1.5/24", "gateway": "10.244.1.1", "interface": 1 },
                    { "address": "fd00:1::5/64", "gateway": "fd00:1::1", "interface": 1 },
                ],
                "routes": [
                    { "dst": "0.0.0.0/0", "gw": "10.244.1.1" },
                    { "dst": "::/0", "gw": "fd00:1::1" },
                ],
                "dns": {},
            })
        );
    }

    #[test]
    fn disagreement_is_named() {
        let mut previous = result(Version::V1_0_0);
        assert_eq!(disagreement(&previous, "eth0", &assignment()), None);
        assert!(disagreement(&previous, "eth1", &assignment()).unwrap().contains("eth1"));
        previous["ips"][1]["address"] = json!("fd00:1::6/64");
        assert!(disagreement(&previous, "eth0", &assignment()).unwrap().contains("fd00:1::5/64"));
        previous["interfaces"][1]["mac"] = json!("0a:00:00:00:00:00");
        assert!(disagreement(&previous, "eth0", &assignment()).unwrap().contains("MAC"));
    }
}
