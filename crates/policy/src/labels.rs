//! Label selectors, as apimachinery defines them: every requirement must hold, none at all selects everything.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::cluster::Labels;

/// A selector whose requirements could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a selector: the requirements that are valid, and a sentence for each that is not.
    pub fn read(selector: &LabelSelector) -> (Self, Vec<String>) {
        let equal = selector.match_labels.iter().flatten().map(|(key, value)| {
            check(key, std::slice::from_ref(value))?;
            Ok(Requirement {
                key: key.clone(),
                test: Test::In(vec![value.clone()]),
            })
        });
        let expressions = selector.match_expressions.iter().flatten().map(requirement);
        let (mut read, mut mistakes) = (Self::default(), Vec::new());
        for result in equal.chain(expressions) {
            match result {
                Ok(requirement) => read.requirements.push(requirement),
                Err(mistake) => mistakes.push(mistake),
            }
        }
        (read, mistakes)
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.test {
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                // An object without the key is not in the set either.
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
            }
        })
    }
}

fn requirement(expression: &LabelSelectorRequirement) -> Result<Requirement, String> {
    let LabelSelectorRequirement { key, operator, values } = expression;
    let values = values.clone().unwrap_or_default();
    check(key, &values)?;
    let test = match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            return Err(format!("{operator} of {key:?} has no values; give at least one"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            return Err(format!("{operator} of {key:?} has values; remove them, or use In or NotIn"));
        }
        "In" => Test::In(values),
        "NotIn" => Test::NotIn(values),
        "Exists" => Test::Exists,
        "DoesNotExist" => Test::DoesNotExist,
        _ => {
            return Err(format!(
                "{operator:?} of {key:?} is no operator; use In, NotIn, Exists or DoesNotExist"
            ));
        }
    };
    Ok(Requirement { key: key.clone(), test })
}

fn check(key: &str, values: &[String]) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let valid_prefix = prefix.is_none_or(|prefix| {
        let part = |part: &str| is_word(part, "-") && !part.chars().any(|c| c.is_ascii_uppercase());
        prefix.len() <= 253 && prefix.split('.').all(part)
    });
    if !valid_prefix || name.len() > 63 || !is_word(name, "-_.") {
        return Err(format!("{key:?} is no label key; write for example app or example.com/app"));
    }
    match values
        .iter()
        .find(|value| !value.is_empty() && (value.len() > 63 || !is_word(value, "-_.")))
    {
        Some(value) => Err(format!(
            "{value:?} is no label value; use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
        )),
        None => Ok(()),
    }
}

/// Letters and digits, with the others only between them.
fn is_word(text: &str, others: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(text.chars().next()) && ends(text.chars().next_back()) && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}
