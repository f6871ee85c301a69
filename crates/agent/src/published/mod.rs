//! Host ports: the ports that pods publish on their node. What a pod publishes is recorded in its OVS interface, so this
//! starts from the switch's database alone; the outcome is one nftables table, replaced as a whole, atomically, and only
//! if it differs. ADD waits here until the pod's ports are open; the removal of the interface closes them.

pub mod mapping;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netloom_retry::{Changes, Converge};
use tokio::sync::watch;
use tracing::{info, warn};
use uuid::Uuid;

use crate::gateway::EXTERNAL_BRIDGE;
use crate::host_port::Role;
use crate::net::{conntrack, nft, sysctl};
use crate::node::Node;
use crate::switch::Interface;
use netloom_contract::external_id;
use table::{Publisher, Table};

/// The nftables table.
pub const TABLE: &str = "inet netloom-ports";

/// Which interfaces have their ports published.
#[derive(Debug, Default)]
pub struct Progress(watch::Sender<BTreeSet<Uuid>>);

impl Progress {
    /// Waits until the ports of this interface are open.
    pub async fn wait(&self, interface: Uuid) {
        // The sender lives in `self`: waiting cannot fail while we are here.
        let _ = self.0.subscribe().wait_for(|published| published.contains(&interface)).await;
    }
}

/// Keeps the published ports as they should be.
pub struct Published {
    node: Arc<Node>,
    changes: Changes,
    kernel: watch::Receiver<u64>,
    deletions: watch::Receiver<u64>,
    checked: u64,
    programmed: Option<Table>,
    problems: Vec<String>,
    warned: bool,
}

/// What it depends on. Most changes of the databases are about pods that publish nothing.
#[derive(PartialEq)]
pub struct Inputs {
    connected: bool,
    interfaces: BTreeMap<Uuid, Arc<Interface>>,
    management: Option<Vec<IpAddr>>,
    kernel: u64,
    deletions: u64,
}

impl Published {
    /// Watches both databases, through `kernel` the host's links, and through `deletions` its nftables.
    pub fn new(node: Arc<Node>, kernel: watch::Receiver<u64>, deletions: watch::Receiver<u64>) -> Self {
        let changes = Changes::default()
            .of(node.switch.changes())
            .of(node.southbound.changes())
            .of(kernel.clone())
            .of(deletions.clone());
        Self {
            node,
            changes,
            kernel,
            deletions,
            checked: 0,
            programmed: None,
            problems: Vec::new(),
            warned: false,
        }
    }

    /// Replaces the table if it is not as it should be.
    async fn set_table(&mut self, table: &Table) -> anyhow::Result<()> {
        let deletions = *self.deletions.borrow();
        let nothing = table.is_empty() && self.programmed.as_ref() == Some(table);
        if !nothing && (self.programmed.is_none() || self.checked != deletions) {
            // Mostly it is as it was: another table was deleted, or an agent before this one has written it.
            let listing = nft::list_table(TABLE).await?;
            self.checked = deletions;
            let is_there = |table: &Table| match &listing {
                Some(listing) => !table.is_empty() && listing.contains(&table.fingerprint()),
                None => table.is_empty(),
            };
            self.programmed = self.programmed.take().into_iter().chain([table.clone()]).find(is_there);
        }
        if self.programmed.as_ref() == Some(table) {
            return Ok(());
        }
        // Taken, so that after a failure everything is written: nobody knows what is there then.
        let old = self.programmed.take();
        nft::run(format!("write table {TABLE}"), table.script()).await?;
        info!(ports = table.len(), "published ports changed");
        for port in table.moved_udp_ports(&old.unwrap_or_default()) {
            // UDP has no end of a connection: a client that goes on sending would stay with a pod that is gone.
            if let Err(error) = conntrack::forget_udp(port).await {
                warn!(port, %error, "clients of a UDP port may stay with its former pod until they pause");
            }
        }
        self.programmed = Some(table.clone());
        Ok(())
    }

    /// Lets packets from outside through to pods. IPv4 is forwarded by device. IPv6 is forwarded by device only where
    /// that does not make the node deaf to router advertisements; otherwise it is the node's own setting, not ours.
    fn set_forwarding(&mut self, table: &Table) -> anyhow::Result<()> {
        if table.has_family(true) {
            sysctl::set(&format!("ipv4/conf/{EXTERNAL_BRIDGE}/forwarding"), "1")?;
        }
        if table.has_family(false) {
            let setting = format!("ipv6/conf/{EXTERNAL_BRIDGE}/force_forwarding");
            sysctl::set(&setting, "1")?;
            let whole = || sysctl::read("ipv6/conf/all/forwarding");
            if !self.warned && sysctl::read(&setting)?.is_none() && whole()?.as_deref() == Some("0") {
                self.warned = true;
                warn!(
                    "this kernel forwards IPv6 only as a whole: set net.ipv6.conf.all.forwarding=1, or host ports are not served on IPv6"
                );
            }
        }
        Ok(())
    }

    /// Says what cannot be published, once for as long as it stays the same.
    fn report(&mut self, problems: Vec<String>) {
        if problems != self.problems {
            for problem in &problems {
                warn!(problem, "host port not published");
            }
            self.problems = problems;
        }
    }
}

impl Converge for Published {
    const NAME: &'static str = "published ports";
    type Inputs = Inputs;

    fn inputs(&self) -> Inputs {
        let port = Role::Management.port_of(&self.node.name);
        let (connected, interfaces) = self.node.switch.read(|state| {
            let publishing = state
                .interfaces()
                .filter(|(_, row)| row.external_ids.contains_key(external_id::HOST_PORTS));
            (state.connected, publishing.map(|(uuid, row)| (uuid, row.clone())).collect())
        });
        let management = self.node.southbound.read(|state| {
            let assignment = state.binding(&port)?.assignment.as_ref().ok()?;
            Some(assignment.addresses.iter().map(IpNet::addr).collect())
        });
        Inputs {
            connected,
            interfaces,
            management,
            kernel: *self.kernel.borrow(),
            deletions: *self.deletions.borrow(),
        }
    }

    async fn changed(&mut self) {
        self.changes.next().await;
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let Inputs {
            connected,
            interfaces,
            management,
            ..
        } = self.inputs();
        // Not known, or not any more: what is there stays as it is.
        let (true, Some(management)) = (connected, management) else {
            return Ok(());
        };
        let mut problems = Vec::new();
        let publishers: Vec<Publisher> = interfaces
            .values()
            .filter_map(|interface| publisher(interface).map_err(|problem| problems.push(problem)).ok())
            .collect();
        let (table, conflicts) = Table::plan(&publishers, &management);
        problems.extend(conflicts.iter().map(ToString::to_string));
        self.report(problems);

        // A packet from a loopback address leaves the host only where that is allowed. The table guards what this opens,
        // so it is there before, and goes after.
        let localnet = format!("ipv4/conf/{}/route_localnet", Role::Management.device());
        if !table.has_loopback() {
            sysctl::set(&localnet, "0")?;
        }
        self.set_table(&table).await?;
        if table.has_loopback() {
            sysctl::set(&localnet, "1")?;
        }
        self.set_forwarding(&table)?;
        let published: BTreeSet<Uuid> = interfaces.into_keys().collect();
        self.node.published.0.send_if_modified(|current| {
            let changed = *current != published;
            *current = published;
            changed
        });
        Ok(())
    }
}

/// Reads what ADD has recorded.
fn publisher(interface: &Interface) -> Result<Publisher, String> {
    let id = |key: &str| interface.external_ids.get(key).map_or("", String::as_str);
    let unreadable = |key: &str| {
        let name = &interface.name;
        format!(
            "external_ids:{key} of OVS interface {name} cannot be read: recreate the pod {}",
            id(external_id::POD)
        )
    };
    let recorded = serde_json::from_str(id(external_id::HOST_PORTS)).map_err(|_| unreadable(external_id::HOST_PORTS))?;
    let addresses = id(external_id::ADDRESSES).split(',').filter(|text| !text.is_empty());
    let addresses: Result<Vec<IpAddr>, _> = addresses.map(|text| text.parse::<IpNet>().map(|net| net.addr())).collect();
    Ok(Publisher {
        pod: id(external_id::POD).to_owned(),
        addresses: addresses.map_err(|_| unreadable(external_id::ADDRESSES))?,
        mappings: mapping::parse(&recorded).map_err(|_| unreadable(external_id::HOST_PORTS))?,
    })
}
