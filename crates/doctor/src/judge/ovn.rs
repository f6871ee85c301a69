//! Judges OVN on a node: what ovn-controller is told, whether it works, and whether the Southbound database knows the node.

use std::net::IpAddr;

use super::{at_least, database};
use crate::finding::{Check, Finding};
use crate::node::NodeFacts;

const TESTED: (u32, u32) = (25, 3);

/// All about OVN. Without the switch's database only the daemon can be judged.
pub fn judge(facts: &NodeFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Ok(switch) = &facts.switch {
        let told = |name: &str| switch.external_ids.get(name).map_or("", String::as_str);
        findings.push(identity(&facts.node, told("system-id")));
        findings.push(encapsulation(facts, told("ovn-encap-ip"), told("ovn-encap-type")));
        findings.push(remote(told("ovn-remote"), facts.discovered.as_deref()));
    }
    findings.push(controller(facts));
    findings.extend(database::members("ovn", &facts.southbound));
    findings.extend(facts.chassis.as_ref().map(|chassis| match chassis {
        Ok(chassis) => known(facts, chassis),
        Err(unseen) => unseen.failed(
            Check("ovn", "chassis"),
            "the Southbound database",
            "fix the way to the Southbound database first (check members)",
        ),
    }));
    findings
}

fn identity(node: &str, system: &str) -> Finding {
    let check = Check("ovn", "system-id");
    if system == node {
        return check.ok(format!("OVN knows this node as {node}"));
    }
    let found = match system {
        "" => "external_ids:system-id is not set".to_owned(),
        other => format!("external_ids:system-id is {other}, but the node's name is {node}: its pods' ports are never bound"),
    };
    check.failed(
        found,
        format!("ovs-vsctl set open_vswitch . external_ids:system-id={node}; if the node has another name in Kubernetes, give --node"),
    )
}

fn encapsulation(facts: &NodeFacts, address: &str, kind: &str) -> Finding {
    let check = Check("ovn", "encapsulation");
    let set = "ovs-vsctl set open_vswitch . external_ids:ovn-encap-ip=ADDRESS external_ids:ovn-encap-type=geneve, or restart the agent, which sets both";
    if !kind.split(',').any(|kind| kind == "geneve") {
        return check.failed(format!("external_ids:ovn-encap-type is \"{kind}\", not geneve"), set);
    }
    if address.is_empty() {
        return check.failed(
            "external_ids:ovn-encap-ip is not set: no tunnel to other nodes, and no MTU for pods",
            set,
        );
    }
    let Some(parsed) = address.split(',').next().and_then(|first| first.parse::<IpAddr>().ok()) else {
        return check.failed(format!("external_ids:ovn-encap-ip is \"{address}\", which is no address"), set);
    };
    match &facts.devices {
        Err(unseen) => unseen.warning(check, "the addresses of this host"),
        Ok(devices) => match devices.iter().find(|device| device.addresses.contains(&parsed)) {
            Some(device) => check.ok(format!("geneve from {parsed} on {}", device.name)),
            None => check.failed(
                format!("external_ids:ovn-encap-ip is {parsed}, which no device of this host has: tunnels to this node are dead"),
                set,
            ),
        },
    }
}

fn remote(remote: &str, discovered: Option<&[String]>) -> Finding {
    let check = Check("ovn", "remote");
    let mut told: Vec<&str> = remote.split(',').map(str::trim).collect();
    told.sort_unstable();
    match remote {
        "" => check.failed(
            "external_ids:ovn-remote is not set: ovn-controller does not know the Southbound database",
            "see that the agent of this node runs (it sets it), or ovs-vsctl set open_vswitch . external_ids:ovn-remote=ssl:ADDRESS:6642",
        ),
        remote if discovered.is_some_and(|discovered| discovered != told) => check.warning(
            format!(
                "external_ids:ovn-remote is {remote}, but the databases are at {}",
                discovered.unwrap_or_default().join(",")
            ),
            "the agent of this node follows the databases: see that it runs, and its log",
        ),
        remote => check.ok(format!("the Southbound database is at {remote}")),
    }
}

fn controller(facts: &NodeFacts) -> Finding {
    let check = Check("ovn", "controller");
    let advice = "look at the log of ovn-controller (pod netloom-agent of this node, container ovn-controller) and restart it";
    match &facts.ovn {
        Err(unseen) => unseen.failed(check, "ovn-controller", advice),
        Ok(None) => {
            let registered = matches!(&facts.chassis, Some(Ok(chassis)) if chassis.contains_key(&facts.node));
            let found = "no ovn-controller has its management socket in the run directory";
            match registered {
                true => check.warning(
                    format!("{found}, though the Southbound database knows this node"),
                    "look where ovn-controller's /run/ovn is, or give --ovn-run-directory; if it does not run, start it",
                ),
                false => check.failed(found, advice),
            }
        }
        Ok(Some(ovn)) if ovn.connection != "connected" => check.failed(
            format!("ovn-controller {} is {} to the Southbound database", ovn.version, ovn.connection),
            "compare external_ids:ovn-remote with the databases' addresses, and see its certificates and its log",
        ),
        Ok(Some(ovn)) if !at_least(&ovn.version, TESTED.0, TESTED.1) => check.warning(
            format!(
                "ovn-controller is {}; Netloom is tested with {}.{:02}",
                ovn.version, TESTED.0, TESTED.1
            ),
            "use the ovn-controller of Netloom's own image",
        ),
        Ok(Some(ovn)) => check.ok(format!("ovn-controller {} is connected to the Southbound database", ovn.version)),
    }
}

fn known(facts: &NodeFacts, chassis: &std::collections::BTreeMap<String, Vec<String>>) -> Finding {
    let check = Check("ovn", "chassis");
    let Some(own) = chassis.get(&facts.node) else {
        return check.failed(
            format!(
                "the Southbound database has no chassis {}: nothing is sent to this node",
                facts.node
            ),
            "see that ovn-controller runs here and is connected (check controller)",
        );
    };
    let twin = chassis
        .iter()
        .find(|(name, addresses)| **name != facts.node && addresses.iter().any(|address| own.contains(address)));
    match twin {
        Some((twin, _)) => check.failed(
            format!(
                "chassis {twin} has the encapsulation address of {}: tunnels go to either of them",
                facts.node
            ),
            format!("if {twin} is gone, remove it: ovn-sbctl chassis-del {twin}; otherwise give one of them another address"),
        ),
        None => check.ok(format!("the Southbound database knows {} at {}", facts.node, own.join(", "))),
    }
}
