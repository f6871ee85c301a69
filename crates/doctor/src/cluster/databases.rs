//! Asks each server of OVN's databases where it stands in its cluster, and the Southbound for the nodes' encapsulation addresses.
//! Called by both examinations. One attempt for each server: the first refusal is the answer.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client as Kubernetes};
use netloom_ovsdb::Datum;
use netloom_ovsdb::client::{Client, Event, Events, MonitorTable, Options, Remotes, Tls};

use super::kubernetes;
use crate::unseen::{Seen, Unseen, in_time};

/// A database of OVN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database {
    /// Its name in OVSDB.
    pub name: &'static str,
    /// Where its servers listen.
    pub port: u16,
}

/// What the network is to be.
pub const NORTHBOUND: Database = Database {
    name: "OVN_Northbound",
    port: 6641,
};
/// What the nodes do, where nodes are answered.
pub const SOUTHBOUND: Database = Database {
    name: "OVN_Southbound",
    port: 6642,
};
/// What the nodes do, at the members themselves; nodes are answered by relays in front of them.
pub const SOUTHBOUND_MEMBERS: Database = Database { port: 6645, ..SOUTHBOUND };

/// A server of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The database.
    pub database: &'static str,
    /// Its address.
    pub remote: String,
    /// What it says of itself.
    pub state: Seen<MemberState>,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberState {
    /// Whether it is one of a cluster.
    pub clustered: bool,
    /// Whether it leads.
    pub leader: bool,
    /// Whether it is connected to a majority of its cluster.
    pub connected: bool,
}

/// The servers behind a service, as NAMESPACE/NAME.
pub async fn remotes(client: &Kubernetes, service: &str, database: Database, tls: bool) -> Seen<Remotes> {
    let (namespace, name) = service
        .split_once('/')
        .ok_or_else(|| Unseen::Error(format!("--databases {service} is not NAMESPACE/SERVICE")))?;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let parameters = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let slices = kubernetes::list(slices, &parameters).await?;
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let addresses: BTreeSet<&String> = endpoints.filter_map(|endpoint| endpoint.addresses.first()).collect();
    let scheme = if tls { "ssl" } else { "tcp" };
    let remote = |address: &&String| match address.contains(':') {
        true => format!("{scheme}:[{address}]:{}", database.port),
        false => format!("{scheme}:{address}:{}", database.port),
    };
    let mut remotes: Vec<String> = addresses.iter().map(remote).collect();
    remotes.sort();
    if remotes.is_empty() {
        return Err(Unseen::Error(format!("service {service} has no endpoints")));
    }
    remotes.join(",").parse().map_err(Unseen::error)
}

/// Asks every server.
pub async fn members(database: Database, remotes: &Remotes, tls: Option<&Tls>) -> Vec<Member> {
    let asked = remotes.iter().map(async |remote| Member {
        database: database.name,
        remote: remote.to_string(),
        state: in_time(member(database, remote.clone().into(), tls)).await,
    });
    futures::future::join_all(asked).await
}

async fn member(database: Database, remote: Remotes, tls: Option<&Tls>) -> Seen<MemberState> {
    let (client, _events) = connect("_Server", remote, vec![MonitorTable::all("Database")], tls).await?;
    let found = client.read(|replica| {
        let mut rows = replica.rows("Database").map(|(_, row)| row);
        let row = rows.find(|row| row.get("name").and_then(Datum::as_str) == Some(database.name))?;
        let flag = |column: &str| row.get(column).and_then(Datum::as_bool).unwrap_or(false);
        // A relay does not say who leads; it is connected to a member that is one of a cluster.
        let model = row.get("model").and_then(Datum::as_str);
        let (relay, connected) = (model == Some("relay"), flag("connected"));
        Some(MemberState {
            clustered: model == Some("clustered") || relay,
            leader: flag("leader") || relay && connected,
            connected,
        })
    });
    found
        .flatten()
        .ok_or_else(|| Unseen::Error(format!("the server does not serve {}", database.name)))
}

/// The encapsulation addresses of every chassis.
pub async fn encapsulations(remotes: &Remotes, tls: Option<&Tls>) -> Seen<BTreeMap<String, Vec<String>>> {
    let tables = vec![MonitorTable {
        columns: Some(vec!["chassis_name".to_owned(), "ip".to_owned()]),
        ..MonitorTable::all("Encap")
    }];
    let (client, _events) = connect(SOUTHBOUND.name, remotes.clone(), tables, tls).await?;
    let found = client.read(|replica| {
        let mut chassis: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (_, row) in replica.rows("Encap") {
            let text = |column: &str| row.get(column).and_then(Datum::as_str).unwrap_or_default().to_owned();
            chassis.entry(text("chassis_name")).or_default().push(text("ip"));
        }
        chassis
    });
    found.ok_or_else(|| Unseen::Error("the connection was lost".to_owned()))
}

/// A client that has its copy of these tables; gives up when every server has refused once.
pub async fn connect(database: &str, remotes: Remotes, tables: Vec<MonitorTable>, tls: Option<&Tls>) -> Seen<(Client, Events)> {
    let mut chances = remotes.len();
    let mut options = Options::new(remotes, database);
    options.monitor = tables;
    options.tls = tls.cloned();
    let (client, mut events) = Client::start(options);
    while let Some(event) = events.recv().await {
        match event {
            Event::Snapshot(_) => {
                client.ready().await.map_err(Unseen::error)?;
                return Ok((client, events));
            }
            Event::Unreachable { reason, .. } => {
                chances -= 1;
                if chances == 0 {
                    return Err(Unseen::error(reason));
                }
            }
            _ => {}
        }
    }
    Err(Unseen::Error("the client ended".to_owned()))
}
