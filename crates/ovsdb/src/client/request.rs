//! The requests a session makes, in the form in which they are written, and what is kept until the answer arrives.

use std::sync::Arc;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::condition::Condition;
use crate::schema::Schema;
use crate::transaction::Transaction;

use super::MonitorTable;
use super::task::{Reply, TransactReply};

/// What an expected response is about.
pub(super) enum Pending {
    /// The liveness probe.
    Echo,
    /// The role of the server in its cluster.
    Server,
    Schema,
    /// The content, with those who wait for the conditions the request had.
    Monitor {
        method: MonitorMethod,
        schema: Arc<Schema>,
        waiters: Vec<(String, Reply)>,
    },
    /// Lock or steal, and who waits for it besides ourselves.
    Lock(Option<Reply>),
    /// What puts the lock behind the changes of its last holder, who waits for it, and which turn with the lock it is for.
    Turn {
        turn: u64,
        reply: Option<Reply>,
    },
    Unlock(Option<Reply>),
    /// A changed condition, with the one to return to should the server refuse it.
    Condition {
        table: String,
        before: Option<Vec<Condition>>,
        reply: Reply,
    },
    Transact {
        transaction: Transaction,
        schema: Arc<Schema>,
        reply: TransactReply,
    },
}

/// The ways to monitor, from the newest to that of the RFC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonitorMethod {
    Since,
    Conditional,
    Plain,
}

impl MonitorMethod {
    pub(super) fn name(self) -> &'static str {
        match self {
            MonitorMethod::Since => "monitor_cond_since",
            MonitorMethod::Conditional => "monitor_cond",
            MonitorMethod::Plain => "monitor",
        }
    }

    /// What to try when the server does not know this one.
    pub(super) fn fallback(self) -> Option<MonitorMethod> {
        match self {
            MonitorMethod::Since => Some(MonitorMethod::Conditional),
            MonitorMethod::Conditional => Some(MonitorMethod::Plain),
            MonitorMethod::Plain => None,
        }
    }
}

/// A request on its way out; borrows its parameters, which can be large.
#[derive(Serialize)]
pub(super) struct Request<'a, P> {
    pub(super) method: &'a str,
    pub(super) params: P,
    pub(super) id: u64,
}

/// The parameters of `transact`: the database, then the operations.
pub(super) struct TransactParams<'a>(pub(super) &'a str, pub(super) &'a Transaction);

impl Serialize for TransactParams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut params = serializer.serialize_seq(Some(self.1.len() + 1))?;
        params.serialize_element(self.0)?;
        for operation in &self.1.0 {
            params.serialize_element(operation)?;
        }
        params.end()
    }
}

/// The `<monitor-requests>` for the tables.
///
/// "All columns" is spelled out: a server that is not told includes `_version`, which no row we compare with has.
pub(super) fn monitor_requests(schema: &Schema, tables: &[MonitorTable], method: MonitorMethod) -> Value {
    let request = |table: &MonitorTable| {
        let mut request = serde_json::Map::new();
        if let Some(columns) = &table.columns {
            request.insert("columns".to_owned(), json!(columns));
        } else if let Some(known) = schema.tables.get(&table.table) {
            request.insert("columns".to_owned(), known.columns.keys().map(String::as_str).collect());
        }
        if method != MonitorMethod::Plain {
            request.insert("where".to_owned(), where_(&table.condition));
        }
        (table.table.clone(), json!([request]))
    };
    Value::Object(tables.iter().map(request).collect())
}

/// The condition of a monitor, in which no condition must be spelled out as "every row".
pub(super) fn where_(condition: &[Condition]) -> Value {
    if condition.is_empty() { json!([true]) } else { json!(condition) }
}
