//! The garbage collector: an object whose owners are all gone goes too. It keeps an index from owner to dependents, built
//! from the same changes it acts on. Deletion may ask for more: `Foreground` (dependents first) and `Orphan` (dependents
//! stay) are finalizers on the owner that are resolved here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Reconciler, key_of};
use crate::{
    api::{Api, Deletion, FOREGROUND, ORPHAN, Part},
    json,
    kind::Kind,
    status::Result,
    store::{Change, Event, Key},
};

/// An object anywhere: its resource and its key there.
type ObjectKey = (String, Key);

/// The controller.
#[derive(Default)]
pub(crate) struct Collector {
    dependents: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl Reconciler for Collector {
    const NAME: &'static str = "garbage-collector";
    type Key = ObjectKey;

    fn resources(&self, api: &Api) -> Vec<String> {
        api.registry.resources().iter().map(|kind| kind.resource()).collect()
    }

    fn affected(&mut self, api: &Api, resource: &str, event: &Event) -> Vec<ObjectKey> {
        let place = (resource.to_owned(), key_of(&event.object.value));
        if let Some(previous) = &event.previous {
            for owner in owners(&previous.value) {
                if let Some(dependents) = self.dependents.get_mut(owner) {
                    dependents.remove(&place);
                }
            }
        }
        if event.change == Change::Deleted {
            let mut affected: Vec<_> = self
                .dependents
                .remove(json::uid(&event.object.value))
                .into_iter()
                .flatten()
                .collect();
            // An owner that waits for its dependents hears of each that went.
            let references = json::list(&event.object.value, "/metadata/ownerReferences").iter();
            affected.extend(references.filter_map(|owner| place_of_owner(api, &event.object.value, owner)));
            return affected;
        }
        let mut owned = false;
        for owner in owners(&event.object.value) {
            self.dependents.entry(owner.to_owned()).or_default().insert(place.clone());
            owned = true;
        }
        // Only what can need something is looked at: it has an owner, or is an owner on its way out.
        let leaving = json::terminating(&event.object.value);
        if owned && event.change == Change::Added || leaving {
            vec![place]
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&mut self, api: &Api, (resource, key): &ObjectKey) -> Result<()> {
        let Some(kind) = api.registry.resources().into_iter().find(|kind| kind.resource() == *resource) else {
            return Ok(());
        };
        let object = api.get(&kind, &key.0, &key.1)?;
        let finalizers = json::list(&object.value, "/metadata/finalizers");
        if json::terminating(&object.value) {
            if finalizers.iter().any(|f| f == ORPHAN) {
                return self.orphan(api, &kind, &object.value).await;
            }
            if finalizers.iter().any(|f| f == FOREGROUND) {
                return self.delete_dependents(api, &kind, &object.value).await;
            }
        }
        let references = json::list(&object.value, "/metadata/ownerReferences");
        if references.is_empty() || references.iter().any(|owner| exists(api, &object.value, owner)) {
            return Ok(());
        }
        let how = Deletion {
            uid: Some(json::uid(&object.value).to_owned()),
            ..Deletion::default()
        };
        api.delete(&kind, &key.0, &key.1, &how).await.map(drop)
    }
}

impl Collector {
    fn dependents(&self, api: &Api, owner: &Value) -> Vec<(std::sync::Arc<Kind>, Key)> {
        let kinds = api.registry.resources();
        let places = self.dependents.get(json::uid(owner)).into_iter().flatten();
        places
            .filter_map(|(resource, key)| Some((kinds.iter().find(|k| k.resource() == *resource)?.clone(), key.clone())))
            .collect()
    }

    async fn orphan(&mut self, api: &Api, kind: &Kind, owner: &Value) -> Result<()> {
        for (dependent, (namespace, name)) in self.dependents(api, owner) {
            let change = |old: &Value| {
                let mut new = old.clone();
                if let Some(Value::Array(list)) = new.pointer_mut("/metadata/ownerReferences") {
                    list.retain(|reference| json::uid_of(reference) != json::uid(owner));
                }
                Ok(new)
            };
            match api.update(&dependent, &namespace, &name, Part::Whole, false, change).await {
                Err(failure) if failure.reason != "NotFound" => return Err(failure),
                _ => {}
            }
        }
        finish(api, kind, owner, ORPHAN).await
    }

    async fn delete_dependents(&mut self, api: &Api, kind: &Kind, owner: &Value) -> Result<()> {
        let mut left = false;
        for (dependent, (namespace, name)) in self.dependents(api, owner) {
            match api.delete(&dependent, &namespace, &name, &Deletion::default()).await {
                Ok(crate::api::Deleted::Pending(_)) => left = true,
                Err(failure) if failure.reason != "NotFound" => return Err(failure),
                _ => {}
            }
        }
        if left { Ok(()) } else { finish(api, kind, owner, FOREGROUND).await }
    }
}

/// Where the owner of an object is.
fn place_of_owner(api: &Api, object: &Value, owner: &Value) -> Option<ObjectKey> {
    let kind = api.registry.by_name(json::text(owner, "/apiVersion"), json::text(owner, "/kind"))?;
    let namespace = if kind.namespaced { json::namespace(object) } else { "" };
    Some((kind.resource(), (namespace.to_owned(), json::text(owner, "/name").to_owned())))
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    json::list(object, "/metadata/ownerReferences").iter().map(json::uid_of)
}

/// Whether an owner is there. One of a kind that is not served cannot be judged, and counts.
fn exists(api: &Api, object: &Value, owner: &Value) -> bool {
    let Some(kind) = api.registry.by_name(json::text(owner, "/apiVersion"), json::text(owner, "/kind")) else {
        return true;
    };
    let namespace = if kind.namespaced { json::namespace(object) } else { "" };
    let found = api.get(&kind, namespace, json::text(owner, "/name"));
    found.is_ok_and(|found| json::uid(&found.value) == json::uid_of(owner))
}

/// Removes a finalizer.
async fn finish(api: &Api, kind: &Kind, owner: &Value, finalizer: &str) -> Result<()> {
    let change = |old: &Value| {
        let mut new = old.clone();
        if let Some(Value::Array(list)) = new.pointer_mut("/metadata/finalizers") {
            list.retain(|f| f != finalizer);
        }
        Ok(new)
    };
    api.update(kind, json::namespace(owner), json::name(owner), Part::Whole, false, change)
        .await
        .map(drop)
}
