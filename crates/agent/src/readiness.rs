//! Takes the taint `netloom.io/not-ready` off this Node as soon as pods can be attached here: a node that is registered
//! with it gets no pods before. It never puts one there: an agent that restarts is no reason to keep pods away.

use std::sync::Arc;

use anyhow::Context;
use k8s_openapi::api::core::v1::Taint;
use netloom_retry::{Changes, Converge, Every};
use tracing::info;

use crate::cni::status::status;
use crate::node::Node;
use crate::own_node::{Observed, OwnNodeApi};
use netloom_contract::annotation::NOT_READY;

/// Tells when the agent becomes able, or unable, to attach pods: the same answer as `/readyz`.
pub struct Serving {
    node: Arc<Node>,
    changes: Changes,
    last: Option<bool>,
}

impl Serving {
    /// Watches both databases.
    pub fn new(node: Arc<Node>) -> Self {
        let changes = Changes::default().of(node.switch.changes()).of(node.southbound.changes());
        Self { node, changes, last: None }
    }

    /// Whether pods can be attached now.
    pub fn now(&mut self) -> bool {
        let serving = status(&self.node).is_ok();
        self.last = Some(serving);
        serving
    }

    /// Waits until that is another than it was when last asked. Safe to cancel.
    pub async fn changed(&mut self) {
        while self.last == Some(status(&self.node).is_ok()) {
            self.changes.next().await;
        }
    }
}

/// Takes the taint off.
pub struct Readiness {
    serving: Serving,
    own: OwnNodeApi,
}

impl Readiness {
    /// Watches the databases and the Node.
    pub fn new(node: Arc<Node>, own: OwnNodeApi) -> Self {
        Self {
            serving: Serving::new(node),
            own,
        }
    }
}

impl Converge for Readiness {
    const NAME: &'static str = "readiness taint";
    type Inputs = Every;

    fn inputs(&self) -> Every {
        Every
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.serving.changed() => {}
            () = self.own.changed() => {}
        }
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        if !self.serving.now() {
            return Ok(());
        }
        let Observed::Present(own) = self.own.read() else {
            return Ok(());
        };
        let Some(kept) = without(&own.taints) else { return Ok(()) };
        // The version makes the server refuse if somebody else changes the taints at the same time; their change wakes us.
        let kept = Some(kept).filter(|kept| !kept.is_empty());
        let patch = serde_json::json!({ "metadata": { "resourceVersion": own.version }, "spec": { "taints": kept } });
        self.own
            .patch(patch)
            .await
            .with_context(|| format!("take taint {NOT_READY} off node {}", self.own.name))?;
        info!(taint = NOT_READY, "node is ready for pods");
        Ok(())
    }
}

/// The other taints; none if there is nothing to take off.
fn without(taints: &[Taint]) -> Option<Vec<Taint>> {
    let kept: Vec<Taint> = taints.iter().filter(|taint| taint.key != NOT_READY).cloned().collect();
    (kept.len() < taints.len()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_taint_goes_whatever_its_effect() {
        let taint = |key: &str, effect: &str| Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        };
        assert_eq!(without(&[taint("a", "NoSchedule")]), None);
        let all = [
            taint(NOT_READY, "NoSchedule"),
            taint("a", "NoSchedule"),
            taint(NOT_READY, "NoExecute"),
        ];
        assert_eq!(without(&all), Some(vec![taint("a", "NoSchedule")]));
    }
}
