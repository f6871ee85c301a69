//! A pod's status as Kubernetes shows it, computed from what its worker knows, as a strategic patch: the pod's conditions are merged by
//! type, because others write some of them as well.
//!
//! Pure apart from the time stamps it is given: a status that did not change compares equal, so it is not written again.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::container::Node;
use super::plan::{Phase, Plan, Run, Runs};

/// What a worker knows about its pod.
pub struct Known<'a> {
    /// The object.
    pub pod: &'a Pod,
    /// Its node.
    pub node: &'a Node,
    /// Its addresses, none before its sandbox is made.
    pub addresses: &'a [IpAddr],
    /// The last run of each container.
    pub runs: &'a Runs,
    /// What comes next.
    pub plan: &'a Plan,
    /// Whether a running container passes its readiness probe.
    pub ready: &'a (dyn Fn(&str) -> bool + Sync),
    /// When the kubelet first saw the pod.
    pub since: jiff::Timestamp,
}

impl Known<'_> {
    /// The status to write.
    pub fn status(&self) -> Value {
        let spec = self.pod.spec.as_ref();
        let containers = spec.map_or(&[][..], |spec| &spec.containers);
        let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let all_ready = !containers.is_empty() && containers.iter().all(|container| self.is_ready(container));
        let ips = |addresses: &[IpAddr]| {
            let ips = addresses.iter().map(|address| json!({"ip": address}));
            std::iter::once(json!({"$patch": "replace"})).chain(ips).collect::<Vec<_>>()
        };
        let mut status = json!({
            "phase": self.plan.phase.name(),
            "hostIP": self.node.addresses.first(),
            "hostIPs": ips(&self.node.addresses),
            "startTime": self.since,
            "qosClass": "BestEffort",
            "conditions": [
                self.condition("PodScheduled", true, ""),
                self.condition("PodReadyToStartContainers", !self.addresses.is_empty(), "SandboxNotReady"),
                self.condition("Initialized", self.plan.initialized, "ContainersNotInitialized"),
                self.condition("ContainersReady", all_ready, self.not_ready_reason()),
                self.condition("Ready", all_ready, self.not_ready_reason()),
            ],
            "containerStatuses": containers.iter().map(|container| self.container(container)).collect::<Vec<_>>(),
        });
        if !init.is_empty() {
            status["initContainerStatuses"] = init.iter().map(|container| self.container(container)).collect();
        }
        if let Some(first) = self.addresses.first() {
            status["podIP"] = json!(first);
            status["podIPs"] = json!(ips(self.addresses));
        }
        status
    }

    fn not_ready_reason(&self) -> &'static str {
        match self.plan.phase {
            Phase::Succeeded => "PodCompleted",
            Phase::Failed => "PodFailed",
            _ => "ContainersNotReady",
        }
    }

    /// Also without a probe what the lab itself runs is ready only when it serves: who waited for a pod may talk to it.
    fn is_ready(&self, container: &Container) -> bool {
        let serves = |run: &Run| run.status.serving && run.status.ended.is_none();
        self.runs.get(&container.name).is_some_and(serves) && (self.ready)(&container.name)
    }

    /// Keeps the time of an unchanged condition, and has no reason for one that holds.
    fn condition(&self, kind: &str, holds: bool, reason: &str) -> Value {
        let word = if holds { "True" } else { "False" };
        let conditions = self.pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let before = conditions
            .filter(|condition| condition.type_ == kind && condition.status == word)
            .find_map(|condition| condition.last_transition_time.as_ref());
        let time = before.map_or_else(now, |time| time.0);
        json!({"type": kind, "status": word, "lastTransitionTime": time, "reason": (!holds).then_some(reason)})
    }

    fn container(&self, container: &Container) -> Value {
        let name = &container.name;
        let run = self.runs.get(name);
        let waits = self.plan.restart.iter().any(|(other, _)| other == name);
        let image = container.image.clone().unwrap_or_default();
        let mut status = json!({
            "name": name,
            "image": image,
            "imageID": "",
            "ready": self.is_ready(container),
            "started": run.is_some_and(|run| run.status.ended.is_none()),
            "restartCount": run.map_or(0, |run| run.attempt),
            "state": {"waiting": {"reason": if self.addresses.is_empty() { "ContainerCreating" } else { "PodInitializing" }}},
        });
        let Some(run) = run else { return status };
        status["containerID"] = json!(format!("lab://{}", run.status.pid));
        status["state"] = match run.status.ended {
            None => json!({"running": {"startedAt": seconds(run.status.started)}}),
            Some(_) if waits => {
                status["lastState"] = json!({"terminated": ended(run)});
                json!({"waiting": {"reason": "CrashLoopBackOff", "message": format!("container {name} ended and will be started again")}})
            }
            Some(_) => json!({"terminated": ended(run)}),
        };
        status
    }
}

fn ended(run: &Run) -> Value {
    let Some((exit, at)) = run.status.ended else { return Value::Null };
    json!({
        "exitCode": exit.code(),
        "reason": if exit.success() { "Completed" } else { "Error" },
        "startedAt": seconds(run.status.started),
        "finishedAt": seconds(at),
    })
}

fn seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The time in the resolution Kubernetes stores.
pub fn now() -> jiff::Timestamp {
    seconds(jiff::Timestamp::now())
}
