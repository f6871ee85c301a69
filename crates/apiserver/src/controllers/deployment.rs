//! Deployments: one ReplicaSet per template, and the move of replicas from the old ones to the new one within the limits
//! of `maxSurge` and `maxUnavailable`. Each step is computed from the counts the ReplicaSets report; the next step comes
//! with their next change.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Reconciler, key_of, owned_by, owner_key, reference, report};
use crate::{
    api::{Api, Deletion, Part},
    json,
    kind::Kind,
    status::Result,
    store::{Event, Key, Object},
};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";

/// The controller.
pub(crate) struct Deployments;

impl Reconciler for Deployments {
    const NAME: &'static str = "deployment-controller";
    type Key = Key;

    fn resources(&self, _: &Api) -> Vec<String> {
        vec!["deployments.apps".into(), "replicasets.apps".into()]
    }

    fn affected(&mut self, _: &Api, resource: &str, event: &Event) -> Vec<Key> {
        match resource {
            "replicasets.apps" => owner_key(&event.object.value, "Deployment").into_iter().collect(),
            _ => vec![key_of(&event.object.value)],
        }
    }

    async fn reconcile(&mut self, api: &Api, (namespace, name): &Key) -> Result<()> {
        let kind = api.registry.find("apps", "v1", "deployments")?;
        let sets = api.registry.find("apps", "v1", "replicasets")?;
        let deployment = api.get(&kind, namespace, name)?;
        if json::terminating(&deployment.value) {
            return Ok(());
        }
        let rollout = Rollout {
            api,
            sets: &sets,
            deployment: &deployment.value,
        };
        let paused = json::flag(&deployment.value, "/spec/paused");
        if rollout.current().is_none() && !paused {
            let recreate = json::text(&deployment.value, "/spec/strategy/type") == "Recreate";
            if recreate && rollout.retire_all().await? {
                return rollout.report_status(&kind).await;
            }
            rollout.create(&kind).await?;
        }
        rollout.step().await?;
        rollout.forget_oldest().await?;
        rollout.report_status(&kind).await
    }
}

struct Rollout<'a> {
    api: &'a Api,
    sets: &'a Kind,
    deployment: &'a Value,
}

impl Rollout<'_> {
    fn all(&self) -> Vec<Arc<Object>> {
        owned_by(self.api, "replicasets.apps", self.deployment)
    }

    fn is_current(&self, set: &Value) -> bool {
        json::text(set, &format!("/metadata/labels/{HASH}")) == hash(json::at(self.deployment, "/spec/template"))
    }

    fn current(&self) -> Option<Arc<Object>> {
        self.all().into_iter().find(|set| self.is_current(&set.value))
    }

    fn desired(&self) -> i64 {
        json::number(self.deployment, "/spec/replicas").unwrap_or(1)
    }

    /// Scales all old ReplicaSets to nothing; whether pods of theirs are left.
    async fn retire_all(&self) -> Result<bool> {
        let mut left = false;
        for set in self.all() {
            self.scale(&set.value, 0).await?;
            left |= !owned_by(self.api, "pods", &set.value).is_empty();
        }
        Ok(left)
    }

    async fn create(&self, kind: &Kind) -> Result<()> {
        let hash = hash(json::at(self.deployment, "/spec/template"));
        let mut template = json::at(self.deployment, "/spec/template").clone();
        json::set(&mut template, &format!("/metadata/labels/{HASH}"), hash.as_str());
        let mut selector = json::at(self.deployment, "/spec/selector").clone();
        json::set(&mut selector, &format!("/matchLabels/{HASH}"), hash.as_str());
        let revision = self.all().iter().map(|set| revision(&set.value)).max().unwrap_or(0) + 1;
        let set = json!({
            "metadata": {
                "name": format!("{}-{hash}", json::name(self.deployment)),
                "labels": json::at(&template, "/metadata/labels"),
                "annotations": { "deployment.kubernetes.io/revision": revision.to_string() },
                "ownerReferences": [reference(kind, self.deployment)],
            },
            "spec": { "replicas": 0, "selector": selector, "template": template },
        });
        self.api
            .create(self.sets, json::namespace(self.deployment), set, false)
            .await
            .map(drop)
    }

    /// One step of the rollout: the new one up as far as allowed, old ones down as far as allowed.
    async fn step(&self) -> Result<()> {
        let Some(current) = self.current() else { return Ok(()) };
        let latest = self.all().iter().map(|set| revision(&set.value)).max().unwrap_or(1);
        if revision(&current.value) < latest {
            // A roll-back: the old template is the newest revision again.
            self.annotate(&current.value, latest + 1).await?;
        }
        let old: Vec<_> = self.all().into_iter().filter(|set| !self.is_current(&set.value)).collect();
        let desired = self.desired();
        let (surge, unavailable) = self.limits();
        let total: i64 = old.iter().map(|set| replicas(&set.value)).sum::<i64>() + replicas(&current.value);
        let room = (desired + surge - total).max(0);
        let new = if old.iter().all(|set| replicas(&set.value) == 0) {
            desired
        } else {
            (replicas(&current.value) + room).min(desired)
        };
        self.scale(&current.value, new).await?;

        let total = total - replicas(&current.value) + new;
        let starting = (new - available(&current.value)).max(0);
        let mut excess = (total - (desired - unavailable) - starting).max(0);
        // Replicas that do not work are given up first.
        for set in &old {
            let broken = (replicas(&set.value) - available(&set.value)).max(0).min(excess);
            let spare = (replicas(&set.value) - broken).min(excess - broken);
            if broken + spare > 0 {
                self.scale(&set.value, replicas(&set.value) - broken - spare).await?;
                excess -= broken + spare;
            }
        }
        Ok(())
    }

    fn limits(&self) -> (i64, i64) {
        let desired = usize::try_from(self.desired()).unwrap_or(0);
        let limit = |name: &str, up: bool| {
            let value = json::at(self.deployment, &format!("/spec/strategy/rollingUpdate/{name}"));
            i64::try_from(share(value, desired, up)).unwrap_or(0)
        };
        match (limit("maxSurge", true), limit("maxUnavailable", false)) {
            // Both zero would never move.
            (0, 0) => (0, 1),
            limits => limits,
        }
    }

    async fn scale(&self, set: &Value, wanted: i64) -> Result<()> {
        let before = replicas(set);
        if before == wanted {
            return Ok(());
        }
        let change = |old: &Value| {
            let mut new = old.clone();
            json::set(&mut new, "/spec/replicas", wanted);
            Ok(new)
        };
        self.api
            .update(self.sets, json::namespace(set), json::name(set), Part::Main, false, change)
            .await?;
        let direction = if wanted > before { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {} from {before} to {wanted}", json::name(set));
        report(
            self.api,
            Deployments::NAME,
            self.deployment,
            "Normal",
            "ScalingReplicaSet",
            &message,
        )
        .await
    }

    async fn annotate(&self, set: &Value, revision: i64) -> Result<()> {
        let change = |old: &Value| {
            let mut new = old.clone();
            json::set(&mut new, REVISION, revision.to_string());
            Ok(new)
        };
        self.api
            .update(self.sets, json::namespace(set), json::name(set), Part::Main, false, change)
            .await
            .map(drop)
    }

    /// Deletes the oldest empty ReplicaSets beyond the history limit.
    async fn forget_oldest(&self) -> Result<()> {
        let limit = usize::try_from(json::number(self.deployment, "/spec/revisionHistoryLimit").unwrap_or(10)).unwrap_or(10);
        let mut old: Vec<_> = self.all().into_iter().filter(|set| !self.is_current(&set.value)).collect();
        old.retain(|set| replicas(&set.value) == 0 && json::number(&set.value, "/status/replicas").unwrap_or(0) == 0);
        old.sort_by_key(|set| revision(&set.value));
        for set in old.iter().take(old.len().saturating_sub(limit)) {
            self.api
                .delete(self.sets, json::namespace(&set.value), json::name(&set.value), &Deletion::default())
                .await?;
        }
        Ok(())
    }

    async fn report_status(&self, kind: &Kind) -> Result<()> {
        let sets = self.all();
        let sum = |path: &str| sets.iter().filter_map(|set| json::number(&set.value, path)).sum::<i64>();
        let current = self.current();
        let of_current = |path: &str| current.as_ref().and_then(|set| json::number(&set.value, path)).unwrap_or(0);
        let (desired, total, working) = (self.desired(), sum("/status/replicas"), sum("/status/availableReplicas"));
        let updated = of_current("/status/replicas");
        let complete = updated == desired && total == desired && working >= desired;
        let (_, unavailable) = self.limits();
        let revision = current.as_ref().map_or(0, |set| revision(&set.value)).to_string();
        let set_name = current.as_ref().map_or("", |set| json::name(&set.value)).to_owned();
        let generation = json::at(self.deployment, "/metadata/generation").clone();
        let change = |old: &Value| {
            let mut new = old.clone();
            json::set(&mut new, REVISION, revision.as_str());
            let conditions = json::at(old, "/status/conditions").clone();
            let mut status = json!({ "observedGeneration": generation });
            let counts = [
                ("replicas", total),
                ("updatedReplicas", updated),
                ("readyReplicas", sum("/status/readyReplicas")),
                ("availableReplicas", working),
                ("unavailableReplicas", (desired.max(total) - working).max(0)),
            ];
            for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                status[name] = json!(count);
            }
            json::set(&mut new, "/status", status);
            json::set(&mut new, "/status/conditions", conditions);
            if working >= desired - unavailable {
                json::set_condition(
                    &mut new,
                    "Available",
                    "True",
                    "MinimumReplicasAvailable",
                    "Deployment has minimum availability.",
                );
            } else {
                json::set_condition(
                    &mut new,
                    "Available",
                    "False",
                    "MinimumReplicasUnavailable",
                    "Deployment does not have minimum availability.",
                );
            }
            if complete {
                let message = format!("ReplicaSet \"{set_name}\" has successfully progressed.");
                json::set_condition(&mut new, "Progressing", "True", "NewReplicaSetAvailable", &message);
            } else {
                let message = format!("ReplicaSet \"{set_name}\" is progressing.");
                json::set_condition(&mut new, "Progressing", "True", "ReplicaSetUpdated", &message);
            }
            Ok(new)
        };
        let (namespace, name) = (json::namespace(self.deployment), json::name(self.deployment));
        self.api.update(kind, namespace, name, Part::Whole, false, change).await.map(drop)
    }
}

fn replicas(set: &Value) -> i64 {
    json::number(set, "/spec/replicas").unwrap_or(0)
}

fn available(set: &Value) -> i64 {
    json::number(set, "/status/availableReplicas").unwrap_or(0)
}

fn revision(set: &Value) -> i64 {
    json::text(set, REVISION).parse().unwrap_or(0)
}

/// A number, or a percentage of `whole`.
pub(crate) fn share(value: &Value, whole: usize, round_up: bool) -> usize {
    let percent = value
        .as_str()
        .and_then(|text| text.strip_suffix('%'))
        .and_then(|text| text.parse::<usize>().ok());
    match percent {
        Some(percent) if round_up => (whole * percent).div_ceil(100),
        Some(percent) => whole * percent / 100,
        None => value.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
    }
}

/// A short name for the content of a template.
pub(crate) fn hash(template: &Value) -> String {
    let digest = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, template.to_string().as_bytes());
    digest.simple().to_string()[..10].to_owned()
}
