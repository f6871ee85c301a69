//! Certificates in Secrets: two issuers at once, and Secrets that are deleted or damaged.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
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
    let authority = secret(&secrets, "netloom-ca", |_| true).await;
    let own = secret(&secrets, "netloom-controller-tls", |_| true).await;
    for directory in &directories {
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            let written = std::fs::read(directory.path().join(name)).unwrap();
            assert_eq!(written, file(&own, name), "{name} is the one in the Secret");
        }
    }
    assert_eq!(file(&own, "ca.crt"), file(&authority, "bundle"));

    // Deleted: issued again, by the same authority.
    let agent = secret(&secrets, "netloom-agent-tls", |_| true).await;
    secrets.delete("netloom-agent-tls", &DeleteParams::default()).await.unwrap();
    let again = secret(&secrets, "netloom-agent-tls", |secret| {
        file(secret, "tls.crt") != file(&agent, "tls.crt")
    })
    .await;
    assert_eq!(file(&again, "ca.crt"), file(&authority, "bundle"));

    // Damaged: the same.
    let damage = json!({ "data": { "tls.key": ByteString(b"nonsense".to_vec()) } });
    let patch = PatchParams::default();
    secrets.patch("netloom-ovn-tls", &patch, &Patch::Merge(damage)).await.unwrap();
    secret(&secrets, "netloom-ovn-tls", |secret| {
        file(secret, "tls.key").starts_with(b"-----BEGIN")
    })
    .await;

    // The authority itself: everything is issued anew, and all trust the same.
    secrets.delete("netloom-ca", &DeleteParams::default()).await.unwrap();
    let other = secret(&secrets, "netloom-ca", |secret| {
        file(secret, "ca.crt") != file(&authority, "ca.crt")
    })
    .await;
    for name in ["netloom-ovn-tls", "netloom-agent-tls", "netloom-controller-tls"] {
        secret(&secrets, name, |secret| file(secret, "ca.crt") == file(&other, "bundle")).await;
    }
}
