//! One port that a pod publishes on its node, as the container runtime asks for it (`portMappings` of CNI) and as it is
//! recorded in the pod's OVS interface: both are the same JSON. ADD parses the first, [`Published`](super::Published)
//! the second. What was parsed is usable: ports are not zero, and an address means one single address.

use std::net::IpAddr;

use serde_json::{Value, json};

use netloom_contract::Protocol;

/// A port of the node that leads to one of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    /// The one address of the node it is published on; none for all of them.
    pub host_ip: Option<IpAddr>,
    /// The port on the node.
    pub host_port: u16,
    /// The protocol.
    pub protocol: Protocol,
    /// The port in the pod.
    pub container_port: u16,
}

/// Reads a list of mappings; the error names the entry and what is wrong with it.
pub fn parse(list: &Value) -> Result<Vec<Mapping>, String> {
    let entries = match list {
        Value::Null => return Ok(Vec::new()),
        Value::Array(entries) => entries,
        other => return Err(format!("`portMappings` must be a list, not {other}")),
    };
    let numbered = entries.iter().enumerate();
    numbered
        .map(|(index, entry)| parse_one(entry).map_err(|wrong| format!("`portMappings[{index}]`: {wrong}")))
        .collect()
}

/// Writes them so that [`parse`] reads the same.
pub fn record(mappings: &[Mapping]) -> String {
    let entry = |mapping: &Mapping| {
        let mut entry = json!({
            "hostPort": mapping.host_port,
            "containerPort": mapping.container_port,
            "protocol": mapping.protocol.to_string(),
        });
        if let Some(address) = mapping.host_ip {
            entry["hostIP"] = json!(address);
        }
        entry
    };
    Value::Array(mappings.iter().map(entry).collect()).to_string()
}

fn parse_one(entry: &Value) -> Result<Mapping, String> {
    let Value::Object(fields) = entry else {
        return Err(format!("must be an object, not {entry}"));
    };
    // containerd writes `HostPort`, others `hostPort`; programs in Go read either.
    let field = |name: &str| {
        let found = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or(&Value::Null, |(_, value)| value)
    };
    let port = |name: &str| {
        let number = field(name).as_u64().and_then(|number| u16::try_from(number).ok());
        let wrong = || format!("`{name}` must be a port between 1 and 65535, not {}", field(name));
        number.filter(|number| *number > 0).ok_or_else(wrong)
    };
    Ok(Mapping {
        host_ip: host_ip(field("hostIP"))?,
        host_port: port("hostPort")?,
        protocol: protocol(field("protocol"))?,
        container_port: port("containerPort")?,
    })
}

/// Runtimes write protocols in either case; without one, Kubernetes means TCP.
fn protocol(value: &Value) -> Result<Protocol, String> {
    match value.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("tcp" | "") => Ok(Protocol::Tcp),
        Some("udp") => Ok(Protocol::Udp),
        Some("sctp") => Ok(Protocol::Sctp),
        None if value.is_null() => Ok(Protocol::Tcp),
        _ => Err(format!("`protocol` must be tcp, udp or sctp, not {value}")),
    }
}

fn host_ip(value: &Value) -> Result<Option<IpAddr>, String> {
    match value.as_str() {
        Some("") => Ok(None),
        None if value.is_null() => Ok(None),
        text => {
            let address: Option<IpAddr> = text.and_then(|text| text.parse().ok());
            let address = address.ok_or_else(|| format!("`hostIP` must be an IP address, not {value}"))?;
            Ok(Some(address.to_canonical()).filter(|address| !address.is_unspecified()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_recorded_is_what_was_asked_for() {
        let asked = json!([
            { "hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1" },
            { "hostPort": 53, "containerPort": 1053, "protocol": "UDP", "hostIP": "::" },
            { "hostPort": 36412, "containerPort": 36412, "protocol": "sctp", "hostIP": "2001:db8::1" },
            { "hostPort": 81, "containerPort": 81 },
            { "HostPort": 82, "ContainerPort": 83, "Protocol": "tcp", "HostIP": "127.0.0.1" },
        ]);
        let mappings = parse(&asked).unwrap();
        assert_eq!(mappings[0].host_ip, Some("127.0.0.1".parse().unwrap()));
        assert_eq!((mappings[1].host_ip, mappings[1].protocol), (None, Protocol::Udp));
        assert_eq!(mappings[3].protocol, Protocol::Tcp);
        assert_eq!((mappings[4].host_port, mappings[4].container_port), (82, 83));
        let record = record(&mappings);
        assert_eq!(parse(&serde_json::from_str(&record).unwrap()).unwrap(), mappings);
        assert_eq!(parse(&Value::Null).unwrap(), []);
    }

    #[test]
    fn every_way_to_say_all_addresses_means_all() {
        for all in [Value::Null, json!(""), json!("0.0.0.0"), json!("::"), json!("::ffff:0.0.0.0")] {
            let asked = json!([{ "hostPort": 1, "containerPort": 1, "hostIP": all }]);
            assert_eq!(parse(&asked).unwrap()[0].host_ip, None, "{asked}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |key: &str, value: Value| {
            let mut entry = json!({ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" });
            entry[key] = value;
            parse(&json!([{ "hostPort": 1, "containerPort": 1 }, entry])).unwrap_err()
        };
        assert_eq!(
            wrong("hostPort", json!(0)),
            "`portMappings[1]`: `hostPort` must be a port between 1 and 65535, not 0"
        );
        assert!(wrong("hostPort", json!("80")).contains("not \"80\""));
        assert!(wrong("containerPort", json!(65536)).contains("`containerPort` must be a port"));
        assert!(wrong("containerPort", json!(-1)).contains("not -1"));
        assert!(wrong("protocol", json!("icmp")).contains("must be tcp, udp or sctp, not \"icmp\""));
        assert!(wrong("protocol", json!(6)).contains("not 6"));
        assert!(wrong("hostIP", json!("localhost")).contains("must be an IP address, not \"localhost\""));
        assert!(parse(&json!({})).unwrap_err().contains("must be a list"));
        assert!(parse(&json!([3])).unwrap_err().contains("must be an object"));
    }
}
