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
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use netloom_network::{ObjectRef, Problem, annotations};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tracing::{info, warn};
use uuid::Uuid;

use crate::objects::ClusterNetworkObject;

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
    /// Whether there is a `ClusterNetwork` to report on.
    pub network: bool,
}

/// Tells whatever changes, for ever.
pub async fn run(client: kube::Client, mut findings: Receiver<Findings>) -> Result<()> {
    let mut told = Findings::default();
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
async fn tell(client: &kube::Client, told: &mut Findings, current: &Findings) -> bool {
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

    let changed: BTreeSet<&ObjectRef> = told
        .problems
        .symmetric_difference(&current.problems)
        .map(|problem| &problem.object)
        .collect();
    let mut done: BTreeSet<ObjectRef> = BTreeSet::new();
    for object in changed {
        let now: Vec<&Problem> = current.problems.iter().filter(|problem| problem.object == *object).collect();
        let news: Vec<&Problem> = now.iter().copied().filter(|problem| !told.problems.contains(problem)).collect();
        match publish(client, object, &now, &news).await {
            Ok(()) => drop(done.insert(object.clone())),
            Err(error) if passes(&error, "tell a problem of", &object.to_string()) => drop(done.insert(object.clone())),
            Err(_) => complete = false,
        }
    }
    told.problems.retain(|problem| !done.contains(&problem.object));
    told.problems
        .extend(current.problems.iter().filter(|problem| done.contains(&problem.object)).cloned());

    if current.network && !told.network {
        match network_ready(client).await {
            Ok(()) => told.network = true,
            Err(error) => complete &= passes(&error, "set the condition of", "ClusterNetwork/default"),
        }
    }
    complete
}

/// Whether an error needs no second try: the object is gone.
fn passes(error: &kube::Error, doing: &str, object: &str) -> bool {
    let gone = matches!(error, kube::Error::Api(status) if status.code == 404);
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

async fn publish(client: &kube::Client, object: &ObjectRef, now: &[&Problem], news: &[&Problem]) -> kube::Result<()> {
    for problem in news {
        info!(object = %problem.object, reason = problem.reason, message = %problem.message, "problem");
        event(client, problem).await?;
    }
    let condition = match now.first() {
        Some(problem) => {
            let message = now.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
            condition(object, "False", problem.reason, &message)
        }
        None => condition(object, "True", "Resolved", "no problem is left"),
    };
    set_condition(client, object, condition).await
}

fn condition(object: &ObjectRef, status: &str, reason: &str, message: &str) -> Value {
    let kind = if object.kind == "ClusterNetwork" { "Ready" } else { CONDITION };
    json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": Timestamp::now() })
}

async fn network_ready(client: &kube::Client) -> kube::Result<()> {
    let object = ObjectRef::cluster("ClusterNetwork", "default", "");
    let known = Api::<kube::api::DynamicObject>::all_with(client.clone(), &kube::api::ApiResource::erase::<ClusterNetworkObject>(&()));
    let status = known.get("default").await?.data.pointer("/status/conditions/0/type").is_some();
    if status {
        Ok(())
    } else {
        set_condition(
            client,
            &object,
            condition(&object, "True", "InForce", "pods get addresses from these ranges"),
        )
        .await
    }
}

async fn set_condition(client: &kube::Client, object: &ObjectRef, condition: Value) -> kube::Result<()> {
    let parameters = PatchParams::default();
    let patch = json!({ "status": { "conditions": [condition] } });
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
            let resource = kube::api::ApiResource::erase::<ClusterNetworkObject>(&());
            let api = Api::<kube::api::DynamicObject>::all_with(client.clone(), &resource);
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
    format!(
        "{}.{}",
        problem.object.name,
        Uuid::new_v5(&Uuid::NAMESPACE_OID, told.as_bytes()).simple()
    )
}
