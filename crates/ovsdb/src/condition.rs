//! Which rows an operation or a monitor is about, and how a mutation changes them.
//!
//! Parts of an [`Operation`](crate::Operation); plain values with a readable `Display`.

use std::fmt;

use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::datum::Datum;

/// What a row must satisfy.
///
/// Operations take rows that satisfy *all* conditions; a monitor shows rows that satisfy *any* (all rows, if there is
/// no condition).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A column compares to a value.
    Column {
        /// The column.
        column: String,
        /// The comparison.
        function: Function,
        /// The value.
        value: Datum,
    },
    /// Every row, or none; for monitors only.
    Constant(bool),
}

impl Condition {
    /// A column compares to a value.
    pub fn new(column: impl Into<String>, function: Function, value: impl Into<Datum>) -> Self {
        Condition::Column {
            column: column.into(),
            function,
            value: value.into(),
        }
    }

    /// The column equals the value.
    pub fn equal(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Condition::new(column, Function::Equal, value)
    }

    /// The set or map contains all the given elements.
    pub fn includes(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Condition::new(column, Function::Includes, value)
    }

    /// It is the row of this identity.
    pub fn uuid(uuid: Uuid) -> Self {
        Condition::equal("_uuid", uuid)
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Is equal.
    Equal,
    /// Is not equal.
    NotEqual,
    /// Is less.
    Less,
    /// Is less or equal.
    LessOrEqual,
    /// Is greater.
    Greater,
    /// Is greater or equal.
    GreaterOrEqual,
    /// Contains all elements.
    Includes,
    /// Contains none of the elements.
    Excludes,
}

impl Function {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Function::Equal => "==",
            Function::NotEqual => "!=",
            Function::Less => "<",
            Function::LessOrEqual => "<=",
            Function::Greater => ">",
            Function::GreaterOrEqual => ">=",
            Function::Includes => "includes",
            Function::Excludes => "excludes",
        }
    }
}

/// A change of a column that depends on its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The column.
    pub column: String,
    /// What happens to it.
    pub mutator: Mutator,
    /// The operand.
    pub value: Datum,
}

impl Mutation {
    /// Adds elements to a set, or pairs to a map whose keys are not there yet.
    pub fn insert(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Mutation {
            column: column.into(),
            mutator: Mutator::Insert,
            value: value.into(),
        }
    }

    /// Removes elements of a set; of a map, equal pairs, or whole keys if `value` is a set of keys.
    pub fn delete(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Mutation {
            column: column.into(),
            mutator: Mutator::Delete,
            value: value.into(),
        }
    }

    /// Adds to a number.
    pub fn add(column: impl Into<String>, value: i64) -> Self {
        Mutation {
            column: column.into(),
            mutator: Mutator::Add,
            value: Datum::integer(value),
        }
    }
}

/// The kinds of mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutator {
    /// Adds to a number.
    Add,
    /// Subtracts from a number.
    Subtract,
    /// Multiplies a number.
    Multiply,
    /// Divides a number.
    Divide,
    /// Takes the remainder of an integer.
    Remainder,
    /// Adds elements or pairs.
    Insert,
    /// Removes elements or pairs.
    Delete,
}

impl Mutator {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Mutator::Add => "+=",
            Mutator::Subtract => "-=",
            Mutator::Multiply => "*=",
            Mutator::Divide => "/=",
            Mutator::Remainder => "%=",
            Mutator::Insert => "insert",
            Mutator::Delete => "delete",
        }
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Condition::Column { column, function, value } => (column, function.as_str(), value).serialize(serializer),
            Condition::Constant(value) => serializer.serialize_bool(*value),
        }
    }
}

impl Serialize for Mutation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.column, self.mutator.as_str(), &self.value).serialize(serializer)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Column {
                column,
                function: Function::Equal,
                value,
            } if column == "_uuid" => {
                write!(f, "{value}")
            }
            Condition::Column { column, function, value } => write!(f, "{column} {} {value}", function.as_str()),
            Condition::Constant(value) => write!(f, "{value}"),
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.column, self.mutator.as_str(), self.value)
    }
}
