//! JSON-RPC 1.0 messages, as OVSDB uses them.
//!
//! The codec reads them from bytes, the client's session writes and answers them. Servers may leave out `result` in an
//! error reply and `error` in a successful one; both are null here.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// One message in either direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Asks for something; the other side answers with the same id.
    Request {
        /// Chosen by the sender, not null.
        id: Value,
        /// What is asked for.
        method: String,
        /// The arguments, an array.
        params: Value,
    },
    /// Tells something; not answered.
    Notification {
        /// What is told.
        method: String,
        /// The arguments, an array.
        params: Value,
    },
    /// Answers a request.
    Response {
        /// The id of the request.
        id: Value,
        /// The answer, null on error.
        result: Value,
        /// The error, null on success.
        error: Value,
    },
}

impl Message {
    /// Reads a message from its JSON form.
    pub fn from_json(json: Value) -> Result<Message, NotAMessage> {
        let Value::Object(mut object) = json else { return Err(NotAMessage) };
        let mut take = |key: &str| object.remove(key).unwrap_or_default();
        let (id, method, params, result, error) = (take("id"), take("method"), take("params"), take("result"), take("error"));
        match (method, id) {
            (Value::String(method), Value::Null) => Ok(Message::Notification { method, params }),
            (Value::String(method), id) => Ok(Message::Request { id, method, params }),
            (Value::Null, id) if !id.is_null() => Ok(Message::Response { id, result, error }),
            _ => Err(NotAMessage),
        }
    }

    /// The JSON form.
    pub fn to_json(&self) -> Value {
        let object: Map<String, Value> = self.fields().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Value::Object(object)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        match self.clone() {
            Message::Request { id, method, params } => vec![("method", method.into()), ("params", params), ("id", id)],
            Message::Notification { method, params } => {
                vec![("method", method.into()), ("params", params), ("id", Value::Null)]
            }
            Message::Response { id, result, error } => vec![("result", result), ("error", error), ("id", id)],
        }
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.fields();
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (key, value) in fields {
            map.serialize_entry(key, &value)?;
        }
        map.end()
    }
}

/// JSON that is no JSON-RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JSON is neither a request nor a notification nor a response")]
pub struct NotAMessage;
