//! Reading specs and collecting their mistakes. Shared by all kinds this crate reads, each of which says what a mistake closes.

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize as _;
use serde_json::Value;

use crate::fields;
use crate::labels::Selector;
use crate::problem::{Object, Problem};

/// Reads parts of one object's spec.
pub struct Reader {
    object: Object,
    reason: &'static str,
    /// Mistakes so far.
    pub problems: Vec<Problem>,
}

impl Reader {
    /// Of an object whose mistakes have this reason.
    pub fn new(object: Object, reason: &'static str) -> Self {
        Self {
            object,
            reason,
            problems: Vec::new(),
        }
    }

    /// Notes a mistake.
    pub fn problem(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem {
            object: self.object.clone(),
            reason: self.reason,
            field: field.into(),
            message: message.into(),
        });
    }

    /// The requirements of a selector that can be read; the others are mistakes.
    pub fn selector(&mut self, field: &str, selector: Option<&LabelSelector>) -> Selector {
        let (read, mistakes) = selector.map(Selector::read).unwrap_or_default();
        for mistake in mistakes {
            self.problem(field, mistake);
        }
        read
    }

    /// The same of a selector as it was written, with fields a selector does not have.
    pub fn written_selector(&mut self, field: &str, written: &Value) -> Selector {
        let mut unknown = Vec::new();
        fields::selector(written, field, &mut unknown);
        self.unknown(unknown);
        match LabelSelector::deserialize(written) {
            Ok(selector) => self.selector(field, Some(&selector)),
            Err(error) => {
                self.problem(field, format!("is no selector of labels: {error}"));
                Selector::default()
            }
        }
    }

    /// Whether a value is an object with no fields but these; anything else is a mistake.
    pub fn has_only(&mut self, field: &str, value: &Value, known: &[&str]) -> bool {
        if !value.is_object() {
            self.problem(field, "has to be an object with fields");
            return false;
        }
        let mut unknown = Vec::new();
        fields::unknown(value, field, known, &mut unknown);
        let none = unknown.is_empty();
        self.unknown(unknown);
        none
    }

    fn unknown(&mut self, unknown: Vec<(String, String)>) {
        for (field, name) in unknown {
            self.problem(field, fields::no_such(&name));
        }
    }
}

/// A field that is there; `null` is not.
pub fn given<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
}

/// A range of addresses.
pub fn range(text: &str) -> Result<IpNet, String> {
    let range: Result<IpNet, _> = text.parse();
    let range = range.map_err(|_| format!("{text:?} is no range of addresses; write for example 192.0.2.0/24 or 2001:db8::/64"))?;
    Ok(range.trunc())
}

/// A port's number.
pub fn port(value: i64) -> Result<u16, String> {
    let number = u16::try_from(value).ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("port {value} is out of range; use 1 to 65535"))
}
