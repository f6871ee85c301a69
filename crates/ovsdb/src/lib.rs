//! An asynchronous OVSDB client (RFC 7047 and the extensions of `ovsdb-server(7)`).
//!
//! ```text
//! atom ─► datum ─► schema ─► replica                      values, what the server says they are, a copy of the rows
//!            └───► condition ─► operation ─► transaction   what a client asks for, printable
//! message ─► codec                                        JSON-RPC, bytes
//! client                                                  one task that owns the connection (feature `client`)
//! table, generate                                         typed rows, written by a program from a schema
//! ```
//!
//! Everything but [`client`] is values and functions: no runtime, no sockets, no clock. The crate knows the protocol and
//! nothing about any particular database.
//!
//! One convention runs through it: a [`Row`] is *canonical*. A column that holds its default is absent, a scalar is a
//! set of one. Two rows that mean the same are therefore equal, and a missing column always means "the default".

pub mod atom;
pub mod codec;
pub mod condition;
pub mod datum;
pub mod generate;
pub mod message;
pub mod operation;
pub mod replica;
mod row;
pub mod schema;
pub mod table;
pub mod transaction;

#[cfg(feature = "client")]
pub mod client;

pub use atom::{Atom, Real};
pub use condition::{Condition, Function, Mutation, Mutator};
pub use datum::{Datum, Map, Set};
pub use operation::{Operation, Until};
pub use replica::{Changes, Replica, RowChange};
pub use row::Row;
pub use schema::{AtomType, ColumnSchema, Kind, Schema, TableSchema};
pub use table::{Column, Table};
pub use transaction::{ErrorKind, OperationError, OperationResult, Transaction};
pub use uuid::Uuid;

#[cfg(feature = "client")]
pub use client::{
    Client, ClientError, ConnectError, Event, Events, MonitorTable, Options, Remote, Remotes, Status, Tls, TransactError, UnmonitoredColumn,
};
