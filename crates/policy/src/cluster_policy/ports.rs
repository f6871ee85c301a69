//! Ports of cluster-wide policies: `protocols` of v1alpha2 and `ports` of v1alpha1. Called by [`super::read`].

use serde_json::Value;

use super::{ClusterKind, ClusterPorts};
use crate::cluster::Protocol;
use crate::reader::{self, Reader, given};

impl Reader {
    /// The ports of a rule; none for all of them.
    pub(super) fn ports(&mut self, kind: ClusterKind, field: &str, ports: Option<&Value>) -> Vec<ClusterPorts> {
        let Some(ports) = ports else { return Vec::new() };
        let mut read = Vec::new();
        match ports.as_array() {
            Some(ports) if !ports.is_empty() => {
                for (index, port) in ports.iter().enumerate() {
                    let field = format!("{field}[{index}]");
                    let ports = match kind {
                        ClusterKind::ClusterNetworkPolicy => self.by_protocol(&field, port),
                        ClusterKind::AdminNetworkPolicy | ClusterKind::BaselineAdminNetworkPolicy => self.by_port(&field, port),
                    };
                    match ports {
                        Ok(ports) => read.push(ports),
                        Err(message) => self.problem(field, message),
                    }
                }
            }
            _ => self.problem(field, "is empty; leave it out for all ports"),
        }
        read
    }

    /// `{tcp: {destinationPort: {number: 80}}}`, as v1alpha2 has it.
    fn by_protocol(&mut self, field: &str, written: &Value) -> Result<ClusterPorts, String> {
        let (name, value) = one_of(written, &["tcp", "udp", "sctp", "destinationNamedPort"])?;
        let protocol = match name {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            "sctp" => Protocol::Sctp,
            _ => return named(value),
        };
        let (_, port) = one_of(value, &["destinationPort"])?;
        match one_of(port, &["number", "range"])? {
            ("number", port) => number(port).map(|port| ClusterPorts::Range(protocol, port, port)),
            (_, range) => {
                self.has_only(&format!("{field}.{name}.destinationPort.range"), range, &["start", "end"]);
                numbers(protocol, range)
            }
        }
    }

    /// `{portNumber: {protocol: TCP, port: 80}}`, as v1alpha1 has it.
    fn by_port(&mut self, field: &str, written: &Value) -> Result<ClusterPorts, String> {
        let (name, value) = one_of(written, &["portNumber", "namedPort", "portRange"])?;
        if name == "namedPort" {
            return named(value);
        }
        let protocol = given(value, "protocol").map_or("TCP", |text| text.as_str().unwrap_or_default());
        let protocol = Protocol::parse(protocol).ok_or_else(|| format!("{protocol:?} is no protocol with ports; use TCP, UDP or SCTP"))?;
        let field = format!("{field}.{name}");
        if name == "portNumber" {
            self.has_only(&field, value, &["protocol", "port"]);
            number(&value["port"]).map(|port| ClusterPorts::Range(protocol, port, port))
        } else {
            self.has_only(&field, value, &["protocol", "start", "end"]);
            numbers(protocol, value)
        }
    }
}

/// The one field of an object that has exactly one, of these.
fn one_of<'a>(object: &'a Value, known: &[&'static str]) -> Result<(&'static str, &'a Value), String> {
    let wanted = || format!("has to have exactly one of {}", known.join(", "));
    let fields = object.as_object().ok_or_else(wanted)?;
    let mut given = fields.iter().filter(|(_, value)| !value.is_null());
    let (Some((name, value)), None) = (given.next(), given.next()) else {
        return Err(wanted());
    };
    let name = known.iter().find(|own| *own == name).ok_or_else(wanted)?;
    Ok((name, value))
}

fn named(value: &Value) -> Result<ClusterPorts, String> {
    let name = value
        .as_str()
        .filter(|name| !name.is_empty())
        .ok_or("the name of the port is missing")?;
    Ok(ClusterPorts::Named(name.to_owned()))
}

fn number(value: &Value) -> Result<u16, String> {
    let number = value.as_i64().ok_or("the number of a port is missing; use 1 to 65535")?;
    reader::port(number)
}

fn numbers(protocol: Protocol, range: &Value) -> Result<ClusterPorts, String> {
    let (first, last) = (number(&range["start"])?, number(&range["end"])?);
    if last <= first {
        return Err(format!("end {last} of the range is not above its start {first}"));
    }
    Ok(ClusterPorts::Range(protocol, first, last))
}
