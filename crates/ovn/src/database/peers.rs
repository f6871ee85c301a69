//! What the other members say of their cluster, and what the API remembers of it.
//!
//! A member asks the others on the port clients use: their `_Server` database names the cluster. The leader also writes it to an
//! annotation of the Service, so that a first member that lost its disk never makes a second cluster while the others are down. So are the
//! servers that were removed, because their nodes keep their files.

use std::net::IpAddr;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use netloom_contract::annotation;
use netloom_discovery::{Database, Members};
use netloom_ovsdb::client::{Client, ConnectError, Event, MonitorTable, Options};
use netloom_ovsdb::{Datum, Remote, Replica, Uuid};
use serde_json::json;
use tokio::sync::watch::Receiver;
use tracing::{info, warn};

use super::Member;
use crate::Discovery;

/// A cluster to join.
pub struct Found {
    /// Its identity.
    pub cluster: Uuid,
    /// Where its members may be, one that is certain first.
    pub members: Vec<IpAddr>,
}

/// What a server says of its database in its `_Server` database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The cluster it belongs to; none while it is joining.
    pub cluster: Option<Uuid>,
    /// Whether it is in touch with a majority.
    pub connected: bool,
    /// Whether it leads.
    pub leader: bool,
}

impl Said {
    /// Reads the row of a database.
    pub fn of(replica: &Replica, database: Database) -> Self {
        let named = |row: &netloom_ovsdb::Row| row.get("name").and_then(Datum::as_str) == Some(database.name());
        let Some((_, row)) = replica.rows("Database").find(|(_, row)| named(row)) else {
            return Said::default();
        };
        let flag = |column| row.get(column).and_then(Datum::as_bool).unwrap_or_default();
        Said {
            cluster: row.get("cid").and_then(Datum::as_uuid),
            connected: flag("connected"),
            leader: flag("leader"),
        }
    }
}

/// Options of a client that watches what a server says of itself.
pub fn options(member: &Member, remote: Remote) -> Options {
    let mut options = Options::new(remote.into(), "_Server");
    options.monitor = vec![MonitorTable::all("Database")];
    options.tls = member.tls.clone();
    options
}

/// Waits until another member is in a cluster.
pub async fn find(member: &Member, mut members: Receiver<Members>) -> Found {
    loop {
        let known = members.borrow_and_update().clone();
        let others = others(member, &known);
        info!(others = others.len(), "waiting for a member that is in a cluster");
        let mut asked: FuturesUnordered<_> = others.iter().map(|address| ask(member, *address, false)).collect();
        let answer = async {
            while let Some(answer) = asked.next().await {
                if let Some(cluster) = answer.1 {
                    return (answer.0, cluster);
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            (address, cluster) = answer => return found(cluster, address, &others),
            changed = members.changed() => if changed.is_err() {
                std::future::pending().await
            }
        }
    }
}

/// The cluster another member is in, or none if there is none. Waits while that cannot be told.
pub async fn find_or_none(member: &Member, discovery: &Discovery, mut members: Receiver<Members>) -> Result<Option<Found>> {
    if let Some(cluster) = recorded(member, discovery).await? {
        info!(
            cluster,
            "there was a cluster, so this member joins it; to begin with an empty one, remove the Service's annotation {}",
            cluster_annotation(member.database)
        );
        return Ok(Some(find(member, members).await));
    }
    // The others are there before us only if they were there before: a member waits for the first.
    netloom_discovery::known(&mut members).await;
    loop {
        let known = members.borrow_and_update().clone();
        let others = others(member, &known);
        let mut asked: FuturesUnordered<_> = others.iter().map(|address| ask(member, *address, true)).collect();
        let answers = async {
            while let Some((address, answer)) = asked.next().await {
                if let Some(cluster) = answer {
                    return Some(found(cluster, address, &others));
                }
            }
            None
        };
        tokio::select! {
            answer = answers => return Ok(answer),
            changed = members.changed() => changed.context("watch the databases' members")?,
        }
    }
}

/// Fails if there was a cluster already.
pub async fn refuse_second(member: &Member, discovery: &Discovery) -> Result<()> {
    match recorded(member, discovery).await? {
        None => Ok(()),
        Some(cluster) => bail!(
            "{} is a plain file, but the Service says there is a cluster {cluster}; move the file away to join that, or remove the Service's annotation {}",
            member.file().display(),
            cluster_annotation(member.database)
        ),
    }
}

fn others(member: &Member, known: &Members) -> Vec<IpAddr> {
    known
        .iter()
        .map(|(_, address)| address)
        .filter(|address| *address != member.address)
        .collect()
}

fn found(cluster: Uuid, certain: IpAddr, others: &[IpAddr]) -> Found {
    let rest = others.iter().copied().filter(|address| *address != certain);
    Found {
        cluster,
        members: std::iter::once(certain).chain(rest).collect(),
    }
}

/// Asks a member for its cluster until it has one, or with `none_will_do` until it is certain that it has none: it says so, or its node
/// answers and no server is there.
async fn ask(member: &Member, address: IpAddr, none_will_do: bool) -> (IpAddr, Option<Uuid>) {
    let socket = std::net::SocketAddr::new(address, member.database.member_port(member.tls.is_some())).to_string();
    let remote = if member.tls.is_some() {
        Remote::Ssl(socket)
    } else {
        Remote::Tcp(socket)
    };
    let (client, mut events) = Client::start(options(member, remote));
    let mut told = false;
    while let Some(event) = events.recv().await {
        let none = match event {
            Event::Snapshot(_) | Event::Update(_) => match client.read(|replica| Said::of(replica, member.database)) {
                Some(Said {
                    cluster: Some(cluster), ..
                }) => return (address, Some(cluster)),
                _ => true,
            },
            Event::Unreachable { reason, .. } => {
                let refused = matches!(&reason, ConnectError::Connect(error) if error.kind() == std::io::ErrorKind::ConnectionRefused);
                if none_will_do && !refused && !std::mem::replace(&mut told, true) {
                    warn!(%address, %reason, "cannot tell whether this member is in a cluster; waiting for it");
                }
                refused
            }
            _ => false,
        };
        if none && none_will_do {
            break;
        }
    }
    (address, None)
}

/// Where the Service remembers a cluster.
fn cluster_annotation(database: Database) -> &'static str {
    match database {
        Database::Northbound => annotation::NORTHBOUND_CLUSTER,
        Database::Southbound => annotation::SOUTHBOUND_CLUSTER,
    }
}

/// Where it remembers the servers that were removed from it.
fn removed_annotation(database: Database) -> &'static str {
    match database {
        Database::Northbound => annotation::NORTHBOUND_REMOVED,
        Database::Southbound => annotation::SOUTHBOUND_REMOVED,
    }
}

/// As many as are remembered; older files are of an age in which somebody should look at them.
const REMEMBERED: usize = 64;

/// An annotation of the Service.
async fn read(discovery: &Discovery, annotation: &str) -> Result<Option<String>> {
    let api = Api::<Service>::namespaced(discovery.client.clone(), &discovery.service.namespace);
    let service = api.get_opt(&discovery.service.name).await;
    let service = service.with_context(|| format!("read Service {}", discovery.service))?;
    let annotations = service.and_then(|service| service.metadata.annotations);
    Ok(annotations.and_then(|mut annotations| annotations.remove(annotation)))
}

async fn write(discovery: &Discovery, annotation: &str, value: &str) -> Result<()> {
    let api = Api::<Service>::namespaced(discovery.client.clone(), &discovery.service.namespace);
    let patch = json!({ "metadata": { "annotations": { annotation: value } } });
    let patched = api
        .patch(&discovery.service.name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.map(drop).with_context(|| format!("annotate Service {}", discovery.service))
}

/// The cluster the Service remembers.
async fn recorded(member: &Member, discovery: &Discovery) -> Result<Option<String>> {
    read(discovery, cluster_annotation(member.database)).await
}

/// Makes the Service remember the cluster.
pub async fn record(member: &Member, discovery: &Discovery, cluster: Uuid) -> Result<()> {
    if recorded(member, discovery).await? == Some(cluster.to_string()) {
        return Ok(());
    }
    write(discovery, cluster_annotation(member.database), &cluster.to_string()).await?;
    info!(%cluster, service = %discovery.service, "recorded the cluster");
    Ok(())
}

/// Makes the Service remember that a server was removed: its file, if it ever comes back, is good for nothing, and nobody would tell it.
pub async fn record_removed(member: &Member, discovery: &Discovery, server: &str) -> Result<()> {
    let annotation = removed_annotation(member.database);
    let before = read(discovery, annotation).await?.unwrap_or_default();
    let known = before.split(' ').filter(|known| !known.is_empty() && *known != server);
    let mut all: Vec<_> = known.chain([server]).collect();
    all.drain(..all.len().saturating_sub(REMEMBERED));
    write(discovery, annotation, &all.join(" ")).await
}

/// Whether a server was removed from the cluster.
pub async fn was_removed(member: &Member, discovery: &Discovery, server: &str) -> Result<bool> {
    let removed = read(discovery, removed_annotation(member.database)).await?;
    Ok(removed.is_some_and(|removed| removed.split(' ').any(|removed| removed == server)))
}
