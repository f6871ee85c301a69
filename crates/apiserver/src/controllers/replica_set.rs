//! ReplicaSets: as many pods as asked for, and their counts in the status. Which pods exist is read from the store, whose
//! writes are visible at once, so no expectations need to be kept.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Reconciler, key_of, owned_by, owner_key, pods, report};
use crate::{
    api::{Api, Part},
    json,
    status::Result,
    store::{Event, Key, Object},
};

/// The controller.
pub(crate) struct ReplicaSets;

impl Reconciler for ReplicaSets {
    const NAME: &'static str = "replicaset-controller";
    type Key = Key;

    fn resources(&self, _: &Api) -> Vec<String> {
        vec!["replicasets.apps".into(), "pods".into()]
    }

    fn affected(&mut self, _: &Api, resource: &str, event: &Event) -> Vec<Key> {
        match resource {
            "pods" => owner_key(&event.object.value, "ReplicaSet").into_iter().collect(),
            _ => vec![key_of(&event.object.value)],
        }
    }

    async fn reconcile(&mut self, api: &Api, (namespace, name): &Key) -> Result<()> {
        let kind = api.registry.find("apps", "v1", "replicasets")?;
        let set = api.get(&kind, namespace, name)?;
        if !json::terminating(&set.value) {
            let mut active = active(api, &set.value);
            let wanted = usize::try_from(json::number(&set.value, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
            for _ in active.len()..wanted {
                if let Err(failure) = pods::create(api, &kind, &set.value, |_| {}).await {
                    let message = format!("Error creating: {failure}");
                    report(api, Self::NAME, &set.value, "Warning", "FailedCreate", &message).await?;
                    return Err(failure);
                }
            }
            if active.len() > wanted {
                active.sort_by_key(|pod| keep(&pod.value));
                for pod in active.drain(..active.len() - wanted) {
                    pods::delete(api, &pod.value).await?;
                }
            }
        }
        let active = self::active(api, &set.value);
        let labels = json::at(&set.value, "/spec/template/metadata/labels").clone();
        let count = |test: &dyn Fn(&Value) -> bool| active.iter().filter(|pod| test(&pod.value)).count();
        let labelled = |pod: &Value| json::entries(&labels, "").all(|(k, v)| json::at(pod, "/metadata/labels").get(k) == Some(v));
        let mut status = json!({
            "replicas": active.len(), "fullyLabeledReplicas": count(&labelled), "readyReplicas": count(&pods::is_ready),
            "availableReplicas": count(&pods::is_ready),
        });
        let change = |old: &Value| {
            let mut new = old.clone();
            status["observedGeneration"] = json::at(&set.value, "/metadata/generation").clone();
            json::set(&mut new, "/status", status.clone());
            Ok(new)
        };
        api.update(&kind, namespace, name, Part::Status, false, change).await.map(drop)
    }
}

fn active(api: &Api, set: &Value) -> Vec<Arc<Object>> {
    let mut pods = owned_by(api, "pods", set);
    pods.retain(|pod| pods::is_active(&pod.value));
    pods
}

/// The order in which pods are given up: unplaced before placed, unready before ready, younger before older.
fn keep(pod: &Value) -> (bool, bool, std::cmp::Reverse<String>) {
    let created = json::text(pod, "/metadata/creationTimestamp").to_owned();
    (
        !json::text(pod, "/spec/nodeName").is_empty(),
        pods::is_ready(pod),
        std::cmp::Reverse(created),
    )
}
