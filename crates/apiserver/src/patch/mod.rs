//! The four ways to change part of an object. Each is a pure function from the old object and the request to the new
//! object; the verbs then check the result like any other update.

pub mod apply;
pub mod keys;
mod strategic;

use serde_json::Value;

use crate::{
    kind::{Kind, Source},
    status::{Failure, Result},
};

const ACCEPTED: &str =
    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";

/// A patch as sent.
#[derive(Debug)]
pub enum Patch {
    /// RFC 6902 operations.
    Json(json_patch::Patch),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' merge that knows lists of named things.
    Strategic(Value),
    /// Server-side apply.
    Apply(Value),
}

impl Patch {
    /// Reads a patch of the given media type.
    pub fn parse(content_type: &str, body: &[u8]) -> Result<Self> {
        let media = content_type.split(';').next().unwrap_or("").trim();
        let json = || serde_json::from_slice(body).map_err(|e| Failure::bad_request(format!("error decoding patch: {e}")));
        match media {
            "application/json-patch+json" => serde_json::from_slice(body)
                .map(Patch::Json)
                .map_err(|e| Failure::bad_request(format!("error decoding patch: {e}"))),
            "application/merge-patch+json" => json().map(Patch::Merge),
            "application/strategic-merge-patch+json" => json().map(Patch::Strategic),
            "application/apply-patch+yaml" => crate::rest::body::parse(body).map(Patch::Apply),
            other => Err(Failure::unsupported_media(other, ACCEPTED)),
        }
    }

    /// The patched object. Server-side apply is not done here, because it also concerns objects that do not exist yet.
    pub fn apply(&self, kind: &Kind, old: &Value) -> Result<Value> {
        let mut new = old.clone();
        match self {
            Patch::Json(patch) => json_patch::patch(&mut new, patch).map_err(|error| {
                let mut failure = Failure::bad_request(format!("the server rejected our request due to an error in our request: {error}"));
                failure.code = 422;
                failure.reason = "Invalid";
                failure
            })?,
            Patch::Merge(patch) => json_patch::merge(&mut new, patch),
            Patch::Strategic(patch) => {
                if let Source::Custom(_) = kind.source {
                    let others = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
                    return Err(Failure::unsupported_media("application/strategic-merge-patch+json", others));
                }
                strategic::merge(kind, &mut new, patch)?;
            }
            Patch::Apply(_) => return Err(Failure::internal("server-side apply is not a plain patch")),
        }
        Ok(new)
    }
}
