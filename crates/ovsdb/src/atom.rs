//! Atoms: the single values of OVSDB, and their JSON form.
//!
//! Everything above is made of them. Strings are shared (`Arc<str>`), so that copying a row copies pointers; an atom is
//! 24 bytes. Atoms have a total order, which sets and maps rely on.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

/// A single OVSDB value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A 64-bit signed integer.
    Integer(i64),
    /// A floating-point number.
    Real(Real),
    /// True or false.
    Boolean(bool),
    /// A string.
    String(Arc<str>),
    /// The identity of a row.
    Uuid(Uuid),
    /// The identity of a row inserted by the same transaction under this name.
    NamedUuid(Arc<str>),
}

impl Atom {
    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Atom::String(value) => Some(value),
            _ => None,
        }
    }

    /// The integer, if it is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Atom::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The number as floating point, if it is a number.
    pub fn as_real(&self) -> Option<f64> {
        match self {
            Atom::Real(value) => Some(value.get()),
            Atom::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Atom::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// The UUID, if it is one.
    pub fn as_uuid(&self) -> Option<Uuid> {
        match self {
            Atom::Uuid(value) => Some(*value),
            _ => None,
        }
    }

    /// Reads an atom from its JSON form.
    pub fn from_json(json: &Value) -> Result<Atom, InvalidValue> {
        match json {
            Value::Bool(value) => Ok(Atom::Boolean(*value)),
            Value::String(value) => Ok(Atom::from(value.as_str())),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Ok(Atom::Integer(integer)),
                (None, Some(real)) => Ok(Atom::Real(Real::new(real))),
                (None, None) => Err(InvalidValue::new("a number out of range", json)),
            },
            Value::Array(pair) => match pair.as_slice() {
                [Value::String(tag), Value::String(text)] if tag == "uuid" => Uuid::try_parse(text)
                    .map(Atom::Uuid)
                    .map_err(|_| InvalidValue::new("a malformed UUID", json)),
                [Value::String(tag), Value::String(name)] if tag == "named-uuid" => Ok(Atom::NamedUuid(name.as_str().into())),
                _ => Err(InvalidValue::new("not an atom", json)),
            },
            Value::Null | Value::Object(_) => Err(InvalidValue::new("not an atom", json)),
        }
    }
}

impl From<&str> for Atom {
    fn from(value: &str) -> Self {
        Atom::String(value.into())
    }
}

impl From<String> for Atom {
    fn from(value: String) -> Self {
        Atom::String(value.into())
    }
}

impl From<&String> for Atom {
    fn from(value: &String) -> Self {
        Atom::from(value.as_str())
    }
}

impl From<Arc<str>> for Atom {
    fn from(value: Arc<str>) -> Self {
        Atom::String(value)
    }
}

impl From<i64> for Atom {
    fn from(value: i64) -> Self {
        Atom::Integer(value)
    }
}

impl From<bool> for Atom {
    fn from(value: bool) -> Self {
        Atom::Boolean(value)
    }
}

impl From<Uuid> for Atom {
    fn from(value: Uuid) -> Self {
        Atom::Uuid(value)
    }
}

impl From<Real> for Atom {
    fn from(value: Real) -> Self {
        Atom::Real(value)
    }
}

impl From<f64> for Atom {
    fn from(value: f64) -> Self {
        Atom::Real(Real::new(value))
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Integer(value) => write!(f, "{value}"),
            Atom::Real(value) => write!(f, "{:?}", value.get()),
            Atom::Boolean(value) => write!(f, "{value}"),
            Atom::String(value) => write!(f, "{value:?}"),
            Atom::Uuid(value) => write!(f, "{value}"),
            Atom::NamedUuid(name) => write!(f, "@{name}"),
        }
    }
}

impl Serialize for Atom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Atom::Integer(value) => serializer.serialize_i64(*value),
            Atom::Real(value) => serializer.serialize_f64(value.get()),
            Atom::Boolean(value) => serializer.serialize_bool(*value),
            Atom::String(value) => serializer.serialize_str(value),
            Atom::Uuid(value) => ("uuid", value.as_hyphenated()).serialize(serializer),
            Atom::NamedUuid(name) => ("named-uuid", &**name).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Atom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Atom::from_json(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A finite floating-point number with a total order.
///
/// OVSDB has neither NaN nor infinities nor a negative zero; all of them become zero here, so equality is what it seems.
/// Servers keep about fifteen digits; what is read back may differ from what was written in the last ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real(f64);

impl Real {
    /// Wraps a number; what OVSDB cannot hold becomes zero.
    pub fn new(value: f64) -> Self {
        // The addition turns -0.0 into 0.0.
        Real(if value.is_finite() { value + 0.0 } else { 0.0 })
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<f64> for Real {
    fn from(value: f64) -> Self {
        Real::new(value)
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Hash for Real {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// JSON that is not the value it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid OVSDB value: {problem} in {json}")]
pub struct InvalidValue {
    problem: &'static str,
    json: String,
}

impl InvalidValue {
    pub(crate) fn new(problem: &'static str, json: &Value) -> Self {
        // A reply can be megabytes long; the start of it is enough to find the culprit.
        let mut json = json.to_string();
        if let Some((end, _)) = json.char_indices().nth(200) {
            json.truncate(end);
            json.push('…');
        }
        InvalidValue { problem, json }
    }
}
