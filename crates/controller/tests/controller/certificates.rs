//! Certificates in Secrets: two issuers at once, and Secrets that are deleted or damaged.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use netloom_certificate::pem::{Certificate, read_all};
use netloom_controller::certificates;
use serde_json::json;
use tokio::sync::watch;

use crate::world::{World, within};

const NAMESPACE: &str = "default";

fn issuer(world: &World, directory: &Path) -> watch::Receiver<bool> {
    let options = certificates::Options {
        namespace: NAMESPACE.to_owned(),
        directory: directory.to_owned(),
        lifetime: Duration::from_secs(3600),
        node_lifetime: Duration::from_secs(1800),
    };
    let (issued, ready) = watch::channel(false);
    tokio::spawn(certificates::run(world.kubernetes.client.clone(), options, issued));
    ready
}

fn file<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    let found = secret.data.as_ref().and_then(|data| data.get(key));
    found.map_or(&[], |ByteString(bytes)| bytes)
}

/// Waits until a Secret is there, passes, and gives it.
async fn secret(api: &Api<Secret>, name: &str, passes: impl Fn(&Secret) -> bool) -> Secret {
    let shown = await_condition(api.clone(), name, |secret: Option<&Secret>| secret.is_some_and(&passes));
    within(name, shown).await.unwrap().unwrap()
}

#[tokio::test]
async fn two_issuers_agree_and_what_is_deleted_or_damaged_comes_back() {
    let world = World::empty().await;
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut ready = directories.each_ref().map(|directory| issuer(&world, directory.path()));
    for ready in &mut ready {
        within("certificates", ready.wait_for(|issued| *issued)).await.unwrap();
    }
    let secrets: Api<Secret> = Api::namespaced(world.kubernetes.client.clone(), NAMESPACE);
    let authority = secret(&secrets, "netloom-member-ca", |_| true).await;
    let own = secret(&secrets, "netloom-northbound-tls", |_| true).await;
    for directory in &directories {
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            let written = std::fs::read(directory.path().join(name)).unwrap();
            assert_eq!(written, file(&own, name), "{name} is the one in the Secret");
        }
    }
    assert_eq!(file(&own, "ca.crt"), file(&authority, "bundle"));

    // Deleted: issued again, by the same authority.
    let ovn = secret(&secrets, "netloom-member-tls", |_| true).await;
    secrets.delete("netloom-member-tls", &DeleteParams::default()).await.unwrap();
    let again = secret(&secrets, "netloom-member-tls", |secret| {
        file(secret, "tls.crt") != file(&ovn, "tls.crt")
    })
    .await;
    assert_eq!(file(&again, "ca.crt"), file(&authority, "bundle"));

    // Damaged: the same.
    let damage = json!({ "data": { "tls.key": ByteString(b"nonsense".to_vec()) } });
    let patch = PatchParams::default();
    secrets.patch("netloom-member-tls", &patch, &Patch::Merge(damage)).await.unwrap();
    secret(&secrets, "netloom-member-tls", |secret| {
        file(secret, "tls.key").starts_with(b"-----BEGIN")
    })
    .await;

    // The authority itself: everything is issued anew, and all trust the same.
    secrets.delete("netloom-member-ca", &DeleteParams::default()).await.unwrap();
    let other = secret(&secrets, "netloom-member-ca", |secret| {
        file(secret, "ca.crt") != file(&authority, "ca.crt")
    })
    .await;
    for name in ["netloom-member-tls", "netloom-northbound-tls", "netloom-trust"] {
        secret(&secrets, name, |secret| file(secret, "ca.crt") == file(&other, "bundle")).await;
    }
}

/// A request as the API server writes it down for an agent's token.
async fn ask(world: &World, name: &str, node_of_token: &str) -> CertificateSigningRequest {
    let requests: Api<CertificateSigningRequest> = Api::all(world.kubernetes.client.clone());
    let text = netloom_certificate::request::make("node1").unwrap().text;
    let request = json!({
        "metadata": { "name": name },
        "spec": {
            "request": ByteString(text.into_bytes()), "signerName": "netloom.io/node", "usages": ["digital signature", "client auth"],
            "username": "system:serviceaccount:default:netloom-agent",
            "extra": { "authentication.kubernetes.io/node-name": [node_of_token] },
        },
    });
    let request = serde_json::from_value(request).unwrap();
    requests.create(&PostParams::default(), &request).await.unwrap();
    let answered = |request: Option<&CertificateSigningRequest>| {
        let status = request.and_then(|request| request.status.as_ref());
        let denied = |status: &CertificateSigningRequestStatus| status.conditions.iter().flatten().any(|c| c.type_ == "Denied");
        status.is_some_and(|status| status.certificate.is_some() || denied(status))
    };
    within(name, await_condition(requests, name, answered)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_node_gets_a_certificate_by_its_own_token_and_none_by_that_of_another() {
    let world = World::empty().await;
    let directory = tempfile::tempdir().unwrap();
    let mut ready = issuer(&world, directory.path());
    within("certificates", ready.wait_for(|issued| *issued)).await.unwrap();

    let own = ask(&world, "own", "node1").await.status.unwrap();
    let certificate = String::from_utf8(own.certificate.unwrap().0).unwrap();
    let certificate = Certificate::read(&certificate).unwrap();
    assert_eq!((certificate.name.as_str(), certificate.serves), ("node1", false));
    let life = certificate.until.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((1700..=1800).contains(&life), "{life} s");
    let secrets: Api<Secret> = Api::namespaced(world.kubernetes.client.clone(), NAMESPACE);
    let trust = secret(&secrets, "netloom-trust", |_| true).await;
    let signed_by = |key| {
        let authorities = read_all(&String::from_utf8_lossy(file(&trust, key)));
        authorities.iter().any(|authority| certificate.is_signed_by(authority))
    };
    assert!(signed_by("clients.crt") && !signed_by("ca.crt"));

    let stolen = ask(&world, "stolen", "node2").await.status.unwrap();
    assert!(stolen.certificate.is_none());
    let why = stolen.conditions.unwrap().remove(0).message.unwrap();
    assert!(why.contains("bound to node node2"), "{why}");
}
