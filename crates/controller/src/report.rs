//! Tells people: problems as Events and conditions on the objects that cause them, node subnets as annotations.
//!
//! Off the hot path, in its own task; the API server being away delays telling and nothing else. The only place of the controller
//! that retries API writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{Event, EventSource, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use netloom_network::{ObjectRef, Problem, annotations};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tracing::{info, warn};
use uuid::Uuid;

use crate::objects::{ClusterNetworkObject, NodeObject, PodObject};

/// Condition on pods and nodes that have, or had, a problem.
const CONDITION: &str = "netloom.io/NetworkReady";
const RETRY: Duration = Duration::from_secs(2);

/// What is to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// All problems there are.
    pub problems: BTreeSet<Problem>,
    /// Subnets of each node.
    pub subnets: BTreeMap<String, String>,
    /// UID of the `ClusterNetwork` to report on, if there is one.
    pub network: Option<String>,
    /// Grows when another controller may have told something in between.
    pub term: u64,
}

/// What people know already.
#[derive(Default)]
struct Told {
    /// What the condition of each object with a problem says.
    problems: BTreeMap<ObjectRef, String>,
    subnets: BTreeMap<String, String>,
    network: Option<String>,
    term: u64,
}

/// Tells whatever changes, for ever.
pub async fn run(client: kube::Client, mut findings: Receiver<Findings>) -> Result<()> {
    let mut told = Told::default();
    loop {
        let current = findings.borrow_and_update().clone();
        let complete = tell(&client, &mut told, &current).await;
        if complete {
            if findings.changed().await.is_err() {
                bail!("nothing finds problems any more");
            }
        } else {
            // The API server said no or is away; there is no event for its return, so ask again.
            let _ = tokio::time::timeout(RETRY, findings.changed()).await;
        }
    }
}

/// Tells the difference between `told` and `current`; false if some of it has to be told again.
async fn tell(client: &kube::Client, told: &mut Told, current: &Findings) -> bool {
    if told.term != current.term {
        match told_before(client).await {
            Ok(problems) => told.problems = problems,
            Err(error) => {
                warn!(%error, "cannot list what was told before, trying again");
                return false;
            }
        }
        told.term = current.term;
    }
    let mut complete = true;
    for (node, subnets) in &current.subnets {
        if told.subnets.get(node) != Some(subnets) {
            match annotate(client, node, subnets).await {
                Ok(()) => drop(told.subnets.insert(node.clone(), subnets.clone())),
                Err(error) => complete &= passes(&error, "annotate node", node),
            }
        }
    }
    told.subnets.retain(|node, _| current.subnets.contains_key(node));

    let mut now: BTreeMap<&ObjectRef, Vec<&Problem>> = told.problems.keys().map(|object| (object, Vec::new())).collect();
    for problem in &current.problems {
        now.entry(&problem.object).or_default().push(problem);
    }
    let mut known = BTreeMap::new();
    for (object, problems) in now {
        let before = told.problems.get(object).map(String::as_str).unwrap_or_default();
        let message = message(&problems);
        let done = before == message
            || match publish(client, object, &problems, before).await {
                Ok(()) => true,
                Err(error) => passes(&error, "tell a problem of", &object.to_string()),
            };
        complete &= done;
        let says = if done { message } else { before.to_owned() };
        if !says.is_empty() {
            known.insert(object.clone(), says);
        }
    }
    told.problems = known;

    if told.network != current.network {
        match network_ready(client, current).await {
            Ok(()) => told.network.clone_from(&current.network),
            // Should it be gone, the next findings say so; until then it is there and has to be told.
            Err(error) => {
                warn!(%error, "cannot set the condition of ClusterNetwork/default, trying again");
                complete = false;
            }
        }
    }
    complete
}

/// What conditions say about problems told earlier, by this controller or another: some may be mended since.
async fn told_before(client: &kube::Client) -> kube::Result<BTreeMap<ObjectRef, String>> {
    let mut found = BTreeMap::new();
    for (kind, resource) in [
        ("Pod", ApiResource::erase::<PodObject>(&())),
        ("Node", ApiResource::erase::<NodeObject>(&())),
        ("ClusterNetwork", ApiResource::erase::<ClusterNetworkObject>(&())),
    ] {
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let mut page = ListParams::default().limit(500);
        loop {
            let list = api.list(&page).await?;
            for object in list.items {
                let metadata = &object.metadata;
                let text = |field: &Option<String>| field.clone().unwrap_or_default();
                let (namespace, name, uid) = (text(&metadata.namespace), text(&metadata.name), text(&metadata.uid));
                let reference = ObjectRef::namespaced(kind, &namespace, &name, &uid);
                let ours = |condition: &&Value| condition["type"] == condition_type(&reference) && condition["status"] == "False";
                let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
                if let Some(condition) = conditions.into_iter().flatten().find(ours) {
                    found.insert(reference, condition["message"].as_str().unwrap_or_default().to_owned());
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
    }
    Ok(found)
}

/// Whether an error needs no second try: the object is gone, or another has its name.
fn passes(error: &kube::Error, doing: &str, object: &str) -> bool {
    let gone = matches!(error, kube::Error::Api(status) if status.code == 404 || status.message.contains("UID in precondition"));
    if !gone {
        warn!(%error, object, "cannot {doing}, trying again");
    }
    gone
}

async fn annotate(client: &kube::Client, node: &str, subnets: &str) -> kube::Result<()> {
    let patch = json!({ "metadata": { "annotations": { annotations::SUBNETS: subnets } } });
    Api::<Node>::all(client.clone())
        .patch_metadata(node, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
}

/// Sets the condition of an object to its problems, and tells those that are not among what it said `before`.
async fn publish(client: &kube::Client, object: &ObjectRef, problems: &[&Problem], before: &str) -> kube::Result<()> {
    for problem in problems.iter().filter(|problem| !before.contains(&problem.message)) {
        info!(object = %problem.object, reason = problem.reason, message = %problem.message, "problem");
        event(client, problem).await?;
    }
    let condition = match problems.first() {
        Some(problem) => condition(object, "False", problem.reason, &message(problems)),
        None => condition(object, "True", "Resolved", "no problem is left"),
    };
    set_condition(client, object, condition).await
}

fn message(problems: &[&Problem]) -> String {
    problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect::<Vec<_>>()
        .join("; ")
}

fn condition_type(object: &ObjectRef) -> &'static str {
    if object.kind == "ClusterNetwork" { "Ready" } else { CONDITION }
}

fn condition(object: &ObjectRef, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": condition_type(object), "status": status, "reason": reason, "message": message, "lastTransitionTime": Timestamp::now() })
}

/// A `ClusterNetwork` nobody has told anything about yet is in force.
async fn network_ready(client: &kube::Client, current: &Findings) -> kube::Result<()> {
    let Some(uid) = &current.network else { return Ok(()) };
    let object = ObjectRef::cluster("ClusterNetwork", "default", uid);
    let known = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::erase::<ClusterNetworkObject>(&()));
    if known.get("default").await?.data.pointer("/status/conditions/0/type").is_some() {
        return Ok(());
    }
    let in_force = condition(&object, "True", "InForce", "pods get addresses from these ranges");
    set_condition(client, &object, in_force).await
}

async fn set_condition(client: &kube::Client, object: &ObjectRef, condition: Value) -> kube::Result<()> {
    let parameters = PatchParams::default();
    let mut patch = json!({ "status": { "conditions": [condition] } });
    if !object.uid.is_empty() {
        // Only this very object: another may have its name by now.
        patch["metadata"] = json!({ "uid": object.uid });
    }
    match object.kind {
        "Pod" => {
            let api: Api<Pod> = Api::namespaced(client.clone(), &object.namespace);
            api.patch_status(&object.name, &parameters, &Patch::Strategic(patch))
                .await
                .map(drop)
        }
        "Node" => Api::<Node>::all(client.clone())
            .patch_status(&object.name, &parameters, &Patch::Strategic(patch))
            .await
            .map(drop),
        _ => {
            let api = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::erase::<ClusterNetworkObject>(&()));
            api.patch_status(&object.name, &parameters, &Patch::Merge(patch)).await.map(drop)
        }
    }
}

async fn event(client: &kube::Client, problem: &Problem) -> kube::Result<()> {
    let object = &problem.object;
    let (namespace, api_version) = match object.kind {
        "Pod" => (object.namespace.as_str(), "v1"),
        "Node" => ("default", "v1"),
        _ => ("default", "netloom.io/v1alpha1"),
    };
    let now = Time(Timestamp::now());
    let event = Event {
        metadata: ObjectMeta {
            name: Some(event_name(problem)),
            namespace: Some(namespace.to_owned()),
            ..Default::default()
        },
        involved_object: ObjectReference {
            api_version: Some(api_version.to_owned()),
            kind: Some(object.kind.to_owned()),
            namespace: (!object.namespace.is_empty()).then(|| object.namespace.clone()),
            name: Some(object.name.clone()),
            uid: Some(if object.kind == "Node" {
                object.name.clone()
            } else {
                object.uid.clone()
            }),
            ..Default::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some(problem.reason.to_owned()),
        message: Some(problem.message.clone()),
        source: Some(EventSource {
            component: Some("netloom".to_owned()),
            ..Default::default()
        }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Default::default()
    };
    match Api::<Event>::namespaced(client.clone(), namespace)
        .create(&PostParams::default(), &event)
        .await
    {
        // Told before, by this controller or the one before it.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => result.map(drop),
    }
}

/// The same problem of the same object has the same name, so a restarted controller does not tell it twice.
fn event_name(problem: &Problem) -> String {
    let told = format!("{} {} {}", problem.object.uid, problem.reason, problem.message);
    // Object names are ASCII and may be as long as an Event's own name.
    let object = &problem.object.name[..problem.object.name.len().min(200)];
    format!("{object}.{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, told.as_bytes()).simple())
}
