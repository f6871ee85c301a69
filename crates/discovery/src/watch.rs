//! The watch of EndpointSlices and what follows it: one task per watch, which ends with its last receiver.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use netloom_ovsdb::Client;
use netloom_retry::Backoff;
use tokio::sync::watch::{Receiver, Sender};
use tracing::{info, warn};

use crate::{Database, Members, Service};

/// Starts watching the members of a Service. None are known at first; see [`known`]. Needs a running tokio runtime.
pub fn watch(client: kube::Client, service: Service) -> Receiver<Members> {
    let (sender, receiver) = tokio::sync::watch::channel(Members::default());
    tokio::spawn(async move {
        tokio::select! {
            () = sender.closed() => {}
            () = run(client, &service, &sender) => {}
        }
    });
    receiver
}

/// Waits until a member is known; nothing is ever known when the watch has ended.
pub async fn known(members: &mut Receiver<Members>) -> Members {
    let found = members.wait_for(|members| !members.is_empty()).await.map(|members| members.clone());
    match found {
        Ok(members) => members,
        Err(_) => std::future::pending().await,
    }
}

/// Tells a client of every change of the members, for ever. A Service without members changes nothing: they are all on their way.
pub async fn follow(mut members: Receiver<Members>, database: Database, tls: bool, client: &Client) {
    loop {
        let remotes = members.borrow_and_update().remotes(database, tls);
        if let Some(remotes) = remotes {
            client.set_remotes(remotes);
        }
        if members.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

async fn run(client: kube::Client, service: &Service, members: &Sender<Members>) {
    let api = Api::<EndpointSlice>::namespaced(client, &service.namespace);
    let config = watcher::Config::default().labels(&format!("kubernetes.io/service-name={}", service.name));
    let mut events = watcher(api, config)
        .backoff(WatchBackoff::default())
        .inspect_err(|error| warn!(%service, %error, "watch of the databases' members interrupted, trying again"))
        .boxed();
    let (mut slices, mut listing) = (BTreeMap::new(), BTreeMap::new());
    while let Some(event) = events.next().await {
        match event {
            Err(_) => continue,
            Ok(watcher::Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(watcher::Event::InitApply(slice)) => {
                listing.insert(slice.name_any(), slice);
                continue;
            }
            Ok(watcher::Event::InitDone) => slices = std::mem::take(&mut listing),
            Ok(watcher::Event::Apply(slice)) => drop(slices.insert(slice.name_any(), slice)),
            Ok(watcher::Event::Delete(slice)) => drop(slices.remove(&slice.name_any())),
        }
        let now = Members::of(slices.values());
        members.send_if_modified(|known| {
            let changed = *known != now;
            if changed {
                let addresses: Vec<_> = now.iter().map(|(name, address)| format!("{name}={address}")).collect();
                info!(%service, members = addresses.join(","), "members of the databases");
                *known = now;
            }
            changed
        });
    }
}

/// The back-off of our watches of the Kubernetes API: an API server that returns is noticed soon.
pub struct WatchBackoff(Backoff);

impl Default for WatchBackoff {
    fn default() -> Self {
        Self(Backoff::new(Duration::from_millis(50), Duration::from_secs(2)))
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.0.delay())
    }
}

impl kube::runtime::utils::Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.0.reset();
    }
}
