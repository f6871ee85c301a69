//! From what the user wrote to a [`RankedPolicy`]. What cannot be read closes: a rule that would accept matches nothing, any other denies
//! everything at its place. A subject that cannot be read is wider than it was meant, and then no rule of the policy accepts.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::policy::cluster::rule::read_rule;
use crate::policy::cluster::{Action, ClusterPolicyKind, ClusterTier, RUNS, RankedPolicy, RankedRule};
use crate::policy::{Direction, LabelSelector, Namespaces, Rule, Selection, Selector};

/// The last priority of an `AdminNetworkPolicy` or a `ClusterNetworkPolicy`.
const LAST_PRIORITY: u16 = 1000;
/// Fields of `pods`.
pub(super) const PODS: &[&str] = &["namespaceSelector", "podSelector"];

/// Reads a policy of a kind.
pub fn read(kind: ClusterPolicyKind, spec: &Value) -> RankedPolicy {
    let mut complaints = Vec::new();
    let known: &[&str] = match kind {
        ClusterPolicyKind::Admin => &["priority", "subject", "ingress", "egress"],
        ClusterPolicyKind::Baseline => &["subject", "ingress", "egress"],
        ClusterPolicyKind::Cluster => &["tier", "priority", "subject", "ingress", "egress"],
    };
    complaints.extend(unknown(spec, known).map(|why| format!("spec{why}")));
    let tier = or_complain(read_tier(kind, spec), &mut complaints).unwrap_or(ClusterTier::Admin);
    let priority = or_complain(read_priority(kind, spec), &mut complaints).unwrap_or(0);
    let subject = read_subject(kind, &spec["subject"], &mut complaints);
    for complaint in &mut complaints {
        complaint.push_str("; until then the policy accepts nothing, and its other rules deny everything");
    }
    let spoiled = !complaints.is_empty();
    let mut rules = BTreeMap::new();
    for direction in Direction::ALL {
        let read = read_rules(kind, direction, spec, spoiled, &mut complaints);
        if !read.is_empty() {
            rules.insert(direction, read);
        }
    }
    RankedPolicy {
        tier,
        priority,
        subject,
        rules,
        complaints,
    }
}

fn or_complain<T>(read: Result<T, String>, complaints: &mut Vec<String>) -> Option<T> {
    read.map_err(|why| complaints.push(format!("spec.{why}"))).ok()
}

fn read_tier(kind: ClusterPolicyKind, spec: &Value) -> Result<ClusterTier, String> {
    match (kind, spec["tier"].as_str()) {
        (ClusterPolicyKind::Admin, _) | (ClusterPolicyKind::Cluster, Some("Admin")) => Ok(ClusterTier::Admin),
        (ClusterPolicyKind::Baseline, _) | (ClusterPolicyKind::Cluster, Some("Baseline")) => Ok(ClusterTier::Baseline),
        (ClusterPolicyKind::Cluster, other) => Err(format!(
            "tier: \"{}\" is no tier; write Admin or Baseline",
            other.unwrap_or_default()
        )),
    }
}

/// The one policy of the last kind comes after all others of its tier.
fn read_priority(kind: ClusterPolicyKind, spec: &Value) -> Result<u16, String> {
    if kind == ClusterPolicyKind::Baseline {
        return Ok(LAST_PRIORITY + 1);
    }
    let priority = spec["priority"].as_u64().and_then(|number| u16::try_from(number).ok());
    priority
        .filter(|priority| *priority <= LAST_PRIORITY)
        .ok_or_else(|| format!("priority: it is not from 0 to {LAST_PRIORITY}; change it"))
}

/// The pods it is about; of what cannot be read, more.
fn read_subject(kind: ClusterPolicyKind, subject: &Value, complaints: &mut Vec<String>) -> Selection {
    let mut unread = Vec::new();
    let mut selector = |field: &str, value: &Value| {
        let (selector, mistakes) = match written_selector(value) {
            Ok(spec) => Selector::read(&spec),
            Err(why) => (Selector::default(), vec![why]),
        };
        unread.extend(mistakes.into_iter().map(|why| format!(".{field}.{why}")));
        selector
    };
    let selection = match fields(subject).as_slice() {
        [("namespaces", value)] => Selection {
            namespaces: Namespaces::Labelled(selector("namespaces", value)),
            pods: Selector::default(),
        },
        [("pods", value)] => {
            let namespaces = anywhere(kind, value).unwrap_or_else(|| selector("pods.namespaceSelector", &value["namespaceSelector"]));
            let pods = selector("pods.podSelector", &value["podSelector"]);
            unread.extend(unknown(value, PODS).map(|why| format!(".pods{why}")));
            Selection {
                namespaces: Namespaces::Labelled(namespaces),
                pods,
            }
        }
        _ => {
            unread.push(": it is not one of namespaces and pods; write exactly one of them".to_owned());
            Selection::everyone()
        }
    };
    complaints.extend(unread.into_iter().map(|why| format!("spec.subject{why}")));
    selection
}

/// The rules of a direction that do something, in order.
fn read_rules(kind: ClusterPolicyKind, direction: Direction, spec: &Value, spoiled: bool, complaints: &mut Vec<String>) -> Vec<RankedRule> {
    let field = direction.as_str();
    let written = match &spec[field] {
        Value::Null => return Vec::new(),
        Value::Array(rules) => rules.as_slice(),
        _ => {
            complaints.push(format!(
                "spec.{field}: it is no list of rules; until it is one, everything is denied"
            ));
            return vec![ranked(Action::Deny, everything(0))];
        }
    };
    let mut rules = Vec::new();
    for (number, value) in written.iter().enumerate() {
        let action = read_action(kind, value);
        let (rule, why) = match (action, read_rule(kind, direction, number, value)) {
            (Some(action), Ok(rule)) => (Some((action, rule)).filter(|_| !spoiled), None),
            (None, _) => (None, Some(format!(".action: write {}", actions(kind)))),
            (Some(_), Err(why)) => (None, Some(why)),
        };
        let accepts = action == Some(Action::Accept);
        if let Some(why) = why {
            let meanwhile = if accepts { "matches nothing" } else { "denies everything" };
            complaints.push(format!("spec.{field}[{number}]{why}; until then this rule {meanwhile}"));
        }
        match rule {
            Some((action, rule)) => rules.push(ranked(action, rule)),
            None if accepts => {}
            None => rules.push(ranked(Action::Deny, everything(number))),
        }
    }
    count_runs(rules, field, complaints)
}

/// Gives each rule its run. What is too much for a policy's place among the others is denied.
fn count_runs(mut rules: Vec<RankedRule>, field: &str, complaints: &mut Vec<String>) -> Vec<RankedRule> {
    let mut run = 0;
    for place in 1..rules.len() {
        run += u16::from(rules[place].action != rules[place - 1].action);
        rules[place].run = run;
    }
    if run < RUNS {
        return rules;
    }
    let kept = rules.partition_point(|rule| rule.run + 1 < RUNS);
    let number = rules[kept].rule.number;
    rules.truncate(kept);
    rules.push(RankedRule {
        run: RUNS - 1,
        ..ranked(Action::Deny, everything(number))
    });
    complaints.push(format!(
        "spec.{field}[{number}]: the rules change their action more than {} times; put those with the same action together, or make two \
         policies of it; until then everything from this rule on is denied",
        RUNS - 1
    ));
    rules
}

fn ranked(action: Action, rule: Rule) -> RankedRule {
    RankedRule { action, run: 0, rule }
}

/// A rule about everything, in the place of another.
fn everything(number: usize) -> Rule {
    Rule {
        number,
        peers: None,
        ports: None,
    }
}

fn read_action(kind: ClusterPolicyKind, rule: &Value) -> Option<Action> {
    match (kind, rule["action"].as_str()?) {
        (_, "Deny") => Some(Action::Deny),
        (ClusterPolicyKind::Cluster, "Accept") | (ClusterPolicyKind::Admin | ClusterPolicyKind::Baseline, "Allow") => Some(Action::Accept),
        (ClusterPolicyKind::Cluster | ClusterPolicyKind::Admin, "Pass") => Some(Action::Pass),
        _ => None,
    }
}

fn actions(kind: ClusterPolicyKind) -> &'static str {
    match kind {
        ClusterPolicyKind::Admin => "Allow, Deny or Pass",
        ClusterPolicyKind::Baseline => "Allow or Deny",
        ClusterPolicyKind::Cluster => "Accept, Deny or Pass",
    }
}

/// The fields of an object that are not null, by name.
pub(super) fn fields(value: &Value) -> Vec<(&str, &Value)> {
    let fields = value.as_object().into_iter().flat_map(Map::iter);
    let set = fields.filter(|(_, value)| !value.is_null());
    set.map(|(name, value)| (name.as_str(), value)).collect()
}

/// What is wrong with an object that has fields we do not know.
pub(super) fn unknown(value: &Value, known: &[&str]) -> Option<String> {
    let (name, _) = *fields(value).iter().find(|(name, _)| !known.contains(name))?;
    Some(format!(".{name}: there is no such field here; use {}", known.join(", ")))
}

/// The selector of namespaces where the newer kind may leave it out.
pub(super) fn anywhere(kind: ClusterPolicyKind, pods: &Value) -> Option<Selector> {
    let left_out = kind == ClusterPolicyKind::Cluster && pods["namespaceSelector"].is_null();
    left_out.then(Selector::default)
}

/// A selector with nothing in it that we do not know.
pub(super) fn written_selector(value: &Value) -> Result<LabelSelector, String> {
    if let Some(why) = unknown(value, &["matchLabels", "matchExpressions"]) {
        return Err(why.trim_start_matches('.').to_owned());
    }
    match value {
        Value::Object(_) => {
            LabelSelector::deserialize(value).map_err(|error| format!("matchExpressions: {error}; write a selector of labels"))
        }
        _ => Err("matchLabels: there is no selector; write one, or {} for all".to_owned()),
    }
}
