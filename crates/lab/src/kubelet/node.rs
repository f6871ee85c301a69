//! The Node object of this node: registered at start, and its Ready condition kept true to what CNI says.
//!
//! CNI is asked again when the agent's socket appears or goes, and, while it says no, after a short back-off.

use std::path::Path;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::container::Node;
use super::{backoff, cni, status};
use crate::files::Watch;

/// Where the agent's socket is.
const AGENT: &str = "/run/netloom";

/// Registers the node and reports its readiness for ever.
pub async fn run(client: Client, node: Node) -> anyhow::Result<()> {
    let agent = Watch::directory(Path::new(AGENT))?;
    let api = Api::<NodeObject>::all(client);
    let mut backoff = backoff();
    let mut told: Option<Result<(), String>> = None;
    let mut since = status::now();
    loop {
        let now = cni::status().await.map_err(|error| format!("{error:#}"));
        if told.as_ref() != Some(&now) {
            if told.as_ref().map(Result::is_ok) != Some(now.is_ok()) {
                since = status::now();
            }
            match register(&api, &node, &now, since).await {
                Ok(()) => {
                    tracing::info!(ready = now.is_ok(), reason = now.as_ref().err(), "node");
                    told = Some(now.clone());
                }
                Err(error) => tracing::warn!(error = format!("{error:#}"), "cannot write the node's status"),
            }
        }
        if told == Some(Ok(())) {
            backoff.reset();
            agent.changed().await?;
        } else {
            let _ = tokio::time::timeout(backoff.delay(), agent.changed()).await;
        }
    }
}

async fn register(api: &Api<NodeObject>, node: &Node, ready: &Result<(), String>, since: jiff::Timestamp) -> anyhow::Result<()> {
    let labels = json!({
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        "node-role.kubernetes.io/worker": "",
    });
    let mut status = facts(node);
    status["conditions"] = json!(conditions(ready, since));
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": labels}, "status": status});
    let object: NodeObject = serde_json::from_value(object)?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => {}
        Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
            let patch = json!({"metadata": {"labels": labels}});
            api.patch(&node.name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .context("updating the node")?;
        }
        Err(error) => return Err(error).context("creating the node"),
    }
    // A strategic patch would merge the two addresses of type InternalIP into one, a plain one would drop others' conditions.
    let facts = json!({"status": facts(node)});
    api.patch_status(&node.name, &PatchParams::default(), &Patch::Merge(&facts))
        .await
        .context("writing the node's status")?;
    let conditions = json!({"status": {"conditions": conditions(ready, since)}});
    api.patch_status(&node.name, &PatchParams::default(), &Patch::Strategic(&conditions))
        .await
        .context("writing the node's conditions")?;
    Ok(())
}

fn conditions(ready: &Result<(), String>, since: jiff::Timestamp) -> Vec<Value> {
    let readiness = match ready {
        Ok(()) => json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "pods can be attached to the network"}),
        Err(reason) => json!({"type": "Ready", "status": "False", "reason": "NetworkPluginNotReady", "message": reason}),
    };
    let fine = |kind: &str| json!({"type": kind, "status": "False", "reason": "KubeletHasNoPressure", "message": ""});
    let mut conditions = vec![fine("MemoryPressure"), fine("DiskPressure"), fine("PIDPressure"), readiness];
    for condition in &mut conditions {
        condition["lastTransitionTime"] = json!(since);
        condition["lastHeartbeatTime"] = json!(status::now());
    }
    conditions
}

fn facts(node: &Node) -> Value {
    let mut addresses: Vec<_> = node
        .addresses
        .iter()
        .map(|address| json!({"type": "InternalIP", "address": address}))
        .collect();
    addresses.push(json!({"type": "Hostname", "address": node.name}));
    let capacity = json!({"cpu": "8", "memory": "16Gi", "pods": "1000", "ephemeral-storage": "100Gi"});
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
    json!({
        "addresses": addresses,
        "capacity": capacity,
        "allocatable": capacity,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": node.name,
            "systemUUID": node.name,
            "bootID": read(crate::root::BOOT_ID),
            "kernelVersion": read("/proc/sys/kernel/osrelease"),
            "osImage": "Netloom lab",
            "containerRuntimeVersion": concat!("lab://", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-lab"),
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": architecture(),
        },
    })
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
