//! What a pod needs next, from its spec and the state of its containers. Pure: the same inputs give the same answer.
//!
//! Called by the pod's worker after every change. A container's runs are numbered from 0; the last one counts. Init containers run one after the
//! other and must succeed, except sidecars (restart policy Always), which only have to be started.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::protocol::ContainerStatus;

/// One run of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Which one; also the container's restart count.
    pub attempt: i32,
    /// What became of it.
    pub status: ContainerStatus,
}

/// The last run of each container that was started, by container name.
pub type Runs = BTreeMap<String, Run>;

/// What a pod needs next.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Containers to start, with the number of the run.
    pub start: Vec<(String, i32)>,
    /// Containers to start again, after a back-off, with the number of the run.
    pub restart: Vec<(String, i32)>,
    /// Whether all init containers are done.
    pub initialized: bool,
    /// Phase of the pod.
    pub phase: Phase,
}

/// Where a pod is in its life.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers were started yet.
    #[default]
    Pending,
    /// At least one container runs or will run again.
    Running,
    /// All ended well and stay so.
    Succeeded,
    /// All ended, at least one badly.
    Failed,
}

impl Phase {
    /// The word Kubernetes uses.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
        }
    }

    /// Whether nothing will change any more.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

/// Decides what comes next. `first_attempt` numbers a container's first run here (not 0 if it ran before the node was power-cycled).
pub fn plan(pod: &Pod, runs: &Runs, first_attempt: impl Fn(&str) -> i32) -> Plan {
    let mut plan = Plan::default();
    let Some(spec) = &pod.spec else { return plan };
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    for container in spec.init_containers.iter().flatten() {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        match runs.get(&container.name) {
            None => {
                plan.start.push((container.name.clone(), first_attempt(&container.name)));
                if !sidecar {
                    return plan;
                }
            }
            Some(run) => match run.status.ended {
                None if sidecar => {}
                None => return plan,
                Some(_) if sidecar => plan.restart.push((container.name.clone(), run.attempt + 1)),
                Some((exit, _)) if exit.success() => {}
                Some(_) if policy == "Never" => {
                    plan.phase = Phase::Failed;
                    return plan;
                }
                Some(_) => {
                    plan.restart.push((container.name.clone(), run.attempt + 1));
                    return plan;
                }
            },
        }
    }
    plan.initialized = true;
    plan_containers(&spec.containers, policy, runs, first_attempt, &mut plan);
    plan
}

fn plan_containers(containers: &[Container], policy: &str, runs: &Runs, first_attempt: impl Fn(&str) -> i32, plan: &mut Plan) {
    let (mut alive, mut failed, mut pending) = (false, false, false);
    for container in containers {
        match runs.get(&container.name) {
            None => {
                pending = true;
                plan.start.push((container.name.clone(), first_attempt(&container.name)));
            }
            Some(run) => match run.status.ended {
                None => alive = true,
                Some((exit, _)) if policy == "Always" || (policy == "OnFailure" && !exit.success()) => {
                    alive = true;
                    plan.restart.push((container.name.clone(), run.attempt + 1));
                }
                Some((exit, _)) => failed |= !exit.success(),
            },
        }
    }
    plan.phase = match (pending, alive, failed) {
        (true, _, _) => Phase::Pending,
        (_, true, _) => Phase::Running,
        (_, _, true) => Phase::Failed,
        _ => Phase::Succeeded,
    };
    if plan.phase.is_final() {
        plan.restart.clear(); // sidecars end with the pod
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::reaper::Exit;
    use serde_json::json;

    fn pod(policy: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"restartPolicy": policy, "initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]},
        }))
        .unwrap()
    }

    fn run(attempt: i32, exit: Option<Exit>) -> Run {
        let now = jiff::Timestamp::UNIX_EPOCH;
        Run {
            attempt,
            status: ContainerStatus {
                pid: 1,
                started: now,
                serving: true,
                ended: exit.map(|exit| (exit, now)),
            },
        }
    }

    fn decide(policy: &str, runs: &[(&str, Option<i32>)]) -> Plan {
        let runs = runs
            .iter()
            .map(|(name, code)| (name.to_string(), run(0, code.map(Exit::Code))))
            .collect();
        plan(&pod(policy), &runs, |_| 0)
    }

    #[test]
    fn init_containers_come_first() {
        assert_eq!(decide("Always", &[]).start, [("i".to_string(), 0)]);
        assert!(decide("Always", &[("i", None)]).start.is_empty());
        assert_eq!(decide("Always", &[("i", Some(1))]).restart, [("i".to_string(), 1)]);
        assert_eq!(decide("Never", &[("i", Some(1))]).phase, Phase::Failed);
        let next = decide("Always", &[("i", Some(0))]);
        assert_eq!(next.start, [("a".to_string(), 0), ("b".to_string(), 0)]);
        assert!(next.initialized);
        assert_eq!(next.phase, Phase::Pending);
    }

    #[test]
    fn restart_policy() {
        let ended = [("i", Some(0)), ("a", Some(1)), ("b", Some(0))];
        let always = decide("Always", &ended);
        assert_eq!((always.restart.len(), always.phase), (2, Phase::Running));
        let on_failure = decide("OnFailure", &ended);
        assert_eq!(on_failure.restart, [("a".to_string(), 1)]);
        assert_eq!(decide("Never", &ended).phase, Phase::Failed);
        assert_eq!(
            decide("Never", &[("i", Some(0)), ("a", Some(0)), ("b", Some(0))]).phase,
            Phase::Succeeded
        );
        assert_eq!(
            decide("Never", &[("i", Some(0)), ("a", Some(0)), ("b", None)]).phase,
            Phase::Running
        );
    }
}
