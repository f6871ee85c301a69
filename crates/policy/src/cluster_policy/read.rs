//! Reading the three kinds as they are written. The two versions of the API say the same in other words: `Accept` and `Allow`,
//! `protocols` and `ports`. Called once per object.

use serde_json::Value;

use super::{Action, ClusterKind, ClusterPeer, ClusterPolicy, ClusterPolicyName, ClusterPorts, ClusterRule, LAST, Pods, Scope, Tier};
use crate::policy::Direction;
use crate::problem::{INVALID_POLICY, Object};
use crate::reader::{self, Reader, given};

/// How many groups of rules, one after the other and with the same action, Netloom has room for within one priority. If there are more, the
/// last place is that of a denial.
const RUNS: usize = 32;

impl ClusterPolicy {
    /// Reads a spec.
    pub fn read(name: &ClusterPolicyName, spec: &Value) -> Self {
        let kind = name.kind;
        let mut reader = Reader::new(Object::from(name), INVALID_POLICY);
        let known: &[&str] = match kind {
            ClusterKind::ClusterNetworkPolicy => &["tier", "priority", "subject", "ingress", "egress"],
            ClusterKind::AdminNetworkPolicy => &["priority", "subject", "ingress", "egress"],
            ClusterKind::BaselineAdminNetworkPolicy => &["subject", "ingress", "egress"],
        };
        reader.has_only("spec", spec, known);
        let tier = reader.tier(kind, spec);
        let priority = reader.priority(kind, spec);
        let subject = reader.subject(kind, &spec["subject"]);
        // Some of these pods, or this place, were not meant, so no rule does what it says.
        let unread = !reader.problems.is_empty();
        let mut rules = |direction| reader.cluster_rules(kind, direction, &spec[direction_field(direction)], unread);
        let (ingress, egress) = (rules(Direction::Ingress), rules(Direction::Egress));
        Self {
            tier,
            priority,
            subject,
            ingress,
            egress,
            problems: reader.problems,
        }
    }
}

fn direction_field(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}

impl Reader {
    fn tier(&mut self, kind: ClusterKind, spec: &Value) -> Tier {
        match (kind, given(spec, "tier").and_then(Value::as_str)) {
            (ClusterKind::AdminNetworkPolicy, _) | (ClusterKind::ClusterNetworkPolicy, Some("Admin")) => Tier::Admin,
            (ClusterKind::BaselineAdminNetworkPolicy, _) | (ClusterKind::ClusterNetworkPolicy, Some("Baseline")) => Tier::Baseline,
            (ClusterKind::ClusterNetworkPolicy, _) => {
                self.problem("tier", "use Admin or Baseline; until then it counts as Admin and accepts nothing");
                Tier::Admin
            }
        }
    }

    fn priority(&mut self, kind: ClusterKind, spec: &Value) -> u16 {
        if kind == ClusterKind::BaselineAdminNetworkPolicy {
            return LAST;
        }
        let number = given(spec, "priority")
            .and_then(Value::as_i64)
            .and_then(|number| u16::try_from(number).ok());
        number.filter(|number| *number < LAST).unwrap_or_else(|| {
            self.problem(
                "priority",
                "use a number from 0 to 1000; until then it comes first and accepts nothing",
            );
            0
        })
    }

    /// What cannot be read of it is left out, so that it selects more, never fewer.
    fn subject(&mut self, kind: ClusterKind, subject: &Value) -> Pods {
        if !subject.is_null() && !self.has_only("subject", subject, &["namespaces", "pods"]) {
            return Pods::default();
        }
        match (given(subject, "namespaces"), given(subject, "pods")) {
            (Some(namespaces), None) => Pods {
                namespaces: self.written_selector("subject.namespaces", namespaces),
                ..Pods::default()
            },
            (None, Some(pods)) => self.pods(kind, "subject.pods", pods),
            _ => {
                self.problem("subject", "give either namespaces or pods; until then it is about all pods");
                Pods::default()
            }
        }
    }

    fn pods(&mut self, kind: ClusterKind, field: &str, pods: &Value) -> Pods {
        self.has_only(field, pods, &["namespaceSelector", "podSelector"]);
        let mut selector = |name: &str, optional: bool| {
            let field = format!("{field}.{name}");
            match given(pods, name) {
                Some(selector) => self.written_selector(&field, selector),
                None if optional => Default::default(),
                None => {
                    self.problem(field, "is missing; write {} to select all");
                    Default::default()
                }
            }
        };
        Pods {
            namespaces: selector("namespaceSelector", kind == ClusterKind::ClusterNetworkPolicy),
            pods: selector("podSelector", false),
        }
    }

    fn cluster_rules(&mut self, kind: ClusterKind, direction: Direction, rules: &Value, unread: bool) -> Vec<ClusterRule> {
        let place = direction_field(direction);
        let rules = match rules {
            Value::Null => return Vec::new(),
            Value::Array(rules) => rules,
            _ => {
                self.problem(place, "has to be a list, so it denies everything");
                return vec![closed(String::new(), Action::Deny)];
            }
        };
        let mut read: Vec<ClusterRule> = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            read.push(self.cluster_rule(kind, direction, &format!("{place}[{index}]"), rule, unread));
        }
        // Where each run begins. A rule that matches nothing is in nobody's way.
        let matching: Vec<usize> = (0..read.len()).filter(|index| read[*index].scope != Scope::Nothing).collect();
        let changes = matching.windows(2).filter(|pair| read[pair[0]].action != read[pair[1]].action);
        let changes: Vec<usize> = changes.map(|pair| pair[1]).collect();
        if changes.len() >= RUNS {
            let first = changes[RUNS - 2];
            let message = format!(
                "the action changes more than {} times, so from here on everything is denied; put rules with the same action together, or make two policies",
                RUNS - 1
            );
            self.problem(format!("{place}[{first}]"), message);
            let name = std::mem::take(&mut read[first].name);
            read.truncate(first);
            read.push(closed(name, Action::Deny));
        }
        read
    }

    fn cluster_rule(&mut self, kind: ClusterKind, direction: Direction, field: &str, rule: &Value, unread: bool) -> ClusterRule {
        let before = self.problems.len();
        let (side, port_list) = (side(direction), ports_field(kind));
        self.has_only(field, rule, &["name", "action", side, port_list]);
        let name = given(rule, "name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(action) = action(kind, given(rule, "action").and_then(Value::as_str).unwrap_or_default()) else {
            let actions = match kind {
                ClusterKind::ClusterNetworkPolicy => "Accept, Deny or Pass",
                ClusterKind::AdminNetworkPolicy => "Allow, Deny or Pass",
                ClusterKind::BaselineAdminNetworkPolicy => "Allow or Deny",
            };
            self.problem(format!("{field}.action"), format!("use {actions}; until then it denies everything"));
            return closed(name, Action::Deny);
        };
        let peers = self.peers(kind, direction, &format!("{field}.{side}"), &rule[side]);
        let ports = self.ports(kind, &format!("{field}.{port_list}"), given(rule, port_list));
        let by_address = |peer: &ClusterPeer| !matches!(peer, ClusterPeer::Pods(_));
        if peers.iter().any(by_address) && ports.iter().any(|ports| matches!(ports, ClusterPorts::Named(_))) {
            self.problem(
                field,
                "names a port, but networks and nodes have no names for ports; make two rules of it",
            );
        }
        if unread || self.problems.len() > before {
            return closed(name, action);
        }
        let scope = Scope::Some(peers, ports);
        ClusterRule { name, action, scope }
    }

    fn peers(&mut self, kind: ClusterKind, direction: Direction, field: &str, peers: &Value) -> Vec<ClusterPeer> {
        let mut read = Vec::new();
        match peers.as_array() {
            Some(peers) if !peers.is_empty() => {
                for (index, peer) in peers.iter().enumerate() {
                    self.peer_of(kind, direction, &format!("{field}[{index}]"), peer, &mut read);
                }
            }
            _ => self.problem(field, "names no peer; give at least one"),
        }
        read
    }

    fn peer_of(&mut self, kind: ClusterKind, direction: Direction, field: &str, peer: &Value, read: &mut Vec<ClusterPeer>) {
        let known: &[&str] = match direction {
            Direction::Ingress => &["namespaces", "pods"],
            Direction::Egress => &["namespaces", "pods", "nodes", "networks", "domainNames"],
        };
        if !self.has_only(field, peer, known) {
            return;
        }
        let mut fields = known.iter().filter_map(|name| Some((*name, given(peer, name)?)));
        let (Some((name, value)), None) = (fields.next(), fields.next()) else {
            self.problem(field, format!("has to have exactly one of {}", known.join(", ")));
            return;
        };
        let field = format!("{field}.{name}");
        match name {
            "namespaces" => read.push(ClusterPeer::Pods(Pods {
                namespaces: self.written_selector(&field, value),
                ..Pods::default()
            })),
            "pods" => read.push(ClusterPeer::Pods(self.pods(kind, &field, value))),
            "nodes" => read.push(ClusterPeer::Nodes(self.written_selector(&field, value))),
            "networks" => self.networks(&field, value, read),
            _ => self.problem(field, "is not supported; use networks"),
        }
    }

    fn networks(&mut self, field: &str, networks: &Value, read: &mut Vec<ClusterPeer>) {
        match networks.as_array() {
            Some(networks) if !networks.is_empty() => {
                for (index, network) in networks.iter().enumerate() {
                    match reader::range(network.as_str().unwrap_or_default()) {
                        Ok(range) => read.push(ClusterPeer::Network(range)),
                        Err(message) => self.problem(format!("{field}[{index}]"), message),
                    }
                }
            }
            _ => self.problem(field, "names no range; give at least one"),
        }
    }
}

fn side(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    }
}

fn ports_field(kind: ClusterKind) -> &'static str {
    match kind {
        ClusterKind::ClusterNetworkPolicy => "protocols",
        ClusterKind::AdminNetworkPolicy | ClusterKind::BaselineAdminNetworkPolicy => "ports",
    }
}

fn action(kind: ClusterKind, text: &str) -> Option<Action> {
    match (kind, text) {
        (ClusterKind::ClusterNetworkPolicy, "Accept") => Some(Action::Accept),
        (ClusterKind::AdminNetworkPolicy | ClusterKind::BaselineAdminNetworkPolicy, "Allow") => Some(Action::Accept),
        (_, "Deny") => Some(Action::Deny),
        (ClusterKind::ClusterNetworkPolicy | ClusterKind::AdminNetworkPolicy, "Pass") => Some(Action::Pass),
        _ => None,
    }
}

/// A rule with a mistake, as the API asks for: Accept matches nothing, Deny and Pass deny everything.
fn closed(name: String, action: Action) -> ClusterRule {
    let (action, scope) = match action {
        Action::Accept => (Action::Accept, Scope::Nothing),
        Action::Deny | Action::Pass => (Action::Deny, Scope::Everything),
    };
    ClusterRule { name, action, scope }
}
