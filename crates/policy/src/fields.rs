//! Fields a NetworkPolicy does not have. The API server drops them, and what is left may mean more than was written: an egress rule with
//! `from` instead of `to` would allow everything. In manifests they are still to be seen, so there they close the rule they are in.

use serde_json::Value;

use crate::cluster::Name;
use crate::policy::{Direction, Policy};
use crate::problem::{INVALID_POLICY, Object, Problem};

/// Closes what has unknown fields in the spec as it was written.
pub fn close_unknown(name: &Name, policy: &mut Policy, spec: &Value) {
    let tell = |(field, unknown): (String, String)| Problem {
        object: Object::in_namespace("NetworkPolicy", name),
        reason: INVALID_POLICY,
        field,
        message: no_such(&unknown),
    };
    let mut mistakes = Vec::new();
    unknown(spec, "", &["podSelector", "policyTypes", "ingress", "egress"], &mut mistakes);
    selector(&spec["podSelector"], "podSelector", &mut mistakes);
    if !mistakes.is_empty() {
        // It may have been meant to choose pods or directions, so all that may be meant is isolated.
        policy.ingress.get_or_insert_default();
        policy.egress.get_or_insert_default();
        let rules = policy.ingress.iter_mut().chain(&mut policy.egress).flatten();
        rules.for_each(|rule| rule.closed = true);
        policy.problems.extend(mistakes.drain(..).map(tell));
    }
    for (direction, side) in [(Direction::Ingress, "from"), (Direction::Egress, "to")] {
        let rules = match direction {
            Direction::Ingress => &mut policy.ingress,
            Direction::Egress => &mut policy.egress,
        };
        for (index, rule) in rules.iter_mut().flatten().enumerate() {
            let field = format!("{direction}[{index}]");
            in_rule(&spec[direction.to_string()][index], &field, side, &mut mistakes);
            rule.closed |= !mistakes.is_empty();
            policy.problems.extend(mistakes.drain(..).map(tell));
        }
    }
}

/// What is wrong with such a field.
pub fn no_such(name: &str) -> String {
    format!("there is no field {name:?} here; correct its name or remove it")
}

fn in_rule(rule: &Value, field: &str, side: &str, found: &mut Vec<(String, String)>) {
    unknown(rule, field, &[side, "ports"], found);
    for (index, peer) in list(&rule[side]) {
        let field = format!("{field}.{side}[{index}]");
        unknown(peer, &field, &["podSelector", "namespaceSelector", "ipBlock"], found);
        unknown(&peer["ipBlock"], &format!("{field}.ipBlock"), &["cidr", "except"], found);
        for name in ["podSelector", "namespaceSelector"] {
            selector(&peer[name], &format!("{field}.{name}"), found);
        }
    }
    for (index, port) in list(&rule["ports"]) {
        unknown(port, &format!("{field}.ports[{index}]"), &["protocol", "port", "endPort"], found);
    }
}

/// Fields a selector does not have.
pub fn selector(selector: &Value, field: &str, found: &mut Vec<(String, String)>) {
    unknown(selector, field, &["matchLabels", "matchExpressions"], found);
    for (index, expression) in list(&selector["matchExpressions"]) {
        let field = format!("{field}.matchExpressions[{index}]");
        unknown(expression, &field, &["key", "operator", "values"], found);
    }
}

fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

/// Fields of an object besides those it may have.
pub fn unknown(object: &Value, field: &str, known: &[&str], found: &mut Vec<(String, String)>) {
    let names = object.as_object().into_iter().flat_map(|object| object.keys());
    let place = if field.is_empty() { "spec" } else { field };
    found.extend(
        names
            .filter(|name| !known.contains(&name.as_str()))
            .map(|name| (place.to_owned(), name.clone())),
    );
}
