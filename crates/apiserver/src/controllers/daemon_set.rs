//! DaemonSets: one pod on each node that its template allows, also on nodes that are cordoned or not ready. A changed
//! template replaces pods one node at a time, the next when the previous is ready (`maxUnavailable` as given).

use serde_json::{Value, json};

use super::{Reconciler, deployment::share, key_of, owned_by, owner_key, pods, scheduler};
use crate::{
    api::{Api, Part},
    json,
    status::Result,
    store::{Event, Key},
};

/// The controller.
pub(crate) struct DaemonSets;

/// What the daemons of a node tolerate by nature.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ("node.kubernetes.io/network-unavailable", "NoSchedule"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
];

const REVISION: &str = "controller-revision-hash";

impl Reconciler for DaemonSets {
    const NAME: &'static str = "daemonset-controller";
    type Key = Key;

    fn resources(&self, _: &Api) -> Vec<String> {
        vec!["daemonsets.apps".into(), "pods".into(), "nodes".into()]
    }

    fn affected(&mut self, api: &Api, resource: &str, event: &Event) -> Vec<Key> {
        match resource {
            "pods" => owner_key(&event.object.value, "DaemonSet").into_iter().collect(),
            "nodes" => api
                .store
                .list("daemonsets.apps", None)
                .0
                .iter()
                .map(|set| key_of(&set.value))
                .collect(),
            _ => vec![key_of(&event.object.value)],
        }
    }

    async fn reconcile(&mut self, api: &Api, (namespace, name): &Key) -> Result<()> {
        let kind = api.registry.find("apps", "v1", "daemonsets")?;
        let set = api.get(&kind, namespace, name)?;
        let template = json::at(&set.value, "/spec/template");
        let hash = super::deployment::hash(template);
        let (nodes, _) = api.store.list("nodes", None);
        let mut model = template.clone();
        tolerate(json::slot(&mut model, "/spec/tolerations"));
        let wanted: Vec<_> = nodes
            .iter()
            .map(|node| &node.value)
            .filter(|node| !json::terminating(node) && scheduler::untolerated(&model, node).is_none() && scheduler::selected(&model, node))
            .map(|node| json::name(node).to_owned())
            .collect();

        if !json::terminating(&set.value) {
            let existing = owned_by(api, "pods", &set.value);
            for pod in existing.iter().map(|pod| &pod.value) {
                let node = json::text(pod, "/spec/nodeName");
                let ended = !json::terminating(pod) && !pods::is_active(pod);
                if ended || !wanted.iter().any(|w| w == node) {
                    pods::delete(api, pod).await?;
                }
            }
            for node in &wanted {
                // A pod on its way out still holds the node's ports: its successor waits for its end.
                if !existing.iter().any(|pod| json::text(&pod.value, "/spec/nodeName") == node) {
                    let place = |pod: &mut Value| {
                        json::set(pod, "/spec/nodeName", node.as_str());
                        tolerate(json::slot(pod, "/spec/tolerations"));
                        json::set(pod, &format!("/metadata/labels/{REVISION}"), hash.as_str());
                    };
                    pods::create(api, &kind, &set.value, place).await?;
                }
            }
            replace_outdated(api, &set.value, &hash, wanted.len()).await?;
        }

        let existing = owned_by(api, "pods", &set.value);
        let active: Vec<_> = existing.iter().map(|p| &p.value).filter(|p| pods::is_active(p)).collect();
        let ready = active.iter().filter(|p| pods::is_ready(p)).count();
        let updated = active.iter().filter(|p| is_current(p, &hash)).count();
        let mut status = json!({
            "currentNumberScheduled": active.len(), "desiredNumberScheduled": wanted.len(), "numberMisscheduled": 0,
            "numberReady": ready, "numberAvailable": ready, "updatedNumberScheduled": updated,
            "observedGeneration": json::at(&set.value, "/metadata/generation"),
        });
        if wanted.len() > ready {
            status["numberUnavailable"] = json!(wanted.len() - ready);
        }
        let change = |old: &Value| {
            let mut new = old.clone();
            json::set(&mut new, "/status", status.clone());
            Ok(new)
        };
        api.update(&kind, namespace, name, Part::Status, false, change).await.map(drop)
    }
}

async fn replace_outdated(api: &Api, set: &Value, hash: &str, wanted: usize) -> Result<()> {
    if json::text(set, "/spec/updateStrategy/type") != "RollingUpdate" {
        return Ok(());
    }
    let allowed = share(json::at(set, "/spec/updateStrategy/rollingUpdate/maxUnavailable"), wanted, true).max(1);
    let existing = owned_by(api, "pods", set);
    let ready = existing
        .iter()
        .filter(|p| pods::is_active(&p.value) && pods::is_ready(&p.value))
        .count();
    let mut budget = allowed.saturating_sub(wanted.saturating_sub(ready));
    for pod in existing
        .iter()
        .map(|p| &p.value)
        .filter(|p| pods::is_active(p) && !is_current(p, hash))
    {
        // A pod that is not ready serves nobody: replacing it costs nothing.
        if pods::is_ready(pod) {
            if budget == 0 {
                continue;
            }
            budget -= 1;
        }
        pods::delete(api, pod).await?;
    }
    Ok(())
}

fn is_current(pod: &Value, hash: &str) -> bool {
    json::text(pod, &format!("/metadata/labels/{REVISION}")) == hash
}

fn tolerate(tolerations: &mut Value) {
    if !tolerations.is_array() {
        *tolerations = json!([]);
    }
    if let Value::Array(list) = tolerations {
        for (key, effect) in TOLERATED {
            list.push(json!({ "key": key, "operator": "Exists", "effect": effect }));
        }
    }
}
