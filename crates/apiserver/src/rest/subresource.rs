//! Subresources: status, approval, scale, finalize, binding and log. exec has a module of its own because it is no request but a
//! conversation.

use axum::{
    http::{Method, StatusCode},
    response::Response,
};
use serde_json::{Value, json};

use super::{
    Server, Target, body, exec,
    format::{respond, respond_value},
    read, write,
};
use crate::{
    api::{Api, Part},
    json,
    kind::Source,
    patch::{Patch, apply},
    selector,
    status::{Cause, Failure, Result},
};

/// Answers a request for a subresource of one object.
pub async fn answer(server: &Server, method: &Method, target: &Target, bytes: axum::body::Bytes) -> Result<Response> {
    let api = &server.api;
    let subresource = target.subresource.as_str();
    if target.kind.is("nodes") && subresource == "proxy" {
        return Err(Failure::not_implemented("the node proxy"));
    }
    if target.kind.is("pods") && ["proxy", "eviction", "ephemeralcontainers", "resize"].contains(&subresource) {
        return Err(Failure::not_implemented(&format!("pods/{subresource}")));
    }
    if !target.kind.has(subresource) {
        return Err(Failure::no_such_path());
    }
    match (subresource, method) {
        ("status", &Method::GET) => read::get(api, target).await,
        ("status", &Method::PUT) => replace(api, target, &bytes, Part::Status).await,
        ("status" | "approval", &Method::PATCH) => {
            let (code, object) = write::patch_part(api, target, &bytes, Part::Status).await?;
            Ok(respond(code, target, &object))
        }
        ("finalize", &Method::PUT) => replace(api, target, &bytes, Part::Main).await,
        ("scale", _) => scale(api, method, target, &bytes).await,
        ("binding", &Method::POST) => bind(api, target, &bytes).await,
        ("log", &Method::GET) => exec::log(server, target).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

async fn replace(api: &Api, target: &Target, bytes: &[u8], part: Part) -> Result<Response> {
    let value = body::object(&target.headers, bytes)?;
    let writer = write::writer(target, &target.subresource);
    let change = |old: &Value| {
        let mut new = value.clone();
        apply::track(&target.kind, old, &mut new, &writer);
        Ok(new)
    };
    let object = api
        .update(&target.kind, &target.namespace, &target.name, part, target.query.dry_run()?, change)
        .await?;
    Ok(respond(StatusCode::OK, target, &object))
}

/// Where a kind keeps what Scale shows: desired replicas, observed replicas, selector.
fn scale_paths(target: &Target) -> (String, String, String) {
    match &target.kind.source {
        Source::Custom(custom) => custom.scale.clone().unwrap_or_default(),
        Source::Native(_) => ("/spec/replicas".into(), "/status/replicas".into(), "/spec/selector".into()),
    }
}

fn scale_of(target: &Target, object: &Value) -> Value {
    let (desired, observed, selector) = scale_paths(target);
    let selector = match json::at(object, &selector) {
        Value::String(text) => text.clone(),
        other => selector::to_query(other),
    };
    let metadata = json::at(object, "/metadata");
    let kept: serde_json::Map<_, _> = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
        .iter()
        .filter_map(|field| metadata.get(field).map(|value| ((*field).to_owned(), value.clone())))
        .collect();
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept,
        "spec": { "replicas": json::number(object, &desired).unwrap_or(0) },
        "status": { "replicas": json::number(object, &observed).unwrap_or(0), "selector": selector },
    })
}

async fn scale(api: &Api, method: &Method, target: &Target, bytes: &[u8]) -> Result<Response> {
    let object = api.get(&target.kind, &target.namespace, &target.name)?;
    let patch = match *method {
        Method::GET => {
            api.store.settled(object.revision).await?;
            return Ok(respond_value(StatusCode::OK, &scale_of(target, &object.value)));
        }
        Method::PUT => Patch::Merge(body::object(&target.headers, bytes)?),
        Method::PATCH => {
            let media = target.headers.get("content-type").and_then(|v| v.to_str().ok()).unwrap_or("");
            match Patch::parse(media, bytes)? {
                Patch::Strategic(patch) | Patch::Apply(patch) => Patch::Merge(patch),
                patch => patch,
            }
        }
        _ => return Err(Failure::method_not_allowed()),
    };
    let (desired, ..) = scale_paths(target);
    let change = |old: &Value| {
        let scale = patch.apply(&target.kind, &scale_of(target, old))?;
        let replicas = json::number(&scale, "/spec/replicas").unwrap_or(0);
        if replicas < 0 {
            let cause = Cause::invalid("spec.replicas", &json!(replicas), "must be greater than or equal to 0");
            return Err(Failure::invalid(&target.kind, &target.name, &[cause]));
        }
        if json::at(&scale, "/metadata/resourceVersion") != json::at(old, "/metadata/resourceVersion") {
            return Err(Failure::conflict(&target.kind, &target.name));
        }
        let mut new = old.clone();
        json::set(&mut new, &desired, replicas);
        apply::track(&target.kind, old, &mut new, &write::writer(target, "scale"));
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
    Ok(respond_value(StatusCode::OK, &scale_of(target, &object.value)))
}

/// Binds a pod to a node, once.
async fn bind(api: &Api, target: &Target, bytes: &[u8]) -> Result<Response> {
    let binding = body::object(&target.headers, bytes)?;
    let node = json::text(&binding, "/target/name").to_owned();
    if node.is_empty() {
        return Err(Failure::bad_request("Binding is invalid: target.name: Required value"));
    }
    crate::controllers::scheduler::bind(api, &target.namespace, &target.name, &node, target.query.dry_run()?).await?;
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    Ok(respond_value(StatusCode::CREATED, &status))
}
