//! The kinds of `netloom-kubernetes` as the client of the Kubernetes API has to have them: where they are served, how they are watched
//! and listed. What an object says is read there, not here.

use anyhow::{Context as _, Result};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectList, ObjectMeta, Request};
use kube::core::DynamicResourceScope;
use kube::{Client, Resource as _};
use netloom_kubernetes::{Kind, Visit};
use netloom_network::Object;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// How many objects are asked for at a time.
const PAGE: u32 = 500;

/// An object of kind [`Kind::ALL`]`[KIND]`, of which only what the network depends on is kept.
#[derive(Clone, Debug)]
pub struct Served<const KIND: usize> {
    /// Its version alone, which watches go by.
    metadata: ObjectMeta,
    /// None for an object the network does not depend on.
    pub object: Option<Object>,
}

impl<const KIND: usize> Served<KIND> {
    /// Its kind.
    pub const KIND: Kind = Kind::ALL[KIND];
}

impl<'de, const KIND: usize> Deserialize<'de> for Served<KIND> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Self::KIND.deserialize(deserializer)?;
        let metadata = ObjectMeta {
            resource_version: Some(read.resource_version),
            ..ObjectMeta::default()
        };
        let object = read.object;
        Ok(Self { metadata, object })
    }
}

impl<const KIND: usize> kube::Resource for Served<KIND> {
    type DynamicType = ();
    type Scope = DynamicResourceScope;

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        Self::KIND.resource().group.into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        Self::KIND.resource().version.into()
    }

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        Self::KIND.name().into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        Self::KIND.resource().plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Where a kind is served.
pub fn resource(kind: Kind) -> ApiResource {
    let served = kind.resource();
    ApiResource {
        group: served.group.to_owned(),
        version: served.version.to_owned(),
        api_version: kind.api_version(),
        kind: kind.name().to_owned(),
        plural: served.plural.to_owned(),
    }
}

/// Lists everything the network depends on, once, for commands that show a cluster.
pub async fn read_cluster(client: &Client) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    for kind in Kind::ALL {
        let listed = match kind.visit(List(client)).await {
            Err(error) if kind.resource().optional && is_unknown(&error) => Vec::new(),
            listed => listed.with_context(|| format!("list {}", kind.resource().plural))?,
        };
        objects.extend(listed);
    }
    Ok(objects)
}

/// Lists a kind.
struct List<'a>(&'a Client);

impl<'a> Visit for List<'a> {
    type Output = BoxFuture<'a, kube::Result<Vec<Object>>>;

    fn visit<const KIND: usize>(self) -> Self::Output {
        async {
            let mut objects = Vec::new();
            let selector = Served::<KIND>::KIND.resource().selector;
            pages(self.0, Served::<KIND>::KIND, selector, |served: Served<KIND>| {
                objects.extend(served.object);
            })
            .await?;
            Ok(objects)
        }
        .boxed()
    }
}

/// All objects of a kind as JSON, a page at a time. Each gets its kind and version, which items of a list lack.
pub async fn list(client: &Client, kind: Kind, mut take: impl FnMut(Value)) -> kube::Result<()> {
    pages(client, kind, "", |mut object: Value| {
        object["kind"] = kind.name().into();
        object["apiVersion"] = kind.api_version().into();
        take(object);
    })
    .await
}

async fn pages<T>(client: &Client, kind: Kind, selector: &str, mut take: impl FnMut(T)) -> kube::Result<()>
where
    T: Clone + DeserializeOwned,
{
    let path = DynamicObject::url_path(&resource(kind), None);
    let mut page = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let request = Request::new(&path).list(&page).map_err(kube::Error::BuildRequest)?;
        let list: ObjectList<T> = client.request(request).await?;
        list.items.into_iter().for_each(&mut take);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// Whether the API server does not know what was asked for.
pub fn is_unknown(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
