//! get and list. An answer is sent only once everything in it is durable.

use axum::{http::StatusCode, response::Response};
use serde_json::{Value, json};

use super::{
    Target,
    format::{Format, respond, respond_bytes, respond_value},
};
use crate::{
    api::Api,
    json,
    selector::Selector,
    status::{Failure, Result},
    table,
};

/// One object.
pub async fn get(api: &Api, target: &Target) -> Result<Response> {
    let object = api.get(&target.kind, &target.namespace, &target.name)?;
    api.store.settled(object.revision).await?;
    Ok(respond(StatusCode::OK, target, &object))
}

/// The objects of a kind that the selectors match, at most `limit` of them.
pub async fn list(api: &Api, target: &Target) -> Result<Response> {
    let kind = &target.kind;
    let selector = Selector::parse(kind, target.query.text("labelSelector"), target.query.text("fieldSelector"))?;
    let namespace = (!target.namespace.is_empty()).then_some(target.namespace.as_str());
    let (mut objects, revision) = api.store.list(&kind.resource(), namespace);
    if let Some(after) = continued(target.query.text("continue"))? {
        objects.retain(|object| (json::namespace(&object.value), json::name(&object.value)) > (after.0.as_str(), after.1.as_str()));
    }
    objects.retain(|object| selector.matches(&object.value));
    api.store.settled(revision).await?;

    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    let limit = target
        .query
        .number("limit")
        .and_then(|l| usize::try_from(l).ok())
        .filter(|l| *l > 0);
    if let Some(limit) = limit.filter(|limit| objects.len() > *limit) {
        let remaining = objects.len() - limit;
        objects.truncate(limit);
        if let Some(last) = objects.last() {
            metadata["continue"] = json!(token(&last.value));
        }
        if selector.is_empty() {
            metadata["remainingItemCount"] = json!(remaining);
        }
    }
    match Format::of(target) {
        Format::Table(include) => {
            let table = table::table(kind, objects.iter().map(|o| &o.value), include, metadata);
            Ok(respond_value(StatusCode::OK, &table))
        }
        Format::Partial => {
            let items: Vec<_> = objects.iter().map(|o| table::partial(&o.value)).collect();
            let list = json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items });
            Ok(respond_value(StatusCode::OK, &list))
        }
        Format::Object => {
            let head = json!({ "kind": kind.list_kind, "apiVersion": kind.api_version(), "metadata": metadata }).to_string();
            let size: usize = objects.iter().map(|o| o.json.len() + 1).sum();
            let mut bytes = Vec::with_capacity(head.len() + size + 16);
            bytes.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
            bytes.extend_from_slice(b",\"items\":[");
            for (index, object) in objects.iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                bytes.extend_from_slice(&Format::Object.object(kind, object));
            }
            bytes.extend_from_slice(b"]}");
            Ok(respond_bytes(StatusCode::OK, bytes.into()))
        }
    }
}

/// Where the next page starts. Pages are of the current state, not of the first page's revision.
fn token(last: &Value) -> String {
    format!("{}/{}", json::namespace(last), json::name(last))
}

fn continued(token: &str) -> Result<Option<(String, String)>> {
    if token.is_empty() {
        return Ok(None);
    }
    let parts = token
        .split_once('/')
        .ok_or_else(|| Failure::bad_request("continue key is not valid"))?;
    Ok(Some((parts.0.to_owned(), parts.1.to_owned())))
}
