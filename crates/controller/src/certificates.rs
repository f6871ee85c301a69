//! Issues the certificates of all parts and keeps them fresh, in Secrets of one namespace; signs those that nodes ask for.
//!
//! ```text
//! Secrets ──read──► plan (pure) ──actions──► issue (keys) ──create, update──► Secrets
//!    └──────────────── watch: gone, damaged, written by another controller ─────┘
//! requests of nodes ──watch──► sign ──approval, certificate──► requests
//! ```
//!
//! Run by every controller: a Secret is only ever created, or updated from the version that was planned with, so two of them cannot undo
//! each other. Waits for the next deadline or for a change of a Secret, whichever comes first.

mod issue;
mod plan;
mod sign;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use netloom_certificate::{Files, files};
use netloom_discovery::WatchBackoff;
use netloom_retry::{Converge, Every, converge};
use tokio::sync::watch;
use tracing::{info, warn};

use plan::{Action, Found, Lifetimes, Role};
use sign::Signer;

/// How certificates are issued.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the Secrets.
    pub namespace: String,
    /// Where the controller keeps its own.
    pub directory: PathBuf,
    /// How long certificates are valid.
    pub lifetime: Duration,
    /// How long those of nodes are. They cannot be withdrawn, so this is how long one stays of use after its node is gone.
    pub node_lifetime: Duration,
}

/// Issues for ever; tells when all certificates are there and the controller's own are in its directory.
pub async fn run(client: kube::Client, options: Options, issued: watch::Sender<bool>) -> Result<()> {
    let signer = Signer::new(&client, &options.namespace, options.node_lifetime);
    let api = Api::<Secret>::namespaced(client, &options.namespace);
    let mut ready = issued.subscribe();
    let issuer = Issuer {
        changes: changes(&api).ready_chunks(64).boxed(),
        api,
        options,
        issued,
        due: None,
    };
    let signing = async {
        // Until then there is no authority to sign with.
        if ready.wait_for(|issued| *issued).await.is_ok() {
            converge(signer).await;
        }
    };
    tokio::join!(converge(issuer), signing);
    bail!("the issuer of certificates ended")
}

/// Keeps the Secrets as they should be.
struct Issuer {
    api: Api<Secret>,
    options: Options,
    issued: watch::Sender<bool>,
    changes: BoxStream<'static, Vec<()>>,
    /// The next deadline, if all was well.
    due: Option<Timestamp>,
}

impl Converge for Issuer {
    const NAME: &'static str = "certificates";
    type Inputs = Every;

    fn inputs(&self) -> Every {
        Every
    }

    async fn changed(&mut self) {
        let due = async {
            match self.due {
                Some(due) => tokio::time::sleep(Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            // Watches do not end.
            Some(_) = self.changes.next() => {}
        }
    }

    async fn apply(&mut self) -> Result<()> {
        self.due = None;
        self.due = Some(settle(&self.api, &self.options).await?);
        self.issued.send_replace(true);
        Ok(())
    }
}

/// One item whenever one of the Secrets may be another than before. Each is watched by its name, so that nobody has to allow more.
fn changes(api: &Api<Secret>) -> SelectAll<impl Stream<Item = ()> + use<>> {
    select_all(Found::names().map(|name| {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let events = watcher(api.clone(), config).backoff(WatchBackoff::default());
        let changed = events.filter_map(move |event| {
            std::future::ready(match event {
                Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_) | watcher::Event::InitDone) => Some(()),
                Ok(_) => None,
                Err(error) => {
                    warn!(secret = name, %error, "watch interrupted, trying again");
                    None
                }
            })
        });
        Box::pin(changed)
    }))
}

/// Does what has to be done, until nothing has; gives the next deadline.
async fn settle(api: &Api<Secret>, options: &Options) -> Result<Timestamp> {
    let lifetimes = Lifetimes { leaf: options.lifetime };
    // Every step brings the Secrets closer; more of them than this means that somebody else keeps changing them.
    'again: for _ in 0..32 {
        let (found, present) = read(api).await?;
        let now = Timestamp::now();
        let plan = plan::plan(now, &found, lifetimes);
        if plan.actions.is_empty() {
            let own = found
                .0
                .get(Role::Controller.secret())
                .context("find the controller's certificate")?;
            files::write(&options.directory, own)?;
            return Ok(plan.next);
        }
        for action in plan.actions {
            let (secret, files) = issue::perform(&action, now, &found, lifetimes)?;
            let before = present.iter().find(|before| before.metadata.name.as_deref() == Some(secret));
            if !write(api, secret, files, before).await? {
                continue 'again;
            }
            match action {
                Action::MakeAuthority { reason, .. } => info!(secret, reason, "made an authority"),
                Action::MakeSuccessor(_) => info!(secret, "made the authority's successor"),
                Action::WriteAuthority(..) => info!(secret, "updated the authority"),
                Action::Issue(_, reason) => info!(secret, reason, "issued a certificate"),
                Action::Trust(..) => info!(secret, "updated what is trusted"),
            }
        }
    }
    bail!("somebody else keeps changing the certificates' Secrets; is another controller with other flags running?")
}

/// What the Secrets hold, and the Secrets that are there.
async fn read(api: &Api<Secret>) -> Result<(Found, Vec<Secret>)> {
    let (mut found, mut present) = (Found::default(), Vec::new());
    for name in Found::names() {
        let secret = api.get_opt(name).await.with_context(|| format!("read Secret {name}"))?;
        let Some(mut secret) = secret else { continue };
        let text = |(key, bytes): (String, ByteString)| Some((key, String::from_utf8(bytes.0).ok()?));
        let content: Files = secret.data.take().unwrap_or_default().into_iter().filter_map(text).collect();
        found.0.insert(name, content);
        present.push(secret);
    }
    Ok((found, present))
}

/// Writes a Secret, from the version that was read; `false` if somebody else was faster. The type of one that is there stays: it cannot be
/// changed, and nothing depends on it.
async fn write(api: &Api<Secret>, name: &str, files: Files, before: Option<&Secret>) -> Result<bool> {
    let mut secret = before.cloned().unwrap_or_else(|| Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("app.kubernetes.io/managed-by".to_owned(), "netloom".to_owned())].into()),
            ..ObjectMeta::default()
        },
        type_: Some(
            if Role::ALL.iter().any(|role| role.secret() == name) {
                "kubernetes.io/tls"
            } else {
                "Opaque"
            }
            .to_owned(),
        ),
        ..Secret::default()
    });
    secret.data = Some(files.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))).collect());
    let written = match before {
        None => api.create(&PostParams::default(), &secret).await,
        Some(_) => api.replace(name, &PostParams::default(), &secret).await,
    };
    match written {
        Ok(_) => Ok(true),
        // Made, changed or deleted since we read it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("write Secret {name}")),
    }
}
