//! Label and field selectors: the query strings of list and watch, and the `LabelSelector` objects inside specs. A
//! selector is parsed once per request and then asked about each object.

use serde_json::Value;

use crate::{
    json,
    kind::Kind,
    status::{Failure, Result},
};

/// Which objects a list or watch wants.
#[derive(Debug, Clone, Default)]
pub struct Selector {
    labels: Vec<Requirement>,
    /// JSON pointer, expected value, and whether equality is wanted.
    fields: Vec<(String, String, bool)>,
}

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
}

impl Selector {
    /// Parses `labelSelector` and `fieldSelector` of a request for objects of `kind`.
    pub fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self> {
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: parse_fields(kind, fields)?,
        })
    }

    /// Whether every object is wanted.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether this object is wanted.
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|r| r.matches(json::at(object, "/metadata/labels")))
            && self
                .fields
                .iter()
                .all(|(path, value, equal)| (field(object, path) == *value) == *equal)
    }
}

/// Whether `labels` (a map, or null) satisfy a `LabelSelector` object. An empty selector matches everything.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = json::entries(selector, "/matchLabels").all(|(key, value)| labels.get(key) == Some(value));
    equal
        && json::list(selector, "/matchExpressions").iter().all(|expression| {
            let operator = match json::text(expression, "/operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                _ => Operator::Absent,
            };
            let values = json::list(expression, "/values")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            Requirement {
                key: json::text(expression, "/key").to_owned(),
                operator,
                values,
            }
            .matches(labels)
        })
}

/// A `LabelSelector` object as the string form of `labelSelector`.
pub fn to_query(selector: &Value) -> String {
    let equal = json::entries(selector, "/matchLabels").map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or("")));
    let sets = json::list(selector, "/matchExpressions").iter().map(|e| {
        let key = json::text(e, "/key");
        let values: Vec<_> = json::list(e, "/values").iter().filter_map(Value::as_str).collect();
        match json::text(e, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        }
    });
    equal.chain(sets).collect::<Vec<_>>().join(",")
}

impl Requirement {
    fn matches(&self, labels: &Value) -> bool {
        let value = labels.get(&self.key).and_then(Value::as_str);
        match self.operator {
            Operator::In => value.is_some_and(|v| self.values.iter().any(|wanted| wanted == v)),
            Operator::NotIn => value.is_none_or(|v| self.values.iter().all(|wanted| wanted != v)),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
        }
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>> {
    split_outside_parentheses(text)
        .into_iter()
        .map(|part| parse_requirement(part.trim()))
        .collect()
}

/// Splits at commas, except those inside `in (a,b)`.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let parts = text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty()).collect()
}

fn parse_requirement(part: &str) -> Result<Requirement> {
    let requirement = |key: &str, operator, values: Vec<String>| {
        let key = key.trim();
        let valid = key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if key.is_empty() || !valid {
            return Err(Failure::bad_request(format!(
                "unable to parse requirement: invalid label key \"{key}\" in \"{part}\""
            )));
        }
        Ok(Requirement {
            key: key.to_owned(),
            operator,
            values,
        })
    };
    if let Some(key) = part.strip_prefix('!') {
        return requirement(key, Operator::Absent, Vec::new());
    }
    if let Some((key, value)) = part.split_once("!=") {
        return requirement(key, Operator::NotIn, vec![value.trim().to_owned()]);
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return requirement(key, Operator::In, vec![value.trim().to_owned()]);
    }
    for (word, operator) in [(" notin", Operator::NotIn), (" in", Operator::In)] {
        let Some((key, rest)) = part.split_once(word) else { continue };
        let Some(list) = rest.trim().strip_prefix('(').and_then(|r| r.strip_suffix(')')) else {
            continue;
        };
        return requirement(key, operator, list.split(',').map(|v| v.trim().to_owned()).collect());
    }
    requirement(part, Operator::Exists, Vec::new())
}

fn parse_fields(kind: &Kind, text: &str) -> Result<Vec<(String, String, bool)>> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts
        .map(|part| {
            let (name, value, equal) = if let Some((name, value)) = part.split_once("!=") {
                (name, value, false)
            } else if let Some((name, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (name, value, true)
            } else {
                return Err(Failure::bad_request(format!(
                    "invalid field selector \"{text}\": no operator in \"{part}\""
                )));
            };
            let name = name.trim();
            let general = ["metadata.name", "metadata.namespace"].contains(&name);
            if !general && !kind.selectable_fields().contains(&name) {
                let message = format!(
                    "Unable to find \"{}\" that match field selector \"{text}\": field label not supported: {name}",
                    kind.plural
                );
                return Err(Failure::bad_request(message));
            }
            Ok((format!("/{}", name.replace('.', "/")), value.trim().to_owned(), equal))
        })
        .collect()
}

fn field(object: &Value, path: &str) -> String {
    match json::at(object, path) {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
