//! Client libraries: watches, old revisions, restarts, tokens.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::watcher,
};
use serde_json::json;
use support::Lab;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "app": name } } })).unwrap()
}

#[tokio::test]
async fn a_watcher_sees_everything_in_order() {
    let lab = Lab::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(lab.client());
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let mut events = std::pin::pin!(watcher(api.clone(), watcher::Config::default()));
    assert!(matches!(events.next().await.unwrap().unwrap(), watcher::Event::Init));
    assert!(matches!(events.next().await.unwrap().unwrap(), watcher::Event::InitApply(o) if o.name_any() == "a"));
    assert!(matches!(events.next().await.unwrap().unwrap(), watcher::Event::InitDone));
    api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    assert!(matches!(events.next().await.unwrap().unwrap(), watcher::Event::Apply(o) if o.name_any() == "b"));
    let patch = Patch::Merge(json!({ "data": { "x": "y" } }));
    api.patch("b", &PatchParams::default(), &patch).await.unwrap();
    assert!(matches!(events.next().await.unwrap().unwrap(), watcher::Event::Apply(o) if o.data.is_some()));
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(matches!(events.next().await.unwrap().unwrap(), watcher::Event::Delete(o) if o.name_any() == "a"));
}

#[tokio::test]
async fn a_selective_watch_sees_objects_come_and_go() {
    let lab = Lab::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(lab.client());
    let start = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let relabel = |app: &str| Patch::Merge(json!({ "metadata": { "labels": { "app": app } } }));
    api.patch("a", &PatchParams::default(), &relabel("other")).await.unwrap();
    api.patch("a", &PatchParams::default(), &relabel("a")).await.unwrap();
    let parameters = WatchParams::default().labels("app=a").timeout(1);
    let events: Vec<_> = api.watch(&parameters, &start).await.unwrap().try_collect().await.unwrap();
    let names: Vec<_> = events
        .iter()
        .map(|event| match event {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Bookmark(_) => "bookmark",
            WatchEvent::Error(_) => "error",
        })
        .collect();
    assert_eq!(names, ["added", "deleted", "added", "bookmark"]);
}

#[tokio::test]
async fn a_restart_finds_everything_and_expires_old_watches() {
    let mut lab = Lab::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(lab.client());
    let before = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let created = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    drop(api);
    lab.restart().await;
    let api: Api<ConfigMap> = Api::default_namespaced(lab.client());
    assert_eq!(api.get("a").await.unwrap().metadata, created.metadata);
    let mut events = api.watch(&WatchParams::default(), &before).await.unwrap().boxed();
    let refused = events.next().await;
    let expired = match &refused {
        Some(Ok(WatchEvent::Error(status))) => status.code == 410,
        Some(Err(kube::Error::Api(status))) => status.code == 410,
        _ => false,
    };
    assert!(expired, "{refused:?}");
}

#[tokio::test]
async fn pages_conflicts_and_tokens() {
    let lab = Lab::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(lab.client());
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    let page = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(page.items.len(), 2);
    let token = page.metadata.continue_.unwrap();
    let rest = api.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
    assert_eq!(rest.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["c"]);

    let old = api.get("a").await.unwrap();
    let mut new = old.clone();
    new.data = Some([("x".to_owned(), "y".to_owned())].into());
    api.replace("a", &PostParams::default(), &new).await.unwrap();
    let error = api.replace("a", &PostParams::default(), &new).await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict"),
        "{error}"
    );

    let mut config = kube::Config::new(format!("http://{}", lab.address).parse().unwrap());
    config.auth_info.token = Some("wrong".to_owned().into());
    let stranger: Api<ConfigMap> = Api::default_namespaced(kube::Client::try_from(config).unwrap());
    let error = stranger.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 401), "{error}");
}
