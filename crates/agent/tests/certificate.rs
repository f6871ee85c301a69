//! A node's certificate: asked for, kept in files, and asked for again when its authority is replaced. The test is the signer.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use netloom_agent::certificate::{Directories, NodeCertificate};
use netloom_apiserver::{NoKubelet, server_url};
use netloom_certificate::pem::{Certificate, Pair, Usage, make_authority, sign};
use netloom_certificate::request;
use netloom_retry::converge;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "c0ffee";

async fn api(directory: &Path) -> kube::Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server_url(listener.local_addr().unwrap(), TOKEN);
    tokio::spawn(netloom_apiserver::run(netloom_apiserver::Options {
        listeners: vec![listener],
        data: directory.join("objects.redb"),
        token: TOKEN.to_owned(),
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        advertise: Vec::new(),
        kubelet: Arc::new(NoKubelet),
        stop: CancellationToken::new(),
    }));
    kube::Client::try_from(kube::Config::new(server.parse().unwrap())).unwrap()
}

fn authority(name: &str) -> Pair {
    let now = jiff::Timestamp::now();
    make_authority(name, now, now + Duration::from_secs(7200)).unwrap()
}

/// Does what the kubelet does with the volume of a Secret.
fn trust(directory: &Path, nodes: &Pair) {
    for (name, text) in [("ca.crt", "servers"), ("clients.crt", &nodes.certificate)] {
        let new = directory.join(format!(".{name}"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, directory.join(name)).unwrap();
    }
}

/// Signs the next request with this authority, and gives the certificate.
async fn answer(requests: &Api<CertificateSigningRequest>, nodes: &Pair) -> String {
    let mut events = Box::pin(watcher(requests.clone(), watcher::Config::default()).applied_objects());
    let request = loop {
        let request = events.next().await.unwrap().unwrap();
        if request.status.as_ref().is_none_or(|status| status.certificate.is_none()) {
            break request;
        }
    };
    assert_eq!(request.spec.signer_name, "netloom.io/node");
    let key = request::read(&String::from_utf8_lossy(&request.spec.request.0), "node1").unwrap();
    let now = jiff::Timestamp::now();
    let certificate = sign("node1", Usage::Client, &key, nodes, now, now + Duration::from_secs(3600)).unwrap();
    let status = json!({ "status": { "certificate": ByteString(certificate.clone().into_bytes()) } });
    let (name, parameters) = (request.name_any(), PatchParams::default());
    requests.patch_status(&name, &parameters, &Patch::Merge(status)).await.unwrap();
    certificate
}

/// Waits until the files are those of this certificate; nothing but the files tells of them.
async fn kept(own: &Path, certificate: &str) {
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    while std::fs::read_to_string(own.join("tls.crt")).ok().as_deref() != Some(certificate) {
        tick.tick().await;
    }
    let key = std::fs::read_to_string(own.join("tls.key")).unwrap();
    assert!(Certificate::read(certificate).unwrap().has_key(&key));
    assert_eq!(std::fs::read_to_string(own.join("ca.crt")).unwrap(), "servers");
}

#[tokio::test]
async fn a_node_asks_for_a_certificate_and_again_when_its_authority_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let client = api(directory.path()).await;
    let requests = Api::<CertificateSigningRequest>::all(client.clone());
    let directories = Directories {
        trust: directory.path().join("trust"),
        own: directory.path().join("own"),
    };
    std::fs::create_dir(&directories.trust).unwrap();
    let scenario = async {
        let first = authority("first");
        trust(&directories.trust, &first);
        let agent = NodeCertificate::new(client, "node1".to_owned(), directories.clone()).unwrap();
        let agent = tokio::spawn(converge(agent));
        let certificate = answer(&requests, &first).await;
        kept(&directories.own, &certificate).await;

        let second = authority("second");
        trust(&directories.trust, &second);
        let certificate = answer(&requests, &second).await;
        kept(&directories.own, &certificate).await;
        agent.abort();
    };
    tokio::time::timeout(Duration::from_secs(60), scenario)
        .await
        .expect("still waiting after a minute");
}
