//! Who must be in the groups of isolated namespaces, apps and security groups, found by looking at every pod and every label.

use std::collections::{BTreeMap, BTreeSet};

use netloom_network::isolation::{Isolation, read};
use netloom_network::security_group::{SECURITY_GROUP, SECURITY_GROUPS};
use netloom_network::{Key, Object, Planner, Pod, PodName, RowId, app};

use crate::facts::{Facts, Port, members, port_uuid};

/// How far a namespace is isolated.
fn isolation(facts: &Facts<'_>, namespace: &str) -> Isolation {
    facts
        .namespace(namespace)
        .map_or(Isolation::None, |namespace| read(&namespace.annotations).0)
}

/// Whether any namespace is isolated as far as this.
fn any(facts: &Facts<'_>, least: Isolation) -> bool {
    facts
        .world
        .all()
        .any(|object| matches!(object, Object::Namespace(_, namespace) if read(&namespace.annotations).0 >= least))
}

/// Keys of the groups a pod must be in.
pub fn groups_of(facts: &Facts<'_>, name: &PodName, pod: &Pod, port: &Port) -> BTreeSet<String> {
    let own = isolation(facts, &name.namespace);
    let mut groups = BTreeSet::new();
    if any(facts, Isolation::Pods) || facts.network_names().into_iter().any(|network| facts.is_isolated_network(network)) {
        groups.insert("isolation/pods".to_owned());
    }
    if any(facts, Isolation::Services) && own < Isolation::Services {
        groups.insert("isolation/outsiders".to_owned());
    }
    if own >= Isolation::Pods {
        groups.insert(format!("network/{}-vn", name.namespace));
    }
    let on = port.network.iter().filter(|network| facts.is_isolated_network(network));
    groups.extend(on.map(|network| format!("custom-network/{network}")));
    let labelled = app::read(&name.namespace, &pod.labels);
    let spoken = facts.world.all().filter_map(|object| match object {
        Object::Service(service, found) => {
            let selected = found.selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
            let speaks = service.namespace == name.namespace && !found.selector.is_empty() && selected;
            app::read(&service.namespace, &found.labels).filter(|app| speaks && app.name.is_some())
        }
        _ => None,
    });
    groups.extend(spoken.chain(labelled).map(|app| format!("app/{app}")));
    let written = pod.annotations.get(SECURITY_GROUPS).into_iter().flat_map(|names| names.split(','));
    let named: BTreeSet<&str> = written
        .map(str::trim)
        .chain(pod.labels.get(SECURITY_GROUP).map(String::as_str))
        .collect();
    if !named.is_empty() {
        groups.insert("security-groups".to_owned());
    }
    let exists = |group: &&str| {
        let is_it = |object: &Object| matches!(object, Object::SecurityGroup(known, _) if known.namespace == name.namespace && known.name == **group);
        facts.world.all().any(is_it)
    };
    groups.extend(
        named
            .into_iter()
            .filter(exists)
            .map(|group| format!("security-group/{}/{group}", name.namespace)),
    );
    groups
}

/// Groups and sets of addresses that have others than they must have.
pub fn wrong_groups(planner: &Planner, facts: &Facts<'_>) -> Vec<String> {
    let (mut ports, mut addresses): (BTreeMap<String, BTreeSet<String>>, BTreeMap<String, BTreeSet<String>>) = Default::default();
    for (name, pod) in facts.pods().filter(|(_, pod)| pod.wants_port()) {
        let Some(port) = facts.ports.get(name) else { continue };
        for group in groups_of(facts, name, pod, port) {
            // Who is isolated with its namespace is not let in with its network.
            if !(group.starts_with("custom-network/") && isolation(facts, &name.namespace) > Isolation::None) {
                let ips = port
                    .addresses
                    .iter()
                    .map(|ip| (if ip.is_ipv4() { "4" } else { "6" }, ip.to_string()));
                let link = port.network.iter().map(|_| ("link", port.mac.clone()));
                for (kind, address) in ips.chain(link) {
                    addresses.entry(format!("{group}/{kind}")).or_default().insert(address);
                }
            }
            if group == "isolation/pods" && port.network.is_some() {
                addresses
                    .entry("isolation/neighbours/link".to_owned())
                    .or_default()
                    .insert(port.mac.clone());
            }
            ports.entry(group).or_default().insert(port_uuid(name));
        }
    }
    let mut wrong = Vec::new();
    for (id, row) in planner.desired().rows() {
        let key = row
            .get("external_ids")
            .and_then(|ids| ids.get("netloom.io/key"))
            .unwrap_or_default();
        let begins = |kinds: &[&str]| kinds.iter().any(|kind| key.starts_with(kind));
        // Sets whose members are not the pods of the group with their name.
        let others = begins(&["isolation/pods/", "isolation/closed/", "isolation/services/"]) || key.contains("/services/");
        let (column, expected) = match id.table {
            "Port_Group" => ("ports", &ports),
            "Address_Set" if !others => ("addresses", &addresses),
            _ => continue,
        };
        if !begins(&["isolation/", "network/", "custom-network/", "app/", "security-group"]) {
            continue;
        }
        let found = members(planner.desired(), id.table, key, column);
        let expected = expected.get(key).cloned().unwrap_or_default();
        if expected != found {
            wrong.push(format!("{} {key} has {found:?} instead of {expected:?}", id.table));
        }
    }
    let there = |key: &String| planner.desired().row(&RowId::of("Port_Group", &Key::new(key.as_str()))).is_some();
    wrong.extend(ports.keys().filter(|key| !there(key)).map(|key| format!("there is no {key}")));
    wrong
}
