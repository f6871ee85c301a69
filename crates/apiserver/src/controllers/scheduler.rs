//! The scheduler: gives each unbound pod a node that is ready, fits its selector and whose taints it tolerates, the one
//! with the fewest pods. Resources are not counted: pods of a lab need none. A pod that fits nowhere is told why, and is
//! tried again when a node changes.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::{Reconciler, key_of, report};
use crate::{
    api::{Api, Part},
    json,
    status::{Failure, Result},
    store::{Change, Event, Key},
};

const NAME: &str = "default-scheduler";

/// The controller, with the node of each pod it knows of: counting pods anew for each would cost the square of their
/// number.
#[derive(Default)]
pub(crate) struct Scheduler {
    places: HashMap<String, String>,
    load: HashMap<String, usize>,
}

impl Scheduler {
    /// Records where a pod is ("": nowhere).
    fn place(&mut self, uid: &str, node: &str) {
        let before = if node.is_empty() {
            self.places.remove(uid)
        } else {
            self.places.insert(uid.to_owned(), node.to_owned())
        };
        if let Some(count) = before.and_then(|before| self.load.get_mut(&before)) {
            *count -= 1;
        }
        if !node.is_empty() {
            *self.load.entry(node.to_owned()).or_default() += 1;
        }
    }

    /// The best node for a pod, or why there is none.
    fn choose(&self, api: &Api, pod: &Value) -> std::result::Result<String, String> {
        let (nodes, _) = api.store.list("nodes", None);
        let mut obstacles: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<(usize, &str)> = None;
        for node in nodes.iter().map(|node| &node.value) {
            match obstacle(pod, node) {
                Some(why) => *obstacles.entry(why).or_default() += 1,
                None => {
                    let candidate = (self.load.get(json::name(node)).copied().unwrap_or(0), json::name(node));
                    best = Some(best.map_or(candidate, |best| best.min(candidate)));
                }
            }
        }
        best.map(|(_, name)| name.to_owned()).ok_or_else(|| {
            let reasons: Vec<_> = obstacles.iter().map(|(why, count)| format!("{count} {why}")).collect();
            let reasons = if reasons.is_empty() {
                "no nodes are registered".into()
            } else {
                reasons.join(", ")
            };
            format!("0/{} nodes are available: {reasons}.", nodes.len())
        })
    }
}

impl Reconciler for Scheduler {
    const NAME: &'static str = NAME;
    type Key = Key;

    fn resources(&self, _: &Api) -> Vec<String> {
        vec!["pods".into(), "nodes".into()]
    }

    fn affected(&mut self, api: &Api, resource: &str, event: &Event) -> Vec<Key> {
        if resource == "pods" {
            let gone = event.change == Change::Deleted;
            let node = if gone {
                ""
            } else {
                json::text(&event.object.value, "/spec/nodeName")
            };
            self.place(json::uid(&event.object.value), node);
            let waiting = event.change != Change::Deleted && wants_node(&event.object.value);
            return waiting.then(|| key_of(&event.object.value)).into_iter().collect();
        }
        // Heartbeats of nodes are frequent and change nothing here.
        let relevant = |node: &Value| {
            (
                fits_at_all(node),
                json::at(node, "/metadata/labels").clone(),
                json::at(node, "/spec/taints").clone(),
            )
        };
        if event
            .previous
            .as_ref()
            .is_some_and(|before| relevant(&before.value) == relevant(&event.object.value))
        {
            return Vec::new();
        }
        let (pods, _) = api.store.list("pods", None);
        pods.iter()
            .filter(|pod| wants_node(&pod.value))
            .map(|pod| key_of(&pod.value))
            .collect()
    }

    async fn reconcile(&mut self, api: &Api, (namespace, name): &Key) -> Result<()> {
        let kind = api.registry.find("", "v1", "pods")?;
        let pod = api.get(&kind, namespace, name)?;
        if !wants_node(&pod.value) {
            return Ok(());
        }
        match self.choose(api, &pod.value) {
            Ok(node) => {
                bind(api, namespace, name, &node, false).await?;
                self.place(json::uid(&pod.value), &node);
                let message = format!("Successfully assigned {namespace}/{name} to {node}");
                report(api, NAME, &pod.value, "Normal", "Scheduled", &message).await
            }
            Err(why) => {
                let told = json::list(&pod.value, "/status/conditions")
                    .iter()
                    .any(|c| json::text(c, "/message") == why);
                if told {
                    return Ok(());
                }
                let change = |old: &Value| {
                    let mut new = old.clone();
                    json::set_condition(&mut new, "PodScheduled", "False", "Unschedulable", &why);
                    Ok(new)
                };
                api.update(&kind, namespace, name, Part::Status, false, change).await?;
                report(api, NAME, &pod.value, "Warning", "FailedScheduling", &why).await
            }
        }
    }
}

fn wants_node(pod: &Value) -> bool {
    json::text(pod, "/spec/nodeName").is_empty()
        && !json::terminating(pod)
        && json::text(pod, "/spec/schedulerName") == NAME
        && json::list(pod, "/spec/schedulingGates").is_empty()
        && !["Succeeded", "Failed"].contains(&json::text(pod, "/status/phase"))
}

fn fits_at_all(node: &Value) -> bool {
    json::condition(node, "Ready") == "True" && !json::flag(node, "/spec/unschedulable") && !json::terminating(node)
}

/// Why a node is not for a pod.
fn obstacle(pod: &Value, node: &Value) -> Option<String> {
    if json::flag(node, "/spec/unschedulable") {
        return Some("node(s) were unschedulable".into());
    }
    if json::condition(node, "Ready") != "True" || json::terminating(node) {
        return Some("node(s) were not ready".into());
    }
    if let Some(taint) = untolerated(pod, node) {
        let (key, value) = (json::text(taint, "/key"), json::text(taint, "/value"));
        return Some(format!("node(s) had untolerated taint {{{key}: {value}}}"));
    }
    (!selected(pod, node)).then(|| "node(s) didn't match Pod's node affinity/selector".into())
}

/// The first taint that keeps a pod from being placed on a node.
pub(crate) fn untolerated<'a>(pod: &Value, node: &'a Value) -> Option<&'a Value> {
    let tolerations = json::list(pod, "/spec/tolerations");
    json::list(node, "/spec/taints").iter().find(|taint| {
        let effect = json::text(taint, "/effect");
        ["NoSchedule", "NoExecute"].contains(&effect) && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    })
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (json::text(toleration, "/key"), json::text(toleration, "/effect"));
    let exists = json::text(toleration, "/operator") == "Exists";
    (effect.is_empty() || effect == json::text(taint, "/effect"))
        && ((key.is_empty() && exists) || key == json::text(taint, "/key"))
        && (exists || json::text(toleration, "/value") == json::text(taint, "/value"))
}

/// Whether node selector and required node affinity of a pod allow a node.
pub(crate) fn selected(pod: &Value, node: &Value) -> bool {
    let labels = json::at(node, "/metadata/labels");
    let selector = json::entries(pod, "/spec/nodeSelector").all(|(key, value)| labels.get(key) == Some(value));
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = json::list(pod, path);
    selector && (terms.is_empty() || terms.iter().any(|term| term_matches(term, node)))
}

fn term_matches(term: &Value, node: &Value) -> bool {
    let fields = json!({ "metadata.name": json::name(node) });
    let one = |labels: &Value, expressions: &[Value]| {
        let selector = json!({ "matchExpressions": expressions });
        crate::selector::selects(&selector, labels)
    };
    one(json::at(node, "/metadata/labels"), json::list(term, "/matchExpressions")) && one(&fields, json::list(term, "/matchFields"))
}

/// Binds a pod to a node, once.
pub async fn bind(api: &Api, namespace: &str, name: &str, node: &str, dry_run: bool) -> Result<()> {
    let kind = api.registry.find("", "v1", "pods")?;
    let change = |old: &Value| {
        let bound = json::text(old, "/spec/nodeName");
        let problem = if json::terminating(old) {
            format!("pod {name} is being deleted, cannot be assigned to a host")
        } else if !bound.is_empty() {
            format!("pod {name} is already assigned to node \"{bound}\"")
        } else {
            let mut new = old.clone();
            json::set(&mut new, "/spec/nodeName", node);
            json::set_condition(&mut new, "PodScheduled", "True", "", "");
            return Ok(new);
        };
        Err(Failure::conflict_because(&kind, name, &problem))
    };
    api.update(&kind, namespace, name, Part::Whole, dry_run, change).await.map(drop)
}
