//! The local Open vSwitch configuration as the agent sees it: bridges, ports and interfaces, typed and kept current by
//! [`Switch`](super::Switch). Pure: rows go in, questions are answered. The `external_ids` of an interface are the only
//! record of an attachment; there are no state files.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use netloom_contract::annotation::PREFIX;
use netloom_contract::external_id;
use netloom_ovsdb::{Datum, Row};
use uuid::Uuid;

use super::SwitchError;
use crate::cni::request::Sandbox;
use crate::mirror::Reflect;

/// An `Interface` row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The device's name.
    pub name: String,
    /// `internal`, `patch`, `geneve`…, or empty for a device of the system.
    pub kind: String,
    /// The OpenFlow port number; -1 if the switch could not open the device, none while it has not tried.
    pub ofport: Option<i64>,
    /// Why the switch could not open it.
    pub error: Option<String>,
    /// The peer of a patch port.
    pub peer: Option<String>,
    /// `external_ids`.
    pub external_ids: BTreeMap<String, String>,
}

impl Interface {
    /// The sandbox this interface was made for, if it is a pod's.
    pub fn sandbox(&self) -> Option<Sandbox> {
        let id = |key| self.external_ids.get(key).cloned();
        Some(Sandbox {
            container: id(external_id::SANDBOX)?,
            ifname: id(external_id::IFNAME)?,
        })
    }

    /// The CNI network configuration it was made for. An agent before 0.2 recorded it under another key.
    pub fn cni_network(&self) -> Option<&str> {
        let id = |key| self.external_ids.get(key).map(String::as_str);
        id(external_id::CNI_NETWORK).or_else(|| id(external_id::NETWORK))
    }

    /// Whether it carries this logical port.
    pub fn carries(&self, port: &str) -> bool {
        self.external_ids.get(external_id::IFACE_ID).is_some_and(|id| id == port)
    }

    /// Whether OVN has installed the port completely.
    pub fn installed(&self) -> bool {
        self.external_ids.get(external_id::INSTALLED).is_some_and(|value| value == "true")
    }
}

/// A `Port` row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its interfaces; one, unless it is a bond.
    pub interfaces: Vec<Uuid>,
}

/// A `Bridge` row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// Its name.
    pub name: String,
    /// `netdev` for the userspace datapath.
    pub datapath_type: String,
    /// Its ports.
    pub ports: Vec<Uuid>,
    /// Everything whose change makes the switch forget the bridge's flows, as text to compare.
    pub flow_policy: String,
    /// `fail_mode`, if it is set.
    pub fail_mode: Option<String>,
    /// `other_config`.
    pub other_config: BTreeMap<String, String>,
    /// The `external_ids` that are ours; OVN keeps many of its own here.
    pub external_ids: BTreeMap<String, String>,
}

/// The whole configuration.
#[derive(Clone, Debug, Default)]
pub struct SwitchState {
    /// Whether the rows below are current.
    pub connected: bool,
    /// Why not, for messages.
    pub disconnected_because: String,
    /// The one row of table `Open_vSwitch`; a database that nobody has used yet has none.
    pub root: Option<Uuid>,
    /// `Open_vSwitch.external_ids`.
    pub external_ids: BTreeMap<String, String>,
    /// `Open_vSwitch.other_config`.
    pub other_config: BTreeMap<String, String>,
    bridges: HashMap<Uuid, Arc<Bridge>>,
    ports: HashMap<Uuid, Arc<Port>>,
    interfaces: HashMap<Uuid, Arc<Interface>>,
}

impl Reflect for SwitchState {
    const DATABASE: &'static str = "local switch";

    fn clear(&mut self) {
        let (connected, reason) = (self.connected, std::mem::take(&mut self.disconnected_because));
        *self = Self {
            connected,
            disconnected_because: reason,
            ..Self::default()
        };
    }

    fn put(&mut self, table: &str, uuid: Uuid, row: Option<&Row>) {
        match table {
            "Open_vSwitch" => {
                self.root = row.map(|_| uuid);
                self.external_ids = row.map(|row| strings(row, "external_ids")).unwrap_or_default();
                self.other_config = row.map(|row| strings(row, "other_config")).unwrap_or_default();
            }
            "Bridge" => set(&mut self.bridges, uuid, row.map(bridge_of)),
            "Port" => set(&mut self.ports, uuid, row.map(port_of)),
            "Interface" => set(&mut self.interfaces, uuid, row.map(interface_of)),
            _ => {}
        }
    }

    fn set_connected(&mut self, connected: Result<(), String>) {
        self.connected = connected.is_ok();
        self.disconnected_because = connected.err().unwrap_or_default();
    }
}

impl SwitchState {
    /// Fails unless the rows are current: what is not there now may only not be known.
    pub fn check_connected(&self) -> Result<(), SwitchError> {
        if self.connected {
            Ok(())
        } else {
            Err(SwitchError::Disconnected(self.disconnected_because.clone()))
        }
    }

    /// The bridge of this name.
    pub fn bridge(&self, name: &str) -> Option<(Uuid, &Arc<Bridge>)> {
        self.bridges
            .iter()
            .find(|(_, bridge)| bridge.name == name)
            .map(|(uuid, bridge)| (*uuid, bridge))
    }

    /// Whether there is any bridge.
    pub fn has_bridges(&self) -> bool {
        !self.bridges.is_empty()
    }

    /// Whether `bridge` is in the userspace datapath.
    pub fn is_userspace(&self, bridge: &str) -> bool {
        self.bridge(bridge).is_some_and(|(_, bridge)| bridge.datapath_type == "netdev")
    }

    /// Whether the userspace datapath handles segmentation and checksums of its own.
    pub fn has_userspace_tso(&self) -> bool {
        self.other_config.get("userspace-tso-enable").is_some_and(|value| value == "true")
    }

    /// One interface.
    pub fn interface(&self, uuid: &Uuid) -> Option<&Arc<Interface>> {
        self.interfaces.get(uuid)
    }

    /// All interfaces.
    pub fn interfaces(&self) -> impl Iterator<Item = (Uuid, &Arc<Interface>)> {
        self.interfaces.iter().map(|(uuid, interface)| (*uuid, interface))
    }

    /// The interfaces of one bridge.
    pub fn interfaces_of<'a>(&'a self, bridge: &Bridge) -> impl Iterator<Item = &'a Arc<Interface>> {
        bridge
            .ports
            .iter()
            .filter_map(|port| self.ports.get(port))
            .flat_map(|port| &port.interfaces)
            .filter_map(|uuid| self.interfaces.get(uuid))
    }

    /// The interface of one sandbox.
    pub fn interface_of(&self, sandbox: &Sandbox) -> Option<(Uuid, &Arc<Interface>)> {
        self.interfaces()
            .find(|(_, interface)| interface.sandbox().as_ref() == Some(sandbox))
    }

    /// The ports that hold any of these interfaces: what must leave the bridge for them to go.
    pub fn ports_of(&self, interfaces: &[Uuid]) -> Vec<Uuid> {
        let holds = |port: &Arc<Port>| port.interfaces.iter().any(|uuid| interfaces.contains(uuid));
        self.ports.iter().filter(|(_, port)| holds(port)).map(|(uuid, _)| *uuid).collect()
    }
}

fn set<T>(table: &mut HashMap<Uuid, Arc<T>>, uuid: Uuid, value: Option<T>) {
    match value {
        Some(value) => drop(table.insert(uuid, Arc::new(value))),
        None => drop(table.remove(&uuid)),
    }
}

fn bridge_of(row: &Row) -> Bridge {
    Bridge {
        name: string(row, "name"),
        datapath_type: string(row, "datapath_type"),
        ports: uuids(row, "ports"),
        flow_policy: format!("{:?} {:?}", row.get("fail_mode"), row.get("controller")),
        fail_mode: row.get("fail_mode").and_then(Datum::as_str).map(str::to_owned),
        other_config: strings(row, "other_config"),
        external_ids: ours(row, "external_ids"),
    }
}

fn port_of(row: &Row) -> Port {
    Port {
        interfaces: uuids(row, "interfaces"),
    }
}

fn interface_of(row: &Row) -> Interface {
    Interface {
        name: string(row, "name"),
        kind: string(row, "type"),
        ofport: row.get("ofport").and_then(Datum::as_integer),
        error: row.get("error").and_then(Datum::as_str).map(str::to_owned),
        peer: row.get("options").and_then(|options| options.get("peer")).map(str::to_owned),
        external_ids: strings(row, "external_ids"),
    }
}

fn string(row: &Row, column: &str) -> String {
    row.get(column).and_then(Datum::as_str).unwrap_or_default().to_owned()
}

fn uuids(row: &Row, column: &str) -> Vec<Uuid> {
    row.get(column).map(|datum| datum.uuids().collect()).unwrap_or_default()
}

/// The pairs of a map whose keys are ours.
fn ours(row: &Row, column: &str) -> BTreeMap<String, String> {
    let mut pairs = strings(row, column);
    pairs.retain(|key, _| key.starts_with(PREFIX));
    pairs
}

/// A map of strings.
pub fn strings(row: &Row, column: &str) -> BTreeMap<String, String> {
    let pairs = row.get(column).and_then(Datum::as_map).into_iter().flat_map(|map| map.iter());
    pairs
        .filter_map(|(key, value)| Some((key.as_str()?.to_owned(), value.as_str()?.to_owned())))
        .collect()
}
