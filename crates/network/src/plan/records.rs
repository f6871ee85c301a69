//! The choices the rows of a database record, read back.

use ipnet::IpNet;
use netloom_ovsdb::{Row, Table};

use crate::cluster::{Namespaced, PodName};
use crate::ipam::{Assignment, Attachment, External, Mac, Records};
use crate::key::{self, KEY};
use crate::northbound::Northbound;
use crate::rows::{LogicalRouter, LogicalSwitch, LogicalSwitchPort};

/// The choices the rows of a database record.
pub fn read_records(observed: &Northbound) -> Records {
    let mut records = Records::default();
    let text = |row: &Row, name: &str| Some(row.get("external_ids")?.get(name)?.to_owned());
    let rows = |table: &'static str| observed.rows().filter(move |(id, _)| id.table == table).map(|(_, row)| row);
    records.settings = rows(LogicalRouter::TABLE).find_map(|row| text(row, key::SETTINGS)?.parse().ok());
    for row in rows(LogicalSwitch::TABLE) {
        let node = text(row, KEY).and_then(|key| key.strip_prefix("switch/node/").map(str::to_owned));
        if let (Some(node), Some(slot)) = (node, text(row, key::SLOT).and_then(|slot| slot.parse().ok())) {
            records.record_node(&node, slot);
        }
    }
    for row in rows(LogicalSwitchPort::TABLE) {
        if let Some((pod, uid, mac, addresses)) = read_port(row, &text) {
            addresses.iter().for_each(|used| records.resume(*used));
            let assignment = Assignment {
                uid,
                mac,
                addresses: addresses.iter().map(IpNet::addr).collect(),
                attachment: read_attachment(row, &text),
            };
            assignment
                .attachment
                .iter()
                .for_each(|attachment| records.resume_in_network(attachment));
            records.record_pod(&pod, assignment);
        }
    }
    for row in rows(LogicalRouter::TABLE) {
        if let Some((service, external)) = read_announcer(row, &text) {
            records.record_external(&service, external);
        }
        let network = text(row, KEY).and_then(|key| key.strip_prefix("router/network/").map(str::to_owned));
        if let (Some(network), Some(slot)) = (network, text(row, key::SLOT).and_then(|slot| slot.parse().ok())) {
            records.record_network(&network, slot);
            let spec = text(row, key::SPEC).and_then(|spec| serde_json::from_str(&spec).ok());
            spec.iter().for_each(|spec| records.record_network_spec(&network, spec));
        }
    }
    records
}

fn read_announcer(row: &Row, text: &impl Fn(&Row, &str) -> Option<String>) -> Option<(Namespaced, External)> {
    let key = text(row, KEY)?;
    let (namespace, name) = key.strip_prefix("announcer/")?.split_once('/')?;
    let service = Namespaced {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let addresses = text(row, key::ADDRESSES)?;
    let addresses = addresses.split(',').filter_map(|ip| Some(ip.parse::<IpNet>().ok()?.addr()));
    let external = External {
        uid: text(row, key::UID)?,
        addresses: addresses.collect(),
    };
    Some((service, external))
}

fn read_attachment(row: &Row, text: &impl Fn(&Row, &str) -> Option<String>) -> Option<Attachment> {
    Some(Attachment {
        network: text(row, key::NETWORK)?,
        addresses: text(row, key::NETWORK_ADDRESSES)?
            .split(',')
            .filter_map(|ip| ip.parse().ok())
            .collect(),
    })
}

fn read_port(row: &Row, text: &impl Fn(&Row, &str) -> Option<String>) -> Option<(PodName, String, Mac, Vec<IpNet>)> {
    let uid = text(row, key::UID)?;
    let pod = PodName::of_port(row.get("name")?.as_str()?)?;
    let mac = row.get("addresses")?.as_str()?.split(' ').next()?.parse().ok()?;
    let addresses = text(row, key::ADDRESSES)?.split(',').filter_map(|ip| ip.parse().ok()).collect();
    Some((pod, uid, mac, addresses))
}
