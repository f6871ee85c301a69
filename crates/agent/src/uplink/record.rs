//! The record of what br-ex carries for the node, in the `external_ids` of the bridge itself: vswitchd may make the
//! device anew, bare, and then nobody else knows. Pure: what is found on both links and the record in, what br-ex must
//! have out. Invariant: while something is moved the record holds all of it, and says that it is not complete.

use std::collections::BTreeMap;

use crate::net::link_config::LinkConfig;
use netloom_contract::external_id::{ADDRESSES, COMPLETE, ROUTES, UPLINK};

/// What the bridge's row says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The device whose belongings these are.
    pub uplink: String,
    /// What the node has on br-ex.
    pub belongings: LinkConfig,
    /// The boot it was written in.
    pub boot: String,
    /// The index of the br-ex that has it all; none while it is being moved.
    pub complete_on: Option<u32>,
}

impl Record {
    /// Reads it; none if there is none, or it cannot be read.
    pub fn read(ids: &BTreeMap<String, String>) -> Option<Self> {
        let complete = ids.get(COMPLETE)?;
        let (boot, index) = complete.split_once('/')?;
        Some(Self {
            uplink: ids.get(UPLINK)?.clone(),
            belongings: LinkConfig {
                addresses: serde_json::from_str(ids.get(ADDRESSES)?).ok()?,
                routes: serde_json::from_str(ids.get(ROUTES)?).ok()?,
            },
            boot: boot.to_owned(),
            complete_on: index.parse().ok(),
        })
    }

    /// The keys and values of the bridge's row.
    pub fn write(&self) -> serde_json::Result<BTreeMap<&'static str, String>> {
        let index = self.complete_on.map_or_else(|| "moving".to_owned(), |index| index.to_string());
        Ok(BTreeMap::from([
            (UPLINK, self.uplink.clone()),
            (ADDRESSES, serde_json::to_string(&self.belongings.addresses)?),
            (ROUTES, serde_json::to_string(&self.belongings.routes)?),
            (COMPLETE, format!("{}/{index}", self.boot)),
        ]))
    }
}

/// What br-ex must have: what it has, what is still (or again) on the uplink, and what the record says if this br-ex
/// never had it all. A record of an earlier boot says nothing: the node's own configuration has spoken since.
pub fn wanted(record: Option<&Record>, boot: &str, bridge: Option<u32>, on_bridge: &LinkConfig, on_uplink: &LinkConfig) -> LinkConfig {
    let recorded = record.filter(|record| record.boot == boot && (record.complete_on.is_none() || record.complete_on != bridge));
    let wanted = on_bridge.clone().union(on_uplink);
    match recorded {
        Some(record) => wanted.union(&record.belongings),
        None => wanted,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::net::link_config::LinkAddress;

    fn having(addresses: &[&str]) -> LinkConfig {
        let held = |address: &&str| LinkAddress {
            net: address.parse().unwrap(),
            broadcast: None,
            no_prefix_route: false,
            metric: None,
        };
        LinkConfig {
            addresses: addresses.iter().map(held).collect(),
            routes: Vec::new(),
        }
    }

    fn record(complete_on: Option<u32>) -> Record {
        Record {
            uplink: "eth0".to_owned(),
            belongings: having(&["192.0.2.1/24"]),
            boot: "b1".to_owned(),
            complete_on,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for record in [record(None), record(Some(7))] {
            let ids = record.write().unwrap();
            let ids = ids.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            assert_eq!(Record::read(&ids), Some(record));
        }
        assert_eq!(Record::read(&BTreeMap::new()), None);
    }

    #[test]
    fn a_bare_bridge_gets_back_what_the_old_one_had() {
        let (none, recorded) = (having(&[]), having(&["192.0.2.1/24"]));
        assert_eq!(wanted(Some(&record(Some(7))), "b1", Some(8), &none, &none), recorded);
        assert_eq!(wanted(Some(&record(None)), "b1", Some(7), &none, &none), recorded, "half way");
        assert_eq!(
            wanted(Some(&record(Some(7))), "b1", Some(7), &none, &none),
            none,
            "taken away by people"
        );
        assert_eq!(wanted(Some(&record(Some(7))), "b2", Some(8), &none, &none), none, "another boot");
    }

    #[test]
    fn what_comes_back_on_the_uplink_is_added() {
        let (old, new) = (having(&["192.0.2.1/24"]), having(&["192.0.2.9/24"]));
        let both = having(&["192.0.2.1/24", "192.0.2.9/24"]);
        assert_eq!(wanted(Some(&record(Some(7))), "b1", Some(7), &old, &new), both);
        assert_eq!(wanted(None, "b1", None, &having(&[]), &new), new);
    }
}
