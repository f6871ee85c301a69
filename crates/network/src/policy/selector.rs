//! Selectors of labels in one form each, so that equal ones are one selection however they were written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::policy::read::unknown_field;
use crate::policy::{Expression, LabelSelector};

/// The longest name and value of a label, and the longest domain before a name.
const LONGEST: usize = 63;
const LONGEST_DOMAIN: usize = 253;

/// Labels of a pod or of a namespace.
type Labels = BTreeMap<String, String>;

/// What a label has to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Missing,
}

/// A selector: all of its requirements must be met. Without any it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector(BTreeSet<Requirement>);

/// Where pods are selected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespaces {
    /// In this namespace.
    Named(String),
    /// In namespaces with these labels.
    Labelled(Selector),
}

/// Pods, by their labels and those of their namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selection {
    /// Where.
    pub namespaces: Namespaces,
    /// Which.
    pub pods: Selector,
}

impl Selector {
    /// Reads a selector. What cannot be read is left out, which selects more, and told.
    pub fn read(spec: &LabelSelector) -> (Self, Vec<String>) {
        let mut complaints: Vec<String> = spec.unknown_fields().into_iter().collect();
        let mut requirements: BTreeSet<Requirement> = BTreeSet::new();
        for (key, value) in &spec.match_labels {
            if let Err(why) = check(key, [value]) {
                complaints.push(format!("matchLabels: {why}"));
                continue;
            }
            let test = Test::In([value.clone()].into());
            requirements.insert(Requirement { key: key.clone(), test });
        }
        for expression in &spec.match_expressions {
            match read_expression(expression) {
                Ok(requirement) => drop(requirements.insert(requirement)),
                Err(why) => complaints.push(why),
            }
        }
        (Self(requirements), complaints)
    }

    /// Whether labels meet it.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(labels))
    }

    /// A label and its value without which nothing is selected.
    fn label(&self) -> Option<(&str, &str)> {
        self.0.iter().find_map(Requirement::only)
    }
}

impl Requirement {
    fn is_met(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
        }
    }

    /// The label and the one value it may have.
    fn only(&self) -> Option<(&str, &str)> {
        match &self.test {
            Test::In(values) if values.len() == 1 => Some((&self.key, values.first()?)),
            _ => None,
        }
    }
}

impl Selection {
    /// Every pod of the cluster.
    pub fn everyone() -> Self {
        Self {
            namespaces: Namespaces::Labelled(Selector::default()),
            pods: Selector::default(),
        }
    }

    /// Whether pods of a namespace can be in it. Of a namespace nobody told about the labels are not known, so it has none that count.
    pub fn reaches(&self, namespace: &str, labels: Option<&Labels>) -> bool {
        match &self.namespaces {
            Namespaces::Named(name) => name == namespace,
            Namespaces::Labelled(selector) => labels.is_some_and(|labels| selector.matches(labels)),
        }
    }

    /// A label and its value that all its pods have, if it requires one.
    pub(crate) fn label(&self) -> Option<(String, String)> {
        self.pods.label().map(|(key, value)| (key.to_owned(), value.to_owned()))
    }
}

fn read_expression(expression: &Expression) -> Result<Requirement, String> {
    let Expression { key, operator, values, .. } = expression;
    let set: BTreeSet<String> = values.iter().cloned().collect();
    let test = match operator.as_str() {
        "In" | "NotIn" if set.is_empty() => {
            return Err(format!(
                "matchExpressions: {operator} of \"{key}\" has no values; write some, or use Exists or DoesNotExist"
            ));
        }
        "In" => Test::In(set),
        "NotIn" => Test::NotIn(set),
        "Exists" | "DoesNotExist" if !set.is_empty() => {
            return Err(format!("matchExpressions: {operator} of \"{key}\" takes no values; remove them"));
        }
        "Exists" => Test::Exists,
        "DoesNotExist" => Test::Missing,
        other => {
            return Err(format!(
                "matchExpressions: \"{other}\" is no operator; use In, NotIn, Exists or DoesNotExist"
            ));
        }
    };
    check(key, values).map_err(|why| format!("matchExpressions: {why}"))?;
    Ok(Requirement { key: key.clone(), test })
}

/// No object has a label that is not well formed, so one that is asked for was meant to be another.
fn check<'a>(key: &str, values: impl IntoIterator<Item = &'a String>) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_domain = |prefix: &str| {
        let lower = !prefix.bytes().any(|byte| byte.is_ascii_uppercase());
        lower && prefix.len() <= LONGEST_DOMAIN && prefix.split('.').all(|part| is_word(part, b"-"))
    };
    if !prefix.is_none_or(is_domain) || name.len() > LONGEST || !is_word(name, b"-_.") {
        return Err(format!("\"{key}\" is no label; write for example app or example.com/app"));
    }
    let fits = |value: &&String| value.is_empty() || (value.len() <= LONGEST && is_word(value, b"-_."));
    match values.into_iter().find(|value| !fits(value)) {
        Some(value) => Err(format!("\"{value}\" can be no label's value; correct it")),
        None => Ok(()),
    }
}

/// Letters and digits at both ends, and between them others as well.
fn is_word(text: &str, others: &[u8]) -> bool {
    let text = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(text.first()) && ends(text.last()) && text.iter().all(|byte| byte.is_ascii_alphanumeric() || others.contains(byte))
}

impl LabelSelector {
    /// What is wrong with fields nobody knows, if there are any.
    pub(super) fn unknown_fields(&self) -> Option<String> {
        let of_expressions = self
            .match_expressions
            .iter()
            .find_map(|expression| unknown_field(&expression.unknown));
        let why = unknown_field(&self.unknown).or_else(|| of_expressions.map(|why| format!(".matchExpressions{why}")))?;
        Some(why.trim_start_matches('.').to_owned())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.test {
            Test::In(values) => match self.only() {
                Some((_, value)) => write!(f, "{key}={value}"),
                None => write!(f, "{key} in ({})", list(values)),
            },
            Test::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Test::Exists => f.write_str(key),
            Test::Missing => write!(f, "!{key}"),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("*");
        }
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespaces {
            Namespaces::Named(name) => write!(f, "{name}/{}", self.pods),
            Namespaces::Labelled(selector) => write!(f, "({selector})/{}", self.pods),
        }
    }
}
