//! Refusals as Kubernetes speaks them. Every verb returns [`Failure`], and a failure is exactly one `Status` object on the
//! wire: code, reason, message and causes are what kubectl and client-go decide on, so they are spelled as they expect.

use axum::{
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::kind::Kind;

/// The result of every verb of the API.
pub type Result<T> = std::result::Result<T, Failure>;

/// One refusal, convertible to a `Status` response.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// HTTP status code.
    pub code: u16,
    /// Machine readable reason, e.g. `NotFound`.
    pub reason: &'static str,
    /// The sentence kubectl prints.
    pub message: String,
    /// `details` of the Status, or null.
    pub details: Value,
}

/// One field that is wrong in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Path of the field, e.g. `spec.containers[0].name`.
    pub field: String,
    /// `FieldValueRequired`, `FieldValueInvalid`…
    pub reason: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl Cause {
    /// A field that must be given.
    pub fn required(field: impl Into<String>, hint: &str) -> Self {
        let message = if hint.is_empty() {
            "Required value".into()
        } else {
            format!("Required value: {hint}")
        };
        Self {
            field: field.into(),
            reason: "FieldValueRequired",
            message,
        }
    }

    /// A field whose value is not acceptable.
    pub fn invalid(field: impl Into<String>, value: &Value, why: impl std::fmt::Display) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    /// A field that may not be set or changed.
    pub fn forbidden(field: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {why}"),
        }
    }

    /// A value that is not one of the allowed ones.
    pub fn unsupported(field: impl Into<String>, value: &Value, allowed: &[String]) -> Self {
        let allowed = allowed.join(", ");
        Self {
            field: field.into(),
            reason: "FieldValueNotSupported",
            message: format!("Unsupported value: {value}: supported values: {allowed}"),
        }
    }

    /// The same value twice in a list that must be unique.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueDuplicate",
            message: format!("Duplicate value: {value}"),
        }
    }
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        self.details = json!({ "name": name, "group": kind.group, "kind": kind.plural });
        self
    }

    /// The object does not exist.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.resource())).about(kind, name)
    }

    /// The path leads nowhere.
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// An object of that name is already there.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.resource())).about(kind, name)
    }

    /// The writer worked from an old version.
    pub fn conflict(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict_because(kind, name, why)
    }

    /// A write that cannot be done on the object as it is.
    pub fn conflict_because(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource());
        Self::new(409, "Conflict", message).about(kind, name)
    }

    /// Server-side apply met fields that belong to other field managers.
    pub fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let plural = if conflicts.len() == 1 { "conflict" } else { "conflicts" };
        let list: Vec<_> = conflicts
            .iter()
            .map(|(manager, field)| format!("conflict with \"{manager}\": {field}"))
            .collect();
        let body = if list.len() == 1 {
            list[0].clone()
        } else {
            format!("\n- {}", list.join("\n- "))
        };
        let mut failure = Self::new(409, "Conflict", format!("Apply failed with {} {plural}: {body}", list.len()));
        let causes: Vec<_> = conflicts
            .iter()
            .map(|(manager, field)| {
                json!({ "reason": "FieldManagerConflict", "message": format!("conflict with \"{manager}\""), "field": field })
            })
            .collect();
        failure.details = json!({ "causes": causes });
        failure
    }

    /// The object breaks rules of its kind.
    pub fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        let lines: Vec<_> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let list = if lines.len() == 1 {
            lines[0].clone()
        } else {
            format!("[{}]", lines.join(", "))
        };
        let mut failure = Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {list}", kind.qualified()));
        let causes: Vec<_> = causes
            .iter()
            .map(|c| json!({ "reason": c.reason, "message": c.message, "field": c.field }))
            .collect();
        failure.details = json!({ "name": name, "group": kind.group, "kind": kind.kind, "causes": causes });
        failure
    }

    /// The request itself cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The request is understood and refused.
    pub fn forbidden(kind: &Kind, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.resource());
        Self::new(403, "Forbidden", message).about(kind, name)
    }

    /// The namespace is on its way out.
    pub fn terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut failure = Self::forbidden(kind, name, why);
        failure.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        failure
    }

    /// No or a wrong token.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The verb does not exist for the resource.
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// A watch or continued list from a revision that is no longer known.
    pub fn expired(revision: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {revision} ({oldest})"))
    }

    /// A body in a format this server does not read.
    pub fn unsupported_media(given: &str, accepted: &str) -> Self {
        let message = format!("the body of the request was in an unknown format {given} - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// A feature of Kubernetes that this server deliberately does not have.
    pub fn not_implemented(what: &str) -> Self {
        Self::new(501, "NotImplemented", format!("{what} is not supported by the lab's API server"))
    }

    /// Something behind this server failed.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// The `Status` object itself.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

/// The `Status` that reports a completed deletion.
pub fn deleted(kind: &Kind, name: &str, uid: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": { "name": name, "group": kind.group, "kind": kind.plural, "uid": uid },
    })
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (
            code,
            [(header::CONTENT_TYPE, "application/json")],
            Body::from(self.to_value().to_string()),
        )
            .into_response()
    }
}
