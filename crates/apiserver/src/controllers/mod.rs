//! The controllers that make objects live. Each is a [`Reconciler`]: it says which resources concern it and which of its
//! keys a change affects, and brings one key to the state it should have. One task per controller follows the store's own
//! changes; nothing polls, and a restart starts from everything there is.

pub mod bootstrap;
pub(crate) mod collector;
pub(crate) mod daemon_set;
pub(crate) mod definitions;
pub(crate) mod deployment;
pub(crate) mod endpoints;
pub(crate) mod namespace;
pub(crate) mod pods;
pub(crate) mod replica_set;
pub mod scheduler;

use std::{collections::BTreeSet, future::Future, sync::Arc};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    api::Api,
    json,
    kind::Kind,
    status::{Failure, Result},
    store::{Change, Event, Follow, Key, Object},
};

/// One controller.
pub(crate) trait Reconciler: Send + 'static {
    /// Its name, for the log and for events.
    const NAME: &'static str;

    /// What it reconciles one of: usually the key of an object.
    type Key: Ord + std::fmt::Debug + Send;

    /// The resources whose changes concern it. Asked again when kinds come and go.
    fn resources(&self, api: &Api) -> Vec<String>;

    /// The keys that a change of a resource affects.
    fn affected(&mut self, api: &Api, resource: &str, event: &Event) -> Vec<Self::Key>;

    /// Brings one key to the state it should have.
    fn reconcile(&mut self, api: &Api, key: &Self::Key) -> impl Future<Output = Result<()>> + Send;
}

/// Starts all controllers; they end with `stop`.
pub(crate) fn start(api: &Arc<Api>, stop: &CancellationToken) -> TaskTracker {
    let tasks = TaskTracker::new();
    spawn(&tasks, api, stop, scheduler::Scheduler::default());
    spawn(&tasks, api, stop, deployment::Deployments);
    spawn(&tasks, api, stop, replica_set::ReplicaSets);
    spawn(&tasks, api, stop, daemon_set::DaemonSets);
    spawn(&tasks, api, stop, endpoints::EndpointSlices);
    spawn(&tasks, api, stop, namespace::Namespaces);
    spawn(&tasks, api, stop, definitions::Definitions);
    spawn(&tasks, api, stop, collector::Collector::default());
    tasks.close();
    tasks
}

fn spawn<R: Reconciler>(tasks: &TaskTracker, api: &Arc<Api>, stop: &CancellationToken, reconciler: R) {
    let (api, stop) = (api.clone(), stop.clone());
    tasks.spawn(async move { stop.run_until_cancelled(follow(api, reconciler, stop.clone())).await });
}

/// A controller's task: everything there is, then every change.
async fn follow<R: Reconciler>(api: Arc<Api>, mut reconciler: R, stop: CancellationToken) {
    let (sender, mut events) = mpsc::channel::<(String, Arc<Event>)>(1024);
    let mut followed = BTreeSet::new();
    let mut keys = BTreeSet::new();
    loop {
        for resource in reconciler.resources(&api) {
            if followed.insert(resource.clone()) {
                tokio::spawn(stop.clone().run_until_cancelled_owned(feed(api.clone(), resource, sender.clone())));
            }
        }
        let Some(first) = events.recv().await else { return };
        let mut next = Some(first);
        while let Some((resource, event)) = next {
            keys.extend(reconciler.affected(&api, &resource, &event));
            next = events.try_recv().ok();
        }
        while let Some(key) = keys.pop_first() {
            if let Err(failure) = reconciler.reconcile(&api, &key).await {
                // A conflict or a vanished object comes with a change that brings the key back.
                tracing::debug!(controller = R::NAME, ?key, %failure, "not reconciled");
            }
        }
    }
}

/// Sends all objects of a resource as added, then its changes; starts over if it fell behind the history.
async fn feed(api: Arc<Api>, resource: String, sender: mpsc::Sender<(String, Arc<Event>)>) {
    loop {
        let (objects, revision) = api.store.list(&resource, None);
        for object in objects {
            let event = Event {
                revision: object.revision,
                change: Change::Added,
                object,
                previous: None,
            };
            if sender.send((resource.clone(), Arc::new(event))).await.is_err() {
                return;
            }
        }
        let Ok(mut follow): std::result::Result<Follow, _> = api.store.follow(&resource, revision) else {
            continue;
        };
        while let Ok(events) = follow.next().await {
            for event in events {
                if sender.send((resource.clone(), event)).await.is_err() {
                    return;
                }
            }
        }
    }
}

pub(crate) use crate::taken::key_of;

/// The key of the controlling owner, if it is of that kind.
pub(crate) fn owner_key(object: &Value, kind: &str) -> Option<Key> {
    let owner = json::controller(object).filter(|owner| json::text(owner, "/kind") == kind)?;
    Some((json::namespace(object).to_owned(), json::text(owner, "/name").to_owned()))
}

/// The objects of a namespace that `owner` controls.
pub(crate) fn owned_by(api: &Api, resource: &str, owner: &Value) -> Vec<Arc<Object>> {
    let (objects, _) = api.store.list(resource, Some(json::namespace(owner)));
    let uid = json::uid(owner);
    objects
        .into_iter()
        .filter(|o| json::controller(&o.value).is_some_and(|c| json::uid_of(c) == uid))
        .collect()
}

/// The reference that makes `owner` the controller of an object.
pub(crate) fn reference(kind: &Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "name": json::name(owner), "uid": json::uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Tells people what a controller did or could not do, as an Event on the object. An event that repeats counts up.
pub(crate) async fn report(api: &Api, component: &str, object: &Value, level: &str, reason: &str, message: &str) -> Result<()> {
    let kind = api.registry.find("", "v1", "events")?;
    let namespace = Some(json::namespace(object)).filter(|n| !n.is_empty()).unwrap_or("default");
    let identity = format!("{}{component}{reason}{message}", json::uid(object));
    let suffix = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, identity.as_bytes())
        .simple()
        .to_string();
    let name = format!("{}.{}", json::name(object), &suffix[..16]);
    let now = json::now();
    if api.get(&kind, namespace, &name).is_ok() {
        let change = |old: &Value| {
            let mut new = old.clone();
            json::set(&mut new, "/count", json::number(old, "/count").unwrap_or(1) + 1);
            json::set(&mut new, "/lastTimestamp", now.as_str());
            Ok(new)
        };
        return api
            .update(&kind, namespace, &name, crate::api::Part::Main, false, change)
            .await
            .map(drop);
    }
    let event = json!({
        "metadata": { "name": name },
        "involvedObject": {
            "apiVersion": object["apiVersion"], "kind": object["kind"], "name": json::name(object),
            "namespace": json::namespace(object), "uid": json::uid(object),
            "resourceVersion": json::text(object, "/metadata/resourceVersion"),
        },
        "type": level, "reason": reason, "message": message, "count": 1,
        "firstTimestamp": now, "lastTimestamp": now,
        "source": { "component": component }, "reportingComponent": component, "reportingInstance": "",
    });
    match api.create(&kind, namespace, event, false).await {
        Err(Failure {
            reason: "AlreadyExists", ..
        }) => Ok(()),
        other => other.map(drop),
    }
}
