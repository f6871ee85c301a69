//! Errors as the CNI specification wants them: a code the runtime acts on, a message for people, and details that say
//! where to look. Every verb of the agent fails with a [`CniError`]; the server turns it into the reply.

use serde_json::{Value, json};

use crate::assignment::AssignmentError;
use crate::net::NetError;
use crate::switch::SwitchError;
use netloom_contract::cni::Code;

/// One error of one request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CniError {
    /// What the runtime acts on.
    pub code: Code,
    /// What happened.
    pub message: String,
    /// Where to look and what to do.
    pub details: String,
}

impl CniError {
    /// An error without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: String::new(),
        }
    }

    /// Adds where to look.
    #[must_use]
    pub fn details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// The reply document.
    pub fn to_json(&self, version: &str) -> Value {
        json!({ "cniVersion": version, "code": self.code as u32, "msg": self.message, "details": self.details })
    }
}

impl From<NetError> for CniError {
    fn from(error: NetError) -> Self {
        Self::new(Code::Io, error.to_string())
    }
}

impl From<SwitchError> for CniError {
    fn from(error: SwitchError) -> Self {
        Self::new(Code::TryAgain, error.to_string())
            .details("are ovsdb-server and ovs-vswitchd of this node running? `netloom doctor` on the node tells")
    }
}

impl From<AssignmentError> for CniError {
    fn from(error: AssignmentError) -> Self {
        Self::new(Code::Assignment, error.to_string()).details("this is a mistake of the controller: look at its log")
    }
}
