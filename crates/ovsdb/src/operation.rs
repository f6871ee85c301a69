//! The operations of a transaction.
//!
//! Plain values that callers build and the client serialises; `Display` prints one as a readable line.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::condition::{Condition, Mutation};
use crate::row::Row;

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds a row.
    Insert {
        /// The table.
        table: String,
        /// The columns that differ from their default.
        row: Row,
        /// The identity of the row, if the client chooses it.
        uuid: Option<Uuid>,
        /// A name by which the other operations refer to the row.
        uuid_name: Option<String>,
    },
    /// Reads rows.
    Select {
        /// The table.
        table: String,
        /// All of these hold for the rows.
        where_: Vec<Condition>,
        /// The columns to read, all if `None`.
        columns: Option<Vec<String>>,
    },
    /// Sets columns of rows.
    Update {
        /// The table.
        table: String,
        /// All of these hold for the rows.
        where_: Vec<Condition>,
        /// The columns with their new contents.
        row: Row,
    },
    /// Changes columns of rows in place.
    Mutate {
        /// The table.
        table: String,
        /// All of these hold for the rows.
        where_: Vec<Condition>,
        /// The changes, applied in order.
        mutations: Vec<Mutation>,
    },
    /// Removes rows.
    Delete {
        /// The table.
        table: String,
        /// All of these hold for the rows.
        where_: Vec<Condition>,
    },
    /// Goes on only when the rows are, or are not, the given ones.
    Wait {
        /// How long the server may hold the transaction back, in milliseconds; `None` for as long as it takes.
        timeout: Option<u64>,
        /// The table.
        table: String,
        /// All of these hold for the rows that are compared.
        where_: Vec<Condition>,
        /// The columns that are compared.
        columns: Vec<String>,
        /// Whether the rows must be equal or different.
        until: Until,
        /// The rows to compare with.
        rows: Vec<Row>,
    },
    /// Replies only when the transaction is on disk, if durable.
    Commit {
        /// Whether to wait for the disk.
        durable: bool,
    },
    /// Makes the transaction fail.
    Abort,
    /// Leaves a remark in the server's log.
    Comment(String),
    /// Fails the transaction unless this client holds the lock.
    Assert {
        /// The lock.
        lock: String,
    },
}

impl Operation {
    /// Adds a row under an identity of the client's choice.
    pub fn insert(table: impl Into<String>, uuid: Uuid, row: Row) -> Self {
        Operation::Insert {
            table: table.into(),
            row,
            uuid: Some(uuid),
            uuid_name: None,
        }
    }

    /// Adds a row that the same transaction refers to by [`Datum::named_uuid`](crate::Datum::named_uuid).
    pub fn insert_named(table: impl Into<String>, name: impl Into<String>, row: Row) -> Self {
        Operation::Insert {
            table: table.into(),
            row,
            uuid: None,
            uuid_name: Some(name.into()),
        }
    }

    /// Reads all columns of rows.
    pub fn select(table: impl Into<String>, where_: Vec<Condition>) -> Self {
        Operation::Select {
            table: table.into(),
            where_,
            columns: None,
        }
    }

    /// Sets columns of one row.
    pub fn update(table: impl Into<String>, uuid: Uuid, row: Row) -> Self {
        Operation::Update {
            table: table.into(),
            where_: vec![Condition::uuid(uuid)],
            row,
        }
    }

    /// Changes columns of one row in place.
    pub fn mutate(table: impl Into<String>, uuid: Uuid, mutations: Vec<Mutation>) -> Self {
        Operation::Mutate {
            table: table.into(),
            where_: vec![Condition::uuid(uuid)],
            mutations,
        }
    }

    /// Removes one row.
    pub fn delete(table: impl Into<String>, uuid: Uuid) -> Self {
        Operation::Delete {
            table: table.into(),
            where_: vec![Condition::uuid(uuid)],
        }
    }

    /// Fails the transaction unless this client holds the lock.
    pub fn assert(lock: impl Into<String>) -> Self {
        Operation::Assert { lock: lock.into() }
    }
}

/// What a [`Operation::Wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The rows are the given ones.
    Equal,
    /// The rows are not the given ones.
    NotEqual,
}

impl Until {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Until::Equal => "==",
            Until::NotEqual => "!=",
        }
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Operation::Insert {
                table,
                row,
                uuid,
                uuid_name,
            } => {
                map.serialize_entry("op", "insert")?;
                map.serialize_entry("table", table)?;
                map.serialize_entry("row", row)?;
                if let Some(uuid) = uuid {
                    map.serialize_entry("uuid", uuid.as_hyphenated())?;
                }
                if let Some(name) = uuid_name {
                    map.serialize_entry("uuid-name", name)?;
                }
            }
            Operation::Select { table, where_, columns } => {
                map.serialize_entry("op", "select")?;
                map.serialize_entry("table", table)?;
                map.serialize_entry("where", where_)?;
                if let Some(columns) = columns {
                    map.serialize_entry("columns", columns)?;
                }
            }
            Operation::Update { table, where_, row } => {
                map.serialize_entry("op", "update")?;
                map.serialize_entry("table", table)?;
                map.serialize_entry("where", where_)?;
                map.serialize_entry("row", row)?;
            }
            Operation::Mutate { table, where_, mutations } => {
                map.serialize_entry("op", "mutate")?;
                map.serialize_entry("table", table)?;
                map.serialize_entry("where", where_)?;
                map.serialize_entry("mutations", mutations)?;
            }
            Operation::Delete { table, where_ } => {
                map.serialize_entry("op", "delete")?;
                map.serialize_entry("table", table)?;
                map.serialize_entry("where", where_)?;
            }
            Operation::Wait {
                timeout,
                table,
                where_,
                columns,
                until,
                rows,
            } => {
                map.serialize_entry("op", "wait")?;
                if let Some(timeout) = timeout {
                    map.serialize_entry("timeout", timeout)?;
                }
                map.serialize_entry("table", table)?;
                map.serialize_entry("where", where_)?;
                map.serialize_entry("columns", columns)?;
                map.serialize_entry("until", until.as_str())?;
                map.serialize_entry("rows", rows)?;
            }
            Operation::Commit { durable } => {
                map.serialize_entry("op", "commit")?;
                map.serialize_entry("durable", durable)?;
            }
            Operation::Abort => map.serialize_entry("op", "abort")?,
            Operation::Comment(comment) => {
                map.serialize_entry("op", "comment")?;
                map.serialize_entry("comment", comment)?;
            }
            Operation::Assert { lock } => {
                map.serialize_entry("op", "assert")?;
                map.serialize_entry("lock", lock)?;
            }
        }
        map.end()
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Insert {
                table,
                row,
                uuid,
                uuid_name,
            } => {
                write!(f, "insert {table}")?;
                if let Some(uuid) = uuid {
                    write!(f, " {uuid}")?;
                }
                if let Some(name) = uuid_name {
                    write!(f, " @{name}")?;
                }
                columns(f, row)
            }
            Operation::Select { table, where_, columns } => {
                write!(f, "select {table}")?;
                conditions(f, where_)?;
                match columns {
                    Some(columns) => write!(f, ": {}", columns.join(" ")),
                    None => Ok(()),
                }
            }
            Operation::Update { table, where_, row } => {
                write!(f, "update {table}")?;
                conditions(f, where_)?;
                columns(f, row)
            }
            Operation::Mutate { table, where_, mutations } => {
                write!(f, "mutate {table}")?;
                conditions(f, where_)?;
                mutations
                    .iter()
                    .enumerate()
                    .try_for_each(|(index, mutation)| write!(f, "{}{mutation}", if index == 0 { ": " } else { "; " }))
            }
            Operation::Delete { table, where_ } => {
                write!(f, "delete {table}")?;
                conditions(f, where_)
            }
            Operation::Wait {
                timeout,
                table,
                where_,
                until,
                rows,
                ..
            } => {
                write!(f, "wait {table}")?;
                conditions(f, where_)?;
                write!(f, " until {}", until.as_str())?;
                for row in rows {
                    columns(f, row)?;
                }
                match timeout {
                    Some(timeout) => write!(f, " for {timeout} ms"),
                    None => Ok(()),
                }
            }
            Operation::Commit { durable: true } => f.write_str("commit durable"),
            Operation::Commit { durable: false } => f.write_str("commit"),
            Operation::Abort => f.write_str("abort"),
            Operation::Comment(comment) => write!(f, "comment {comment:?}"),
            Operation::Assert { lock } => write!(f, "assert lock {lock}"),
        }
    }
}

fn conditions(f: &mut fmt::Formatter<'_>, where_: &[Condition]) -> fmt::Result {
    match where_ {
        [] => f.write_str(" all rows"),
        conditions => conditions
            .iter()
            .enumerate()
            .try_for_each(|(index, condition)| write!(f, "{}{condition}", if index == 0 { " " } else { " and " })),
    }
}

fn columns(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    row.iter()
        .enumerate()
        .try_for_each(|(index, (column, datum))| write!(f, "{}{column}={datum}", if index == 0 { ": " } else { " " }))
}
