//! Watches of the Kubernetes API: every event becomes one [`Change`], in order; reconnecting and relisting stay in here.

use anyhow::{Result, bail};
use futures::future::{BoxFuture, try_join_all};
use futures::{FutureExt as _, StreamExt as _};
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use netloom_discovery::WatchBackoff;
pub use netloom_kubernetes::Kind;
use netloom_kubernetes::Visit;
use netloom_network::Object;
use tokio::sync::mpsc::Sender;
use tracing::{info, warn};

use crate::api::{Served, is_unknown};

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
    let watches = Kind::ALL.iter().map(|kind| {
        kind.visit(Watch {
            client: &client,
            changes: &changes,
        })
    });
    try_join_all(watches).await?;
    bail!("a watch ended")
}

/// Watches a kind.
struct Watch<'a> {
    client: &'a kube::Client,
    changes: &'a Sender<Change>,
}

impl<'a> Visit for Watch<'a> {
    type Output = BoxFuture<'a, Result<()>>;

    fn visit<const KIND: usize>(self) -> Self::Output {
        watch::<KIND>(self.client, self.changes).boxed()
    }
}

async fn watch<const KIND: usize>(client: &kube::Client, changes: &Sender<Change>) -> Result<()> {
    let kind = Served::<KIND>::KIND;
    let (selector, optional) = (kind.resource().selector, kind.resource().optional);
    let selected = watcher::Config::default().labels(selector);
    let stream = watcher(Api::<Served<KIND>>::all(client.clone()), selected).backoff(WatchBackoff::default());
    let mut stream = stream.boxed();
    let mut listing = Vec::new();
    let mut unknown = false;
    while let Some(event) = stream.next().await {
        let change = match event {
            // The definition is not installed, or was deleted and the objects with it. The watcher keeps trying.
            Err(watcher::Error::InitialListFailed(error)) if optional && is_unknown(&error) => {
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
            Ok(watcher::Event::InitApply(served)) => {
                listing.extend(served.object);
                continue;
            }
            Ok(watcher::Event::InitDone) => {
                unknown = false;
                Some(Change::Reset(kind, std::mem::take(&mut listing)))
            }
            Ok(watcher::Event::Apply(served)) => served.object.map(Change::Apply),
            Ok(watcher::Event::Delete(served)) => served.object.map(Change::Delete),
        };
        if let Some(change) = change {
            changes.send(change).await?;
        }
    }
    Ok(())
}
