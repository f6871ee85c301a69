//! What only the author of an object can mend. What has a mistake opens nothing: a bad rule allows nothing and its policy still isolates,
//! an annotation that cannot be read means the strictest it could.

use std::fmt;

use serde::Serialize;

use crate::cluster::Name;

/// Reason of mistakes in policies of all kinds.
pub const INVALID_POLICY: &str = "InvalidPolicy";

/// An object of the API, by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Object {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, if its kind has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Object {
    /// One in a namespace.
    pub fn in_namespace(kind: &'static str, name: &Name) -> Self {
        Self {
            kind,
            namespace: Some(name.namespace.clone()),
            name: name.name.clone(),
        }
    }

    /// A pod, or the `Port` of a machine.
    pub fn of_pod(name: &Name) -> Self {
        match name.machine() {
            None => Self::in_namespace("Pod", name),
            Some(port) => Self::in_namespace("Port", &Name::new(&name.namespace, port)),
        }
    }

    /// One of the whole cluster.
    pub fn of_cluster(kind: &'static str, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: None,
            name: name.into(),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// A mistake in an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The object that has it.
    pub object: Object,
    /// What kind of mistake, in a word.
    pub reason: &'static str,
    /// Where: in its spec, as `ingress[0].ports[1]`, or an annotation or label.
    pub field: String,
    /// What is wrong and what to change.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.object, self.field, self.message)
    }
}
