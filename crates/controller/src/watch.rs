//! Watches of the Kubernetes API: every event becomes one [`Change`], in order; reconnecting and relisting stay in here.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use netloom_network::Object;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tracing::{info, warn};

use crate::objects::{
    AdminNetworkPolicyObject, BaselineAdminNetworkPolicyObject, ClusterNetworkObject, ClusterNetworkPolicyObject, EndpointSliceObject,
    ExternalPoolObject, NamespaceObject, NetworkObject, NetworkPolicyObject, NodeObject, PodObject, PortObject, Reduce,
    SecurityGroupObject, ServiceObject, is_unknown,
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
    /// `Port`.
    Port,
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
    /// `AdminNetworkPolicy`.
    AdminNetworkPolicy,
    /// `BaselineAdminNetworkPolicy`.
    BaselineAdminNetworkPolicy,
    /// `ClusterNetworkPolicy`.
    ClusterNetworkPolicy,
    /// `SecurityGroup`.
    SecurityGroup,
    /// `Network`.
    CustomNetwork,
}

impl Kind {
    /// All kinds; the first sync waits for a list of each.
    pub const ALL: [Self; 14] = [
        Self::ClusterNetwork,
        Self::Node,
        Self::Pod,
        Self::Port,
        Self::ExternalPool,
        Self::Service,
        Self::EndpointSlice,
        Self::Namespace,
        Self::NetworkPolicy,
        Self::AdminNetworkPolicy,
        Self::BaselineAdminNetworkPolicy,
        Self::ClusterNetworkPolicy,
        Self::SecurityGroup,
        Self::CustomNetwork,
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
        watch::<PortObject>(&client, Kind::Port, &changes),
        watch::<ExternalPoolObject>(&client, Kind::ExternalPool, &changes),
        watch::<ServiceObject>(&client, Kind::Service, &changes),
        watch::<EndpointSliceObject>(&client, Kind::EndpointSlice, &changes),
        watch::<NamespaceObject>(&client, Kind::Namespace, &changes),
        watch::<NetworkPolicyObject>(&client, Kind::NetworkPolicy, &changes),
        watch::<AdminNetworkPolicyObject>(&client, Kind::AdminNetworkPolicy, &changes),
        watch::<BaselineAdminNetworkPolicyObject>(&client, Kind::BaselineAdminNetworkPolicy, &changes),
        watch::<ClusterNetworkPolicyObject>(&client, Kind::ClusterNetworkPolicy, &changes),
        watch::<SecurityGroupObject>(&client, Kind::SecurityGroup, &changes),
        watch::<NetworkObject>(&client, Kind::CustomNetwork, &changes),
    )?;
    bail!("a watch ended")
}

async fn watch<K>(client: &kube::Client, kind: Kind, changes: &Sender<Change>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Reduce + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let selected = watcher::Config::default().labels(K::SELECTOR);
    let stream = watcher(Api::<K>::all(client.clone()), selected).backoff(Doubling::default());
    let mut stream = stream.boxed();
    let mut listing = Vec::new();
    let mut unknown = false;
    while let Some(event) = stream.next().await {
        let change = match event {
            // Nobody installed the definition, or somebody took it away, and the objects with it. It is looked for again and again.
            Err(watcher::Error::InitialListFailed(error)) if K::OPTIONAL && is_unknown(&error) => {
                if std::mem::replace(&mut unknown, true) {
                    continue;
                }
                info!(?kind, "the API server does not know this kind");
                Some(Change::Reset(kind, Vec::new()))
            }
            Err(error) => {
                warn!(?kind, %error, "watch interrupted, trying again");
                continue;
            }
            Ok(watcher::Event::Init) => {
                listing = Vec::new();
                continue;
            }
            Ok(watcher::Event::InitApply(object)) => {
                listing.extend(object.reduce());
                continue;
            }
            Ok(watcher::Event::InitDone) => {
                unknown = false;
                Some(Change::Reset(kind, std::mem::take(&mut listing)))
            }
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
