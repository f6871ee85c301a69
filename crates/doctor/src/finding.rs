//! One line of the doctor's report. Made by the pure judgements. A finding that is not ok always says
//! what to do.

use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, with the consequence named.
    Warning,
    /// Something does not work.
    Failed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        })
    }
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What the check is about, e.g. `kernel`.
    pub group: &'static str,
    /// The check; stable, for machines and for the documentation.
    pub check: &'static str,
    /// How bad it is.
    pub state: State,
    /// The object and what was found of it.
    pub found: String,
    /// What to change; empty when it is ok.
    pub what_to_do: String,
}

/// The name of a check, from which its findings are made.
#[derive(Clone, Copy, Debug)]
pub struct Check(pub &'static str, pub &'static str);

impl Check {
    /// All is well.
    pub fn ok(self, found: impl Into<String>) -> Finding {
        self.finding(State::Ok, found, "")
    }

    /// It works, but.
    pub fn warning(self, found: impl Into<String>, what_to_do: impl Into<String>) -> Finding {
        self.finding(State::Warning, found, what_to_do)
    }

    /// It does not work.
    pub fn failed(self, found: impl Into<String>, what_to_do: impl Into<String>) -> Finding {
        self.finding(State::Failed, found, what_to_do)
    }

    fn finding(self, state: State, found: impl Into<String>, what_to_do: impl Into<String>) -> Finding {
        Finding {
            group: self.0,
            check: self.1,
            state,
            found: found.into(),
            what_to_do: what_to_do.into(),
        }
    }
}
