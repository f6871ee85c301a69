//! A real OVN without packets: both databases, northd, one real chassis, and rows for the others.

use std::collections::BTreeSet;
use std::time::Duration;

use netloom_fixtures::{NORTHBOUND, SOUTHBOUND, Server, program};
use netloom_network::{Northbound, Scope, diff};
use netloom_ovsdb::{Datum, Operation, Replica, Row};
use uuid::Uuid;

use crate::chassis::Chassis;
use crate::claims;
use crate::cluster::node_name;
use crate::process::Process;
use crate::watch::Watch;

/// What there is of a cluster, counted in all places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows and members of collections in the Northbound.
    pub rows: usize,
    /// Logical flows in the Southbound.
    pub logical: usize,
    /// OpenFlow flows on the real chassis.
    pub openflow: usize,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Rows and members of collections in the Northbound.
    Rows,
    /// Logical flows in the Southbound.
    Logical,
    /// OpenFlow flows on the real chassis.
    OpenFlow,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rows, Self::Logical, Self::OpenFlow];
}

impl Counts {
    /// One of the counts.
    pub fn of(self, measure: Measure) -> usize {
        match measure {
            Measure::Rows => self.rows,
            Measure::Logical => self.logical,
            Measure::OpenFlow => self.openflow,
        }
    }

    /// What is more than in another cluster.
    pub fn beyond(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_sub(other.rows),
            logical: self.logical.saturating_sub(other.logical),
            openflow: self.openflow.saturating_sub(other.openflow),
        }
    }
}

/// Both databases, northd, the real chassis and what the Northbound holds.
pub struct Ovn {
    chassis: Option<Chassis>,
    // Ends before the databases.
    _northd: Process,
    northbound: Watch,
    southbound: Watch,
    server: Server,
    global: Uuid,
    asked: i64,
    written: Northbound,
}

impl Ovn {
    /// Starts the databases and northd, with nothing in them.
    pub async fn start() -> Self {
        let server = Server::start(&[NORTHBOUND, SOUTHBOUND]);
        let mut northbound = Watch::start(&server.remote, NORTHBOUND.name, &[("NB_Global", &["nb_cfg"])]).await;
        let southbound = Watch::start(&server.remote, SOUTHBOUND.name, claims::TABLES).await;
        let path = |name: &str| server.folder().join(name).display().to_string();
        let northd = Process::start(
            program("usr/bin/ovn-northd")
                .arg(format!("--ovnnb-db={}", server.remote))
                .arg(format!("--ovnsb-db={}", server.remote))
                .arg(format!("--unixctl={}", path("northd.control")))
                .arg(format!("--log-file={}", path("northd.log")))
                .arg("-vconsole:off"),
        );
        let global = northbound
            .until("northd", |replica| replica.rows("NB_Global").next().map(|(uuid, _)| *uuid))
            .await;
        Self {
            chassis: None,
            _northd: northd,
            northbound,
            southbound,
            server,
            global,
            asked: 0,
            written: Northbound::default(),
        }
    }

    /// Makes a cluster of so many nodes this one: writes its difference from what is there, has all nodes claim their ports, and waits until
    /// the flows of the real one are installed.
    pub async fn become_like(&mut self, nodes: usize, desired: &Northbound) {
        self.write(desired).await;
        claims::keep(&self.southbound, nodes).await;
        let ports = self.ports();
        let chassis = self
            .chassis
            .get_or_insert_with(|| Chassis::start(&node_name(0), &self.server.remote));
        chassis.plug(&ports);
        // What is claimed may be news for northd, whose answer the nodes have to see.
        self.sync().await;
        claims::keep(&self.southbound, nodes).await;
        self.sync().await;
    }

    /// The same, and what there is then. ovn-controller computes everything again for it, because it keeps some flows of what was there before
    /// until it does.
    pub async fn count(&mut self, nodes: usize, desired: &Northbound) -> Counts {
        self.become_like(nodes, desired).await;
        self.chassis().recompute();
        self.sync().await;
        Counts {
            rows: self.written.rows().count() + self.written.all_members().count(),
            logical: self.southbound.read(|replica| replica.rows("Logical_Flow").count()),
            openflow: self.chassis().flows(),
        }
    }

    /// The next cluster meets a chassis that has seen nothing before: memory that was used once stays with a process.
    pub fn replace_chassis(&mut self) {
        self.chassis = None;
    }

    /// How much the real ovn-controller runs until the flows of this cluster are installed.
    pub async fn cpu_to_become_like(&mut self, nodes: usize, desired: &Northbound) -> Duration {
        let before = self.chassis().controller.cpu();
        self.become_like(nodes, desired).await;
        self.chassis().controller.cpu() - before
    }

    /// Resident memory of the real ovn-controller in KiB.
    pub fn memory(&self) -> u64 {
        self.chassis().controller.memory()
    }

    fn chassis(&self) -> &Chassis {
        self.chassis.as_ref().expect("a cluster has a node")
    }

    /// Writes what differs, and waits until northd has turned it into flows.
    async fn write(&mut self, desired: &Northbound) {
        let operations = diff(&self.written, desired, &Scope::All).0;
        self.written = desired.clone();
        self.ask(operations).await;
        let asked = self.asked;
        let seen = move |replica: &Replica| (number(replica, "SB_Global", "nb_cfg")? >= asked).then_some(());
        self.southbound.until("northd to be done", seen).await;
    }

    /// Waits until the real ovn-controller has installed everything.
    async fn sync(&mut self) {
        self.ask(Vec::new()).await;
        let asked = self.asked;
        // Only the real chassis has such a row. What northd did for it was written before.
        let done = move |replica: &Replica| (number(replica, "Chassis_Private", "nb_cfg")? >= asked).then_some(());
        self.southbound.until("ovn-controller to be done", done).await;
    }

    async fn ask(&mut self, mut operations: Vec<Operation>) {
        self.asked += 1;
        let count = Row::from([("nb_cfg".to_owned(), Datum::integer(self.asked))]);
        operations.push(Operation::update("NB_Global", self.global, count));
        self.northbound.write(operations).await;
    }

    /// Names of the ports that belong to the real node.
    fn ports(&self) -> BTreeSet<String> {
        let node = node_name(0);
        let ports = self.written.rows().filter(|(id, _)| id.table == "Logical_Switch_Port");
        let here = ports.filter(|(_, row)| row.get("options").and_then(|options| options.get("requested-chassis")) == Some(node.as_str()));
        here.filter_map(|(_, row)| row.get("name")?.as_str().map(str::to_owned)).collect()
    }
}

fn number(replica: &Replica, table: &str, column: &str) -> Option<i64> {
    replica.rows(table).next()?.1.get(column)?.as_integer()
}
