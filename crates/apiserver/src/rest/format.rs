//! How an answer looks: the object itself, its metadata only, or rows of a table, as the client's `Accept` prefers.
//! Clients that would rather have protobuf get JSON, which all of them also take.

use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::Target;
use crate::{
    kind::Kind,
    store::Object,
    table::{self, Include},
};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As stored.
    Object,
    /// Metadata only.
    Partial,
    /// Rows.
    Table(Include),
}

impl Format {
    /// The first form the client accepts that this server has.
    pub fn of(target: &Target) -> Self {
        let accept = target.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
        for range in accept.split(',') {
            if !range.trim().starts_with("application/json") {
                continue;
            }
            if range.contains("as=Table") && range.contains("v=v1") && !range.contains("v1beta1") {
                return Self::Table(match target.query.text("includeObject") {
                    "None" => Include::None,
                    "Object" => Include::Object,
                    _ => Include::Metadata,
                });
            }
            if range.contains("as=PartialObjectMetadata") && !range.contains("v1beta1") {
                return Self::Partial;
            }
            if !range.contains("as=") {
                break;
            }
        }
        Self::Object
    }

    /// One object in this form.
    pub fn object(self, kind: &Kind, object: &Object) -> Bytes {
        match self {
            Self::Object if object.value.get("apiVersion").is_some_and(|v| *v == kind.api_version()) => object.json.clone(),
            Self::Object => {
                let mut value = object.value.clone();
                value["apiVersion"] = json!(kind.api_version());
                value.to_string().into()
            }
            Self::Partial => table::partial(&object.value).to_string().into(),
            Self::Table(include) => {
                let metadata = json!({ "resourceVersion": object.revision.to_string() });
                table::table(kind, std::iter::once(&object.value), include, metadata)
                    .to_string()
                    .into()
            }
        }
    }
}

/// An answer with an object.
pub fn respond(code: StatusCode, target: &Target, object: &Object) -> Response {
    respond_bytes(code, Format::of(target).object(&target.kind, object))
}

/// An answer with a value that is no object of a kind.
pub fn respond_value(code: StatusCode, value: &Value) -> Response {
    respond_bytes(code, value.to_string().into())
}

/// An answer with JSON.
pub fn respond_bytes(code: StatusCode, bytes: Bytes) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], Body::from(bytes)).into_response()
}
