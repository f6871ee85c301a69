//! Who has an address, anywhere in the cluster: every logical port with a device, by its addresses. Watched from the first verdict on, because
//! a node that logs nothing has no use for it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use netloom_contract::name::node_of_management_port;
use netloom_ovsdb::{Client, Condition, Datum, MonitorTable, Options, Row, Tls, Uuid};
use tracing::error;

use crate::databases::Southbound;
use crate::mirror::{Mirror, Reflect};

/// The watch.
pub struct Names(Arc<Mirror<Ports>>);

#[derive(Debug, Default)]
struct Ports {
    shown: bool,
    ports: HashMap<Uuid, (String, Vec<IpAddr>)>,
    by_address: HashMap<IpAddr, Uuid>,
}

impl Names {
    pub fn watch(servers: Southbound, tls: Option<Tls>) -> Self {
        let mirror = Arc::<Mirror<Ports>>::default();
        tokio::spawn(follow(mirror.clone(), servers, tls));
        Self(mirror)
    }

    /// Waits until names were shown once.
    pub async fn known(&self) {
        self.0.until(|ports| ports.shown.then_some(())).await;
    }

    /// `namespace/name` of a pod, `node NAME` of a node, the address itself of anybody else.
    pub fn of(&self, address: IpAddr) -> String {
        let port = self.0.read(|ports| {
            let port = ports.by_address.get(&address).and_then(|uuid| ports.ports.get(uuid));
            port.map(|(name, _)| name.clone())
        });
        match port {
            Some(port) => node_of_management_port(&port).map_or(port.clone(), |node| format!("node {node}")),
            None => address.to_string(),
        }
    }
}

impl Reflect for Ports {
    const DATABASE: &'static str = "southbound database, for names of addresses";

    fn clear(&mut self) {
        self.ports.clear();
        self.by_address.clear();
    }

    fn put(&mut self, _: &str, uuid: Uuid, row: Option<&Row>) {
        for address in self.ports.remove(&uuid).into_iter().flat_map(|(_, addresses)| addresses) {
            // Another port may have the address by now.
            if self.by_address.get(&address) == Some(&uuid) {
                self.by_address.remove(&address);
            }
        }
        let Some(row) = row else { return };
        let name = row.get("logical_port").and_then(Datum::as_str).unwrap_or_default().to_owned();
        let words = row.get("mac").into_iter().flat_map(Datum::strings).flat_map(str::split_whitespace);
        let addresses: Vec<IpAddr> = words.filter_map(|word| word.parse().ok()).collect();
        self.by_address.extend(addresses.iter().map(|address| (*address, uuid)));
        self.ports.insert(uuid, (name, addresses));
    }

    fn set_connected(&mut self, connected: Result<(), String>) {
        self.shown |= connected.is_ok();
    }
}

async fn follow(mirror: Arc<Mirror<Ports>>, mut servers: Southbound, tls: Option<Tls>) {
    let mut options = Options::new(servers.remotes().await, "OVN_Southbound");
    options.tls = tls;
    options.monitor = vec![MonitorTable {
        table: "Port_Binding".to_owned(),
        columns: Some(["logical_port", "mac", "type"].map(str::to_owned).to_vec()),
        condition: vec![Condition::equal("type", "")],
    }];
    let (client, mut events) = Client::start(options);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => mirror.apply(event),
                None => return error!("the client of the southbound database ended: the log of policies has no names from here on"),
            },
            () = servers.changed() => client.set_remotes(servers.remotes().await),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(port: &str, mac: &str) -> Row {
        Row::from([
            ("logical_port".to_owned(), Datum::string(port)),
            ("mac".to_owned(), Datum::string(mac)),
        ])
    }

    #[test]
    fn an_address_has_the_name_of_who_has_it_now() {
        let names = Names(Arc::default());
        let (old, new, node) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
        names.0.note(|ports| {
            ports.put("", old, Some(&row("shop/old", "0a:00:00:00:00:01 10.0.0.1 fd00::1")));
            ports.put("", node, Some(&row("management_node1", "0a:00:00:00:00:02 10.0.0.2")));
            ports.put("", new, Some(&row("shop/new", "0a:00:00:00:00:03 10.0.0.1")));
            ports.put("", old, None);
        });
        let of = |address: &str| names.of(address.parse().unwrap());
        assert_eq!(of("10.0.0.1"), "shop/new");
        assert_eq!(of("fd00::1"), "fd00::1");
        assert_eq!(of("10.0.0.2"), "node node1");
        names.0.note(|ports| ports.put("", new, None));
        assert_eq!(of("10.0.0.1"), "10.0.0.1");
    }
}
