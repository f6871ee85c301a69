//! The local Open vSwitch: a typed replica of its configuration that can be waited on, and what the agent does to it:
//! plugging, unplugging and changes that others compute from the replica. Writes happen one at a time and each waits until the replica shows it, so a
//! decision taken from the replica is never taken from an outdated one: no logical port ever has two interfaces.

pub mod state;

use std::sync::Arc;
use std::time::Duration;

use netloom_ovsdb::{Client, Datum, Events, MonitorTable, Mutation, Operation, Options, Remotes, Row, TransactError, Transaction};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::mirror::Mirror;
use netloom_contract::external_id;

pub use state::{Interface, SwitchState};

/// How long a request waits for a database that should be there already.
pub const GRACE: Duration = Duration::from_secs(5);

/// Why a change of the switch's configuration failed.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is no connection to the local database.
    #[error("the agent is not connected to the local Open vSwitch database ({0})")]
    Disconnected(String),
    /// The bridge does not exist.
    #[error("bridge {0} does not exist in Open vSwitch")]
    NoBridge(String),
    /// The database refused, or the connection was lost on the way.
    #[error("cannot {operation} in Open vSwitch: {cause}")]
    Transact {
        /// Verb and object.
        operation: String,
        /// What the database said.
        cause: TransactError,
    },
}

/// An interface to be plugged into a bridge.
#[derive(Clone, Debug)]
pub struct Plug {
    /// The device's name.
    pub device: String,
    /// Whether the switch makes the device itself.
    pub internal: bool,
    /// Whether a row that already says exactly this may stay; otherwise it is replaced.
    pub keep_existing: bool,
    /// What the row says about itself; must include `iface-id`.
    pub external_ids: Vec<(&'static str, String)>,
}

/// What plugging did.
#[derive(Clone, Debug)]
pub struct Plugged {
    /// The interface's row.
    pub interface: Uuid,
    /// Other devices that had carried the logical port and were unplugged.
    pub replaced: Vec<String>,
}

/// The local switch.
#[derive(Debug)]
pub struct Switch {
    client: Client,
    mirror: Mirror<SwitchState>,
    writing: Mutex<()>,
}

impl std::ops::Deref for Switch {
    type Target = Mirror<SwitchState>;

    fn deref(&self) -> &Self::Target {
        &self.mirror
    }
}

impl Switch {
    /// Connects; the future follows the database and ends only if the client does.
    pub fn start(remotes: Remotes) -> (Arc<Self>, impl Future<Output = anyhow::Error>) {
        let mut options = Options::new(remotes, "Open_vSwitch");
        options.monitor = vec![
            table("Open_vSwitch", &["external_ids", "other_config"]),
            table(
                "Bridge",
                &[
                    "name",
                    "datapath_type",
                    "ports",
                    "fail_mode",
                    "controller",
                    "other_config",
                    "external_ids",
                ],
            ),
            table("Port", &["name", "interfaces"]),
            table("Interface", &["name", "type", "ofport", "error", "options", "external_ids"]),
        ];
        let (client, events) = Client::start(options);
        let switch = Arc::new(Self {
            client,
            mirror: Mirror::default(),
            writing: Mutex::new(()),
        });
        (switch.clone(), follow(switch, events))
    }

    /// Waits until the replica is current, but not for long: an agent that has just started is about to connect.
    pub async fn connected(&self) -> Result<(), SwitchError> {
        let connected = self.until(|state| state.connected.then_some(()));
        match tokio::time::timeout(GRACE, connected).await {
            Ok(()) => Ok(()),
            Err(_) => self.read(SwitchState::check_connected),
        }
    }

    /// Plugs an interface in one transaction that also removes whatever had its name or its logical port before.
    pub async fn plug(&self, bridge: &str, plug: Plug) -> Result<Plugged, SwitchError> {
        let _writing = self.writing.lock().await;
        let (transaction, plugged) = self.read(|state| plan_plug(state, bridge, &plug))?;
        if !transaction.is_empty() {
            self.transact(format!("plug {} into {bridge}", plug.device), transaction).await?;
        }
        self.until(|state| state.interface(&plugged.interface).map(drop)).await;
        Ok(plugged)
    }

    /// Unplugs every interface that `matches`, in one transaction; returns the names of their devices.
    pub async fn unplug(&self, matches: impl Fn(&Uuid, &Interface) -> bool) -> Result<Vec<String>, SwitchError> {
        let _writing = self.writing.lock().await;
        let (transaction, interfaces, names) = self.read(|state| {
            state.check_connected()?;
            let found = state.interfaces().filter(|(uuid, interface)| matches(uuid, interface));
            let (uuids, names): (Vec<Uuid>, Vec<String>) = found.map(|(uuid, row)| (uuid, row.name.clone())).unzip();
            let ports = state.ports_of(&uuids);
            Ok::<_, SwitchError>((remove_ports(&ports), uuids, names))
        })?;
        if names.is_empty() {
            return Ok(names);
        }
        self.transact(format!("unplug {}", names.join(", ")), transaction).await?;
        self.until(|state| interfaces.iter().all(|uuid| state.interface(uuid).is_none()).then_some(()))
            .await;
        Ok(names)
    }

    /// Makes a change that `plan` computes from what is there, until there is nothing left to change.
    pub async fn change(&self, operation: &str, plan: impl Fn(&SwitchState) -> Transaction) -> Result<bool, SwitchError> {
        let _writing = self.writing.lock().await;
        let transaction = self.read(|state| state.check_connected().map(|()| plan(state)))?;
        if transaction.is_empty() {
            return Ok(false);
        }
        self.transact(operation.to_owned(), transaction).await?;
        // Somebody else may undo it at once: then the next change is the next attempt.
        let shown = self.until(|state| (!state.connected || plan(state).is_empty()).then_some(()));
        let _ = tokio::time::timeout(GRACE, shown).await;
        Ok(true)
    }

    async fn transact(&self, operation: String, transaction: Transaction) -> Result<(), SwitchError> {
        match self.client.transact(transaction).await {
            Ok(_) => Ok(()),
            Err(cause) => Err(SwitchError::Transact { operation, cause }),
        }
    }
}

/// The transaction that makes the switch carry `plug`, empty if it already does.
fn plan_plug(state: &SwitchState, bridge: &str, plug: &Plug) -> Result<(Transaction, Plugged), SwitchError> {
    state.check_connected()?;
    let (bridge_uuid, _) = state.bridge(bridge).ok_or_else(|| SwitchError::NoBridge(bridge.to_owned()))?;
    let logical_port = plug.external_ids.iter().find(|(key, _)| *key == external_id::IFACE_ID);
    let conflicts = |row: &Interface| row.name == plug.device || logical_port.is_some_and(|(_, port)| row.carries(port));
    let (mut stale, mut replaced) = (Vec::new(), Vec::new());
    let mut kept = None;
    for (uuid, row) in state.interfaces().filter(|(_, row)| conflicts(row)) {
        if plug.keep_existing && kept.is_none() && row.name == plug.device && says(row, plug) {
            kept = Some(uuid);
            continue;
        }
        stale.push(uuid);
        if row.name != plug.device {
            replaced.push(row.name.clone());
        }
    }
    let mut transaction = remove_ports(&state.ports_of(&stale));
    let interface = kept.unwrap_or_else(Uuid::new_v4);
    if kept.is_none() {
        let port = Uuid::new_v4();
        let mut row = Row::from([
            ("name".to_owned(), Datum::string(&plug.device)),
            (
                "external_ids".to_owned(),
                Datum::map(plug.external_ids.iter().map(|(key, value)| (*key, value.as_str()))),
            ),
        ]);
        if plug.internal {
            row.insert("type", Datum::string("internal"));
        }
        transaction.push(Operation::insert("Interface", interface, row));
        let row = Row::from([
            ("name".to_owned(), Datum::string(&plug.device)),
            ("interfaces".to_owned(), Datum::uuid(interface)),
        ]);
        transaction.push(Operation::insert("Port", port, row));
        transaction.push(Operation::mutate(
            "Bridge",
            bridge_uuid,
            vec![Mutation::insert("ports", Datum::uuid(port))],
        ));
    }
    Ok((transaction, Plugged { interface, replaced }))
}

/// Takes ports off whichever bridge has them; the server then forgets them and their interfaces.
fn remove_ports(ports: &[Uuid]) -> Transaction {
    if ports.is_empty() {
        return Transaction::new();
    }
    let mutation = Mutation::delete("ports", Datum::set(ports.iter().copied()));
    Transaction::from(Operation::Mutate {
        table: "Bridge".to_owned(),
        where_: Vec::new(),
        mutations: vec![mutation],
    })
}

/// Whether a row already says everything `plug` wants it to.
fn says(row: &Interface, plug: &Plug) -> bool {
    let kind = if plug.internal { "internal" } else { "" };
    row.kind == kind
        && plug
            .external_ids
            .iter()
            .all(|(key, value)| row.external_ids.get(*key) == Some(value))
}

fn table(name: &str, columns: &[&str]) -> MonitorTable {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    MonitorTable {
        table: name.to_owned(),
        columns: Some(columns),
        condition: Vec::new(),
    }
}

async fn follow(switch: Arc<Switch>, mut events: Events) -> anyhow::Error {
    while let Some(event) = events.recv().await {
        switch.apply(event);
    }
    anyhow::anyhow!("the client of the local switch ended")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]
    use super::*;
    use crate::mirror::Reflect as _;

    fn state(interfaces: &[(&str, &str, &str)]) -> SwitchState {
        let mut state = SwitchState::default();
        state.connected = true;
        let mut ports = Vec::new();
        for (name, logical_port, sandbox) in interfaces {
            let (interface, port) = (Uuid::new_v4(), Uuid::new_v4());
            let ids = Datum::map([(external_id::IFACE_ID, *logical_port), (external_id::SANDBOX, *sandbox)]);
            let row = Row::from([("name".to_owned(), Datum::string(name)), ("external_ids".to_owned(), ids)]);
            state.put("Interface", interface, Some(&row));
            let row = Row::from([("interfaces".to_owned(), Datum::uuid(interface))]);
            state.put("Port", port, Some(&row));
            ports.push(port);
        }
        let row = Row::from([
            ("name".to_owned(), Datum::string("br-int")),
            ("ports".to_owned(), Datum::set(ports)),
        ]);
        state.put("Bridge", Uuid::new_v4(), Some(&row));
        state
    }

    fn plug(device: &str, port: &str, sandbox: &str, keep_existing: bool) -> Plug {
        let external_ids = vec![(external_id::IFACE_ID, port.to_owned()), (external_id::SANDBOX, sandbox.to_owned())];
        Plug {
            device: device.to_owned(),
            internal: false,
            keep_existing,
            external_ids,
        }
    }

    #[test]
    fn a_new_port_is_three_operations() {
        let (transaction, plugged) = plan_plug(&state(&[]), "br-int", &plug("nl1", "a:b", "s1", false)).unwrap();
        assert_eq!(transaction.len(), 3, "{transaction}");
        assert!(plugged.replaced.is_empty());
    }

    #[test]
    fn an_older_interface_of_the_same_logical_port_is_replaced() {
        let state = state(&[("nl1", "a:b", "s1"), ("nl2", "a:c", "s2")]);
        let (transaction, plugged) = plan_plug(&state, "br-int", &plug("nl3", "a:b", "s3", false)).unwrap();
        assert_eq!(plugged.replaced, ["nl1"]);
        assert_eq!(transaction.len(), 4, "{transaction}");
    }

    #[test]
    fn a_row_that_says_the_same_stays_only_if_asked() {
        let state = state(&[("nl1", "a:b", "s1")]);
        let (transaction, _) = plan_plug(&state, "br-int", &plug("nl1", "a:b", "s1", true)).unwrap();
        assert!(transaction.is_empty(), "{transaction}");
        let (transaction, plugged) = plan_plug(&state, "br-int", &plug("nl1", "a:b", "s1", false)).unwrap();
        assert_eq!(transaction.len(), 4, "{transaction}");
        assert!(plugged.replaced.is_empty(), "its device has the same name and was just made");
    }

    #[test]
    fn nothing_is_decided_without_a_connection_or_bridge() {
        let mut state = state(&[]);
        assert!(matches!(
            plan_plug(&state, "br-x", &plug("n", "p", "s", false)),
            Err(SwitchError::NoBridge(_))
        ));
        state.connected = false;
        assert!(matches!(
            plan_plug(&state, "br-int", &plug("n", "p", "s", false)),
            Err(SwitchError::Disconnected(_))
        ));
    }
}
