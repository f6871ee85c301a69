//! Ports of machines that are no pods: virtual machines, and machines outside that are plugged into a node. A `Port` is to the network
//! what a pod is: it is kept among the pods, under a name that none of them can have.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netloom_contract::name::{machine, machine_of};
use serde::{Deserialize, Serialize};

use crate::annotations::{ADDRESSES, MAC, NETWORK_ADDRESSES};
use crate::cluster::{NamedPort, Namespaced, Pod, PodName};
use crate::service::Protocol;

/// What a user writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortSpec {
    /// Node it is plugged into.
    pub node: String,
    /// Ethernet address of the machine; one is made up if missing.
    pub mac: Option<String>,
    /// Addresses it asks for.
    pub addresses: Vec<String>,
    /// What the machine serves, by name, for policies that speak of named ports.
    pub ports: Vec<Served>,
}

/// A port the machine serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Served {
    /// Name.
    pub name: String,
    /// Protocol, TCP if missing.
    pub protocol: String,
    /// Number.
    pub port: i64,
}

/// What the machine has to be told, and what its port is called. From here its addresses are found again when the database is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortStatus {
    /// The `iface-id` of the interface that is plugged in.
    #[serde(rename = "interfaceID")]
    pub interface_id: String,
    /// Ethernet address; frames from another are dropped.
    pub mac: String,
    /// Addresses and their prefix.
    pub addresses: Vec<String>,
    /// Addresses in the `Network` it is on, and their prefix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_addresses: Vec<String>,
    /// Default gateways.
    pub gateways: Vec<String>,
}

impl Namespaced {
    /// The name a `Port` has among the pods.
    pub fn of_machine(self) -> PodName {
        let Self { namespace, name } = self;
        let name = machine(&name);
        PodName { namespace, name }
    }

    /// The name of the `Port`, if this is that of one.
    pub fn machine(&self) -> Option<&str> {
        machine_of(&self.name)
    }
}

/// A `Port` as the pod that it is to the network.
pub fn as_pod(
    uid: String,
    mut annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    spec: PortSpec,
    status: &PortStatus,
) -> Pod {
    annotations.extend(spec.mac.map(|mac| (MAC.to_owned(), mac)));
    if !spec.addresses.is_empty() {
        annotations.insert(ADDRESSES.to_owned(), spec.addresses.join(","));
    }
    let plain = |addresses: &[String]| -> Vec<IpAddr> {
        let addresses = addresses.iter().filter_map(|text| text.parse::<IpNet>().ok());
        addresses.map(|address| address.addr()).collect()
    };
    // A pod says this in its annotation; the status of other kinds is written without one.
    let given = plain(&status.network_addresses);
    if !given.is_empty() {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        annotations.insert(NETWORK_ADDRESSES.to_owned(), given.join(","));
    }
    let served = spec.ports.into_iter().filter_map(|port| {
        Some(NamedPort {
            protocol: Protocol::parse(&port.protocol)?,
            number: u16::try_from(port.port).ok()?,
            name: port.name,
        })
    });
    Pod {
        uid,
        node: Some(spec.node).filter(|node| !node.is_empty()),
        annotations,
        labels,
        ports: served.collect(),
        addresses: plain(&status.addresses),
        ..Pod::default()
    }
}
