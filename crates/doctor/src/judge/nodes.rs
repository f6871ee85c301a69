//! Judges each node as the API server tells of it. Nodes without a finding are counted in one line, so that a large cluster is readable.

use super::numbers;
use crate::cluster::{ClusterFacts, NodeSeen};
use crate::finding::{Check, Finding};

/// Seconds a lease may seem to be from the future, or old while the node is ready.
const CLOCK: (i64, i64) = (5, 90);
/// How many minor versions a kubelet may be behind the API server.
const KUBELET: u32 = 3;

/// All about nodes.
pub fn judge(facts: &ClusterFacts) -> Vec<Finding> {
    let check = Check("nodes", "nodes");
    let nodes = match &facts.nodes {
        Ok(nodes) => nodes,
        Err(unseen) => return vec![unseen.warning(check, "nodes")],
    };
    let mut findings: Vec<Finding> = nodes.iter().flat_map(|node| of(facts, node)).collect();
    if nodes.is_empty() {
        findings.push(check.warning("the cluster has no node", "join one: kubeadm token create --print-join-command"));
    } else if findings.is_empty() {
        findings.push(check.ok(format!("{} nodes are ready, with agent and gateway", nodes.len())));
    }
    if let Err(unseen) = &facts.agents {
        findings.push(unseen.warning(Check("nodes", "agent"), "the agents' pods"));
    }
    findings
}

fn of(facts: &ClusterFacts, node: &NodeSeen) -> Vec<Finding> {
    [
        ready(node),
        agent(facts, node),
        gateway(node),
        taint(node),
        kubelet(facts, node),
        clock(facts, node),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn ready(node: &NodeSeen) -> Option<Finding> {
    let check = Check("nodes", "ready");
    let advice = format!("kubectl describe node {}, and netloom doctor node on it", node.name);
    match &node.ready {
        Some(ready) if ready.is_true => None,
        Some(ready) => Some(check.failed(format!("node {} is not ready: {}", node.name, ready.message), advice)),
        None => Some(check.failed(format!("node {} never said that it is ready", node.name), advice)),
    }
}

fn agent(facts: &ClusterFacts, node: &NodeSeen) -> Option<Finding> {
    // Without workloads there is one finding about that, not one for every node.
    let installed = facts
        .workloads
        .as_ref()
        .is_ok_and(|workloads| workloads.iter().any(|workload| workload.name == "DaemonSet/netloom-agent"));
    let agents = facts.agents.as_ref().ok().filter(|_| installed)?;
    let check = Check("nodes", "agent");
    let namespace = &facts.namespace;
    let of_node: Vec<_> = agents.iter().filter(|pod| pod.node == node.name).collect();
    if of_node.iter().any(|pod| pod.ready) {
        return None;
    }
    Some(match of_node.first() {
        Some(pod) => check.failed(
            format!(
                "the agent of node {} ({}) is not ready{}",
                node.name,
                pod.name,
                pod.waiting.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
            ),
            format!(
                "kubectl -n {namespace} describe pod {0}; kubectl -n {namespace} logs {0} --all-containers",
                pod.name
            ),
        ),
        None => check.failed(
            format!("node {} has no pod netloom-agent", node.name),
            format!(
                "see its taints and the DaemonSet's tolerations and nodeSelector: kubectl -n {namespace} describe daemonset netloom-agent"
            ),
        ),
    })
}

fn gateway(node: &NodeSeen) -> Option<Finding> {
    let check = Check("nodes", "gateway");
    match node.gateway.as_deref().map(netloom_network::annotations::gateway) {
        Some(Ok(_)) => None,
        Some(Err(why)) => Some(check.failed(
            format!("node {}: {why}", node.name),
            format!("kubectl annotate node {} netloom.io/gateway-", node.name),
        )),
        None => Some(check.warning(
            format!(
                "node {} has no annotation netloom.io/gateway: its pods reach nothing outside the cluster",
                node.name
            ),
            "see that its agent runs, has an uplink (--uplink auto) and that the uplink has an address",
        )),
    }
}

fn taint(node: &NodeSeen) -> Option<Finding> {
    node.tainted.then(|| {
        Check("nodes", "taint").warning(
            format!(
                "node {} still has the taint netloom.io/not-ready: no pod is scheduled there",
                node.name
            ),
            "its agent removes it when it can serve: see that agent's log, or run netloom doctor node there",
        )
    })
}

/// Something else than a kubelet may run a node's pods and count its versions in its own way.
fn kubelet(facts: &ClusterFacts, node: &NodeSeen) -> Option<Finding> {
    let (server, kubelet) = (numbers(facts.version.as_deref().ok()?)?, numbers(&node.kubelet)?);
    if kubelet.0 != server.0 {
        return None;
    }
    let check = Check("nodes", "kubelet");
    let found = format!(
        "node {} has kubelet {}, the API server is {}.{}",
        node.name, node.kubelet, server.0, server.1
    );
    if kubelet > server {
        return Some(check.warning(format!("{found}: a kubelet must not be newer"), "upgrade the control plane first"));
    }
    let behind = server.1.saturating_sub(kubelet.1);
    (behind > KUBELET).then(|| {
        check.warning(
            format!("{found}: more than {KUBELET} minor versions behind"),
            "upgrade the kubelet of the node",
        )
    })
}

/// A node writes its own time into its lease, every ten seconds while it is well.
fn clock(facts: &ClusterFacts, node: &NodeSeen) -> Option<Finding> {
    let renewed = *facts.renewals.as_ref().ok()?.get(&node.name)?;
    let server = facts.now - *facts.clock.as_ref().ok()?;
    let ahead = renewed - server;
    let check = Check("nodes", "clock");
    let advice = format!("let it follow a time server: timedatectl set-ntp true on {}", node.name);
    let is_ready = node.ready.as_ref().is_some_and(|ready| ready.is_true);
    if ahead > CLOCK.0 {
        return Some(check.warning(
            format!("the clock of node {} is about {ahead} s ahead of the API server's", node.name),
            advice,
        ));
    }
    (is_ready && -ahead > CLOCK.1).then(|| {
        check.warning(
            format!("the clock of node {} is about {} s behind the API server's", node.name, -ahead),
            advice,
        )
    })
}
