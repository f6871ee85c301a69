//! The Southbound database as far as it concerns this node: its chassis, the ports bound to it or requested for it, and
//! the load balancers of gateways, by a conditional monitor, so that a node's load does not grow with the cluster's pods.
//! CNI waits here for a pod's port. The condition on ports needs the chassis' identity, which changes when
//! ovn-controller registers anew; it follows that.

pub mod balancer;
pub mod claim;
#[cfg(test)]
mod shared;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use netloom_contract::balancer::OF_GATEWAYS;
use netloom_ovsdb::{Client, Condition, Datum, Event, Function, MonitorTable, Options, Remotes, Row, Tls};
use tokio::sync::mpsc;
use tracing::{info, warn};
use uuid::Uuid;

use crate::assignment::{Assignment, AssignmentError};
use crate::databases;
use crate::mirror::{Mirror, Reflect};
use crate::switch::state::strings;
use balancer::Balancer;
use claim::Claim;
use netloom_contract::{ServiceMode, external_id};

/// A logical port of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The logical port's name.
    pub logical_port: String,
    /// What was assigned to it, or why that cannot be used.
    pub assignment: Result<Assignment, AssignmentError>,
    /// On the node's service port: who serves services here.
    pub service_gateway: Option<ServiceMode>,
    /// On an announcer's port: what it announces.
    pub claim: Option<Claim>,
    /// The chassis that has it.
    chassis: Option<Uuid>,
}

/// What the Southbound database says about this node.
#[derive(Clone, Debug, Default)]
pub struct SouthboundState {
    /// Whether the rest is current.
    pub connected: bool,
    /// Why not, for messages.
    pub disconnected_because: String,
    /// This node's chassis.
    pub chassis: Option<Uuid>,
    /// Whether the ports of the chassis have been shown: before that, what is not there is only not known yet.
    pub ports_shown: bool,
    bindings: HashMap<Uuid, Arc<Binding>>,
    by_port: BTreeMap<String, Uuid>,
    balancers: HashMap<Uuid, Arc<Balancer>>,
    /// Grows when a balancer comes, goes or changes in what the agent reads of it.
    pub balancers_revision: u64,
}

impl SouthboundState {
    /// The load balancers of gateways.
    pub fn balancers(&self) -> impl Iterator<Item = &Arc<Balancer>> {
        self.balancers.values()
    }

    /// What this chassis has to announce, in a stable order.
    pub fn claims(&self) -> Vec<Claim> {
        let ours = self
            .bindings
            .values()
            .filter(|binding| binding.chassis.is_some() && binding.chassis == self.chassis);
        let mut claims: Vec<Claim> = ours.filter_map(|binding| binding.claim.clone()).collect();
        claims.sort_unstable();
        claims
    }

    /// The binding of a logical port.
    pub fn binding(&self, logical_port: &str) -> Option<&Arc<Binding>> {
        self.bindings.get(self.by_port.get(logical_port)?)
    }
}

impl Reflect for SouthboundState {
    const DATABASE: &'static str = "southbound database";

    fn clear(&mut self) {
        self.chassis = None;
        self.bindings.clear();
        self.by_port.clear();
        self.balancers.clear();
        self.balancers_revision += 1;
    }

    fn put(&mut self, table: &str, uuid: Uuid, row: Option<&Row>) {
        match (table, row) {
            ("Chassis", Some(_)) => self.chassis = Some(uuid),
            // A chassis that is replaced may be deleted after the new one was inserted.
            ("Chassis", None) if self.chassis == Some(uuid) => self.chassis = None,
            ("Port_Binding", Some(row)) => {
                let binding = binding_of(row);
                self.by_port.insert(binding.logical_port.clone(), uuid);
                self.bindings.insert(uuid, Arc::new(binding));
            }
            ("Port_Binding", None) => {
                if let Some(binding) = self.bindings.remove(&uuid)
                    && self.by_port.get(&binding.logical_port) == Some(&uuid)
                {
                    self.by_port.remove(&binding.logical_port);
                }
            }
            ("Load_Balancer", row) => self.put_balancer(uuid, row.and_then(Balancer::parse)),
            _ => {}
        }
    }

    fn set_connected(&mut self, connected: Result<(), String>) {
        self.connected = connected.is_ok();
        self.disconnected_because = connected.err().unwrap_or_default();
    }
}

impl SouthboundState {
    fn put_balancer(&mut self, uuid: Uuid, balancer: Option<Balancer>) {
        let changed = match balancer {
            Some(balancer) if self.balancers.get(&uuid).is_some_and(|old| **old == balancer) => false,
            Some(balancer) => {
                self.balancers.insert(uuid, Arc::new(balancer));
                true
            }
            None => self.balancers.remove(&uuid).is_some(),
        };
        self.balancers_revision += u64::from(changed);
    }
}

fn binding_of(row: &Row) -> Binding {
    let mac: Vec<&str> = row.get("mac").map(|mac| mac.strings().collect()).unwrap_or_default();
    let logical_port = row.get("logical_port").and_then(Datum::as_str).unwrap_or_default().to_owned();
    let ids = strings(row, "external_ids");
    Binding {
        assignment: Assignment::parse(&mac, &ids),
        service_gateway: ids.get(external_id::SERVICE_GATEWAY).and_then(|mode| ServiceMode::parse(mode)),
        claim: Claim::parse(&logical_port, &mac),
        chassis: row.get("chassis").and_then(Datum::as_uuid),
        logical_port,
    }
}

/// The watch on the Southbound database.
#[derive(Debug, Default)]
pub struct Southbound {
    mirror: Mirror<SouthboundState>,
}

impl std::ops::Deref for Southbound {
    type Target = Mirror<SouthboundState>;

    fn deref(&self) -> &Self::Target {
        &self.mirror
    }
}

impl Southbound {
    /// Connects as soon as there are servers; the future follows them and the database, and ends only if the client does.
    pub fn start(node: &str, servers: databases::Southbound, tls: Option<Tls>) -> (Arc<Self>, impl Future<Output = anyhow::Error> + use<>) {
        let southbound = Arc::new(Self::default());
        (southbound.clone(), follow(southbound, node.to_owned(), servers, tls))
    }

    /// Takes over what the client says; when the chassis is another, shows its ports, and only those.
    fn take(&self, event: Event, client: &Client, watched: &mut Option<Uuid>, shown: &mpsc::UnboundedSender<()>) {
        self.apply(event);
        let chassis = self.read(|state| state.chassis);
        let Some(chassis) = chassis.filter(|chassis| *watched != Some(*chassis)) else {
            return;
        };
        *watched = Some(chassis);
        let (client, shown) = (client.clone(), shown.clone());
        let of = |column: &str| Condition::new(column, Function::Equal, chassis);
        let condition = vec![of("requested_chassis"), of("chassis")];
        info!(%chassis, "watching the ports of this chassis");
        // Not awaited here: it returns when the replica shows the rows, which is our own doing.
        tokio::spawn(async move {
            match client.set_condition("Port_Binding", condition).await {
                Ok(()) => drop(shown.send(())),
                Err(error) => warn!(%error, "cannot watch the ports of this chassis"),
            }
        });
    }
}

fn options(node: &str, remotes: Remotes, tls: Option<Tls>) -> Options {
    let columns = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let mut options = Options::new(remotes, "OVN_Southbound");
    options.tls = tls;
    options.monitor = vec![
        MonitorTable {
            table: "Chassis".to_owned(),
            columns: columns(&["name"]),
            condition: vec![Condition::equal("name", node)],
        },
        MonitorTable {
            table: "Port_Binding".to_owned(),
            // The chassis columns are for the condition that follows.
            columns: columns(&["logical_port", "mac", "external_ids", "requested_chassis", "chassis"]),
            condition: vec![Condition::Constant(false)],
        },
        MonitorTable {
            table: "Load_Balancer".to_owned(),
            columns: columns(&["protocol", "vips", "options"]),
            // Those of gateways: the others are many, large, and concern no node's agent.
            condition: vec![Condition::includes("options", Datum::map([OF_GATEWAYS]))],
        },
    ];
    options
}

async fn follow(southbound: Arc<Southbound>, node: String, mut servers: databases::Southbound, tls: Option<Tls>) -> anyhow::Error {
    let (client, mut events) = Client::start(options(&node, servers.remotes().await, tls));
    let (shown, mut ports_shown) = mpsc::unbounded_channel();
    let mut watched = None;
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => southbound.take(event, &client, &mut watched, &shown),
                None => return anyhow::anyhow!("the client of the southbound database ended"),
            },
            Some(()) = ports_shown.recv() => {
                // The client has said so, but we may not have listened yet.
                while let Some(event) = events.try_recv() {
                    southbound.take(event, &client, &mut watched, &shown);
                }
                southbound.note(|state| state.ports_shown = true);
            }
            () = servers.changed() => client.set_remotes(servers.remotes().await),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(port: &str, uid: &str) -> Row {
        Row::from([
            ("logical_port".to_owned(), Datum::string(port)),
            ("mac".to_owned(), Datum::string("0a:00:00:00:00:01 10.0.0.1")),
            ("external_ids".to_owned(), Datum::map([(external_id::UID, uid)])),
        ])
    }

    fn uid(state: &SouthboundState) -> Option<String> {
        state
            .binding("a:b")
            .and_then(|binding| binding.assignment.as_ref().unwrap().uid.clone())
    }

    #[test]
    fn a_recreated_port_survives_the_late_deletion_of_the_old_one() {
        let mut state = SouthboundState::default();
        let (old, new) = (Uuid::new_v4(), Uuid::new_v4());
        state.put("Port_Binding", old, Some(&row("a:b", "u1")));
        state.put("Port_Binding", new, Some(&row("a:b", "u2")));
        state.put("Port_Binding", old, None);
        assert_eq!(uid(&state).as_deref(), Some("u2"));
        state.put("Port_Binding", new, None);
        assert_eq!(uid(&state), None);
    }

    #[test]
    fn a_replaced_chassis_is_followed() {
        let mut state = SouthboundState::default();
        let (old, new) = (Uuid::new_v4(), Uuid::new_v4());
        state.put("Chassis", old, Some(&Row::new()));
        state.put("Chassis", new, Some(&Row::new()));
        state.put("Chassis", old, None);
        assert_eq!(state.chassis, Some(new));
    }
}
