//! What only the author of a policy can mend. A bad rule allows nothing and its policy still isolates: a mistake never opens a pod.

use std::fmt;

use serde::Serialize;

use crate::cluster::Name;

/// A mistake in a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The policy that has it.
    pub policy: Name,
    /// Where in its spec, as `ingress[0].ports[1]`.
    pub field: String,
    /// What is wrong and what to change.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkPolicy {}: {}: {}", self.policy, self.field, self.message)
    }
}
