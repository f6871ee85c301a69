//! Which cluster addresses and node ports are taken, and by which Service. Kept up from the store's own changes and built
//! anew from its objects when they are not enough, so it is never a record of its own that could be wrong; only faster to
//! ask. Whoever gives something out holds the lock around it from catching up until the write.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde_json::Value;

use crate::{
    json, node_ports,
    store::{Change, Key, Store},
};

const SERVICES: &str = "services";

/// What is taken.
#[derive(Default)]
pub(crate) struct Taken {
    revision: u64,
    services: BTreeMap<Key, Holdings>,
    addresses: BTreeMap<IpAddr, BTreeSet<Key>>,
    ports: BTreeMap<i64, BTreeSet<Key>>,
}

#[derive(Default)]
struct Holdings {
    addresses: Vec<IpAddr>,
    ports: Vec<i64>,
}

impl Taken {
    /// Takes in what changed in the store since the last time.
    pub(crate) fn catch_up(&mut self, store: &Store) {
        match store.changes(SERVICES, self.revision) {
            Ok(events) => {
                for event in events {
                    self.revision = event.revision;
                    let key = key_of(&event.object.value);
                    self.release(&key);
                    if event.change != Change::Deleted {
                        self.hold(key, &event.object.value);
                    }
                }
            }
            Err(_) => {
                let (objects, revision) = store.list(SERVICES, None);
                *self = Taken {
                    revision,
                    ..Taken::default()
                };
                for object in objects {
                    self.hold(key_of(&object.value), &object.value);
                }
            }
        }
    }

    /// Whether a Service other than this one has the address.
    pub(crate) fn address(&self, address: &IpAddr, own: &Key) -> bool {
        self.addresses
            .get(address)
            .is_some_and(|owners| owners.iter().any(|owner| owner != own))
    }

    /// Whether a Service other than this one has the node port.
    pub(crate) fn port(&self, port: i64, own: &Key) -> bool {
        self.ports.get(&port).is_some_and(|owners| owners.iter().any(|owner| owner != own))
    }

    fn hold(&mut self, key: Key, service: &Value) {
        let addresses = json::list(service, "/spec/clusterIPs").iter().filter_map(Value::as_str);
        let holdings = Holdings {
            addresses: addresses.filter_map(|address| address.parse().ok()).collect(),
            ports: node_ports::of(service),
        };
        for address in &holdings.addresses {
            self.addresses.entry(*address).or_default().insert(key.clone());
        }
        for port in &holdings.ports {
            self.ports.entry(*port).or_default().insert(key.clone());
        }
        self.services.insert(key, holdings);
    }

    fn release(&mut self, key: &Key) {
        let holdings = self.services.remove(key).unwrap_or_default();
        for address in holdings.addresses {
            release_one(&mut self.addresses, &address, key);
        }
        for port in holdings.ports {
            release_one(&mut self.ports, &port, key);
        }
    }
}

fn release_one<T: Ord>(taken: &mut BTreeMap<T, BTreeSet<Key>>, what: &T, key: &Key) {
    if let Some(owners) = taken.get_mut(what) {
        owners.remove(key);
        if owners.is_empty() {
            taken.remove(what);
        }
    }
}

/// The key of an object.
pub(crate) fn key_of(object: &Value) -> Key {
    (json::namespace(object).to_owned(), json::name(object).to_owned())
}
