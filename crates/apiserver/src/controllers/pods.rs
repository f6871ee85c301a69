//! What the workload controllers share: making a pod from a template, and judging pods.

use serde_json::{Value, json};

use super::reference;
use crate::{
    api::{Api, Deletion},
    json,
    kind::Kind,
    status::Result,
};

/// A pod of `owner` made from its template; `change` may place it.
pub(crate) async fn create(api: &Api, kind: &Kind, owner: &Value, change: impl FnOnce(&mut Value)) -> Result<()> {
    let template = json::at(owner, "/spec/template");
    let mut pod = json!({
        "metadata": {
            "generateName": format!("{}-", json::name(owner)),
            "labels": json::at(template, "/metadata/labels"),
            "annotations": json::at(template, "/metadata/annotations"),
            "ownerReferences": [reference(kind, owner)],
        },
        "spec": json::at(template, "/spec"),
    });
    change(&mut pod);
    api.create(&*api.registry.find("", "v1", "pods")?, json::namespace(owner), pod, false)
        .await
        .map(drop)
}

/// Deletes this very pod; one that is gone already is fine.
pub(crate) async fn delete(api: &Api, pod: &Value) -> Result<()> {
    let kind = api.registry.find("", "v1", "pods")?;
    let how = Deletion {
        uid: Some(json::uid(pod).to_owned()),
        ..Deletion::default()
    };
    match api.delete(&kind, json::namespace(pod), json::name(pod), &how).await {
        Err(failure) if failure.reason == "NotFound" || failure.reason == "Conflict" => Ok(()),
        other => other.map(drop),
    }
}

/// Whether a pod counts: not ended and not on its way out.
pub(crate) fn is_active(pod: &Value) -> bool {
    !json::terminating(pod) && !["Succeeded", "Failed"].contains(&json::text(pod, "/status/phase"))
}

/// Whether a pod is ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    json::condition(pod, "Ready") == "True"
}
