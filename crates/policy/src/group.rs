//! SecurityGroups (netloom.io/v1alpha1): a pod that names at least one is shut in both directions but for what a rule of one of them
//! allows; what they allow goes on to the policies. Asked by [`crate::evaluate`] before everything else.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use crate::cluster::{Cluster, Labels, Name, Protocol};
use crate::policy::Direction;
use crate::problem::{Object, Problem};
use crate::reader::{self, Reader, given};
use crate::verdict::Party;

/// Annotation of a pod with names of groups, separated by commas.
const GROUPS: &str = "netloom.io/security-groups";
/// Label of a pod with the name of one.
const GROUP: &str = "netloom.io/security-group";

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// Its rules; `None` for one with a mistake, which allows nothing.
    pub rules: Vec<Option<GroupRule>>,
    /// Its mistakes.
    pub problems: Vec<Problem>,
}

/// A rule: allows what matches all it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRule {
    /// As the pod sees it.
    pub direction: Direction,
    /// Every IP protocol if `None`.
    pub protocol: Option<GroupProtocol>,
    /// From the first to the last; all if `None`.
    pub ports: Option<(u16, u16)>,
    /// Anybody if `None`.
    pub remote: Option<Remote>,
}

/// A protocol a rule may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// One with ports.
    Ports(Protocol),
    /// ICMP of both families, which nobody asks about here.
    Icmp,
}

/// Who may be on the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// Pods in this group.
    Group(Name),
    /// Addresses.
    Range(IpNet),
}

/// Names of the groups a pod says it is in.
pub fn names(annotations: &Labels, labels: &Labels) -> BTreeSet<String> {
    let listed = annotations.get(GROUPS).into_iter().flat_map(|text| text.split(','));
    let all = listed.chain(labels.get(GROUP).map(String::as_str)).map(str::trim);
    all.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

impl SecurityGroup {
    /// Reads a spec.
    pub fn read(name: &Name, spec: &Value) -> Self {
        let mut reader = Reader::new(Object::in_namespace("SecurityGroup", name), "InvalidSecurityGroup");
        let mut rules = Vec::new();
        // A field nobody knows may have been meant to restrict the rules.
        let readable = spec.is_null() || reader.has_only("spec", spec, &["rules"]);
        match given(spec, "rules") {
            None => {}
            Some(Value::Array(written)) => {
                for (index, rule) in written.iter().enumerate() {
                    let rule = reader.group_rule(&format!("rules[{index}]"), rule, &name.namespace);
                    rules.push(rule.filter(|_| readable));
                }
            }
            Some(_) => reader.problem("rules", "has to be a list"),
        }
        Self {
            rules,
            problems: reader.problems,
        }
    }
}

impl Reader {
    fn group_rule(&mut self, field: &str, rule: &Value, namespace: &str) -> Option<GroupRule> {
        let before = self.problems.len();
        if !rule.is_object() {
            self.problem(field, "has to be an object with fields");
            return None;
        }
        self.has_only(field, rule, &["direction", "protocol", "port", "endPort", "remote"]);
        let direction = match given(rule, "direction").and_then(Value::as_str) {
            Some("Egress") => Direction::Egress,
            Some("Ingress") => Direction::Ingress,
            _ => {
                self.problem(format!("{field}.direction"), "use Ingress or Egress");
                Direction::Ingress
            }
        };
        let protocol = match given(rule, "protocol").map(|text| text.as_str().unwrap_or_default()) {
            None => None,
            Some("ICMP") => Some(GroupProtocol::Icmp),
            Some(text) => {
                let read = Protocol::parse(text);
                if read.is_none() {
                    self.problem(
                        format!("{field}.protocol"),
                        format!("{text:?} is no protocol; use TCP, UDP, SCTP or ICMP, or leave it out for all"),
                    );
                }
                read.map(GroupProtocol::Ports)
            }
        };
        let ports = match (given(rule, "port"), given(rule, "endPort")) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err("endPort without port; give the first port of the range".to_owned()),
            (Some(_), _) if !matches!(protocol, Some(GroupProtocol::Ports(_))) => {
                Err("port without a protocol that has ports; add protocol TCP, UDP or SCTP".to_owned())
            }
            (Some(first), last) => ports(first, last.unwrap_or(first)).map(Some),
        };
        let ports = ports.unwrap_or_else(|message| {
            self.problem(format!("{field}.port"), message);
            None
        });
        let remote = given(rule, "remote").and_then(|remote| self.remote(&format!("{field}.remote"), remote, namespace));
        (self.problems.len() == before).then_some(GroupRule {
            direction,
            protocol,
            ports,
            remote,
        })
    }

    fn remote(&mut self, field: &str, remote: &Value, namespace: &str) -> Option<Remote> {
        if !self.has_only(field, remote, &["group", "cidr"]) {
            return None;
        }
        match (given(remote, "group"), given(remote, "cidr")) {
            (Some(group), None) => {
                let field = format!("{field}.group");
                self.has_only(&field, group, &["name", "namespace"]);
                let text = |key: &str| given(group, key).map(|value| value.as_str().unwrap_or_default());
                match (text("name"), text("namespace").unwrap_or(namespace)) {
                    (Some(name), namespace) if !name.is_empty() && !namespace.is_empty() => Some(Remote::Group(Name::new(namespace, name))),
                    _ => {
                        self.problem(field, "names no group; give its name");
                        None
                    }
                }
            }
            (None, Some(cidr)) => match reader::range(cidr.as_str().unwrap_or_default()) {
                Ok(range) => Some(Remote::Range(range)),
                Err(message) => {
                    self.problem(format!("{field}.cidr"), message);
                    None
                }
            },
            (None, None) => {
                self.problem(field, "names no peer; give group or cidr, or leave remote out to allow all");
                None
            }
            (Some(_), Some(_)) => {
                self.problem(field, "has group and cidr; make two rules of them");
                None
            }
        }
    }
}

fn ports(first: &Value, last: &Value) -> Result<(u16, u16), String> {
    let number = |value: &Value| {
        let number = value.as_i64().ok_or_else(|| format!("{value} is no number of a port"))?;
        reader::port(number)
    };
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(format!("endPort {last} is below port {first}; it is the last port of the range"));
    }
    Ok((first, last))
}

impl GroupRule {
    /// Whether it allows this: the other side with its address, and a protocol's port.
    pub fn allows(&self, cluster: &Cluster, other: &Party, address: Option<IpAddr>, protocol: Protocol, port: u16) -> bool {
        let of_protocol = self.protocol.is_none_or(|own| own == GroupProtocol::Ports(protocol));
        let of_port = self.ports.is_none_or(|(first, last)| (first..=last).contains(&port));
        of_protocol
            && of_port
            && match &self.remote {
                None => true,
                Some(Remote::Range(range)) => address.is_some_and(|address| range.contains(&address)),
                Some(Remote::Group(group)) => matches!(other, Party::Pod(pod) if is_in(cluster, pod, group)),
            }
    }
}

/// Whether a pod is in a group. A group that is not there has nobody in it.
fn is_in(cluster: &Cluster, pod: &Name, group: &Name) -> bool {
    let names = cluster.pods.get(pod).map(|pod| &pod.groups);
    pod.namespace == group.namespace && names.is_some_and(|names| names.contains(&group.name)) && cluster.groups.contains_key(group)
}

/// Mistakes in the groups a pod names, and names of groups that are not there.
pub fn problems(cluster: &Cluster, name: &Name) -> Vec<Problem> {
    let pod = cluster.pods.get(name).filter(|pod| !pod.host_network);
    let named = pod.into_iter().flat_map(|pod| &pod.groups);
    named
        .flat_map(|group| match cluster.groups.get(&Name::new(&name.namespace, group)) {
            Some(found) => found.problems.clone(),
            None => vec![Problem {
                object: Object::of_pod(name),
                reason: "UnknownSecurityGroup",
                field: format!("annotation {GROUPS}"),
                message: format!(
                    "there is no SecurityGroup {group:?} in its namespace, so it allows nothing; create it or correct the name"
                ),
            }],
        })
        .collect()
}
