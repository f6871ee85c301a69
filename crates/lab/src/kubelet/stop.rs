//! How a pod ends: its hooks, its containers, its network, its files and its object, in that order.
//!
//! Until its last container is gone a pod that is to be deleted goes on as before: its readiness is probed and reported, so that services
//! can tell an endpoint that still answers from one that does not. Called by the pod's worker when the pod is not wanted any more.

use std::net::IpAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Preconditions};
use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::time::Instant;

use super::container::{log_directory, parse_id};
use super::plan::{Plan, plan};
use super::pod::{Desired, Worker, attachment, find, load, record_path};
use super::{Shared, backoff, cni, files, probe, sandbox};
use crate::pods::PodRecord;
use crate::root::NETLOOM;

/// What a container is given after its hook used up all of its time.
const LAST_CHANCE: Duration = Duration::from_secs(2);
/// What a pod is given that is gone from the API already.
const FORCED: Duration = Duration::from_secs(1);

/// A container to stop.
struct Stopping {
    shared: Arc<Shared>,
    id: String,
    pid: i32,
    hook: Option<LifecycleHandler>,
    container: Option<Container>,
    pod: Option<Arc<Pod>>,
    address: Option<IpAddr>,
}

impl Worker {
    /// Ends the pod: its containers, its sandbox, its logs and its object.
    pub(super) async fn remove(mut self) {
        for probes in self.probes.values_mut() {
            if let Some(liveness) = probes.liveness.take() {
                liveness.abort();
            }
        }
        let record = load(&self.uid);
        self.stop_containers(record.as_ref()).await;
        if let Some(record) = record {
            self.release(&record).await;
        }
        for id in self.own_containers() {
            if let Err(error) = self.shared.runtime.remove(&id).await {
                tracing::warn!(error = format!("{error:#}"), id, "cannot forget a container");
            }
        }
        let _ = std::fs::remove_dir_all(log_directory(&self.uid));
        if let Some(pod) = self.last_known()
            && let Err(error) = self.delete_object(&pod).await
        {
            tracing::warn!(error = format!("{error:#}"), pod = pod.name_any(), "cannot delete a pod's object");
        }
    }

    /// Gives back the pod's network and files; its logs stay.
    pub(super) async fn release(&mut self, record: &PodRecord) {
        for (_, probes) in self.probes.drain() {
            probes.abort();
        }
        if let Some(attachment) = attachment(record) {
            let mut backoff = backoff();
            while let Err(error) = cni::del(&attachment).await {
                tracing::warn!(error = format!("{error:#}"), pod = record.name, "cannot detach a pod");
                tokio::time::sleep(backoff.delay()).await;
            }
            if let Err(error) = sandbox::remove(&attachment.network) {
                tracing::warn!(error = format!("{error:#}"), pod = record.name, "cannot remove a sandbox");
            }
        }
        files::remove(&self.uid);
        let _ = std::fs::remove_file(record_path(&self.uid));
    }

    /// The pod as the API server last had it.
    fn last_known(&self) -> Option<Arc<Pod>> {
        match &*self.desired.borrow() {
            Desired::Pod(pod) => Some(pod.clone()),
            Desired::Gone => None,
        }
    }

    /// How long the containers may take, all in all.
    fn grace(&self) -> Duration {
        let Some(pod) = self.last_known() else { return FORCED };
        let asked = pod.metadata.deletion_grace_period_seconds;
        let own = || pod.spec.as_ref()?.termination_grace_period_seconds;
        let seconds = asked.or_else(own).and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(seconds.unwrap_or(30))
    }

    async fn stop_containers(&mut self, record: Option<&PodRecord>) {
        let begin = Instant::now();
        let (deadline, until) = watch::channel(begin + self.grace());
        let running = self.running(record);
        if running.is_empty() {
            return;
        }
        let mut stopped = Box::pin(join_all(running.into_iter().map(|container| container.stop(until.clone()))));
        let mut containers = self.shared.runtime.watch();
        let mut verdicts = self.verdicts.subscribe();
        loop {
            tokio::select! {
                _ = &mut stopped => return,
                _ = containers.changed() => {}
                _ = verdicts.changed() => {}
                changed = self.desired.changed() => {
                    if changed.is_err() {
                        return; // the kubelet is ending; the next one goes on
                    }
                    // Somebody may have lost patience; more time is never given.
                    let sooner = if self.last_known().is_some() { begin + self.grace() } else { Instant::now() + FORCED };
                    deadline.send_if_modified(|deadline| {
                        let moved = sooner < *deadline;
                        *deadline = sooner.min(*deadline);
                        moved
                    });
                }
            }
            if let (Some(pod), Some(record)) = (self.last_known(), record) {
                let runs = self.runs();
                let rest = Plan {
                    start: Vec::new(),
                    restart: Vec::new(),
                    ..plan(&pod, &runs, |_| 0)
                };
                self.report(&pod, record, &runs, &rest).await;
            }
        }
    }

    fn running(&self, record: Option<&PodRecord>) -> Vec<Stopping> {
        let pod = self.last_known();
        let all = self.shared.runtime.watch();
        let all = all.borrow();
        let own = all
            .iter()
            .filter_map(|(id, status)| Some((id, status, parse_id(id).filter(|(uid, ..)| *uid == self.uid)?)));
        own.filter(|(_, status, _)| status.ended.is_none())
            .map(|(id, status, (_, name, _))| {
                let container = pod.as_ref().and_then(|pod| find(pod, name)).cloned();
                let lifecycle = container.as_ref().and_then(|container| container.lifecycle.clone());
                Stopping {
                    shared: self.shared.clone(),
                    id: id.clone(),
                    pid: status.pid,
                    hook: lifecycle.and_then(|lifecycle| lifecycle.pre_stop),
                    container,
                    pod: pod.clone(),
                    address: record.and_then(|record| record.addresses.first().copied()),
                }
            })
            .collect()
    }

    fn own_containers(&self) -> Vec<String> {
        let containers = self.shared.runtime.watch();
        let all = containers.borrow();
        all.keys()
            .filter(|id| parse_id(id).is_some_and(|(uid, ..)| uid == self.uid))
            .cloned()
            .collect()
    }

    async fn delete_object(&self, pod: &Pod) -> anyhow::Result<()> {
        let api = Api::<Pod>::namespaced(self.shared.client.clone(), &pod.namespace().unwrap_or_default());
        let only_this = Preconditions {
            uid: Some(self.uid.clone()),
            resource_version: None,
        };
        match api
            .delete(&pod.name_any(), &DeleteParams::default().grace_period(0).preconditions(only_this))
            .await
        {
            Err(kube::Error::Api(refusal)) if refusal.code == 404 || refusal.code == 409 => Ok(()),
            other => other.map(drop).context("deleting the object"),
        }
    }
}

impl Stopping {
    /// Runs the container's hook, asks it to end, and ends it when its time is over.
    async fn stop(self, mut deadline: watch::Receiver<Instant>) {
        if let (Some(pod), Some((_, name, _))) = (&self.pod, parse_id(&self.id)) {
            self.shared.events.normal(pod, "Killing", format!("Stopping container {name}"));
        }
        let shared = self.shared.clone();
        let mut containers = shared.runtime.watch();
        let ended = |all: &super::runtime::Running| all.get(&self.id).is_none_or(|status| status.ended.is_some());
        if let Some(hook) = &self.hook {
            tokio::select! {
                outcome = self.run_hook(hook) => if let (Err(error), Some(pod)) = (outcome, &self.pod) {
                    self.shared.events.warning(pod, "FailedPreStopHook", format!("{error:#}"));
                },
                // A container that ended by itself needs nothing more.
                _ = containers.wait_for(|all| ended(all)) => return,
                () = passed(&mut deadline) => {}
            }
        }
        let _ = self.shared.runtime.signal(&self.id, Signal::SIGTERM).await;
        let least = Instant::now() + if self.hook.is_some() { LAST_CHANCE } else { Duration::ZERO };
        let patience = async {
            passed(&mut deadline).await;
            tokio::time::sleep_until(least).await;
        };
        tokio::select! {
            _ = containers.wait_for(|all| ended(all)) => return,
            () = patience => {}
        }
        let _ = self.shared.runtime.signal(&self.id, Signal::SIGKILL).await;
        // Nothing survives that, except a process the kernel holds; the pod does not wait for such a one for ever.
        let _ = tokio::time::timeout(Duration::from_secs(10), containers.wait_for(|all| ended(all))).await;
    }

    async fn run_hook(&self, hook: &LifecycleHandler) -> anyhow::Result<()> {
        if let Some(sleep) = &hook.sleep {
            tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        }
        if let (Some(http), Some(address), Some(container)) = (&hook.http_get, self.address, &self.container)
            && !probe::requested(http, address, container).await
        {
            bail!("the request of the preStop hook of container {} failed", container.name);
        }
        let Some(exec) = &hook.exec else { return Ok(()) };
        let mut command = tokio::process::Command::new(NETLOOM);
        command.args(["lab", "enter"]);
        for (flag, namespace) in [("--network", "net"), ("--uts", "uts"), ("--mounts", "mnt")] {
            command.arg(flag).arg(format!("/proc/{}/ns/{namespace}", self.pid));
        }
        let status = command
            .arg("--")
            .args(exec.command.iter().flatten())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .status()
            .await
            .context("running a preStop hook")?;
        if !status.success() {
            bail!("the command of a preStop hook ended with {status}");
        }
        Ok(())
    }
}

/// Returns when the time is over, which may come nearer meanwhile.
async fn passed(deadline: &mut watch::Receiver<Instant>) {
    loop {
        let now = *deadline.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(now) => return,
            changed = deadline.changed() => if changed.is_err() {
                return tokio::time::sleep_until(now).await;
            },
        }
    }
}
