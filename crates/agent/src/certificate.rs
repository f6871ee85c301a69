//! This node's own certificate for the Southbound database: the key is made here and never leaves the node; the certificate is asked for
//! with a `CertificateSigningRequest`, which the controller signs for the node that the agent's token is bound to.
//!
//! ```text
//! trust (a Secret's volume: ca.crt, clients.crt) ──┐
//! time ────────────────────────────────────────────┴─► needed? ──request──► API ──certificate──► directory (ovn-controller, agent)
//! ```
//!
//! Renewed when two thirds of its life are over, or at once when its authority is no longer trusted. Without a controller the old one stays in use.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use kube::runtime::wait::await_condition;
use netloom_certificate::pem::{Certificate, read_all};
use netloom_certificate::{CA_CERTIFICATE, CERTIFICATE, CLIENTS, Files, KEY, NODE_SIGNER, files, request, text};
use netloom_retry::{Converge, Every};
use nix::sys::inotify::AddWatchFlags;
use serde_json::json;
use tracing::info;

use crate::directory::DirectoryWatch;

/// The timer never sleeps longer: it does not count the time a machine is suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 3600);

/// Where the files are.
#[derive(Clone, Debug)]
pub struct Directories {
    /// What is trusted: `ca.crt` and `clients.crt`, as the controller writes them.
    pub trust: PathBuf,
    /// The node's own: the same, and `tls.crt` and `tls.key`.
    pub own: PathBuf,
}

/// Keeps the node's certificate.
pub struct NodeCertificate {
    requests: Api<CertificateSigningRequest>,
    node: String,
    directories: Directories,
    trust: DirectoryWatch,
    due: Option<Timestamp>,
}

impl NodeCertificate {
    /// For the node of this name.
    pub fn new(client: kube::Client, node: String, directories: Directories) -> Result<Self> {
        let changes = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_CLOSE_WRITE;
        let trust = DirectoryWatch::new(&directories.trust, changes).with_context(|| {
            format!(
                "watch {}, in which the certificates of the authorities are",
                directories.trust.display()
            )
        })?;
        Ok(NodeCertificate {
            requests: Api::all(client),
            node,
            directories,
            trust,
            due: None,
        })
    }
}

impl Converge for NodeCertificate {
    const NAME: &'static str = "certificate of this node";
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
            () = self.trust.changed(|_| true) => {}
        }
    }

    async fn apply(&mut self) -> Result<()> {
        self.due = None;
        let trusted = read(&self.directories.trust, &[CA_CERTIFICATE, CLIENTS])?;
        let own = read(&self.directories.own, &[CERTIFICATE, KEY]).unwrap_or_default();
        let now = Timestamp::now();
        let reason = match renewal(now, &self.node, &own, text(&trusted, CLIENTS)) {
            Ok(renewal) => {
                self.keep(own, trusted)?;
                let latest = now.checked_add(LONGEST_SLEEP).unwrap_or(renewal);
                self.due = Some(renewal.min(latest));
                return Ok(());
            }
            Err(reason) => reason,
        };
        if !own.is_empty() {
            // Of use until there is another.
            self.keep(own, trusted.clone())?;
        }
        info!(reason, "asking for a certificate of this node");
        let issued = tokio::select! {
            issued = ask(&self.requests, &self.node) => Some(issued?),
            () = self.trust.changed(|_| true) => None,
        };
        if let Some(issued) = issued {
            self.keep(issued, trusted)?;
            info!("this node has a new certificate");
        }
        // Looks once more: at what was issued, or at what is trusted now.
        self.due = Some(now);
        Ok(())
    }
}

impl NodeCertificate {
    fn keep(&self, own: Files, trusted: Files) -> Result<()> {
        files::write(&self.directories.own, &own.into_iter().chain(trusted).collect())
    }
}

/// When the certificate has to be renewed, or why it is of no use.
fn renewal(now: Timestamp, node: &str, own: &Files, clients: &str) -> Result<Timestamp, &'static str> {
    let certificate = Certificate::read(text(own, CERTIFICATE)).map_err(|_| "there is none")?;
    if !certificate.has_key(text(own, KEY)) {
        return Err("its key is another's");
    }
    if certificate.name != node {
        return Err("it is another node's");
    }
    let authorities = read_all(clients);
    let signer = authorities.iter().find(|authority| certificate.is_signed_by(authority));
    let renewal = signer.ok_or("its authority is not trusted")?.until.min(certificate.after(2, 3));
    if now >= renewal {
        return Err("two thirds of its life are over");
    }
    Ok(renewal)
}

/// A key made here, and the certificate that the controller signs for it.
async fn ask(requests: &Api<CertificateSigningRequest>, node: &str) -> Result<Files> {
    let made = request::make(node)?;
    let object: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": { "generateName": "netloom-node-" },
        "spec": {
            "request": ByteString(made.text.into_bytes()),
            "signerName": NODE_SIGNER,
            "usages": ["digital signature", "client auth"],
        },
    }))
    .context("write the request")?;
    let created = requests
        .create(&PostParams::default(), &object)
        .await
        .context("create a CertificateSigningRequest")?;
    let name = created.name_any();
    // Gone is an answer too: Kubernetes deletes a request that is not answered within a day.
    let answered = |request: Option<&CertificateSigningRequest>| request.is_none_or(|request| answer(request).is_some());
    let request = await_condition(requests.clone(), &name, answered)
        .await
        .with_context(|| format!("wait for CertificateSigningRequest {name}"))?;
    let answer = request.as_ref().and_then(answer);
    let certificate = answer.with_context(|| format!("CertificateSigningRequest {name} was deleted; is a controller running?"))?;
    let certificate = certificate.with_context(|| format!("CertificateSigningRequest {name}"))?;
    let signed = Certificate::read(&certificate).with_context(|| format!("read the certificate of CertificateSigningRequest {name}"))?;
    ensure!(
        signed.has_key(&made.key),
        "CertificateSigningRequest {name} was answered for another key"
    );
    Ok(Files::from([(CERTIFICATE.to_owned(), certificate), (KEY.to_owned(), made.key)]))
}

/// The certificate, or why there is none; nothing while it is not known.
fn answer(request: &CertificateSigningRequest) -> Option<Result<String>> {
    let status = request.status.as_ref()?;
    if let Some(ByteString(certificate)) = &status.certificate {
        return Some(String::from_utf8(certificate.clone()).context("read the certificate"));
    }
    let mut conditions = status.conditions.iter().flatten();
    let refused = conditions.find(|condition| matches!(condition.type_.as_str(), "Denied" | "Failed"))?;
    let why = refused.message.as_deref().unwrap_or("no reason is given");
    Some((|| bail!("it was refused: {why}"))())
}

fn read(directory: &Path, names: &[&str]) -> Result<Files> {
    let file = |name: &&str| {
        let path = directory.join(name);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(((*name).to_owned(), text))
    };
    names.iter().map(file).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use netloom_certificate::pem::{Pair, Usage, make_authority, make_leaf};

    fn at(day: u32) -> Timestamp {
        let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        start + Duration::from_secs(24 * 3600) * day
    }

    fn own(name: &str, authority: &Pair) -> Files {
        let made = make_leaf(name, Usage::Client, authority, at(0), at(9)).unwrap();
        Files::from([(CERTIFICATE.to_owned(), made.certificate), (KEY.to_owned(), made.key)])
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life_or_when_its_authority_is_gone() {
        let authorities = ["a", "b"].map(|name| make_authority(name, at(0), at(100)).unwrap());
        let [ours, other] = &authorities;
        let own = own("node1", ours);
        assert_eq!(renewal(at(1), "node1", &own, &ours.certificate), Ok(at(6)));
        let both = [other.certificate.as_str(), &ours.certificate].concat();
        assert_eq!(renewal(at(1), "node1", &own, &both), Ok(at(6)));
        assert_eq!(renewal(at(6), "node1", &own, &both), Err("two thirds of its life are over"));
        assert_eq!(
            renewal(at(1), "node1", &own, &other.certificate),
            Err("its authority is not trusted")
        );
    }

    #[test]
    fn what_is_missing_or_another_nodes_is_of_no_use() {
        let authority = make_authority("a", at(0), at(100)).unwrap();
        let (mine, theirs) = (own("node1", &authority), own("node2", &authority));
        let renewal = |own: &Files| renewal(at(1), "node1", own, &authority.certificate);
        assert_eq!(renewal(&Files::new()), Err("there is none"));
        assert_eq!(renewal(&theirs), Err("it is another node's"));
        let mut mixed = mine.clone();
        mixed.insert(KEY.to_owned(), theirs[KEY].clone());
        assert_eq!(renewal(&mixed), Err("its key is another's"));
    }
}
