//! Judges what is installed: the API server, our definitions, the ClusterNetwork, our workloads and their images.

use std::collections::BTreeSet;

use netloom_kubernetes::Kind;

use super::{at_least, some};
use crate::cluster::{ClusterFacts, Workload};
use crate::finding::{Check, Finding};

const OLDEST: (u32, u32) = (1, 30);
const WORKLOADS: &[&str] = &[
    "StatefulSet/netloom-ovn",
    "Deployment/netloom-controller",
    "DaemonSet/netloom-switch",
    "DaemonSet/netloom-agent",
];

/// All about the installation.
pub fn judge(facts: &ClusterFacts) -> Vec<Finding> {
    let mut findings = vec![version(facts), definitions(facts), network(facts)];
    findings.extend(workloads(facts));
    findings.push(problems(facts));
    findings
}

fn version(facts: &ClusterFacts) -> Finding {
    let check = Check("kubernetes", "api-server");
    let version = facts.version.as_deref().unwrap_or_default();
    if at_least(version, OLDEST.0, OLDEST.1) {
        return check.ok(format!("Kubernetes {version}"));
    }
    check.warning(
        format!(
            "Kubernetes {version} is older than {}.{}, with which nothing was tested",
            OLDEST.0, OLDEST.1
        ),
        "upgrade the cluster",
    )
}

fn definitions(facts: &ClusterFacts) -> Finding {
    let check = Check("kubernetes", "definitions");
    let found = match &facts.definitions {
        Ok(found) => found,
        Err(unseen) => return unseen.warning(check, "the definitions of Netloom's kinds"),
    };
    let served = |name: &String| found.iter().any(|definition| definition.name == *name && definition.established);
    let defined = Kind::ALL.iter().filter(|kind| kind.resource().definition.is_some());
    let missing: Vec<String> = defined.map(|kind| kind.qualified()).filter(|name| !served(name)).collect();
    if missing.is_empty() {
        return check.ok("the API server serves Netloom's kinds");
    }
    check.failed(
        format!("the API server does not serve {}", missing.join(" and ")),
        "apply the definitions: kubectl apply -f deploy/chart/crds; if they are there, kubectl describe crd tells why they are not established",
    )
}

fn network(facts: &ClusterFacts) -> Finding {
    let check = Check("kubernetes", "cluster-network");
    let network = match &facts.network {
        Ok(network) => network,
        Err(unseen) => return unseen.warning(check, "ClusterNetwork default"),
    };
    match network.as_ref().map(|network| &network.ready) {
        None => check.warning(
            "there is no ClusterNetwork default: pods get addresses from 10.244.0.0/16 and fd00:10:244::/48",
            "fine if that is meant; otherwise make one before the first pod (examples/ has one)",
        ),
        Some(None) => check.warning(
            "no controller has said whether ClusterNetwork default is in force",
            "see that a netloom-controller runs, and its log",
        ),
        Some(Some(ready)) if !ready.is_true => check.failed(
            format!("ClusterNetwork default is not in force: {}", ready.message),
            "change its spec as the message says; what was in force before stays so",
        ),
        Some(Some(_)) => check.ok("ClusterNetwork default is in force"),
    }
}

fn workloads(facts: &ClusterFacts) -> Vec<Finding> {
    let check = Check("kubernetes", "workloads");
    let found = match &facts.workloads {
        Ok(found) => found,
        Err(unseen) => return vec![unseen.warning(check, "Netloom's workloads")],
    };
    let namespace = &facts.namespace;
    if found.is_empty() {
        let agents = facts.nodes.iter().flatten().any(|node| node.gateway.is_some());
        let nothing = format!("namespace {namespace} has no workload of Netloom");
        return vec![match agents {
            true => check.warning(
                format!("{nothing}, although agents run on the nodes"),
                "fine if they are run by something else; otherwise give the namespace with --namespace",
            ),
            false => check.failed(nothing, "install Netloom (docs/install.md), or give its namespace with --namespace"),
        }];
    }
    vec![complete(check, namespace, found), one_version(found)]
}

fn complete(check: Check, namespace: &str, found: &[Workload]) -> Finding {
    let mut wrong = Vec::new();
    for name in WORKLOADS {
        match found.iter().find(|workload| workload.name == *name) {
            None => wrong.push(format!("{name} is missing")),
            Some(workload) if workload.ready < workload.wanted => {
                wrong.push(format!("{name} has {} of {} pods ready", workload.ready, workload.wanted));
            }
            Some(_) => {}
        }
    }
    if wrong.is_empty() {
        return check.ok(format!("all workloads in {namespace} are ready"));
    }
    check.failed(
        wrong.join(", "),
        format!("kubectl -n {namespace} get pods -o wide, then describe and logs of those that are not ready; a missing one comes with the chart"),
    )
}

fn one_version(found: &[Workload]) -> Finding {
    let check = Check("kubernetes", "images");
    let ours = found.iter().filter(|workload| WORKLOADS.contains(&workload.name.as_str()));
    let images: BTreeSet<&str> = ours.flat_map(|workload| workload.images.iter().map(String::as_str)).collect();
    let images: Vec<&str> = images.into_iter().collect();
    if images.len() <= 1 {
        return check.ok(format!("all run {}", some(&images)));
    }
    check.warning(
        format!("workloads run different images: {}", some(&images)),
        "fine during an upgrade; otherwise upgrade the chart's release once more",
    )
}

fn problems(facts: &ClusterFacts) -> Finding {
    let check = Check("kubernetes", "problems");
    match &facts.refused_pods {
        Err(unseen) => unseen.warning(check, "pending pods"),
        Ok(pods) if pods.is_empty() => check.ok("no pending pod was refused a network"),
        Ok(pods) => check.warning(
            format!("pods wait because their network has a problem: {}", some(pods)),
            "netloom show problems tells what to change, and so do their Events: kubectl describe pod",
        ),
    }
}
