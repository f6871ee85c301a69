//! Watches of the Kubernetes API: every event becomes one [`Change`], in order; reconnecting and relisting stay in here.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use netloom_network::Object;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tracing::warn;

use crate::objects::{
    ClusterNetworkObject, EndpointSliceObject, ExternalPoolObject, NamespaceObject, NetworkPolicyObject, NodeObject, PodObject, Reduce,
    ServiceObject,
};

/// The kinds watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `ClusterNetwork`.
    ClusterNetwork,
    /// Node.
    Node,
    /// Pod.
    Pod,
    /// `ExternalPool`.
    ExternalPool,
    /// Service.
    Service,
    /// `EndpointSlice`.
    EndpointSlice,
    /// Namespace.
    Namespace,
    /// `NetworkPolicy`.
    NetworkPolicy,
}

impl Kind {
    /// All kinds; the first sync waits for a list of each.
    pub const ALL: [Self; 8] = [
        Self::ClusterNetwork,
        Self::Node,
        Self::Pod,
        Self::ExternalPool,
        Self::Service,
        Self::EndpointSlice,
        Self::Namespace,
        Self::NetworkPolicy,
    ];
}

/// What the API server said.
#[derive(Debug)]
pub enum Change {
    /// These are all objects of a kind.
    Reset(Kind, Vec<Object>),
    /// An object is new or different.
    Apply(Object),
    /// An object is gone.
    Delete(Object),
}

/// Watches all kinds, for ever.
pub async fn run(client: kube::Client, changes: Sender<Change>) -> Result<()> {
    tokio::try_join!(
        watch::<ClusterNetworkObject>(&client, Kind::ClusterNetwork, &changes),
        watch::<NodeObject>(&client, Kind::Node, &changes),
        watch::<PodObject>(&client, Kind::Pod, &changes),
        watch::<ExternalPoolObject>(&client, Kind::ExternalPool, &changes),
        watch::<ServiceObject>(&client, Kind::Service, &changes),
        watch::<EndpointSliceObject>(&client, Kind::EndpointSlice, &changes),
        watch::<NamespaceObject>(&client, Kind::Namespace, &changes),
        watch::<NetworkPolicyObject>(&client, Kind::NetworkPolicy, &changes),
    )?;
    bail!("a watch ended")
}

async fn watch<K>(client: &kube::Client, kind: Kind, changes: &Sender<Change>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Reduce + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let selected = watcher::Config::default().labels(K::SELECTOR);
    let stream = watcher(Api::<K>::all(client.clone()), selected).backoff(Doubling::default());
    let mut stream = stream
        .inspect_err(|error| warn!(?kind, %error, "watch interrupted, trying again"))
        .boxed();
    let mut listing = Vec::new();
    while let Some(event) = stream.next().await {
        let change = match event {
            Err(_) => continue,
            Ok(watcher::Event::Init) => {
                listing = Vec::new();
                continue;
            }
            Ok(watcher::Event::InitApply(object)) => {
                listing.extend(object.reduce());
                continue;
            }
            Ok(watcher::Event::InitDone) => Some(Change::Reset(kind, std::mem::take(&mut listing))),
            Ok(watcher::Event::Apply(object)) => object.reduce().map(Change::Apply),
            Ok(watcher::Event::Delete(object)) => object.reduce().map(Change::Delete),
        };
        if let Some(change) = change {
            changes.send(change).await?;
        }
    }
    Ok(())
}

/// Delays of 50 ms doubling to 2 s: an API server that comes back is noticed soon.
pub struct Doubling(Duration);

impl Default for Doubling {
    fn default() -> Self {
        Self(Duration::from_millis(50))
    }
}

impl Iterator for Doubling {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.0;
        self.0 = (delay * 2).min(Duration::from_secs(2));
        Some(delay)
    }
}

impl Backoff for Doubling {
    fn reset(&mut self) {
        *self = Self::default();
    }
}
