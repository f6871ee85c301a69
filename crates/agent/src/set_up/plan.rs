//! What the switch's configuration must say about this node, and the transaction that makes it so. Pure: the replica and
//! the node's terms in, operations out. Only the keys named here are written; those of others stay, mappings included.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_ovsdb::{Datum, Mutation, Operation, Row, Transaction};
use uuid::Uuid;

use crate::gateway::EXTERNAL_BRIDGE;
use crate::node::INTEGRATION_BRIDGE;
use crate::switch::SwitchState;

/// The key that keeps the chosen datapath.
pub const DATAPATH_KEY: &str = "ovn-bridge-datapath-type";
/// The key of the list of physical networks.
const MAPPINGS_KEY: &str = "ovn-bridge-mappings";
/// The physical network of node gateways, as the controller calls it.
const NETWORK: &str = "external";
/// All other keys of `Open_vSwitch.external_ids` that are ours.
const KEYS: [&str; 10] = [
    "system-id",
    "hostname",
    "ovn-remote",
    "ovn-encap-type",
    "ovn-encap-ip",
    "ovn-bridge",
    DATAPATH_KEY,
    "ovn-monitor-all",
    "ovn-remote-probe-interval",
    "ovn-ofctrl-wait-before-clear",
];
const TSO_KEY: &str = "userspace-tso-enable";

/// What the switch is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The node's name.
    pub node: String,
    /// Where tunnels end.
    pub encap: IpAddr,
    /// The servers of the Southbound database; not known yet leaves what is there.
    pub southbound: Option<String>,
    /// Whether OVN has set this node up before: then a restarted ovn-controller keeps the flows that are there until it has
    /// computed its own. On a new node it would only lose time, and new pods with it.
    pub settled: bool,
    /// Whether packets are switched outside the kernel.
    pub userspace: bool,
    /// Whether br-ex is made here, without an uplink.
    pub external_bridge: bool,
}

/// `datapath_type` of bridges.
pub fn datapath_type(userspace: bool) -> &'static str {
    if userspace { "netdev" } else { "system" }
}

/// The transaction that sets the switch up; empty if all is well.
pub fn set_up(state: &SwitchState, terms: &Terms) -> Transaction {
    let mut transaction = Transaction::new();
    let root = root(state, &mut transaction);
    let mut wanted = external_ids(terms);
    wanted.insert(MAPPINGS_KEY, mapped(state.external_ids.get(MAPPINGS_KEY)));
    let mut mutations = set("external_ids", &state.external_ids, &wanted);
    // Only before the first bridge: devices that vswitchd has opened already would not follow, and read nothing but garbage.
    if terms.userspace && !state.has_bridges() && !state.other_config.contains_key(TSO_KEY) {
        mutations.push(Mutation::insert("other_config", Datum::map([(TSO_KEY, "true")])));
    }
    if !mutations.is_empty() {
        transaction.push(Operation::mutate("Open_vSwitch", root, mutations));
    }
    let integration = BridgeTerms {
        name: INTEGRATION_BRIDGE,
        userspace: terms.userspace,
        secure: true,
        hwaddr: None,
    };
    bridge(state, root, &integration, &mut transaction);
    if terms.external_bridge {
        let external = BridgeTerms {
            name: EXTERNAL_BRIDGE,
            secure: false,
            ..integration
        };
        bridge(state, root, &external, &mut transaction);
    }
    transaction
}

/// The transaction that takes our keys and br-int away.
pub fn tear_down(state: &SwitchState) -> Transaction {
    let mut transaction = Transaction::new();
    let Some(root) = state.root else { return transaction };
    let mut gone: Vec<(&str, &str)> = Vec::new();
    for key in KEYS {
        gone.extend(state.external_ids.get(key).map(|value| (key, value.as_str())));
    }
    let mappings = state.external_ids.get(MAPPINGS_KEY);
    let others = mappings.map(|mappings| without_ours(mappings).collect::<Vec<_>>().join(","));
    if let Some(mappings) = mappings.filter(|mappings| others.as_ref() != Some(*mappings)) {
        gone.push((MAPPINGS_KEY, mappings));
    }
    let mut mutations = Vec::new();
    if !gone.is_empty() {
        mutations.push(Mutation::delete("external_ids", Datum::map(gone)));
        if let Some(others) = others.filter(|others| !others.is_empty() && Some(others) != mappings) {
            mutations.push(Mutation::insert("external_ids", Datum::map([(MAPPINGS_KEY, others.as_str())])));
        }
    }
    mutations.extend(remove_bridge(state, INTEGRATION_BRIDGE));
    if !mutations.is_empty() {
        transaction.push(Operation::mutate("Open_vSwitch", root, mutations));
    }
    transaction
}

/// What a bridge is to be.
#[derive(Clone, Copy, Debug)]
pub struct BridgeTerms<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its datapath.
    pub userspace: bool,
    /// Whether it drops everything until it has flows; otherwise it is left as it is.
    pub secure: bool,
    /// Its MAC address, if not the switch's choice.
    pub hwaddr: Option<&'a str>,
}

/// The row of table `Open_vSwitch`, made if there is none.
pub fn root(state: &SwitchState, transaction: &mut Transaction) -> Uuid {
    state.root.unwrap_or_else(|| {
        let root = Uuid::new_v4();
        transaction.push(Operation::insert("Open_vSwitch", root, Row::new()));
        root
    })
}

/// Makes a bridge, or corrects it; returns its row.
pub fn bridge(state: &SwitchState, root: Uuid, terms: &BridgeTerms<'_>, transaction: &mut Transaction) -> Uuid {
    let kind = datapath_type(terms.userspace);
    let mut config = BTreeMap::from([("disable-in-band", "true".to_owned())]);
    if let Some(hwaddr) = terms.hwaddr {
        config.insert("hwaddr", hwaddr.to_owned());
    }
    let Some((uuid, row)) = state.bridge(terms.name) else {
        let (bridge, port, interface) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
        let named = || ("name".to_owned(), Datum::string(terms.name));
        let row = Row::from([named(), ("type".to_owned(), Datum::string("internal"))]);
        transaction.push(Operation::insert("Interface", interface, row));
        let row = Row::from([named(), ("interfaces".to_owned(), Datum::uuid(interface))]);
        transaction.push(Operation::insert("Port", port, row));
        let config = config.iter().map(|(key, value)| (*key, value.as_str()));
        let mut row = Row::from([
            named(),
            ("ports".to_owned(), Datum::uuid(port)),
            ("datapath_type".to_owned(), Datum::string(kind)),
            ("other_config".to_owned(), Datum::map(config)),
        ]);
        if terms.secure {
            row.insert("fail_mode", Datum::string("secure"));
        }
        transaction.push(Operation::insert("Bridge", bridge, row));
        let bridges = vec![Mutation::insert("bridges", Datum::uuid(bridge))];
        transaction.push(Operation::mutate("Open_vSwitch", root, bridges));
        return bridge;
    };
    let mut columns = Row::new();
    // No datapath type means the kernel's.
    let present = if row.datapath_type.is_empty() {
        "system"
    } else {
        &row.datapath_type
    };
    if present != kind {
        columns.insert("datapath_type", Datum::string(kind));
    }
    if terms.secure && row.fail_mode.as_deref() != Some("secure") {
        columns.insert("fail_mode", Datum::string("secure"));
    }
    if !columns.is_empty() {
        transaction.push(Operation::update("Bridge", uuid, columns));
    }
    let mutations = set("other_config", &row.other_config, &config);
    if !mutations.is_empty() {
        transaction.push(Operation::mutate("Bridge", uuid, mutations));
    }
    uuid
}

/// Takes a bridge out of the row of table `Open_vSwitch`; the server then forgets it with its ports.
pub fn remove_bridge(state: &SwitchState, name: &str) -> Option<Mutation> {
    let (uuid, _) = state.bridge(name)?;
    Some(Mutation::delete("bridges", Datum::uuid(uuid)))
}

/// Sets keys of a map that differ. A key has to go before it comes with another value.
pub fn set<K: AsRef<str>>(column: &str, present: &BTreeMap<String, String>, wanted: &BTreeMap<K, String>) -> Vec<Mutation> {
    let other = |(key, value): &(&K, &String)| present.get(key.as_ref()) != Some(*value);
    let added: Vec<(&str, &str)> = wanted
        .iter()
        .filter(other)
        .map(|(key, value)| (key.as_ref(), value.as_str()))
        .collect();
    if added.is_empty() {
        return Vec::new();
    }
    let old = |key: &str| present.get(key).map(String::as_str);
    let removed: Vec<(&str, &str)> = added.iter().filter_map(|(key, _)| Some((*key, old(key)?))).collect();
    let mut mutations = Vec::new();
    if !removed.is_empty() {
        mutations.push(Mutation::delete(column, Datum::map(removed)));
    }
    mutations.push(Mutation::insert(column, Datum::map(added)));
    mutations
}

fn external_ids(terms: &Terms) -> BTreeMap<&'static str, String> {
    let mut ids = BTreeMap::from([
        ("system-id", terms.node.clone()),
        ("hostname", terms.node.clone()),
        ("ovn-encap-type", "geneve".to_owned()),
        ("ovn-encap-ip", terms.encap.to_string()),
        ("ovn-bridge", INTEGRATION_BRIDGE.to_owned()),
        (DATAPATH_KEY, datapath_type(terms.userspace).to_owned()),
        // The flows of a network are there before its first port: with less, OVN reports that port as installed before they have arrived.
        ("ovn-monitor-all", "true".to_owned()),
        ("ovn-remote-probe-interval", "10000".to_owned()),
    ]);
    if terms.settled {
        ids.insert("ovn-ofctrl-wait-before-clear", "8000".to_owned());
    }
    if let Some(southbound) = &terms.southbound {
        ids.insert("ovn-remote", southbound.clone());
    }
    ids
}

/// The list of physical networks with ours in it.
fn mapped(present: Option<&String>) -> String {
    let ours = format!("{NETWORK}:{EXTERNAL_BRIDGE}");
    let present = present.map(String::as_str).unwrap_or_default();
    if present.split(',').any(|mapping| mapping == ours) {
        return present.to_owned();
    }
    let others = present.split(',').filter(|mapping| !mapping.is_empty() && !is_ours(mapping));
    std::iter::once(ours.as_str()).chain(others).collect::<Vec<_>>().join(",")
}

fn without_ours(mappings: &str) -> impl Iterator<Item = &str> {
    mappings.split(',').filter(|mapping| !mapping.is_empty() && !is_ours(mapping))
}

fn is_ours(mapping: &str) -> bool {
    mapping.split(':').next() == Some(NETWORK)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]
    use super::*;
    use crate::mirror::Reflect as _;

    fn terms() -> Terms {
        Terms {
            node: "node1".to_owned(),
            encap: "172.30.0.2".parse().unwrap(),
            southbound: Some("tcp:172.30.0.1:6642".to_owned()),
            settled: true,
            userspace: true,
            external_bridge: false,
        }
    }

    /// A switch whose root row says this.
    fn state(ids: &[(&str, &str)]) -> SwitchState {
        let mut state = SwitchState::default();
        let row = Row::from([("external_ids".to_owned(), Datum::map(ids.iter().copied()))]);
        state.put("Open_vSwitch", Uuid::new_v4(), Some(&row));
        state
    }

    fn complete() -> SwitchState {
        let mut ids = external_ids(&terms());
        ids.insert(MAPPINGS_KEY, mapped(None));
        let ids: Vec<(&str, &str)> = ids.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let mut state = state(&ids);
        state.other_config.insert(TSO_KEY.to_owned(), "true".to_owned());
        let row = Row::from([
            ("name".to_owned(), Datum::string("br-int")),
            ("datapath_type".to_owned(), Datum::string("netdev")),
            ("fail_mode".to_owned(), Datum::string("secure")),
            ("other_config".to_owned(), Datum::map([("disable-in-band", "true")])),
        ]);
        state.put("Bridge", Uuid::new_v4(), Some(&row));
        state
    }

    #[test]
    fn an_empty_switch_gets_everything_and_a_complete_one_nothing() {
        let text = set_up(&SwitchState::default(), &terms()).to_string();
        for part in ["Open_vSwitch", "br-int", "ovn-encap-ip", "userspace-tso-enable", "external:br-ex"] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        assert_eq!(set_up(&complete(), &terms()).to_string(), "");
    }

    #[test]
    fn only_what_differs_is_written() {
        let mut state = complete();
        state.external_ids.insert("ovn-encap-ip".to_owned(), "192.0.2.1".to_owned());
        state.external_ids.insert("rack".to_owned(), "7".to_owned());
        let transaction = set_up(&state, &terms());
        assert_eq!(transaction.len(), 1, "{transaction}");
        let text = transaction.to_string();
        assert!(!text.contains("rack") && !text.contains("system-id"), "{text}");
    }

    #[test]
    fn a_switch_with_bridges_is_not_told_of_segmentation() {
        let mut state = complete();
        state.other_config.clear();
        assert!(set_up(&state, &terms()).is_empty());
    }

    #[test]
    fn what_is_not_known_yet_leaves_what_is_there() {
        let unknown = Terms {
            southbound: None,
            settled: false,
            ..terms()
        };
        assert!(set_up(&complete(), &unknown).is_empty());
    }

    #[test]
    fn mappings_of_others_stay() {
        assert_eq!(mapped(None), "external:br-ex");
        assert_eq!(mapped(Some(&"storage:br-st".to_owned())), "external:br-ex,storage:br-st");
        assert_eq!(mapped(Some(&"a:b,external:br-old".to_owned())), "external:br-ex,a:b");
        assert_eq!(mapped(Some(&"a:b,external:br-ex".to_owned())), "a:b,external:br-ex");
        let mut state = complete();
        state.external_ids.insert(MAPPINGS_KEY.to_owned(), "external:br-ex,a:b".to_owned());
        let text = tear_down(&state).to_string();
        assert!(text.contains("a:b") && text.contains("bridges"), "{text}");
    }

    #[test]
    fn tearing_down_twice_does_nothing() {
        assert!(tear_down(&state(&[("rack", "7"), (MAPPINGS_KEY, "a:b")])).is_empty());
        assert!(tear_down(&SwitchState::default()).is_empty());
    }
}
