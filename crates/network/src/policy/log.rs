//! Which verdicts of policies are logged: what the annotation of a namespace asks for, about policies of that namespace.

use crate::cluster::Cluster;
use crate::policy::{Namespace, PolicyName};

/// The annotation: `dropped`, `allowed` or `all`.
pub const POLICY_LOG: &str = "netloom.io/policy-log";

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be.
    Allowed,
    /// It may not.
    Dropped,
}

/// What is logged of a namespace.
pub struct Log<'a> {
    /// The namespace.
    pub namespace: &'a str,
}

/// The annotation of a namespace.
pub(crate) fn log_of(namespace: Option<&Namespace>) -> Option<&str> {
    namespace?.annotations.get(POLICY_LOG).map(String::as_str)
}

/// Whether the annotation asks for a verdict; none if it says nothing that can be read.
pub(crate) fn asks(annotation: &str, verdict: Verdict) -> Option<bool> {
    match annotation {
        "all" => Some(true),
        "dropped" => Some(verdict == Verdict::Dropped),
        "allowed" => Some(verdict == Verdict::Allowed),
        "none" => Some(false),
        _ => None,
    }
}

impl Cluster {
    /// How a verdict of the policies of a namespace is logged, if it is.
    pub(crate) fn log<'a>(&self, namespace: &'a str, verdict: Verdict) -> Option<Log<'a>> {
        let annotation = log_of(self.namespaces.get(namespace))?;
        (asks(annotation, verdict) == Some(true)).then_some(Log { namespace })
    }

    /// Policies of a namespace.
    pub(crate) fn policies_of(&self, namespace: &str) -> impl Iterator<Item = &PolicyName> {
        let first = PolicyName {
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        let all = self.policies.range(first..).map(|(name, _)| name);
        all.take_while(move |name| name.namespace == *namespace)
    }
}
