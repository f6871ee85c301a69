//! Judges CNI on a node: the plugin, its configuration, whose configuration the runtime takes, and whether the agent would serve.

use crate::finding::{Check, Finding};
use crate::node::NodeFacts;

const OURS: &str = "10-netloom.conflist";

/// All about CNI.
pub fn judge(facts: &NodeFacts) -> Vec<Finding> {
    vec![plugin(facts), configuration(facts), others(facts), agent(facts)]
}

fn plugin(facts: &NodeFacts) -> Finding {
    let check = Check("cni", "plugin");
    let path = format!("{}/netloom-cni", facts.cni.bin_directory);
    if facts.cni.plugin {
        return check.ok(format!("{path} is there"));
    }
    check.failed(
        format!("{path} is not there or not executable: the runtime cannot attach pods"),
        "restart the agent of this node, which installs it; see that its directory is the runtime's",
    )
}

fn configuration(facts: &NodeFacts) -> Finding {
    let check = Check("cni", "configuration");
    let path = format!("{}/{OURS}", facts.cni.conf_directory);
    let advice = "restart the agent of this node, which writes it; see that its directory is the runtime's";
    match &facts.cni.configuration {
        Ok(true) => check.ok(format!("{path} is there")),
        Ok(false) => check.failed(format!("{path} does not name the plugin netloom-cni"), advice),
        Err(unseen) => unseen.failed(check, &path, advice),
    }
}

fn others(facts: &NodeFacts) -> Finding {
    let check = Check("cni", "other-configurations");
    let directory = &facts.cni.conf_directory;
    let first: Vec<&str> = facts.cni.others.iter().map(String::as_str).filter(|name| *name < OURS).collect();
    if !first.is_empty() {
        return check.failed(
            format!(
                "{} sorts before {OURS} in {directory}: the runtime gives pods to that network",
                first.join(" and ")
            ),
            format!(
                "remove the other network, then the file: rm {directory}/{}",
                first.join(&format!(" {directory}/"))
            ),
        );
    }
    if facts.cni.others.is_empty() {
        return check.ok("no other network is configured");
    }
    check.warning(
        format!(
            "{} in {directory} would take over if {OURS} went away",
            facts.cni.others.join(" and ")
        ),
        format!(
            "remove it if that network is gone: rm {directory}/{}",
            facts.cni.others.join(&format!(" {directory}/"))
        ),
    )
}

fn agent(facts: &NodeFacts) -> Finding {
    let check = Check("cni", "agent");
    match &facts.agent {
        Ok(()) => check.ok("the agent would attach a pod now"),
        Err(unseen) => unseen.failed(
            check,
            "the agent",
            "fix what failed above; otherwise look at the pod netloom-agent of this node and its log, container agent",
        ),
    }
}
