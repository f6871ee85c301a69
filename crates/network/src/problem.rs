//! Problems: what is wrong with a user's object, as data. `compile` returns them next to the rows it could still produce;
//! the controller turns each into an Event and a condition on the object that caused it.

use std::fmt;

use serde::Serialize;

/// The Kubernetes object a row or a problem belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectRef {
    /// Kind, e.g. `Pod`.
    pub kind: &'static str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID, empty when the object came from a file.
    pub uid: String,
}

impl ObjectRef {
    /// A cluster-scoped object.
    pub fn cluster(kind: &'static str, name: &str, uid: &str) -> Self {
        Self {
            kind,
            namespace: String::new(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// A namespaced object.
    pub fn namespaced(kind: &'static str, namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.kind, self.name)
        } else {
            write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// Something only the user can mend: which object, why (a CamelCase reason), and what to change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Problem {
    /// The object that causes it.
    pub object: ObjectRef,
    /// Reason as used in Events and conditions.
    pub reason: &'static str,
    /// What is wrong and what to change.
    pub message: String,
}

impl Problem {
    /// A problem of `object`.
    pub fn new(object: ObjectRef, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            object,
            reason,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.object, self.reason, self.message)
    }
}
