//! Security groups: what the user wrote, read into rules without anything left to interpret, and the groups a pod names. A pod that names
//! any is closed but for what its groups allow, so what cannot be read closes and never opens: the rule allows nothing.

use std::collections::BTreeSet;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::{Namespaced, Pod, PodName};
use crate::policy::Direction;

/// Namespace and name of a security group.
pub type SecurityGroupName = Namespaced;

/// Annotation of a pod: names of security groups of its namespace, comma separated.
pub const SECURITY_GROUPS: &str = "netloom.io/security-groups";
/// Label of a pod: the name of one.
pub const SECURITY_GROUP: &str = "netloom.io/security-group";

/// A `SecurityGroup` as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityGroup {
    /// UID.
    pub uid: String,
    /// Its spec.
    pub spec: SecurityGroupSpec,
}

/// `spec` of a `SecurityGroup`. Rules are kept as written, so that one that cannot be read leaves the others alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SecurityGroupSpec {
    /// What is allowed.
    pub rules: Option<Vec<Value>>,
}

/// A security group that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// What it allows.
    pub rules: Vec<Rule>,
    /// What the user has to fix.
    pub complaints: Vec<String>,
}

/// What one rule allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its place in the list the user wrote.
    pub number: usize,
    /// Which way.
    pub direction: Direction,
    /// Protocol, as OVN's matches have it; none for every IP protocol.
    pub protocol: Option<&'static str>,
    /// Ports of the protocol, from the first to the last; none for all.
    pub ports: Option<(u16, u16)>,
    /// Who is at the other end; none for anybody.
    pub remote: Option<Remote>,
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// Pods of a security group.
    Group(SecurityGroupName),
    /// Whoever has an address in this range.
    Range(IpNet),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleSpec {
    direction: String,
    protocol: Option<String>,
    port: Option<i64>,
    end_port: Option<i64>,
    remote: Option<RemoteSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoteSpec {
    group: Option<GroupSpec>,
    cidr: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupSpec {
    name: String,
    namespace: Option<String>,
}

/// Reads a group of a namespace.
pub fn read(namespace: &str, spec: &SecurityGroupSpec) -> Group {
    let mut group = Group::default();
    for (number, rule) in spec.rules.iter().flatten().enumerate() {
        let read = RuleSpec::deserialize(rule).map_err(|error| error.to_string());
        match read.and_then(|rule| read_rule(namespace, number, rule)) {
            Ok(rule) => group.rules.push(rule),
            Err(why) => group
                .complaints
                .push(format!("spec.rules[{number}]: {why}; until then the rule allows nothing")),
        }
    }
    group
}

fn read_rule(namespace: &str, number: usize, spec: RuleSpec) -> Result<Rule, String> {
    let direction = match spec.direction.as_str() {
        "Ingress" => Direction::Ingress,
        "Egress" => Direction::Egress,
        other => return Err(format!("direction \"{other}\" is unknown; write Ingress or Egress")),
    };
    let protocol = match spec.protocol.as_deref() {
        None => None,
        Some("TCP") => Some("tcp"),
        Some("UDP") => Some("udp"),
        Some("SCTP") => Some("sctp"),
        Some("ICMP") => Some("icmp"),
        Some(other) => {
            return Err(format!(
                "protocol \"{other}\" is unknown; write TCP, UDP, SCTP or ICMP, or leave it out to mean all"
            ));
        }
    };
    let ports = read_ports(spec.port, spec.end_port)?;
    if ports.is_some() && protocol.is_none_or(|protocol| protocol == "icmp") {
        return Err("port goes with TCP, UDP or SCTP; add the protocol or leave the port out".to_owned());
    }
    Ok(Rule {
        number,
        direction,
        protocol,
        ports,
        remote: spec.remote.map(|remote| read_remote(namespace, remote)).transpose()?,
    })
}

fn read_ports(port: Option<i64>, end_port: Option<i64>) -> Result<Option<(u16, u16)>, String> {
    let number = |name: &str, value: i64| match u16::try_from(value) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{name} {value} is no port; give a number from 1 to 65535")),
    };
    match (port, end_port) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err("endPort goes with port; add the first of the range".to_owned()),
        (Some(port), None) => number("port", port).map(|port| Some((port, port))),
        (Some(port), Some(end_port)) => match (number("port", port)?, number("endPort", end_port)?) {
            (first, last) if first <= last => Ok(Some((first, last))),
            _ => Err(format!("endPort {end_port} comes before port {port}; give the last of the range")),
        },
    }
}

fn read_remote(namespace: &str, spec: RemoteSpec) -> Result<Remote, String> {
    match (spec.group, spec.cidr) {
        (Some(group), None) => Ok(Remote::Group(SecurityGroupName {
            namespace: group.namespace.unwrap_or_else(|| namespace.to_owned()),
            name: group.name,
        })),
        (None, Some(cidr)) => cidr
            .parse::<IpNet>()
            .map(|range| Remote::Range(range.trunc()))
            .map_err(|_| format!("remote.cidr \"{cidr}\" is not a CIDR; write for example 10.0.0.0/8")),
        _ => Err("remote has neither or both of group and cidr; give exactly one, or leave remote out to mean anybody".to_owned()),
    }
}

impl Pod {
    /// The security groups it names.
    pub fn security_groups(&self, pod: &PodName) -> BTreeSet<SecurityGroupName> {
        let named = self.group_names().map(|name| SecurityGroupName {
            namespace: pod.namespace.clone(),
            name: name.to_owned(),
        });
        named.collect()
    }

    /// Whether it names any security group.
    pub(crate) fn names_groups(&self) -> bool {
        self.group_names().next().is_some()
    }

    fn group_names(&self) -> impl Iterator<Item = &str> {
        let annotation = self.annotations.get(SECURITY_GROUPS).into_iter().flat_map(|text| text.split(','));
        let names = annotation.chain(self.labels.get(SECURITY_GROUP).map(String::as_str));
        names.map(str::trim).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(rule: Value) -> Result<Rule, String> {
        let mut group = read("shop", &SecurityGroupSpec { rules: Some(vec![rule]) });
        group.rules.pop().ok_or_else(|| group.complaints.remove(0))
    }

    #[test]
    fn rules_are_read() {
        let rule =
            of(json!({ "direction": "Ingress", "protocol": "TCP", "port": 80, "endPort": 90, "remote": { "group": { "name": "web" } } }))
                .unwrap();
        assert_eq!((rule.protocol, rule.ports), (Some("tcp"), Some((80, 90))));
        assert!(matches!(rule.remote, Some(Remote::Group(group)) if group.to_string() == "shop/web"));
        let rule = of(json!({ "direction": "Egress", "remote": { "cidr": "10.1.2.3/8" } })).unwrap();
        assert_eq!(rule.remote, Some(Remote::Range("10.0.0.0/8".parse().unwrap())));
        assert_eq!(read("shop", &SecurityGroupSpec::default()), Group::default());
    }

    #[test]
    fn what_cannot_be_read_allows_nothing() {
        for (rule, why) in [
            (json!({}), "missing field `direction`"),
            (json!({ "direction": "in" }), "write Ingress or Egress"),
            (json!({ "direction": "Ingress", "protocol": "tcp" }), "write TCP"),
            (json!({ "direction": "Ingress", "port": 80 }), "add the protocol"),
            (json!({ "direction": "Ingress", "protocol": "ICMP", "port": 80 }), "port goes with"),
            (json!({ "direction": "Ingress", "protocol": "TCP", "port": 0 }), "from 1 to 65535"),
            (json!({ "direction": "Ingress", "protocol": "TCP", "endPort": 9 }), "add the first"),
            (
                json!({ "direction": "Ingress", "protocol": "TCP", "port": 9, "endPort": 8 }),
                "comes before",
            ),
            (json!({ "direction": "Ingress", "remote": {} }), "exactly one"),
            (json!({ "direction": "Ingress", "remote": { "cidr": "ten" } }), "not a CIDR"),
            (json!({ "direction": "Ingress", "remotes": {} }), "unknown field `remotes`"),
            (json!("Ingress"), "invalid type"),
        ] {
            let said = of(rule.clone()).unwrap_err();
            assert!(said.contains(why) && said.ends_with("allows nothing"), "{rule}: {said}");
        }
    }

    #[test]
    fn a_pod_names_groups_by_annotation_and_label() {
        let mut pod = Pod::default();
        let name = PodName {
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
        };
        assert_eq!(pod.security_groups(&name).len(), 0);
        pod.annotations.insert(SECURITY_GROUPS.to_owned(), "web, ssh,".to_owned());
        pod.labels.insert(SECURITY_GROUP.to_owned(), "web".to_owned());
        let named: Vec<String> = pod.security_groups(&name).iter().map(ToString::to_string).collect();
        assert_eq!(named, ["shop/ssh", "shop/web"]);
    }
}
