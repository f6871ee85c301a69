//! Finding a pod of a lab from the host, and entering its network.
//!
//! The kubelet of each node leaves a record of every pod in the node's `/run`; the host reads it through the node's init.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nix::sched::CloneFlags;
use serde::{Deserialize, Serialize};

use crate::enter::{Mounts, enter_file, enter_machine};
use crate::lab::Lab;
use crate::launch;
use crate::spec::Machine;

/// Directory of pod records in a node.
pub const RECORDS: &str = "/run/netloom/kubelet";

/// What a kubelet knows about a pod's sandbox; survives the kubelet, not the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRecord {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
    /// Identifier of its sandbox, as CNI knows it.
    pub sandbox: String,
    /// Its network namespace; `None` if it uses the node's.
    pub network: Option<PathBuf>,
    /// Addresses that CNI gave it.
    pub addresses: Vec<std::net::IpAddr>,
    /// Ports it has on its node, as CNI plugins are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub port_mappings: Vec<serde_json::Value>,
}

/// Where a node has the files that this pod's containers see in `/etc`.
pub fn files(uid: &str) -> PathBuf {
    Path::new(RECORDS).join(uid)
}

/// All records below this directory.
pub fn records(directory: &Path) -> Vec<PodRecord> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
        .filter_map(|entry| serde_json::from_slice(&fs::read(entry.path()).ok()?).ok())
        .collect()
}

/// Enters the node of a pod, the pod's network namespace and its view of `/etc`; the process must have one thread.
pub fn enter_pod(lab: &Lab, namespace: &str, name: &str) -> anyhow::Result<()> {
    for machine in lab.spec().machines().iter().map(Machine::name) {
        let Some(pid) = launch::pid(lab.home(), &machine) else { continue };
        let directory = Path::new("/proc").join(pid.to_string()).join("root").join(&RECORDS[1..]);
        let Some(pod) = records(&directory)
            .into_iter()
            .find(|pod| pod.namespace == namespace && pod.name == name)
        else {
            continue;
        };
        enter_machine(pid)?;
        if let Some(network) = &pod.network {
            enter_file(network, CloneFlags::CLONE_NEWNET)?;
        }
        let files = Some(files(&pod.uid)).filter(|files| files.exists());
        return Mounts { files, namespace: None }.enter();
    }
    Err(anyhow::anyhow!("no node of the lab runs pod {namespace}/{name}"))
        .context("looking for a pod; `kubectl get pods -A -o wide` lists them")
}
