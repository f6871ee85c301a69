//! Judges Open vSwitch: its database, vswitchd, the two bridges and their interfaces.

use super::{at_least, some};
use crate::finding::{Check, Finding};
use crate::node::{NodeFacts, Switch};

/// The version in the image, and the oldest that has what we use.
const TESTED: &str = "3.5";
const OLDEST: (u32, u32) = (3, 1);

/// All about the switch.
pub fn judge(facts: &NodeFacts) -> Vec<Finding> {
    let check = Check("open vswitch", "database");
    let switch = match &facts.switch {
        Ok(switch) => switch,
        Err(unseen) => {
            return vec![unseen.failed(
                check,
                "the Open vSwitch database",
                "start ovsdb-server: kubectl -n netloom-system get pods -o wide shows the pod netloom-switch of this node, container ovsdb-server",
            )];
        }
    };
    vec![
        check.ok("the database answers"),
        vswitchd(facts, switch),
        version(facts, switch),
        integration_bridge(switch),
        uplink_bridge(switch),
        interfaces(switch),
    ]
}

fn vswitchd(facts: &NodeFacts, switch: &Switch) -> Finding {
    let check = Check("open vswitch", "vswitchd");
    let advice = "look at the log of vswitchd (pod netloom-switch of this node, container vswitchd) and restart it";
    match &facts.vswitchd {
        Err(unseen) => unseen.failed(check, "vswitchd", advice),
        Ok(None) => check.failed("no vswitchd has its management socket beside the database's", advice),
        Ok(Some(_)) if !switch.current => check.failed("vswitchd answers but has not done what the database tells it", advice),
        Ok(Some(version)) => check.ok(format!("vswitchd {version} answers and is up to date")),
    }
}

fn version(facts: &NodeFacts, switch: &Switch) -> Finding {
    let check = Check("open vswitch", "version");
    // The database has it only where a start script wrote it.
    let version = facts
        .vswitchd
        .as_ref()
        .ok()
        .and_then(Option::as_deref)
        .or(switch.version.as_deref());
    let Some(version) = version else {
        return check.warning("the version of Open vSwitch is not known", "fix the check vswitchd and look again");
    };
    if at_least(version, OLDEST.0, OLDEST.1) {
        return check.ok(format!("Open vSwitch {version}"));
    }
    check.failed(
        format!(
            "Open vSwitch is {version}; Netloom needs {}.{} and is tested with {TESTED}",
            OLDEST.0, OLDEST.1
        ),
        "use the switch of Netloom's own image (DaemonSet netloom-switch) or upgrade the host's",
    )
}

fn integration_bridge(switch: &Switch) -> Finding {
    let check = Check("open vswitch", "br-int");
    match switch.bridges.get("br-int") {
        Some(bridge) => check.ok(format!("br-int is there, datapath {}", bridge.datapath)),
        None => check.failed(
            "bridge br-int does not exist: no pod has a network",
            "see that the agent of this node runs (it makes the bridge), or make it: ovs-vsctl add-br br-int",
        ),
    }
}

fn uplink_bridge(switch: &Switch) -> Finding {
    let check = Check("open vswitch", "br-ex");
    let Some(bridge) = switch.bridges.get("br-ex") else {
        return check.warning(
            "bridge br-ex does not exist: pods of this node reach nothing outside the cluster",
            "give the agent an uplink (--uplink auto or --uplink DEVICE)",
        );
    };
    let mappings = switch.external_ids.get("ovn-bridge-mappings").map_or("", String::as_str);
    if !mappings.split(',').any(|mapping| mapping.trim() == "external:br-ex") {
        return check.failed(
            format!("br-ex is there, but external_ids:ovn-bridge-mappings is \"{mappings}\": OVN does not use it"),
            "ovs-vsctl set open_vswitch . external_ids:ovn-bridge-mappings=external:br-ex",
        );
    }
    check.ok(format!("br-ex is there, datapath {}", bridge.datapath))
}

fn interfaces(switch: &Switch) -> Finding {
    let check = Check("open vswitch", "interfaces");
    let all = switch.bridges.values().flat_map(|bridge| &bridge.interfaces);
    let broken: Vec<String> = all
        .clone()
        .filter_map(|interface| Some(format!("{} ({})", interface.name, interface.error.as_ref()?)))
        .collect();
    if broken.is_empty() {
        return check.ok(format!("{} interfaces, none with an error", all.count()));
    }
    check.warning(
        format!("interfaces without a device: {}", some(&broken)),
        "of a pod that is gone: the agent removes it within a minute, or ovs-vsctl del-port NAME; otherwise see the log of vswitchd",
    )
}
