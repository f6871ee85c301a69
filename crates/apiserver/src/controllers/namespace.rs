//! Namespaces: each active one has its `default` ServiceAccount; one that is to be deleted is emptied, and goes when
//! nothing is left in it. The store refuses new objects in it meanwhile, so emptying ends.

use serde_json::{Value, json};

use super::Reconciler;
use crate::{
    api::{Api, Deletion, Part, key},
    json,
    status::{Failure, Result},
    store::{Change, Event, Key},
};

/// The controller.
pub(crate) struct Namespaces;

impl Reconciler for Namespaces {
    const NAME: &'static str = "namespace-controller";
    type Key = Key;

    fn resources(&self, api: &Api) -> Vec<String> {
        // Definitions are among them, so that new kinds are noticed.
        api.registry.resources().iter().map(|kind| kind.resource()).collect()
    }

    fn affected(&mut self, api: &Api, resource: &str, event: &Event) -> Vec<Key> {
        let object = &event.object.value;
        if resource == "namespaces" {
            return vec![key("", json::name(object))];
        }
        let namespace = key("", json::namespace(object));
        let deleted = event.change == Change::Deleted;
        let found = if deleted { api.store.get("namespaces", &namespace) } else { None };
        let concerned = found.is_some_and(|n| resource == "serviceaccounts" || json::terminating(&n.value));
        concerned.then_some(namespace).into_iter().collect()
    }

    async fn reconcile(&mut self, api: &Api, (_, name): &Key) -> Result<()> {
        let kind = api.registry.find("", "v1", "namespaces")?;
        let namespace = api.get(&kind, "", name)?;
        if !json::terminating(&namespace.value) {
            let accounts = api.registry.find("", "v1", "serviceaccounts")?;
            let account = json!({ "metadata": { "name": "default" } });
            return match api.create(&accounts, name, account, false).await {
                Err(Failure {
                    reason: "AlreadyExists", ..
                }) => Ok(()),
                other => other.map(drop),
            };
        }
        if empty(api, name).await? {
            let change = |old: &Value| {
                let mut new = old.clone();
                json::set(&mut new, "/spec/finalizers", json!([]));
                Ok(new)
            };
            api.update(&kind, "", name, Part::Whole, false, change).await?;
        }
        Ok(())
    }
}

/// Deletes what is in a namespace; whether nothing is left.
async fn empty(api: &Api, namespace: &str) -> Result<bool> {
    for kind in api.registry.resources().iter().filter(|kind| kind.namespaced) {
        for object in api.store.list(&kind.resource(), Some(namespace)).0 {
            match api.delete(kind, namespace, json::name(&object.value), &Deletion::default()).await {
                Err(failure) if failure.reason != "NotFound" => return Err(failure),
                _ => {}
            }
        }
    }
    let kinds = api.registry.resources();
    Ok(kinds
        .iter()
        .all(|kind| !kind.namespaced || api.store.list(&kind.resource(), Some(namespace)).0.is_empty()))
}
