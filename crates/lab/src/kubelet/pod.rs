//! One pod's worker: makes its sandbox, keeps its containers as its plan says and writes its status; [`super::stop`] is how it ends.
//!
//! Each pod has its own task, so pods never wait for each other. The worker acts on state, never on events: after a restart of the kubelet it
//! reads the record and the runtime, and goes on.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::cni::Attachment;
use super::container::{id, parse_id, spec};
use super::plan::{Plan, Run, Runs, plan};
use super::status::{self, Known};
use super::{Shared, backoff, cni, probe, sandbox};
use crate::pods::{self, PodRecord, RECORDS};

/// What a pod should be.
#[derive(Debug, Clone)]
pub enum Desired {
    /// This, or going away if it says so.
    Pod(Arc<Pod>),
    /// Nothing: the API server no longer has it.
    Gone,
}

impl Desired {
    /// The pod, if it should run.
    fn alive(&self) -> Option<&Arc<Pod>> {
        match self {
            Desired::Pod(pod) if pod.metadata.deletion_timestamp.is_none() => Some(pod),
            _ => None,
        }
    }
}

/// The task of one pod.
pub struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) uid: String,
    pub(super) desired: watch::Receiver<Desired>,
    since: jiff::Timestamp,
    first_attempts: BTreeMap<String, i32>,
    written: Value,
    restarts: HashMap<String, Restart>,
    pub(super) probes: HashMap<String, Probes>,
    pub(super) verdicts: watch::Sender<BTreeMap<String, bool>>,
}

/// The probes of a running container.
#[derive(Default)]
pub(super) struct Probes {
    pub(super) readiness: Option<AbortHandle>,
    pub(super) liveness: Option<AbortHandle>,
}

impl Probes {
    pub(super) fn abort(self) {
        self.readiness.into_iter().chain(self.liveness).for_each(|task| task.abort());
    }
}

struct Restart {
    attempt: i32,
    due: Instant,
    delay: Duration,
}

impl Worker {
    /// Starts a worker; it ends when the pod is gone.
    pub fn spawn(shared: Arc<Shared>, uid: String, desired: Desired) -> watch::Sender<Desired> {
        let (sender, desired) = watch::channel(desired);
        let (since, first_attempts) = match &*desired.borrow() {
            Desired::Pod(pod) => (started(pod), first_attempts(pod)),
            Desired::Gone => (status::now(), BTreeMap::new()),
        };
        let worker = Worker {
            shared,
            uid,
            desired,
            since,
            first_attempts,
            written: Value::Null,
            restarts: HashMap::new(),
            probes: HashMap::new(),
            verdicts: watch::Sender::new(BTreeMap::new()),
        };
        tokio::spawn(worker.run());
        sender
    }

    async fn run(mut self) {
        let ended = matches!(&*self.desired.borrow(), Desired::Pod(pod) if has_ended(pod));
        if !ended && let Some(record) = self.sandbox().await {
            self.keep(&record).await;
        }
        // A pod that ended keeps its object until somebody deletes it.
        while self.desired.borrow_and_update().alive().is_some() {
            if self.desired.changed().await.is_err() {
                return; // the kubelet is ending, not the pod
            }
        }
        self.remove().await;
    }

    /// The pod's sandbox, made if it is not there; `None` if the pod is not wanted any more.
    async fn sandbox(&mut self) -> Option<PodRecord> {
        let pod = self.desired.borrow().alive().cloned()?;
        let mut record = match load(&self.uid) {
            Some(record) => record,
            // Recorded before anything exists, so that whatever is made is also removed.
            None => self.recorded(self.fresh_record(&pod))?,
        };
        if !record.addresses.is_empty() {
            return Some(record);
        }
        self.report(&pod, &record, &Runs::new(), &Plan::default()).await;
        let attachment = attachment(&record)?;
        let mut backoff = backoff();
        loop {
            let added = tokio::select! {
                added = attach(&attachment) => added,
                () = unwanted(&mut self.desired) => return None,
            };
            match added {
                Ok(addresses) => {
                    record.addresses = addresses;
                    return self.recorded(record);
                }
                Err(error) => {
                    self.shared
                        .events
                        .warning(&pod, "FailedCreatePodSandBox", format!("Failed to create pod sandbox: {error:#}"));
                    // What a failed ADD left behind must not be in the way of the next one.
                    let _ = cni::del(&attachment).await;
                    tokio::select! {
                        () = tokio::time::sleep(backoff.delay()) => {}
                        () = unwanted(&mut self.desired) => return None,
                    }
                }
            }
        }
    }

    fn fresh_record(&self, pod: &Pod) -> PodRecord {
        let sandbox = uuid::Uuid::new_v4().simple().to_string();
        let host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        PodRecord {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            uid: self.uid.clone(),
            network: (!host).then(|| sandbox::path(&sandbox)),
            addresses: if host { self.shared.node.addresses.clone() } else { Vec::new() },
            sandbox,
            port_mappings: port_mappings(pod),
        }
    }

    fn recorded(&self, record: PodRecord) -> Option<PodRecord> {
        let path = record_path(&self.uid);
        let written = serde_json::to_vec(&record)
            .map_err(anyhow::Error::from)
            .and_then(|bytes| crate::home::write_private(&path, &bytes));
        if let Err(error) = written {
            tracing::error!(error = format!("{error:#}"), pod = record.name, "cannot record a pod");
            return None;
        }
        Some(record)
    }

    /// Keeps the containers as they should be until the pod ends or is not wanted.
    async fn keep(&mut self, record: &PodRecord) {
        let pod = self.desired.borrow().alive().cloned();
        if let Some(pod) = pod
            && let Err(error) = super::files::write(&pod, record, &self.shared.node)
        {
            let message = format!("cannot write the files of the pod: {error:#}");
            self.shared.events.warning(&pod, "Failed", message);
        }
        let mut containers = self.shared.runtime.watch();
        let mut verdicts = self.verdicts.subscribe();
        loop {
            containers.mark_unchanged();
            verdicts.mark_unchanged();
            let Some(pod) = self.desired.borrow_and_update().alive().cloned() else {
                return;
            };
            let runs = self.runs();
            let plan = plan(&pod, &runs, |name| self.first_attempts.get(name).copied().unwrap_or(0));
            for (name, attempt) in &plan.start {
                self.start(&pod, record, name, *attempt).await;
            }
            let due = self.restart(&pod, record, &runs, &plan).await;
            self.probe(&pod, record, &runs);
            if plan.start.is_empty() {
                self.report(&pod, record, &runs, &plan).await;
            }
            if plan.phase.is_final() {
                return self.release(record).await;
            }
            tokio::select! {
                changed = self.desired.changed() => if changed.is_err() { return },
                _ = containers.changed() => {}
                _ = verdicts.changed() => {}
                () = sleep_until(due) => {}
            }
        }
    }

    pub(super) fn runs(&self) -> Runs {
        let mut runs = Runs::new();
        for (id, status) in self.shared.runtime.watch().borrow().iter() {
            if let Some((uid, name, attempt)) = parse_id(id)
                && uid == self.uid
                && runs.get(name).is_none_or(|run: &Run| run.attempt < attempt)
            {
                runs.insert(
                    name.into(),
                    Run {
                        attempt,
                        status: status.clone(),
                    },
                );
            }
        }
        runs
    }

    async fn start(&mut self, pod: &Pod, record: &PodRecord, name: &str, attempt: i32) {
        let Some(container) = find(pod, name) else { return };
        let started = match spec(pod, record, &self.shared.node, container, attempt) {
            Ok(spec) => self.shared.runtime.start(spec).await,
            Err(error) => Err(error),
        };
        match started {
            Ok(()) => self.shared.events.normal(pod, "Started", format!("Started container {name}")),
            Err(error) => {
                self.shared
                    .events
                    .warning(pod, "Failed", format!("cannot start container {name}: {error:#}"));
                // Nothing else would wake this worker.
                self.restarts.insert(
                    name.into(),
                    Restart {
                        attempt,
                        due: Instant::now() + Duration::from_secs(5),
                        delay: Duration::from_secs(5),
                    },
                );
            }
        }
    }

    /// Starts containers whose back-off is over; returns when the next one is due.
    async fn restart(&mut self, pod: &Pod, record: &PodRecord, runs: &Runs, plan: &Plan) -> Option<Instant> {
        for (name, attempt) in &plan.restart {
            let lasted = runs
                .get(name)
                .and_then(|run| run.status.ended.map(|(_, end)| end.duration_since(run.status.started)));
            let steady = lasted.is_none_or(|lasted| lasted.as_secs() >= 60);
            let before = self.restarts.get(name);
            if before.is_none_or(|restart| restart.attempt != *attempt) {
                let delay = before.filter(|_| !steady).map_or(Duration::ZERO, |before| {
                    (before.delay * 2).clamp(Duration::from_secs(1), Duration::from_secs(30))
                });
                self.restarts.insert(
                    name.clone(),
                    Restart {
                        attempt: *attempt,
                        due: Instant::now() + delay,
                        delay,
                    },
                );
            }
            if self.restarts.get(name).is_some_and(|restart| restart.due <= Instant::now()) {
                self.start(pod, record, name, *attempt).await;
            }
        }
        self.restarts
            .values()
            .map(|restart| restart.due)
            .filter(|due| *due > Instant::now())
            .min()
    }

    fn probe(&mut self, pod: &Pod, record: &PodRecord, runs: &Runs) {
        let running: BTreeMap<String, &Container> = runs
            .iter()
            .filter(|(_, run)| run.status.ended.is_none())
            .filter_map(|(name, run)| Some((id(&self.uid, name, run.attempt), find(pod, name)?)))
            .collect();
        for (_, probes) in self.probes.extract_if(|id, _| !running.contains_key(id)) {
            probes.abort();
        }
        let Some(address) = record.addresses.first().copied() else { return };
        for (id, container) in running {
            if self.probes.contains_key(&id) {
                continue;
            }
            let target = probe::Target {
                address,
                network: record.network.clone(),
                files: pods::files(&self.uid),
                container: container.clone(),
            };
            let mut probes = Probes::default();
            if let Some(readiness) = container.readiness_probe.clone() {
                let (verdicts, id) = (self.verdicts.clone(), id.clone());
                let report = move |ready| {
                    verdicts.send_modify(|all| {
                        all.insert(id.clone(), ready);
                    });
                };
                probes.readiness = Some(tokio::spawn(probe::watch(readiness, target.clone(), report)).abort_handle());
            }
            if let Some(liveness) = container.liveness_probe.clone() {
                let (shared, id, pod, name) = (self.shared.clone(), id.clone(), pod.clone(), container.name.clone());
                let report = move |alive: bool| {
                    if !alive {
                        shared.events.warning(
                            &pod,
                            "Unhealthy",
                            format!("Container {name} failed liveness probe, will be restarted"),
                        );
                        let (runtime, id) = (shared.runtime.clone(), id.clone());
                        tokio::spawn(async move { runtime.signal(&id, Signal::SIGKILL).await });
                    }
                };
                probes.liveness = Some(tokio::spawn(probe::watch(liveness, target, report)).abort_handle());
            }
            self.probes.insert(id, probes);
        }
    }

    pub(super) async fn report(&mut self, pod: &Pod, record: &PodRecord, runs: &Runs, plan: &Plan) {
        let verdicts = self.verdicts.borrow().clone();
        let ready = |name: &str| {
            let probed = find(pod, name).is_some_and(|container| container.readiness_probe.is_some());
            !probed
                || runs
                    .get(name)
                    .is_some_and(|run| verdicts.get(&id(&self.uid, name, run.attempt)) == Some(&true))
        };
        let known = Known {
            pod,
            node: &self.shared.node,
            addresses: &record.addresses,
            runs,
            plan,
            ready: &ready,
            since: self.since,
        };
        let status = known.status();
        if status == self.written {
            return;
        }
        let api = Api::<Pod>::namespaced(self.shared.client.clone(), &record.namespace);
        let patch = json!({"metadata": {"uid": self.uid}, "status": status});
        // Of the conditions some belong to others: a plain merge would drop what the controller says about the pod.
        match api
            .patch_status(&record.name, &PatchParams::default(), &Patch::Strategic(&patch))
            .await
        {
            Ok(_) => self.written = status,
            Err(kube::Error::Api(refusal)) if refusal.code == 404 || refusal.code == 409 => {} // deleted meanwhile; the watch will say so
            Err(error) => tracing::warn!(%error, pod = record.name, "cannot write a pod's status"),
        }
    }
}

async fn attach(attachment: &Attachment) -> anyhow::Result<Vec<IpAddr>> {
    if !attachment.network.exists() {
        sandbox::create(attachment.network.clone()).await?;
    }
    cni::add(attachment).await
}

/// Returns when the pod should not run any more.
async fn unwanted(desired: &mut watch::Receiver<Desired>) {
    let _ = desired.wait_for(|desired| desired.alive().is_none()).await;
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

pub(super) fn find<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
        .find(|container| container.name == name)
}

fn started(pod: &Pod) -> jiff::Timestamp {
    pod.status
        .as_ref()
        .and_then(|status| status.start_time.as_ref())
        .map_or_else(status::now, |time| time.0)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// A container that ran before the node was power-cycled counts its runs on.
fn first_attempts(pod: &Pod) -> BTreeMap<String, i32> {
    let statuses = pod.status.iter().flat_map(|status| {
        status
            .container_statuses
            .iter()
            .flatten()
            .chain(status.init_container_statuses.iter().flatten())
    });
    statuses
        .filter(|status| status.container_id.is_some())
        .map(|status| (status.name.clone(), status.restart_count + 1))
        .collect()
}

pub(super) fn attachment(record: &PodRecord) -> Option<Attachment> {
    let network = record.network.clone()?;
    Some(Attachment {
        sandbox: record.sandbox.clone(),
        network,
        namespace: record.namespace.clone(),
        pod: record.name.clone(),
        uid: record.uid.clone(),
        port_mappings: record.port_mappings.clone(),
    })
}

/// Ports of the node that a pod's containers ask for.
fn port_mappings(pod: &Pod) -> Vec<serde_json::Value> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            Some(json!({
                "hostPort": port.host_port?,
                "containerPort": port.container_port,
                "protocol": port.protocol.as_deref().unwrap_or("TCP").to_lowercase(),
                "hostIP": port.host_ip.as_deref().unwrap_or_default(),
            }))
        })
        .collect()
}

pub(super) fn record_path(uid: &str) -> std::path::PathBuf {
    Path::new(RECORDS).join(format!("{uid}.json"))
}

/// The record of a complete sandbox or of one that was being made.
pub(super) fn load(uid: &str) -> Option<PodRecord> {
    serde_json::from_slice(&std::fs::read(record_path(uid)).ok()?).ok()
}
