//! One rule of a cluster-wide policy. Of everything that can be one of several things exactly one must be there: nothing may be a field of
//! a newer version that the API server dropped, and could mean anybody.

use ipnet::IpNet;
use serde_json::Value;

use crate::policy::cluster::ClusterPolicyKind;
use crate::policy::cluster::read::{PODS, anywhere, fields, unknown, written_selector};
use crate::policy::read::{is_name, read_selector};
use crate::policy::{Direction, Namespaces, Peer, ProtocolPorts, Rule, Selection, Selector, Which};
use crate::service::Protocol;

/// Reads a rule, but for its action.
pub(super) fn read_rule(kind: ClusterPolicyKind, direction: Direction, number: usize, rule: &Value) -> Result<Rule, String> {
    let peers_field = match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    let ports_field = match kind {
        ClusterPolicyKind::Cluster => "protocols",
        ClusterPolicyKind::Admin | ClusterPolicyKind::Baseline => "ports",
    };
    none_unknown(rule, &["name", "action", peers_field, ports_field])?;
    let entries = |field: &str| match &rule[field] {
        Value::Array(entries) if !entries.is_empty() => Ok(entries.clone()),
        _ => Err(format!(".{field}: it is no list of at least one; write whom the rule is about")),
    };
    let peer = |(place, peer)| read_peer(kind, direction, &peer).map_err(|why| format!(".{peers_field}[{place}]{why}"));
    let peers = entries(peers_field)?.into_iter().enumerate().map(peer);
    let peers = peers.collect::<Result<Vec<_>, _>>()?;
    let ports = match &rule[ports_field] {
        Value::Null => None,
        _ => {
            let port = |(place, port)| {
                let read = if kind == ClusterPolicyKind::Cluster {
                    read_protocol
                } else {
                    read_port
                };
                read(&port).map_err(|why| format!(".{ports_field}[{place}]{why}"))
            };
            let ports = entries(ports_field)?.into_iter().enumerate().map(port);
            Some(ports.collect::<Result<Vec<_>, _>>()?.concat())
        }
    };
    let nameless = |peer: &&Peer| direction == Direction::Egress && !matches!(peer, Peer::Pods(_));
    let named = ports.iter().flatten().any(|port| matches!(port.which, Which::Named(_)));
    if named && peers.iter().any(|peer| nameless(&peer)) {
        return Err(format!(
            ".{ports_field}: nodes and networks have no names for ports; write the number, or make two rules of it"
        ));
    }
    Ok(Rule {
        number,
        peers: Some(peers),
        ports,
    })
}

fn read_peer(kind: ClusterPolicyKind, direction: Direction, peer: &Value) -> Result<Peer, String> {
    let pods = |namespaces: Selector, pods: Selector| {
        let namespaces = Namespaces::Labelled(namespaces);
        Ok(Peer::Pods(Selection { namespaces, pods }))
    };
    let egress = direction == Direction::Egress;
    match fields(peer).as_slice() {
        [("namespaces", value)] => pods(selector("namespaces", value)?, Selector::default()),
        [("pods", value)] => {
            none_unknown(value, PODS).map_err(|why| format!(".pods{why}"))?;
            let within = |field: &str| selector(&format!("pods.{field}"), &value[field]);
            let namespaces = anywhere(kind, value).map_or_else(|| within("namespaceSelector"), Ok)?;
            pods(namespaces, within("podSelector")?)
        }
        [("nodes", value)] if egress => selector("nodes", value).map(Peer::Nodes),
        [("networks", value)] if egress => read_networks(value).map(Peer::Addresses),
        [("domainNames", _)] => Err(".domainNames: names are not looked up; write networks".to_owned()),
        [] => Err(": it names no known kind of peer; write namespaces or pods".to_owned()),
        [(other, _)] => Err(format!(
            ".{other}: {} rules cannot name peers this way; write namespaces or pods",
            direction.as_str()
        )),
        [_, _, ..] => Err(": it names more than one thing; make an entry of each".to_owned()),
    }
}

fn none_unknown(value: &Value, known: &[&str]) -> Result<(), String> {
    unknown(value, known).map_or(Ok(()), Err)
}

fn selector(field: &str, value: &Value) -> Result<Selector, String> {
    let spec = written_selector(value).map_err(|why| format!(".{field}.{why}"))?;
    read_selector(field, &spec)
}

fn read_networks(value: &Value) -> Result<Vec<IpNet>, String> {
    let wrong = |text: &str| format!(".networks: \"{text}\" is not a CIDR; write for example 192.0.2.0/24");
    let entries = value.as_array().filter(|entries| !entries.is_empty());
    let read = |entry: &Value| {
        let text = entry.as_str().unwrap_or_default();
        text.parse::<IpNet>().map(|net| net.trunc()).map_err(|_| wrong(text))
    };
    entries.ok_or_else(|| wrong(""))?.iter().map(read).collect()
}

/// An entry of `protocols`.
fn read_protocol(entry: &Value) -> Result<Vec<ProtocolPorts>, String> {
    let (field, value) = match fields(entry).as_slice() {
        [("destinationNamedPort", name)] => return named(name).map_err(|why| format!(".destinationNamedPort{why}")),
        [(field @ ("tcp" | "udp" | "sctp"), value)] => (*field, *value),
        _ => return Err(": it is not one of tcp, udp, sctp and destinationNamedPort; write exactly one of them".to_owned()),
    };
    let protocol = Protocol::parse(&field.to_uppercase()).unwrap_or(Protocol::Tcp);
    let attributes = fields(value);
    let [("destinationPort", port)] = attributes.as_slice() else {
        return Err(format!(".{field}: it has no destinationPort that we know of; write one"));
    };
    let which = match fields(port).as_slice() {
        [("number", number)] => read_number(number),
        [("range", range)] => none_unknown(range, &["start", "end"]).and_then(|()| read_range(range)),
        _ => Err(": it is not one of number and range; write exactly one of them".to_owned()),
    };
    let which = which.map_err(|why| format!(".{field}.destinationPort{why}"))?;
    Ok(vec![ProtocolPorts { protocol, which }])
}

/// An entry of `ports`.
fn read_port(entry: &Value) -> Result<Vec<ProtocolPorts>, String> {
    let (field, value, known): (_, _, &[&str]) = match fields(entry).as_slice() {
        [("namedPort", name)] => return named(name).map_err(|why| format!(".namedPort{why}")),
        [("portNumber", value)] => ("portNumber", *value, &["protocol", "port"]),
        [("portRange", value)] => ("portRange", *value, &["protocol", "start", "end"]),
        _ => return Err(": it is not one of portNumber, portRange and namedPort; write exactly one of them".to_owned()),
    };
    let protocol = match &value["protocol"] {
        Value::Null => Some(Protocol::Tcp),
        written => written.as_str().filter(|text| !text.is_empty()).and_then(Protocol::parse),
    };
    let protocol = protocol.ok_or_else(|| format!(".{field}.protocol: it is not TCP, UDP or SCTP; change it"))?;
    let which = none_unknown(value, known).and_then(|()| match field {
        "portNumber" => read_number(&value["port"]),
        _ => read_range(value),
    });
    let which = which.map_err(|why| format!(".{field}{why}"))?;
    Ok(vec![ProtocolPorts { protocol, which }])
}

fn number(value: &Value) -> Result<u16, String> {
    let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
    let number = number.filter(|number| *number > 0);
    number.ok_or_else(|| ": it is not from 1 to 65535; change it".to_owned())
}

fn read_number(value: &Value) -> Result<Which, String> {
    number(value).map(|number| Which::Range(number, number))
}

fn read_range(range: &Value) -> Result<Which, String> {
    let (first, last) = (number(&range["start"])?, number(&range["end"])?);
    if last <= first {
        return Err(format!(
            ": its end {last} is not more than its start {first}; write the range from low to high"
        ));
    }
    Ok(Which::Range(first, last))
}

/// The port of this name, of whatever protocol the pod says.
fn named(name: &Value) -> Result<Vec<ProtocolPorts>, String> {
    let name = name.as_str().unwrap_or_default();
    if !is_name(name) {
        return Err(format!(": no container's port can be named \"{name}\"; write such a name"));
    }
    let port = |protocol| ProtocolPorts {
        protocol,
        which: Which::Named(name.to_owned()),
    };
    Ok(Protocol::ALL.map(port).to_vec())
}
