//! Why the doctor could not see something. Made by the readers, turned into findings by the judgements: the examination goes on.

use std::time::Duration;

use crate::finding::{Check, Finding};

/// How long one look may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What a reader saw, or why it did not.
pub type Seen<T> = Result<T, Unseen>;

/// Why something was not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// The API server refuses.
    Forbidden(String),
    /// No answer in time.
    Late,
    /// It went wrong; the text says how.
    Error(String),
}

impl Unseen {
    /// From any error.
    pub fn error(error: impl std::fmt::Display) -> Self {
        Self::Error(error.to_string())
    }

    /// The warning that this look gives: not seeing is no proof of a fault.
    pub fn warning(&self, check: Check, object: &str) -> Finding {
        let (found, what_to_do) = self.words(object);
        check.warning(found, what_to_do)
    }

    /// The failure that this look gives, where what cannot be seen cannot be used either.
    pub fn failed(&self, check: Check, object: &str, what_to_do: impl Into<String>) -> Finding {
        check.failed(self.words(object).0, what_to_do)
    }

    fn words(&self, object: &str) -> (String, String) {
        match self {
            Self::Forbidden(reason) => (
                format!("not allowed to look at {object}: {reason}"),
                "look with an account that may read it, or take this check as not done".to_owned(),
            ),
            Self::Late => (
                format!("no answer about {object} in {} s", PATIENCE.as_secs()),
                "see whether the server is overloaded or a packet filter drops the way to it, and look again".to_owned(),
            ),
            Self::Error(reason) => (
                format!("cannot look at {object}: {reason}"),
                "fix the reason given and look again".to_owned(),
            ),
        }
    }
}

/// Waits for a look no longer than [`PATIENCE`].
pub async fn in_time<T>(look: impl Future<Output = Seen<T>>) -> Seen<T> {
    tokio::time::timeout(PATIENCE, look).await.unwrap_or(Err(Unseen::Late))
}
