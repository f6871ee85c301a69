//! Which verdicts are logged: what the annotation of a namespace asks for, about its policies, its apps, its groups and its isolation; and
//! what that of a cluster-wide policy asks for, about itself.

use crate::cluster::View;
use crate::policy::ClusterPolicyName;

/// The annotation: `dropped`, `allowed`, `all` or `none`.
pub const POLICY_LOG: &str = "netloom.io/policy-log";

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be.
    Allowed,
    /// It may not.
    Dropped,
}

/// A verdict that is logged.
#[derive(Clone)]
pub struct Log {
    /// Who asks for it: a namespace, or a cluster-wide policy by kind and name.
    pub asker: String,
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

fn log(annotation: &str, asker: impl ToString, verdict: Verdict) -> Option<Log> {
    (asks(annotation, verdict) == Some(true)).then(|| Log { asker: asker.to_string() })
}

impl View<'_> {
    /// How a verdict of what a namespace has is logged, if it is.
    pub(crate) fn log(&self, namespace: &str, verdict: Verdict) -> Option<Log> {
        log(self.namespace_log(namespace)?, namespace, verdict)
    }

    /// How a verdict of a cluster-wide policy is logged, if it is.
    pub(crate) fn cluster_log(&self, name: &ClusterPolicyName, verdict: Verdict) -> Option<Log> {
        log(self.cluster_log_of(name)?, name, verdict)
    }

    /// The annotation of a cluster-wide policy.
    pub(crate) fn cluster_log_of(&self, name: &ClusterPolicyName) -> Option<&str> {
        self.cluster_policy(name)?.annotations.get(POLICY_LOG).map(String::as_str)
    }
}
