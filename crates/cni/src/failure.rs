//! The error document of the CNI specification. Everything that goes wrong in the plugin, and every error the agent
//! answers with, leaves through [`Failure`], so that codes and wording live in one place.

use netloom_contract::cni::Code;
use serde_json::{Value, json};

/// One error, as it will be printed.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    code: u64,
    message: String,
    details: String,
}

impl Failure {
    /// A failure found by the plugin itself.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code: u64::from(code as u32),
            message: message.into(),
            details: String::new(),
        }
    }

    /// Adds what to do about it.
    pub fn details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// The agent's error, passed on unchanged.
    pub fn from_reply(reply: &Value) -> Self {
        let text = |name: &str| reply[name].as_str().unwrap_or_default().to_owned();
        Self {
            code: reply["code"].as_u64().unwrap_or(999),
            message: text("msg"),
            details: text("details"),
        }
    }

    /// The document for stdout; `details` is left out when there are none.
    pub fn to_json(&self, version: &str) -> Value {
        let mut document = json!({ "cniVersion": version, "code": self.code, "msg": self.message });
        if !self.details.is_empty() {
            document["details"] = json!(self.details);
        }
        document
    }
}
