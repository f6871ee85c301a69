//! The choices the rows of a database record, read back.

use netloom_contract::external_id::{self, KEY};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netloom_ovsdb::{Row, Table};

use crate::cluster::Namespaced;
use crate::custom_network;
use crate::facts::Changes;
use crate::ipam::{Assignment, Attachment, External, Mac, NetworkRecord, PortName, Records};
use crate::northbound::{Northbound, RowId};
use crate::rows::{LogicalRouter, LogicalSwitch, LogicalSwitchPort};

/// The choices the rows of a database record. Of two that contradict each other, which only a database that others wrote to can have, the
/// first counts.
pub fn read_records(observed: &Northbound) -> Records {
    let (mut records, mut changes) = (Records::default(), Changes::default());
    let text = |row: &Row, name: &str| Some(row.get("external_ids")?.get(name)?.to_owned());
    let mut rows: Vec<(&RowId, &Arc<Row>)> = observed.rows().collect();
    rows.sort_unstable_by_key(|(id, _)| **id);
    let rows = |table: &'static str| rows.iter().filter(move |(id, _)| id.table == table).map(|(_, row)| &***row);
    let settings = rows(LogicalRouter::TABLE).find_map(|row| text(row, external_id::SETTINGS)?.parse().ok());
    records.set_settings(settings, &mut changes);
    for row in rows(LogicalSwitch::TABLE) {
        let node = text(row, KEY).and_then(|key| key.strip_prefix("switch/node/").map(str::to_owned));
        if let (Some(node), Some(slot)) = (node, text(row, external_id::SLOT).and_then(|slot| slot.parse().ok()))
            && !records.slot_holders.contains_key(&slot)
        {
            records.set_slot(&node, Some(slot), &mut changes);
        }
    }
    for row in rows(LogicalRouter::TABLE) {
        if let Some((service, external)) = read_announcer(row, &text) {
            records.set_external(&service, Some(external), &mut changes);
        }
        if let Some((name, network)) = read_network(row, &text)
            && !records.network_slots.contains_key(&network.slot)
        {
            records.set_network(&name, Some(network), &mut changes);
        }
    }
    for row in rows(LogicalSwitchPort::TABLE) {
        if let Some((port, assignment)) = read_port(row, &text)
            && !records.conflicts(&port, &assignment)
        {
            records.set_port(&port, Some(assignment), &mut changes);
        }
    }
    records.resume();
    records
}

fn read_network(row: &Row, text: &impl Fn(&Row, &str) -> Option<String>) -> Option<(String, NetworkRecord)> {
    let name = text(row, KEY)?.strip_prefix("router/network/")?.to_owned();
    let spec = serde_json::from_str(&text(row, external_id::SPEC)?).ok()?;
    let read = Arc::new(custom_network::read(&spec).ok()?);
    let slot = text(row, external_id::SLOT)?.parse().ok()?;
    Some((name, NetworkRecord { slot, spec, read }))
}

fn read_announcer(row: &Row, text: &impl Fn(&Row, &str) -> Option<String>) -> Option<(Namespaced, External)> {
    let key = text(row, KEY)?;
    let (namespace, name) = key.strip_prefix("announcer/")?.split_once('/')?;
    let service = Namespaced {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let addresses = text(row, external_id::ADDRESSES)?;
    let addresses = addresses.split(',').filter_map(|ip| Some(ip.parse::<IpNet>().ok()?.addr()));
    let addresses: Vec<IpAddr> = addresses.collect();
    let derived = || Mac::announcers(*addresses.first()?).next();
    let external = External {
        uid: text(row, external_id::UID)?,
        mac: text(row, external_id::MAC).and_then(|mac| mac.parse().ok()).or_else(derived)?,
        addresses,
    };
    Some((service, external))
}

fn read_attachment(row: &Row, text: &impl Fn(&Row, &str) -> Option<String>) -> Option<Attachment> {
    Some(Attachment {
        network: text(row, external_id::NETWORK)?,
        addresses: text(row, external_id::NETWORK_ADDRESSES)?
            .split(',')
            .filter_map(|ip| ip.parse().ok())
            .collect(),
    })
}

fn read_port(row: &Row, text: &impl Fn(&Row, &str) -> Option<String>) -> Option<(PortName, Assignment)> {
    let addresses = text(row, external_id::ADDRESSES)?;
    let addresses = addresses.split(',').filter_map(|ip| ip.parse().ok());
    let assignment = Assignment {
        uid: text(row, external_id::UID)?,
        node: row.get("options")?.get("requested-chassis")?.to_owned(),
        mac: row.get("addresses")?.as_str()?.split(' ').next()?.parse().ok()?,
        addresses: addresses.map(|ip: IpNet| ip.addr()).collect(),
        attachment: read_attachment(row, text),
    };
    Some((PortName::parse(row.get("name")?.as_str()?)?, assignment))
}
