//! TLS with certificates of an authority of our own.

use std::path::Path;
use std::process::Command;

use netloom_fixtures::{Certificate, NORTHBOUND, Server};
use netloom_ovsdb::{ConnectError, Event, Operation, Tls};

use crate::support::{connect, options, within};

fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "openssl {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn authority(directory: &Path, name: &str) {
    openssl(
        directory,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ),
    );
}

fn certificate(directory: &Path, authority: &str, name: &str) {
    openssl(
        directory,
        &format!("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"),
    );
    std::fs::write(directory.join("ext"), "basicConstraints=CA:FALSE\n").unwrap();
    openssl(
        directory,
        &format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 2 -extfile ext -out {name}.pem"
        ),
    );
}

#[tokio::test]
async fn both_sides_are_authenticated() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name);
    authority(files.path(), "ca");
    authority(files.path(), "stranger");
    certificate(files.path(), "ca", "server");
    certificate(files.path(), "ca", "client");

    let database = Server::start_with_tls(
        NORTHBOUND,
        &Certificate {
            key: path("server.key"),
            certificate: path("server.pem"),
            authority: path("ca.pem"),
        },
    );

    let mut trusting = options(&database.remote);
    trusting.tls = Some(Tls {
        ca: path("ca.pem"),
        cert: path("client.pem"),
        key: path("client.key"),
    });
    let (client, _events) = connect(trusting.clone()).await;
    within(client.transact(Operation::Comment("over TLS".to_owned()))).await.unwrap();

    let mut mistrusting = trusting.clone();
    mistrusting.tls = Some(Tls {
        ca: path("stranger.pem"),
        cert: path("client.pem"),
        key: path("client.key"),
    });
    let (_client, mut events) = netloom_ovsdb::Client::start(mistrusting);
    let Some(Event::Unreachable { reason, .. }) = within(events.recv()).await else {
        panic!()
    };
    assert!(
        matches!(&reason, ConnectError::Connect(error) if error.to_string().contains("certificate")),
        "{reason}"
    );

    let mut unprepared = trusting;
    unprepared.tls = None;
    let (_client, mut events) = netloom_ovsdb::Client::start(unprepared);
    let Some(Event::Unreachable { reason, .. }) = within(events.recv()).await else {
        panic!()
    };
    assert!(matches!(reason, ConnectError::Tls(_)), "{reason}");
}
