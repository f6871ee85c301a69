//! Tells people: problems as Events and conditions on the objects that cause them, subnets of nodes and places of pods in
//! their networks as annotations, external addresses in the status of their services, addresses of machines in that of their ports.
//!
//! Off the hot path, in its own task; the API server being away delays telling and nothing else. The only place of the controller
//! that retries API writes.

mod write;

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use netloom_kubernetes::Kind;
use netloom_network::{ObjectRef, Problem, Shows};
use netloom_retry::{Changes, Converge, Every, converge};
use serde_json::Value;
use tokio::sync::watch::Receiver;
use tracing::{info, warn};

use crate::api::{self, is_unknown};
use crate::findings::Findings;

/// How many objects are written at a time.
const ABREAST: usize = 8;
/// How many objects with problems are written before a look at whether there is anything newer, whose statuses are more urgent.
const PORTION: usize = 64;

/// What people know already.
#[derive(Default)]
struct Told {
    /// What the condition of each object with a problem says.
    problems: BTreeMap<ObjectRef, String>,
    /// Objects of ours that say whether they are in force.
    own: BTreeSet<ObjectRef>,
    term: u64,
}

/// Tells whatever changes, for ever.
pub async fn run(client: kube::Client, findings: Receiver<Findings>) {
    let report = Report {
        client,
        changes: Changes::default().of(findings.clone()),
        findings,
        told: Told::default(),
    };
    converge(report).await;
}

/// What is to be told, and what was.
struct Report {
    client: kube::Client,
    changes: Changes,
    findings: Receiver<Findings>,
    told: Told,
}

impl Converge for Report {
    const NAME: &'static str = "report";
    type Inputs = Every;

    fn inputs(&self) -> Every {
        Every
    }

    async fn changed(&mut self) {
        self.changes.next().await;
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let current = self.findings.borrow_and_update().clone();
        let is_outdated = || self.findings.has_changed().unwrap_or(false);
        let complete = tell(&self.client, &mut self.told, &current, is_outdated).await;
        // The API server said no or is away; there is no event for its return, so it is asked again.
        anyhow::ensure!(complete, "the API server did not take everything");
        Ok(())
    }
}

/// Tells the difference between `told` and `current`, statuses first: pods and nodes wait for them. False if some of it has to be told
/// again. What is outdated need not be told to the end, because the newer findings are told next and include what is left.
async fn tell(client: &kube::Client, told: &mut Told, current: &Findings, is_outdated: impl Fn() -> bool) -> bool {
    if told.term != current.term {
        match told_before(client).await {
            Ok(problems) => told.problems = problems,
            Err(error) => {
                warn!(%error, "cannot list what was told before, trying again");
                return false;
            }
        }
        told.term = current.term;
    }
    let statuses = show_statuses(client, current).await;
    let problems = tell_problems(client, told, current, &is_outdated).await;
    let own = tell_own(client, told, current, &is_outdated).await;
    statuses && problems && own
}

/// What objects show is not remembered: each stays among the findings until the watch has shown that it is as it should be.
async fn show_statuses(client: &kube::Client, current: &Findings) -> bool {
    let write = |(object, shows): (ObjectRef, Shows)| {
        let client = client.clone();
        async move { done(write::show(&client, &object, &shows).await, "write the status of", &object) }
    };
    let statuses = current.statuses.iter().filter(|(_, shows)| **shows != Shows::InForce);
    let all: Vec<(ObjectRef, Shows)> = statuses.map(|(object, shows)| (object.clone(), shows.clone())).collect();
    let mut written = futures::stream::iter(all).map(write).buffer_unordered(ABREAST);
    let mut complete = true;
    while let Some(done) = written.next().await {
        complete &= done;
    }
    complete
}

async fn tell_problems(client: &kube::Client, told: &mut Told, current: &Findings, is_outdated: impl Fn() -> bool) -> bool {
    let mut now: BTreeMap<&ObjectRef, Vec<&Problem>> = told.problems.keys().map(|object| (object, Vec::new())).collect();
    for problem in current.problems.iter().chain(&current.refused) {
        now.entry(&problem.object).or_default().push(problem);
    }
    let differ = now.into_iter().filter_map(|(object, problems)| {
        let before = told.problems.get(object).cloned().unwrap_or_default();
        (before != message(&problems)).then(|| (object.clone(), problems, before))
    });
    let differ: Vec<_> = differ.collect();
    let mut complete = true;
    for portion in differ.chunks(PORTION) {
        let publish = async |(object, problems, before): &(ObjectRef, Vec<&Problem>, String)| {
            let published = publish(client, object, problems, before).await;
            (object.clone(), message(problems), done(published, "tell a problem of", object))
        };
        let mut published = futures::stream::iter(portion).map(publish).buffer_unordered(ABREAST);
        while let Some((object, says, is_told)) = published.next().await {
            complete &= is_told;
            match (is_told, says.is_empty()) {
                (true, false) => drop(told.problems.insert(object, says)),
                (true, true) => drop(told.problems.remove(&object)),
                (false, _) => {}
            }
        }
        if is_outdated() {
            break;
        }
    }
    complete
}

/// Objects of ours that have no problem say so.
async fn tell_own(client: &kube::Client, told: &mut Told, current: &Findings, is_outdated: impl Fn() -> bool) -> bool {
    let in_force = |object: &ObjectRef| current.statuses.get(object) == Some(&Shows::InForce);
    told.own.retain(in_force);
    let untold = current
        .statuses
        .keys()
        .filter(|object| in_force(object) && !told.own.contains(*object));
    let untold: Vec<ObjectRef> = untold.cloned().collect();
    let mut complete = true;
    for portion in untold.chunks(PORTION) {
        let write = async |object: &ObjectRef| (object.clone(), write::in_force(client, object).await);
        let mut written = futures::stream::iter(portion).map(write).buffer_unordered(ABREAST);
        while let Some((object, result)) = written.next().await {
            match result {
                Ok(()) => drop(told.own.insert(object)),
                // Should it be gone, the next findings say so; until then it is there and has to be told.
                Err(error) => {
                    warn!(%error, %object, "cannot set the condition, trying again");
                    complete = false;
                }
            }
        }
        if is_outdated() {
            break;
        }
    }
    complete
}

/// What conditions say about problems told earlier, by this controller or another: some may be mended since.
async fn told_before(client: &kube::Client) -> kube::Result<BTreeMap<ObjectRef, String>> {
    let mut found = BTreeMap::new();
    for kind in Kind::ALL {
        let Some(shown) = kind.resource().condition else { continue };
        let listed = api::list(client, *kind, |object| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let ours = |condition: &&Value| condition["type"] == shown && condition["status"] == "False";
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            if let Some(condition) = conditions.into_iter().flatten().find(ours) {
                let reference = kind.reference(text("namespace"), text("name"), text("uid"));
                found.insert(reference, condition["message"].as_str().unwrap_or_default().to_owned());
            }
        });
        match listed.await {
            Err(error) if kind.resource().optional && is_unknown(&error) => {}
            listed => listed?,
        }
    }
    Ok(found)
}

/// Whether a write needs no second try: it was done, its object is gone, or another has its name.
fn done(result: kube::Result<()>, doing: &str, object: &impl ToString) -> bool {
    let Err(error) = result else { return true };
    let gone = matches!(&error, kube::Error::Api(status) if status.code == 404 || status.message.contains("UID in precondition"));
    if !gone {
        warn!(%error, object = object.to_string(), "cannot {doing}, trying again");
    }
    gone
}

/// Sets the condition of an object to its problems, then makes an Event of each that is not among what it said `before`: who sees the
/// Event finds the condition.
async fn publish(client: &kube::Client, object: &ObjectRef, problems: &[&Problem], before: &str) -> kube::Result<()> {
    match problems.first() {
        _ if write::kind(object).resource().condition.is_none() => {}
        Some(problem) => write::set_condition(client, object, "False", problem.reason, &message(problems)).await?,
        None => write::set_condition(client, object, "True", "Resolved", "all problems are fixed").await?,
    }
    for problem in problems.iter().filter(|problem| !before.contains(&problem.message)) {
        info!(%object, reason = problem.reason, message = %problem.message, "problem");
        write::event(client, object, "Warning", problem.reason, &problem.message).await?;
    }
    Ok(())
}

fn message(problems: &[&Problem]) -> String {
    problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests;
