//! One look at a cluster and its databases, for `netloom show`. Nothing is written: records come from the database, as after a restart.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use netloom_discovery::{Database, Service};
use netloom_lab::Lab;
use netloom_network::service::Protocol;
use netloom_network::show::Health;
use netloom_network::{Northbound, Planner};
use netloom_ovsdb::client::{Client, Events, MonitorTable, Options, Tls};
use netloom_ovsdb::{Datum, Row};

/// How long a database may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to look.
pub struct Sources {
    /// How to reach the Kubernetes API; the pod's own way if `None`.
    pub kubeconfig: Option<PathBuf>,
    /// Northbound remotes.
    pub northbound: String,
    /// Southbound remotes, if they are known.
    pub southbound: Option<String>,
    /// Certificates for `ssl:` remotes.
    pub tls: Option<Tls>,
}

/// A cluster and its database at one moment.
pub struct Seen {
    /// The plan, compiled.
    pub planner: Planner,
    /// What the Northbound database holds.
    pub observed: Northbound,
    /// Names of ports OVN says are up.
    pub up: HashSet<String>,
    /// Names of router ports and the chassis OVN says they are on.
    pub hosting: HashMap<String, String>,
}

impl Sources {
    /// A lab on this machine.
    pub fn of_lab(name: &str) -> Result<Self> {
        let lab = Lab::open(name)?;
        let control = lab
            .status()
            .into_iter()
            .find(|machine| machine.machine == "control")
            .and_then(|machine| machine.pid);
        let pid = control.with_context(|| format!("lab {name} is not running: start it with `netloom lab up --name {name}`"))?;
        let socket = |database: &str| format!("unix:/proc/{pid}/root/run/ovn/{database}_db.sock");
        Ok(Self {
            kubeconfig: Some(lab.home().kubeconfig()),
            northbound: socket("ovnnb"),
            southbound: Some(socket("ovnsb")),
            tls: None,
        })
    }

    /// A cluster whose databases are found through its API.
    pub async fn of_cluster(kubeconfig: Option<PathBuf>, databases: Service, tls: Option<Tls>) -> Result<Self> {
        let client = netloom_controller::kubernetes(kubeconfig.as_deref()).await?;
        let mut members = netloom_discovery::watch(client, databases.clone());
        let members = tokio::time::timeout(PATIENCE, netloom_discovery::known(&mut members))
            .await
            .with_context(|| format!("find the databases: service {databases} has no endpoints, or the Kubernetes API does not answer"))?;
        let remotes = |database| members.remotes(database, tls.is_some()).map(|remotes| remotes.to_string());
        Ok(Self {
            kubeconfig,
            northbound: remotes(Database::Northbound).unwrap_or_default(),
            southbound: remotes(Database::Southbound),
            tls,
        })
    }
}

/// Reads the cluster and the Northbound database and plans.
pub async fn at(place: &Sources) -> Result<Seen> {
    let kubernetes = netloom_controller::kubernetes(place.kubeconfig.as_deref()).await?;
    let objects = netloom_controller::read_cluster(&kubernetes)
        .await
        .context("read the cluster from the Kubernetes API")?;
    let tables = netloom_network::northbound::TABLES
        .iter()
        .map(|(table, _)| MonitorTable::all(*table))
        .collect();
    let (client, _events) = connect("OVN_Northbound", &place.northbound, place, tables).await?;

    let mut observed = Northbound::default();
    let (mut up, mut hosting) = (HashSet::new(), HashMap::new());
    client.read(|replica| {
        for (table, rows) in replica.tables() {
            for (uuid, row) in rows {
                observed.observe(table, *uuid, Some(row));
                let name = || text(row, "name").map(str::to_owned);
                if row.get("up").and_then(Datum::as_bool) == Some(true) {
                    up.extend(name());
                }
                let chassis = row.get("status").and_then(|status| status.get("hosting-chassis"));
                hosting.extend(name().zip(chassis.map(str::to_owned)));
            }
        }
    });
    let mut planner = Planner::default();
    planner.restore(&observed);
    for object in objects {
        planner.apply(object);
    }
    planner.compile();
    Ok(Seen {
        planner,
        observed,
        up,
        hosting,
    })
}

/// What OVN's own checks say of backends. Only the Southbound database knows; without it there is less to show, not nothing.
pub async fn health(place: &Sources) -> HashMap<(IpAddr, u16, Protocol), Health> {
    let Some(southbound) = &place.southbound else {
        return HashMap::new();
    };
    let tables = vec![MonitorTable::all("Service_Monitor")];
    let (client, _events) = match connect("OVN_Southbound", southbound, place, tables).await {
        Ok(connected) => connected,
        Err(error) => {
            eprintln!("the health of backends is not known: {error:#}");
            return HashMap::new();
        }
    };
    let read = client.read(|replica| {
        let rows = replica.rows("Service_Monitor");
        rows.filter_map(|(_, row)| monitored(row)).collect()
    });
    read.unwrap_or_default()
}

fn monitored(row: &Row) -> Option<((IpAddr, u16, Protocol), Health)> {
    let ip = text(row, "ip")?.parse().ok()?;
    let port = u16::try_from(row.get("port")?.as_integer()?).ok()?;
    let protocol = Protocol::parse(&text(row, "protocol").unwrap_or("tcp").to_uppercase())?;
    let health = match text(row, "status")? {
        "online" => Health::Online,
        _ => Health::Offline,
    };
    Some(((ip, port, protocol), health))
}

fn text<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    row.get(column).and_then(Datum::as_str)
}

/// A client that has its copy of these tables, for as long as its events are kept.
async fn connect(database: &str, remotes: &str, place: &Sources, tables: Vec<MonitorTable>) -> Result<(Client, Events)> {
    let mut options = Options::new(remotes.parse().with_context(|| format!("read the remotes {remotes}"))?, database);
    options.monitor = tables;
    options.tls = place.tls.clone();
    let (client, events) = Client::start(options);
    tokio::time::timeout(PATIENCE, client.ready())
        .await
        .with_context(|| format!("no answer from the {database} database at {remotes}"))??;
    Ok((client, events))
}
