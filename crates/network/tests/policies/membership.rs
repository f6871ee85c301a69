//! Who must be in the groups of isolated namespaces, apps and security groups, found by looking at every pod and every label.

use std::collections::{BTreeMap, BTreeSet};

use netloom_network::isolation::{Isolation, read};
use netloom_network::{Cluster, Key, Planner, Pod, PodName, RowId, app};

/// Keys of the groups a pod must be in.
fn groups_of(cluster: &Cluster, name: &PodName, pod: &Pod) -> BTreeSet<String> {
    let isolation = |namespace: &str| {
        let namespace = cluster.namespaces.get(namespace);
        namespace.map_or(Isolation::None, |namespace| read(&namespace.annotations).0)
    };
    let any = |least| cluster.namespaces.keys().any(|namespace| isolation(namespace) >= least);
    let own = isolation(&name.namespace);
    let mut groups = BTreeSet::new();
    // A network that cannot be read, or is no more, is for its pods what it was.
    let isolated = |network: &str| cluster.records.network(network).is_some_and(|record| record.read.isolated);
    let networks = cluster.records.networks().map(|(name, _)| name);
    if any(Isolation::Pods) || networks.into_iter().any(|name| isolated(name)) {
        groups.insert("isolation/pods".to_owned());
    }
    if any(Isolation::Services) && own < Isolation::Services {
        groups.insert("isolation/outsiders".to_owned());
    }
    if own >= Isolation::Pods {
        groups.insert(format!("network/{}-vn", name.namespace));
    }
    let on = cluster.records.attachment(name).filter(|on| isolated(&on.network));
    groups.extend(on.map(|on| format!("custom-network/{}", on.network)));
    let labelled = app::read(&name.namespace, &pod.labels);
    let speaking = cluster.services.iter().filter(|(service, found)| {
        let selected = found.selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
        service.namespace == name.namespace && !found.selector.is_empty() && selected
    });
    let spoken = speaking.filter_map(|(service, found)| app::read(&service.namespace, &found.labels));
    groups.extend(
        spoken
            .filter(|app| app.name.is_some())
            .chain(labelled)
            .map(|app| format!("app/{app}")),
    );
    if let Some(group) = pod.labels.get("netloom.io/security-group") {
        groups.insert("security-groups".to_owned());
        let exists = cluster
            .security_groups
            .keys()
            .any(|known| known.namespace == name.namespace && known.name == *group);
        groups.extend(exists.then(|| format!("security-group/{}/{group}", name.namespace)));
    }
    groups
}

/// Groups and sets of addresses that have others than they must have.
pub fn wrong_groups(planner: &Planner) -> Vec<String> {
    let cluster = planner.cluster();
    let (mut ports, mut addresses): (BTreeMap<String, BTreeSet<String>>, BTreeMap<String, BTreeSet<String>>) = Default::default();
    for (name, pod) in cluster.pods.iter() {
        let Some(assignment) = cluster.records.assignment(name, &pod.uid).filter(|_| pod.wants_port()) else {
            continue;
        };
        let port = Key::new(format!("port/{}/{}/eth0", name.namespace, name.name)).uuid("Logical_Switch_Port");
        for group in groups_of(cluster, name, pod) {
            // Who is isolated with its namespace is not let in with its network.
            let own = cluster
                .namespaces
                .get(&name.namespace)
                .map(|namespace| read(&namespace.annotations).0);
            if !(group.starts_with("custom-network/") && own.unwrap_or_default() > Isolation::None) {
                let ips = assignment
                    .addresses
                    .iter()
                    .map(|ip| (if ip.is_ipv4() { "4" } else { "6" }, ip.to_string()));
                let link = assignment.attachment.iter().map(|_| ("link", assignment.mac.to_string()));
                for (kind, address) in ips.chain(link) {
                    addresses.entry(format!("{group}/{kind}")).or_default().insert(address);
                }
            }
            if group == "isolation/pods" && assignment.attachment.is_some() {
                let neighbours = addresses.entry("isolation/neighbours/link".to_owned()).or_default();
                neighbours.insert(assignment.mac.to_string());
            }
            ports.entry(group).or_default().insert(port.to_string());
        }
    }
    let mut wrong = Vec::new();
    for (id, row) in planner.desired().rows() {
        let key = row
            .get("external_ids")
            .and_then(|ids| ids.get("netloom.io/key"))
            .unwrap_or_default();
        let ours = ["isolation/", "network/", "custom-network/", "app/", "security-group"]
            .iter()
            .any(|kind| key.starts_with(kind));
        // Sets whose members are not the pods of the group with their name.
        let others = ["isolation/pods/", "isolation/closed/", "isolation/services/"]
            .iter()
            .any(|kind| key.starts_with(kind));
        let (column, expected) = match id.table {
            "Port_Group" => ("ports", &ports),
            "Address_Set" if !others && !key.contains("/services/") => ("addresses", &addresses),
            _ => continue,
        };
        if !ours {
            continue;
        }
        let found: BTreeSet<String> = planner
            .desired()
            .members(RowId::of(id.table, &Key::new(key)), column)
            .map(|value| value.as_str().map_or_else(|| value.as_uuid().unwrap().to_string(), str::to_owned))
            .collect();
        if expected.get(key).cloned().unwrap_or_default() != found {
            wrong.push(format!("{} {key} has {found:?}", id.table));
        }
    }
    let there = |key: &String| planner.desired().row(&RowId::of("Port_Group", &Key::new(key.as_str()))).is_some();
    wrong.extend(ports.keys().filter(|key| !there(key)).map(|key| format!("there is no {key}")));
    wrong
}
