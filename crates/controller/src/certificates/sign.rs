//! Signs the certificates of nodes: an agent keeps its key and asks with a `CertificateSigningRequest`, and gets a certificate for the
//! node that its token is bound to, as the API server says. Anything else is denied.
//!
//! Run by every controller. Two that sign the same request do no harm: the API accepts the first certificate only.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use netloom_certificate::pem::{Usage, sign};
use netloom_certificate::{NODE_SIGNER, request};
use netloom_discovery::WatchBackoff;
use netloom_retry::{Converge, Every};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::issue::{signer, validity};
use super::plan::Authority;

/// Where the API server says to which node the token of a request is bound.
const NODE_OF_TOKEN: &str = "authentication.kubernetes.io/node-name";
/// What a certificate of a node may be asked to be for.
const USAGES: [&str; 2] = ["digital signature", "client auth"];

/// What to do about a request.
#[derive(Debug)]
enum Verdict {
    /// Nothing: it has its certificate, or was denied.
    Done,
    /// Sign this key for this node.
    Sign(String, Box<rcgen::PublicKey>),
    /// Deny it.
    Deny(String),
}

/// Answers requests.
pub struct Signer {
    answers: Answers,
    events: BoxStream<'static, Vec<watcher::Event<CertificateSigningRequest>>>,
    open: BTreeMap<String, CertificateSigningRequest>,
}

/// What an answer needs.
struct Answers {
    requests: Api<CertificateSigningRequest>,
    secrets: Api<Secret>,
    account: String,
    lifetime: Duration,
}

impl Signer {
    /// Answers the requests of the agents in this namespace with certificates that live this long.
    pub fn new(client: &kube::Client, namespace: &str, lifetime: Duration) -> Self {
        let requests = Api::all(client.clone());
        let config = watcher::Config::default().fields(&format!("spec.signerName={NODE_SIGNER}"));
        let events = watcher(requests.clone(), config)
            .backoff(WatchBackoff::default())
            .filter_map(|event| {
                std::future::ready(
                    event
                        .map_err(|error| warn!(%error, "watch of certificate requests interrupted, trying again"))
                        .ok(),
                )
            })
            .ready_chunks(64)
            .boxed();
        let answers = Answers {
            requests,
            secrets: Api::namespaced(client.clone(), namespace),
            account: format!("system:serviceaccount:{namespace}:netloom-agent"),
            lifetime,
        };
        Signer {
            answers,
            events,
            open: BTreeMap::new(),
        }
    }
}

impl Answers {
    async fn answer(&self, request: &CertificateSigningRequest) -> Result<()> {
        let name = request.name_any();
        match judge(request, &self.account) {
            Verdict::Done => Ok(()),
            Verdict::Deny(reason) => {
                warn!(request = name, user = request.spec.username, reason, "denied a node's certificate");
                // One that was approved by hand can only fail.
                match has(request, "Approved") {
                    true => self.report(&name, "status", condition("Failed", &reason)).await,
                    false => self.report(&name, "approval", condition("Denied", &reason)).await,
                }
            }
            Verdict::Sign(node, key) => {
                if !has(request, "Approved") {
                    let approved = condition("Approved", "the token of the request is bound to the node");
                    self.report(&name, "approval", approved).await?;
                }
                let (found, _) = super::read(&self.secrets).await?;
                let (from, until) = validity(Timestamp::now(), self.lifetime, self.lifetime)?;
                let certificate = sign(&node, Usage::Client, key.as_ref(), &signer(&found, Authority::Nodes), from, until)?;
                let status = json!({ "certificate": ByteString(certificate.into_bytes()) });
                self.report(&name, "status", status).await?;
                info!(node, request = name, "signed a node's certificate");
                Ok(())
            }
        }
    }

    /// Writes a part of the status. A request that is gone, or that another controller has answered, needs nothing more.
    async fn report(&self, name: &str, part: &str, status: Value) -> Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(json!({ "status": status })));
        let written = match part {
            "approval" => self.requests.patch_approval(name, &parameters, &patch).await,
            _ => self.requests.patch_status(name, &parameters, &patch).await,
        };
        match written {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("answer CertificateSigningRequest {name}")),
        }
    }
}

impl Converge for Signer {
    const NAME: &'static str = "certificates of nodes";
    type Inputs = Every;

    fn inputs(&self) -> Every {
        Every
    }

    async fn changed(&mut self) {
        // Watches do not end.
        let Some(events) = self.events.next().await else {
            return std::future::pending().await;
        };
        for event in events {
            match event {
                watcher::Event::Init => self.open.clear(),
                watcher::Event::InitApply(request) | watcher::Event::Apply(request) => drop(self.open.insert(request.name_any(), request)),
                watcher::Event::Delete(request) => drop(self.open.remove(&request.name_any())),
                watcher::Event::InitDone => {}
            }
        }
    }

    async fn apply(&mut self) -> Result<()> {
        while let Some((name, request)) = self.open.first_key_value() {
            self.answers.answer(request).await?;
            let name = name.clone();
            self.open.remove(&name);
        }
        Ok(())
    }
}

fn condition(kind: &str, message: &str) -> Value {
    json!({ "conditions": [{ "type": kind, "status": "True", "reason": "NodeOfToken", "message": message }] })
}

fn has(request: &CertificateSigningRequest, kind: &str) -> bool {
    let mut conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == kind)
}

/// Who may have a certificate, and for which node. What the request says of itself is only compared.
fn judge(request: &CertificateSigningRequest, account: &str) -> Verdict {
    let spec = &request.spec;
    let signed = request.status.as_ref().is_some_and(|status| status.certificate.is_some());
    if spec.signer_name != NODE_SIGNER || signed || has(request, "Denied") || has(request, "Failed") {
        return Verdict::Done;
    }
    if spec.username.as_deref() != Some(account) {
        return Verdict::Deny(format!("only {account} has certificates of nodes"));
    }
    let nodes = spec
        .extra
        .as_ref()
        .and_then(|extra| extra.get(NODE_OF_TOKEN))
        .map_or(&[][..], Vec::as_slice);
    let [node] = nodes else {
        return Verdict::Deny("its token is bound to no node; does the API server say so (Kubernetes 1.30 or later)?".to_owned());
    };
    let usages = spec.usages.as_deref().unwrap_or_default();
    if usages.iter().any(|usage| !USAGES.contains(&usage.as_str())) || !usages.iter().any(|usage| usage == "client auth") {
        return Verdict::Deny(format!("a node's certificate is for {} only", USAGES.join(" and ")));
    }
    match request::read(&String::from_utf8_lossy(&spec.request.0), node) {
        Ok(key) => Verdict::Sign(node.clone(), Box::new(key)),
        Err(error) => Verdict::Deny(format!("its token is bound to node {node}: {error:#}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const AGENT: &str = "system:serviceaccount:netloom-system:netloom-agent";

    /// A request for `name` by a token of `user` that is bound to these nodes.
    fn asked(name: &str, user: &str, nodes: &[&str], usages: &[&str]) -> CertificateSigningRequest {
        let text = request::make(name).unwrap().text;
        serde_json::from_value(json!({
            "metadata": { "name": "r" },
            "spec": {
                "request": ByteString(text.into_bytes()), "signerName": NODE_SIGNER, "usages": usages,
                "username": user, "extra": { NODE_OF_TOKEN: nodes },
            },
        }))
        .unwrap()
    }

    fn denied(request: &CertificateSigningRequest) -> String {
        match judge(request, AGENT) {
            Verdict::Deny(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_agent_gets_a_certificate_for_the_node_of_its_token() {
        let request = asked("node1", AGENT, &["node1"], &["client auth", "digital signature"]);
        assert!(matches!(judge(&request, AGENT), Verdict::Sign(node, _) if node == "node1"));
    }

    #[test]
    fn an_agent_gets_none_for_another_node_nor_without_one() {
        assert!(denied(&asked("node2", AGENT, &["node1"], &["client auth"])).contains("bound to node node1"));
        assert!(denied(&asked("node1", AGENT, &[], &["client auth"])).contains("no node"));
        assert!(denied(&asked("node1", AGENT, &["node1", "node2"], &["client auth"])).contains("no node"));
    }

    #[test]
    fn another_account_gets_none() {
        let other = asked("node1", "system:serviceaccount:default:netloom-agent", &["node1"], &["client auth"]);
        assert!(denied(&other).contains("only"));
    }

    #[test]
    fn a_node_is_no_server() {
        assert!(denied(&asked("node1", AGENT, &["node1"], &["client auth", "server auth"])).contains("only"));
        assert!(denied(&asked("node1", AGENT, &["node1"], &["digital signature"])).contains("only"));
    }

    #[test]
    fn what_is_answered_stays_as_it_is() {
        for status in [
            json!({ "certificate": ByteString(b"x".to_vec()) }),
            condition("Denied", "no"),
            condition("Failed", "no"),
        ] {
            let mut request = asked("node2", AGENT, &["node1"], &["client auth"]);
            request.status = serde_json::from_value(status).unwrap();
            assert!(matches!(judge(&request, AGENT), Verdict::Done));
        }
    }
}
