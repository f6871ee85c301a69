//! Takes Netloom off this node when its Node is annotated `netloom.io/remove`, and answers with `netloom.io/removed`.
//! Afterwards the agent does nothing, also when it is restarted: the switch's database remembers. An annotation that
//! means another installation is deleted; one that goes away ends the process, and the next one starts afresh.

pub mod clean;
pub mod token;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, PostParams};
use netloom_ovsdb::{Datum, Mutation, Operation, Transaction};
use netloom_retry::{Changes, Converge, Every, converge};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::node::Node;
use crate::own_node::{Observed, OwnNode, OwnNodeApi};
use crate::set_up::plan;
use crate::switch::SwitchState;
use clean::Scope;
use netloom_contract::annotation::{GATEWAY, REMOVE, REMOVED};
use netloom_contract::external_id;

/// What the marker says if the agent does not know its installation.
const ANY: &str = "any";
/// How much of what went wrong fits into an annotation that people read.
const LONGEST_ANSWER: usize = 1000;

/// What the annotations ask of this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// Nothing.
    None,
    /// They are for an installation that is gone.
    Foreign,
    /// To clean the node.
    Clean,
    /// Nothing more: it was answered.
    Answered,
}

/// Waits for the request, and carries it out.
pub struct Removal {
    node: Arc<Node>,
    own: OwnNodeApi,
    installation: Option<String>,
    scope: Scope,
    kernel: watch::Receiver<u64>,
}

impl Removal {
    /// For the node behind `own`; `kernel` tells when devices are gone.
    pub fn new(node: Arc<Node>, own: OwnNodeApi, scope: Scope, kernel: watch::Receiver<u64>) -> Self {
        let installation = token::service_account();
        Self {
            node,
            own,
            installation,
            scope,
            kernel,
        }
    }

    /// Waits until the node is to be cleaned, or was already.
    pub async fn requested(&mut self) {
        loop {
            if let Observed::Present(own) = self.own.read() {
                match request(&own, self.installation.as_deref()) {
                    Request::Clean | Request::Answered => return,
                    // If that fails, the next change of the node is the next attempt.
                    Request::Foreign => match self.own.annotate(&[(REMOVE, None), (REMOVED, None)]).await {
                        Ok(()) => info!("deleted a request to remove an earlier installation"),
                        Err(error) => warn!(
                            error = format!("{error:#}"),
                            "cannot delete a request to remove an earlier installation"
                        ),
                    },
                    Request::None => {}
                }
            }
            self.own.changed().await;
        }
    }

    /// Whether the switch's database remembers that this installation cleaned the node.
    pub fn is_marked(&self) -> bool {
        let marker = self.node.switch.read(|state| state.external_ids.get(external_id::REMOVED).cloned());
        match (marker, &self.installation) {
            (Some(marker), Some(installation)) => marker == *installation,
            (marker, _) => marker.is_some(),
        }
    }

    /// Cleans the node if that is still to be done, and returns when the request is gone.
    pub async fn carry_out(self) {
        self.node.removing.store(true, Ordering::Relaxed);
        let withdrawn = CancellationToken::new();
        let cleaner = Cleaner {
            changes: Changes::default().of(self.node.switch.changes()),
            removal: self,
            answer: None,
            withdrawn: withdrawn.clone(),
        };
        tokio::select! {
            () = converge(cleaner) => {}
            () = withdrawn.cancelled() => {}
        }
    }

    async fn mark(&self) -> anyhow::Result<()> {
        let installation = self.installation.as_deref().unwrap_or(ANY);
        let wanted = BTreeMap::from([(external_id::REMOVED, installation.to_owned())]);
        let plan = |state: &SwitchState| {
            let mutations = plan::set("external_ids", &state.external_ids, &wanted);
            match state.root {
                Some(root) if !mutations.is_empty() => Transaction::from(Operation::mutate("Open_vSwitch", root, mutations)),
                _ => Transaction::new(),
            }
        };
        self.node.switch.change("remember the removal", plan).await?;
        Ok(())
    }

    /// Tells what happened as an Event, which may be lost: the annotation is the answer.
    async fn report(&self, problems: &[String]) {
        let (kind, reason, message) = if problems.is_empty() {
            (
                "Normal",
                "NetloomRemoved",
                "everything of netloom was removed from this node".to_owned(),
            )
        } else {
            ("Warning", "NetloomRemovalFailed", shortened(&problems.join("; ")))
        };
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}.", self.node.name)),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(self.node.name.clone()),
                // Whoever lists the Events of a node asks for its name here.
                uid: Some(self.node.name.clone()),
                ..ObjectReference::default()
            },
            type_: Some(kind.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            source: Some(EventSource {
                component: Some("netloom-agent".to_owned()),
                host: Some(self.node.name.clone()),
            }),
            first_timestamp: Some(Time(k8s_openapi::jiff::Timestamp::now())),
            last_timestamp: Some(Time(k8s_openapi::jiff::Timestamp::now())),
            count: Some(1),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.own.client.clone(), "default");
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            warn!(%error, "cannot report the removal as an event");
        }
    }
}

/// Forgets a removal by an earlier installation, or one that was withdrawn.
pub async fn forget(node: &Node) -> anyhow::Result<()> {
    let plan = |state: &SwitchState| match (state.root, state.external_ids.get(external_id::REMOVED)) {
        (Some(root), Some(value)) => {
            let gone = Mutation::delete("external_ids", Datum::map([(external_id::REMOVED, value.as_str())]));
            Transaction::from(Operation::mutate("Open_vSwitch", root, vec![gone]))
        }
        _ => Transaction::new(),
    };
    node.switch.change("forget a removal", plan).await?;
    Ok(())
}

/// Cleans once per request.
struct Cleaner {
    removal: Removal,
    changes: Changes,
    answer: Option<String>,
    withdrawn: CancellationToken,
}

impl Converge for Cleaner {
    const NAME: &'static str = "removal";
    type Inputs = Every;

    fn inputs(&self) -> Every {
        Every
    }

    async fn changed(&mut self) {
        let (node, scope) = (&self.removal.node, &self.removal.scope);
        let returned = async {
            loop {
                self.changes.next().await;
                if clean::has_returned(node, scope) {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.removal.own.changed() => {}
            () = returned => {}
        }
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let Observed::Present(own) = self.removal.own.read() else {
            return Ok(());
        };
        match request(&own, self.removal.installation.as_deref()) {
            Request::None | Request::Foreign => {
                forget(&self.removal.node).await?;
                info!("the request to remove netloom was withdrawn: the agent starts afresh");
                self.withdrawn.cancel();
            }
            Request::Answered => {
                self.answer = None;
                clean::clean_again(&self.removal.node, &self.removal.scope).await?;
            }
            Request::Clean => {
                let answer = match self.answer.clone() {
                    Some(answer) => answer,
                    None => {
                        info!("removing netloom from this node");
                        let problems = clean::clean(&self.removal.node, &self.removal.scope, &mut self.removal.kernel).await;
                        for problem in &problems {
                            warn!(problem, "cannot remove everything");
                        }
                        self.removal.mark().await?;
                        self.removal.report(&problems).await;
                        if problems.is_empty() {
                            "true".to_owned()
                        } else {
                            shortened(&format!("failed: {}", problems.join("; ")))
                        }
                    }
                };
                // Kept, so that an API server that is away does not make us clean again.
                self.answer = Some(answer.clone());
                // The controller takes the gateway away with the annotation.
                self.removal.own.annotate(&[(REMOVED, Some(&answer)), (GATEWAY, None)]).await?;
                info!(answer, "netloom removed from this node");
            }
        }
        Ok(())
    }
}

fn request(own: &OwnNode, installation: Option<&str>) -> Request {
    match (&own.remove, installation) {
        (None, _) => Request::None,
        (Some(meant), Some(installation)) if meant != installation => Request::Foreign,
        _ if own.removed.is_some() => Request::Answered,
        _ => Request::Clean,
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_ANSWER).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_for_this_installation_counts() {
        let own = |remove: Option<&str>, removed: Option<&str>| OwnNode {
            remove: remove.map(str::to_owned),
            removed: removed.map(str::to_owned),
            ..OwnNode::default()
        };
        assert_eq!(request(&own(None, Some("true")), Some("u1")), Request::None);
        assert_eq!(request(&own(Some("u1"), None), Some("u1")), Request::Clean);
        assert_eq!(request(&own(Some("u1"), Some("true")), Some("u1")), Request::Answered);
        assert_eq!(request(&own(Some("u1"), Some("true")), Some("u2")), Request::Foreign);
        assert_eq!(
            request(&own(Some("u1"), None), None),
            Request::Clean,
            "without a token any value counts"
        );
    }
}
