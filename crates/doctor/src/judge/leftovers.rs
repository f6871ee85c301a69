//! Judges what other networks and kube-proxy left behind, on a node and in a cluster.

use super::some;
use crate::cluster::ClusterFacts;
use crate::finding::{Check, Finding};
use crate::node::NodeFacts;

/// Devices of other networks; a trailing star stands for anything.
const DEVICES: &[(&str, &str)] = &[
    ("cni0", "a bridge plugin or Flannel"),
    ("flannel.1", "Flannel"),
    ("flannel-v6.1", "Flannel"),
    ("cali*", "Calico"),
    ("tunl0", "Calico"),
    ("vxlan.calico", "Calico"),
    ("wireguard.cali", "Calico"),
    ("cilium_*", "Cilium"),
    ("weave", "Weave Net"),
    ("vethwe-*", "Weave Net"),
    ("ovn-k8s-mp0", "OVN-Kubernetes"),
    ("ovn0", "Kube-OVN"),
];
/// DaemonSets of other networks.
const DAEMON_SETS: &[&str] = &[
    "calico-node",
    "canal",
    "cilium",
    "kube-flannel-ds",
    "kube-flannel",
    "weave-net",
    "kube-ovn-cni",
    "ovs-ovn",
    "ovnkube-node",
    "antrea-agent",
    "kube-router",
    "kindnet",
];

/// What is left on a node.
pub fn node(facts: &NodeFacts) -> Vec<Finding> {
    vec![devices(facts), kube_proxy_rules(facts)]
}

/// What still runs in a cluster.
pub fn cluster(facts: &ClusterFacts) -> Vec<Finding> {
    vec![kube_proxy(facts), other_networks(facts)]
}

fn devices(facts: &NodeFacts) -> Finding {
    let check = Check("leftovers", "devices");
    let devices = match &facts.devices {
        Ok(devices) => devices,
        Err(unseen) => return unseen.warning(check, "the devices of this host"),
    };
    // The kernel itself makes tunl0, without an address, wherever ipip is loaded.
    let names = devices
        .iter()
        .filter(|device| device.name != "tunl0" || !device.addresses.is_empty())
        .map(|device| device.name.as_str());
    let foreign: Vec<(&str, &str)> = names.filter_map(|name| Some((name, owner(name)?))).collect();
    if foreign.is_empty() {
        return check.ok("no device of another network");
    }
    let found: Vec<String> = foreign.iter().map(|(name, owner)| format!("{name} (of {owner})")).collect();
    let first = foreign[0].0;
    check.warning(
        format!("devices of another network: {}; their routes can take pods' traffic", some(&found)),
        format!("remove that network from the cluster, then restart the node, or remove each device: ip link delete {first}"),
    )
}

/// The network whose device this is.
fn owner(name: &str) -> Option<&'static str> {
    let is = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    DEVICES.iter().find(|(pattern, _)| is(pattern)).map(|(_, owner)| *owner)
}

fn kube_proxy_rules(facts: &NodeFacts) -> Finding {
    let check = Check("leftovers", "kube-proxy-rules");
    if facts.native_services == Some(false) {
        return check.ok("services are kube-proxy's, by the ClusterNetwork");
    }
    let mut found: Vec<String> = facts.firewall.iter().flat_map(|firewall| firewall.kube_proxy.clone()).collect();
    let ipvs = facts.devices.iter().flatten().any(|device| device.name == "kube-ipvs0");
    found.extend(ipvs.then(|| "device kube-ipvs0".to_owned()));
    if found.is_empty() {
        return check.ok("no rules of kube-proxy");
    }
    check.warning(
        format!("rules of kube-proxy are still there ({}): they translate what Netloom translates, with outdated backends", some(&found)),
        "remove kube-proxy (kubectl -n kube-system delete daemonset kube-proxy), then on the node: kube-proxy --cleanup, or restart the node",
    )
}

fn kube_proxy(facts: &ClusterFacts) -> Finding {
    let check = Check("leftovers", "kube-proxy");
    let sets = match &facts.daemon_sets {
        Ok(sets) => sets,
        Err(unseen) => return unseen.warning(check, "DaemonSets"),
    };
    let mode = facts
        .network
        .as_ref()
        .ok()
        .and_then(|network| network.as_ref()?.spec.services.mode.as_deref());
    let runs = sets.iter().find(|set| set.name.starts_with("kube-proxy") && set.wanted > 0);
    match (mode, runs) {
        (Some("kube-proxy"), None) => check.warning(
            "the ClusterNetwork says services are kube-proxy's, but no DaemonSet kube-proxy runs",
            "start kube-proxy, or set spec.services.mode of ClusterNetwork default to native",
        ),
        (Some("kube-proxy"), Some(_)) => check.ok("kube-proxy runs, as the ClusterNetwork says"),
        (_, Some(set)) => check.warning(
            format!(
                "DaemonSet {}/{} runs although services are native: both translate",
                set.namespace, set.name
            ),
            format!(
                "kubectl -n {} delete daemonset {}, then clean each node (kube-proxy --cleanup), or set spec.services.mode to kube-proxy",
                set.namespace, set.name
            ),
        ),
        (_, None) => check.ok("services are native and kube-proxy does not run"),
    }
}

fn other_networks(facts: &ClusterFacts) -> Finding {
    let check = Check("leftovers", "other-networks");
    let sets = match &facts.daemon_sets {
        Ok(sets) => sets,
        Err(unseen) => return unseen.warning(check, "DaemonSets"),
    };
    let others = sets.iter().filter(|set| set.wanted > 0 && DAEMON_SETS.contains(&set.name.as_str()));
    let others: Vec<String> = others.map(|set| format!("{}/{}", set.namespace, set.name)).collect();
    if others.is_empty() {
        return check.ok("no other network runs");
    }
    check.warning(
        format!(
            "DaemonSets of another network run: {}; they may take pods, devices and rules",
            some(&others)
        ),
        "remove that network as its documentation says, then restart the nodes one by one (docs/install.md, moving from another network)",
    )
}
