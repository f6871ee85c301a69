//! create, update, patch and delete: from bodies and parameters to the verbs.

use axum::{
    http::{StatusCode, header},
    response::Response,
};
use serde_json::{Value, json};

use super::{
    Target, body,
    format::{Format, respond, respond_bytes, respond_value},
};
use crate::{
    api::{Api, Deleted, Deletion, Part},
    json,
    patch::{
        Patch,
        apply::{self, Writer},
    },
    selector::Selector,
    status::{self, Failure, Result},
};

/// POST of a new object.
pub async fn create(api: &Api, target: &Target, bytes: &[u8]) -> Result<Response> {
    let value = body::object(&target.headers, bytes)?;
    check_kind(target, &value)?;
    check_fields(target, &value)?;
    let object = api.create(&target.kind, &target.namespace, value, target.query.dry_run()?).await?;
    Ok(respond(StatusCode::CREATED, target, &object))
}

/// PUT of a whole object.
pub async fn update(api: &Api, target: &Target, bytes: &[u8]) -> Result<Response> {
    let value = body::object(&target.headers, bytes)?;
    check_kind(target, &value)?;
    check_fields(target, &value)?;
    let writer = writer(target, "");
    let change = |old: &Value| {
        let mut new = value.clone();
        apply::track(&target.kind, old, &mut new, &writer);
        Ok(new)
    };
    let object = api
        .update(
            &target.kind,
            &target.namespace,
            &target.name,
            Part::Main,
            target.query.dry_run()?,
            change,
        )
        .await?;
    Ok(respond(StatusCode::OK, target, &object))
}

/// PATCH of any kind.
pub async fn patch(api: &Api, target: &Target, bytes: &[u8]) -> Result<Response> {
    let (code, object) = patch_part(api, target, bytes, Part::Main).await?;
    Ok(respond(code, target, &object))
}

/// Patches a part of an object; server-side apply may also create it.
pub async fn patch_part(
    api: &Api,
    target: &Target,
    bytes: &[u8],
    part: Part,
) -> Result<(StatusCode, std::sync::Arc<crate::store::Object>)> {
    let media = target.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let patch = Patch::parse(media, bytes)?;
    let (kind, namespace, name, dry_run) = (&target.kind, &target.namespace, &target.name, target.query.dry_run()?);
    let writer = writer(target, &target.subresource);
    if let Patch::Apply(wanted) = &patch {
        let wanted = checked_intent(target, wanted)?;
        let force = target.query.flag("force");
        if api.get(kind, namespace, name).is_err() && part == Part::Main {
            let new = apply::apply(kind, &Value::Null, &wanted, &writer, force)?;
            match api.create(kind, namespace, new, dry_run).await {
                Ok(object) => return Ok((StatusCode::CREATED, object)),
                // Someone else was first: apply on top of theirs.
                Err(failure) if failure.reason == "AlreadyExists" => {}
                Err(failure) => return Err(failure),
            }
        }
        let change = |old: &Value| apply::apply(kind, old, &wanted, &writer, force);
        return Ok((StatusCode::OK, api.update(kind, namespace, name, part, dry_run, change).await?));
    }
    let change = |old: &Value| {
        let mut new = patch.apply(kind, old)?;
        check_fields(target, &new)?;
        apply::track(kind, old, &mut new, &writer);
        Ok(new)
    };
    Ok((StatusCode::OK, api.update(kind, namespace, name, part, dry_run, change).await?))
}

/// What server-side apply demands of the request.
fn checked_intent(target: &Target, wanted: &Value) -> Result<Value> {
    if target.query.text("fieldManager").is_empty() {
        return Err(Failure::bad_request(
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ));
    }
    check_kind(target, wanted)?;
    check_fields(target, wanted)?;
    if !json::list(wanted, "/metadata/managedFields").is_empty() {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    let mut wanted = wanted.clone();
    json::remove(&mut wanted, "/metadata/managedFields");
    json::remove(&mut wanted, "/metadata/creationTimestamp");
    json::set(&mut wanted, "/metadata/name", target.name.as_str());
    if wanted.get("status").is_some_and(Value::is_null) {
        json::remove(&mut wanted, "/status");
    }
    Ok(wanted)
}

/// DELETE of one object.
pub async fn delete(api: &Api, target: &Target, bytes: &[u8]) -> Result<Response> {
    let how = deletion(target, bytes)?;
    match api.delete(&target.kind, &target.namespace, &target.name, &how).await? {
        Deleted::Gone(last) => {
            let status = status::deleted(&target.kind, &target.name, json::uid(&last.value));
            Ok(respond_value(StatusCode::OK, &status))
        }
        Deleted::Pending(object) => Ok(respond_value(StatusCode::OK, &object)),
    }
}

/// DELETE of all objects that the selectors match.
pub async fn delete_collection(api: &Api, target: &Target, bytes: &[u8]) -> Result<Response> {
    let kind = &target.kind;
    let how = deletion(target, bytes)?;
    let selector = Selector::parse(kind, target.query.text("labelSelector"), target.query.text("fieldSelector"))?;
    if kind.namespaced && target.namespace.is_empty() {
        return Err(Failure::method_not_allowed());
    }
    let namespace = kind.namespaced.then_some(target.namespace.as_str());
    let (objects, revision) = api.store.list(&kind.resource(), namespace);
    let mut items = Vec::new();
    for object in objects.iter().filter(|object| selector.matches(&object.value)) {
        match api
            .delete(kind, json::namespace(&object.value), json::name(&object.value), &how)
            .await
        {
            Ok(_) => items.push(object.value.clone()),
            // Gone meanwhile is what was asked for.
            Err(failure) if failure.reason == "NotFound" => {}
            Err(failure) => return Err(failure),
        }
    }
    let metadata = json!({ "resourceVersion": revision.to_string() });
    let list = json!({ "kind": kind.list_kind, "apiVersion": kind.api_version(), "metadata": metadata, "items": items });
    match Format::of(target) {
        Format::Table(include) => {
            let table = crate::table::table(kind, items.iter(), include, metadata);
            Ok(respond_value(StatusCode::OK, &table))
        }
        _ => Ok(respond_bytes(StatusCode::OK, list.to_string().into())),
    }
}

fn deletion(target: &Target, bytes: &[u8]) -> Result<Deletion> {
    let options = if bytes.is_empty() {
        json!({})
    } else {
        body::object(&target.headers, bytes)?
    };
    let text = |path: &str| options.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let query = |name: &str| Some(target.query.text(name).to_owned()).filter(|t| !t.is_empty());
    let dry_run = target.query.dry_run()? || json::list(&options, "/dryRun").iter().any(|d| d == "All");
    let orphan = options
        .get("orphanDependents")
        .and_then(Value::as_bool)
        .or(query("orphanDependents").map(|v| v == "true"));
    let propagation = text("/propagationPolicy").or_else(|| query("propagationPolicy"));
    Ok(Deletion {
        dry_run,
        grace: json::number(&options, "/gracePeriodSeconds").or_else(|| target.query.number("gracePeriodSeconds")),
        uid: text("/preconditions/uid"),
        revision: text("/preconditions/resourceVersion"),
        propagation: propagation.or_else(|| orphan.filter(|o| *o).map(|_| "Orphan".to_owned())),
    })
}

/// Who writes: the declared manager, or the program that sent the request.
pub fn writer(target: &Target, subresource: &str) -> Writer {
    let declared = target.query.text("fieldManager");
    let agent = target
        .headers
        .get(header::USER_AGENT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("unknown");
    let manager = if declared.is_empty() {
        agent.split('/').next().unwrap_or("unknown")
    } else {
        declared
    };
    Writer {
        manager: manager.to_owned(),
        subresource: subresource.to_owned(),
    }
}

/// A body must be of the kind its URL names; it may leave it out.
fn check_kind(target: &Target, value: &Value) -> Result<()> {
    let (version, kind) = (json::text(value, "/apiVersion"), json::text(value, "/kind"));
    if (!version.is_empty() && version != target.kind.api_version()) || (!kind.is_empty() && kind != target.kind.kind) {
        let message = format!(
            "the API version and kind in the data ({version}, {kind}) do not match the expected ones ({}, {})",
            target.kind.api_version(),
            target.kind.kind
        );
        return Err(Failure::bad_request(message));
    }
    Ok(())
}

/// With `fieldValidation=Strict` (kubectl's default) a field that would be dropped is an error: it is likely misspelt.
fn check_fields(target: &Target, value: &Value) -> Result<()> {
    if target.query.text("fieldValidation") != "Strict" {
        return Ok(());
    }
    let unknown = target.kind.unknown_fields(value)?;
    if unknown.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    let (version, kind) = (&target.kind.version, &target.kind.kind);
    let why = format!("strict decoding error: {}", list.join(", "));
    Err(Failure::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
    )))
}
