//! Transactions and what the server says about them.
//!
//! A transaction is a list of operations that happen together or not at all. `Display` prints what will run, one line
//! per operation; [`results`] reads the server's reply and names the operation that failed.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::atom::{Atom, InvalidValue};
use crate::operation::Operation;
use crate::row::Row;
use crate::schema::{NormalizeError, Schema};

/// Operations that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Transaction(pub Vec<Operation>);

impl Transaction {
    /// A transaction of no operations.
    pub fn new() -> Self {
        Transaction::default()
    }

    /// Appends an operation.
    pub fn push(&mut self, operation: Operation) {
        self.0.push(operation);
    }

    /// Appends an operation and returns the transaction.
    #[must_use]
    pub fn with(mut self, operation: Operation) -> Self {
        self.push(operation);
        self
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl From<Vec<Operation>> for Transaction {
    fn from(operations: Vec<Operation>) -> Self {
        Transaction(operations)
    }
}

impl From<Operation> for Transaction {
    fn from(operation: Operation) -> Self {
        Transaction(vec![operation])
    }
}

impl FromIterator<Operation> for Transaction {
    fn from_iter<I: IntoIterator<Item = Operation>>(operations: I) -> Self {
        Transaction(operations.into_iter().collect())
    }
}

impl Extend<Operation> for Transaction {
    fn extend<I: IntoIterator<Item = Operation>>(&mut self, operations: I) {
        self.0.extend(operations);
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|operation| writeln!(f, "{operation}"))
    }
}

/// What an operation of a successful transaction returned.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationResult {
    /// Nothing to tell.
    Done,
    /// The identity of the inserted row.
    Inserted(Uuid),
    /// How many rows were updated, mutated or deleted.
    Count(u64),
    /// The rows read.
    Rows(Vec<Row>),
}

impl OperationResult {
    /// The identity of the inserted row.
    pub fn uuid(&self) -> Option<Uuid> {
        match self {
            OperationResult::Inserted(uuid) => Some(*uuid),
            _ => None,
        }
    }

    /// How many rows were changed.
    pub fn count(&self) -> Option<u64> {
        match self {
            OperationResult::Count(count) => Some(*count),
            _ => None,
        }
    }

    /// The rows read; none for other operations.
    pub fn rows(&self) -> &[Row] {
        match self {
            OperationResult::Rows(rows) => rows,
            _ => &[],
        }
    }
}

/// An error the server reports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{}{details}", if details.is_empty() { "" } else { ": " })]
pub struct OperationError {
    /// What kind of error.
    pub kind: ErrorKind,
    /// The server's explanation, possibly empty.
    pub details: String,
}

/// The errors a server reports, as far as callers tell them apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A reference would dangle, or a row that is still referred to would go.
    ReferentialIntegrity,
    /// A value, an index or the number of elements is not allowed.
    Constraint,
    /// The asserted lock is not held.
    NotOwner,
    /// A wait was not satisfied in time.
    TimedOut,
    /// The transaction asked to be aborted.
    Aborted,
    /// A UUID name is used twice.
    DuplicateUuidName,
    /// A chosen UUID belongs to another row.
    DuplicateUuid,
    /// An arithmetic mutation has no result.
    Domain,
    /// A number is out of range.
    Range,
    /// The server ran out of something.
    ResourcesExhausted,
    /// The server could not write its database.
    Io,
    /// Anything else, in the server's words.
    Other(String),
}

impl ErrorKind {
    fn parse(word: &str) -> Self {
        match word {
            "referential integrity violation" => ErrorKind::ReferentialIntegrity,
            "constraint violation" => ErrorKind::Constraint,
            "not owner" => ErrorKind::NotOwner,
            "timed out" => ErrorKind::TimedOut,
            "aborted" => ErrorKind::Aborted,
            "duplicate uuid-name" => ErrorKind::DuplicateUuidName,
            "duplicate uuid" => ErrorKind::DuplicateUuid,
            "domain error" => ErrorKind::Domain,
            "range error" => ErrorKind::Range,
            "resources exhausted" => ErrorKind::ResourcesExhausted,
            "I/O error" => ErrorKind::Io,
            other => ErrorKind::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::ReferentialIntegrity => "referential integrity violation",
            ErrorKind::Constraint => "constraint violation",
            ErrorKind::NotOwner => "not owner of the lock",
            ErrorKind::TimedOut => "timed out",
            ErrorKind::Aborted => "aborted",
            ErrorKind::DuplicateUuidName => "duplicate uuid-name",
            ErrorKind::DuplicateUuid => "duplicate uuid",
            ErrorKind::Domain => "domain error",
            ErrorKind::Range => "range error",
            ErrorKind::ResourcesExhausted => "resources exhausted",
            ErrorKind::Io => "I/O error",
            ErrorKind::Other(word) => word,
        })
    }
}

impl OperationError {
    /// Reads an error from a reply: an object with `error` and `details`, or just a word.
    pub fn from_json(json: &Value) -> Self {
        let text = |key| json.get(key).and_then(Value::as_str).unwrap_or_default();
        match json {
            Value::String(word) => OperationError {
                kind: ErrorKind::parse(word),
                details: String::new(),
            },
            Value::Object(_) => OperationError {
                kind: ErrorKind::parse(text("error")),
                details: text("details").to_owned(),
            },
            other => OperationError {
                kind: ErrorKind::Other(other.to_string()),
                details: String::new(),
            },
        }
    }
}

/// Why a reply holds no results.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// This operation failed; the number counts from zero and equals the number of operations if committing failed.
    Operation(usize, OperationError),
    /// The reply is not one.
    Malformed(NormalizeError),
}

/// Reads the reply to a transaction.
pub fn results(schema: &Schema, transaction: &Transaction, reply: &Value) -> Result<Vec<OperationResult>, Failure> {
    let malformed = |problem| Failure::Malformed(InvalidValue::new(problem, reply).into());
    let replies = reply.as_array().ok_or_else(|| malformed("not an array of results"))?;
    // The first error is the one that counts: what follows it was not executed.
    if let Some((index, error)) = replies.iter().enumerate().find(|(_, reply)| reply.get("error").is_some()) {
        return Err(Failure::Operation(index, OperationError::from_json(error)));
    }
    if replies.len() < transaction.len() {
        return Err(malformed("fewer results than operations"));
    }
    transaction
        .0
        .iter()
        .zip(replies)
        .map(|(operation, reply)| result(schema, operation, reply).map_err(Failure::Malformed))
        .collect()
}

fn result(schema: &Schema, operation: &Operation, reply: &Value) -> Result<OperationResult, NormalizeError> {
    match operation {
        Operation::Insert { .. } => match reply.get("uuid").map(Atom::from_json).transpose()? {
            Some(Atom::Uuid(uuid)) => Ok(OperationResult::Inserted(uuid)),
            _ => Err(InvalidValue::new("no uuid of the inserted row", reply).into()),
        },
        Operation::Update { .. } | Operation::Mutate { .. } | Operation::Delete { .. } => {
            let count = reply.get("count").and_then(Value::as_u64);
            Ok(OperationResult::Count(count.ok_or_else(|| InvalidValue::new("no count", reply))?))
        }
        Operation::Select { table, .. } => {
            let rows = reply.get("rows").and_then(Value::as_array);
            let rows = rows.ok_or_else(|| InvalidValue::new("no rows", reply))?;
            let table = schema.table(table)?;
            Ok(OperationResult::Rows(
                rows.iter().map(|row| table.normalize(row)).collect::<Result<_, _>>()?,
            ))
        }
        _ => Ok(OperationResult::Done),
    }
}
