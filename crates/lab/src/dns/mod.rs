//! The lab's cluster DNS: the names of services and pods, answered from what the API server says at the moment.
//!
//! Runs beside the API server on the control machine; pods reach it as the Service `kube-system/kube-dns`. Until its watches have seen
//! everything once it answers "try again", so that a restart never makes a name disappear. It asks nobody else: what is not of this cluster
//! does not exist here.
//!
//! ```text
//! watches ──► zone (pure) ◄── server: UDP and TCP, port 53 ◄──► message (bytes)
//! ```

pub mod message;
mod server;
mod zone;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context as _;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};

use self::zone::{Key, Zone};
use crate::spec::{IpFamily, Machine};

/// The port of DNS.
pub const PORT: u16 = 53;

/// How to run the part.
#[derive(Debug)]
pub struct Options {
    /// Address families of services.
    pub ip_family: IpFamily,
    /// How to reach the API server.
    pub kubeconfig: PathBuf,
}

/// The names, and which watches have not told all of theirs yet.
#[derive(Debug, Default)]
struct Names {
    zone: Zone,
    missing: BTreeSet<&'static str>,
}

type Shared = Arc<RwLock<Names>>;

/// Answers until something it cannot do without ends; init then starts it again.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let client = crate::cluster::client(&options.kubeconfig).await?;
    let names = Shared::default();
    change(&names, |names| names.missing.extend(["namespaces", "services", "slices"]));
    let addresses = Machine::Control
        .addresses(options.ip_family)
        .into_iter()
        .map(|(address, _)| address);
    let server = server::bind(addresses, names.clone()).await?;
    tokio::select! {
        ended = server.run() => ended.context("serving DNS"),
        ended = follow::<Namespace>(client.clone(), names.clone()) => ended.context("watching namespaces"),
        ended = follow::<Service>(client.clone(), names.clone()) => ended.context("watching services"),
        ended = follow::<EndpointSlice>(client, names) => ended.context("watching endpoint slices"),
    }
}

/// An object that gives names.
trait Named: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + Clone + std::fmt::Debug + Send + 'static {
    /// What the log calls them.
    const PLURAL: &'static str;
    fn add(&self, key: Key, zone: &mut Zone);
    fn remove(key: &Key, zone: &mut Zone);
}

impl Named for Namespace {
    const PLURAL: &'static str = "namespaces";
    fn add(&self, key: Key, zone: &mut Zone) {
        zone.add_namespace(key.1);
    }
    fn remove(key: &Key, zone: &mut Zone) {
        zone.remove_namespace(&key.1);
    }
}

impl Named for Service {
    const PLURAL: &'static str = "services";
    fn add(&self, key: Key, zone: &mut Zone) {
        zone.add_service(key, self);
    }
    fn remove(key: &Key, zone: &mut Zone) {
        zone.remove_service(key);
    }
}

impl Named for EndpointSlice {
    const PLURAL: &'static str = "slices";
    fn add(&self, key: Key, zone: &mut Zone) {
        zone.add_slice(key, self);
    }
    fn remove(key: &Key, zone: &mut Zone) {
        zone.remove_slice(key);
    }
}

/// Keeps the zone as the objects of one kind are.
async fn follow<N: Named>(client: Client, names: Shared) -> anyhow::Result<()> {
    let mut events = Box::pin(watcher(Api::<N>::all(client), watcher::Config::default()).default_backoff());
    let (mut known, mut listed) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let event = match events.try_next().await {
            Ok(event) => event.context("the watch ended")?,
            Err(error) => {
                // The watcher carries on by itself, after its own back-off.
                tracing::warn!(%error, what = N::PLURAL, "watching");
                continue;
            }
        };
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                let key = key_of(&object);
                known.insert(key.clone());
                listed.insert(key.clone());
                change(&names, |names| object.add(key, &mut names.zone));
            }
            watcher::Event::InitDone => {
                for key in known.difference(&listed) {
                    change(&names, |names| N::remove(key, &mut names.zone));
                }
                known.clone_from(&listed);
                let complete = change(&names, |names| names.missing.remove(N::PLURAL) && names.missing.is_empty());
                if complete {
                    tracing::info!("answering");
                }
            }
            watcher::Event::Delete(object) => {
                let key = key_of(&object);
                known.remove(&key);
                change(&names, |names| N::remove(&key, &mut names.zone));
            }
        }
    }
}

fn key_of<N: Named>(object: &N) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

fn change<T>(names: &Shared, act: impl FnOnce(&mut Names) -> T) -> T {
    act(&mut names.write().unwrap_or_else(PoisonError::into_inner))
}
