//! CustomResourceDefinitions that are to be deleted: their objects go first, then the definition, then the kind.

use serde_json::Value;

use super::{Reconciler, key_of};
use crate::{
    api::{Api, Deletion, Part, key},
    crd, json,
    status::Result,
    store::{Change, Event, Key},
};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The controller.
pub(crate) struct Definitions;

impl Reconciler for Definitions {
    const NAME: &'static str = "definition-controller";
    type Key = Key;

    fn resources(&self, api: &Api) -> Vec<String> {
        let custom = api
            .store
            .list(DEFINITIONS, None)
            .0
            .into_iter()
            .map(|definition| json::name(&definition.value).to_owned());
        custom.chain([DEFINITIONS.to_owned()]).collect()
    }

    fn affected(&mut self, _: &Api, resource: &str, event: &Event) -> Vec<Key> {
        match resource {
            DEFINITIONS => vec![key_of(&event.object.value)],
            // A definition is named as the resource it defines.
            custom if event.change == Change::Deleted => vec![key("", custom)],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&mut self, api: &Api, (_, name): &Key) -> Result<()> {
        let kind = api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")?;
        let definition = api.get(&kind, "", name)?;
        if !json::terminating(&definition.value) {
            return Ok(());
        }
        if let Some(custom) = crd::kinds(&definition.value).first() {
            for object in api.store.list(name, None).0 {
                let (namespace, name) = key_of(&object.value);
                match api.delete(custom, &namespace, &name, &Deletion::default()).await {
                    Err(failure) if failure.reason != "NotFound" => return Err(failure),
                    _ => {}
                }
            }
        }
        if !api.store.list(name, None).0.is_empty() {
            return Ok(());
        }
        let change = |old: &Value| {
            let mut new = old.clone();
            if let Some(Value::Array(list)) = new.pointer_mut("/metadata/finalizers") {
                list.retain(|finalizer| finalizer != crd::CLEANUP);
            }
            Ok(new)
        };
        api.update(&kind, "", name, Part::Whole, false, change).await.map(drop)
    }
}
