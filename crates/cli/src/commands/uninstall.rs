//! `netloom uninstall`: asks every node's agent to take Netloom off its node and waits for the answers. The chart runs it
//! before it deletes anything; the agents do the work, this only asks, watches and tells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};

use super::table;
use netloom_contract::annotation::{GATEWAY, REMOVE, REMOVED};

/// Flags of `netloom uninstall`.
#[derive(clap::Args)]
pub struct Uninstall {
    /// Kubeconfig file; the pod's own service account by default
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the installation
    #[arg(long, default_value = "netloom-system")]
    namespace: String,
    /// Service account of the agents
    #[arg(long, default_value = "netloom-agent")]
    service_account: String,
    /// DaemonSet of the agents
    #[arg(long, default_value = "netloom-agent")]
    daemon_set: String,
    /// How long to wait for the nodes, e.g. 90s or 2m
    #[arg(long, default_value = "2m", value_parser = parse_duration)]
    timeout: Duration,
    /// Do it; without this flag, only list the nodes that would be cleaned
    #[arg(long)]
    yes: bool,
}

/// Asks, waits, and tells.
pub fn run(flags: Uninstall) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(uninstall(flags))
}

async fn uninstall(flags: Uninstall) -> Result<ExitCode> {
    let client = netloom_agent::connect_to_kubernetes(flags.kubeconfig.as_deref())
        .await?
        .context("give --kubeconfig: this does not run in a pod")?;
    let nodes: Api<Node> = Api::all(client.clone());
    let names = find_nodes(&client, &nodes, &flags).await?;
    if names.is_empty() {
        println!("No node has Netloom.");
        return Ok(ExitCode::SUCCESS);
    }
    if !flags.yes {
        table::print(
            &["NODE", "RESULT"],
            names.iter().map(|name| vec![name.clone(), "would be cleaned".to_owned()]),
        );
        eprintln!("\nPods on these nodes lose their network. Give --yes to go on.");
        return Ok(ExitCode::FAILURE);
    }
    let installation = installation(&client, &flags).await?;
    let patch = serde_json::json!({ "metadata": { "annotations": { REMOVE: installation, REMOVED: null } } });
    for name in &names {
        let patched = nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.with_context(|| format!("annotate node {name}"))?;
    }
    let mut answers = BTreeMap::new();
    let waited = tokio::time::timeout(flags.timeout, wait(nodes, &names, &mut answers)).await;
    if let Ok(outcome) = waited {
        outcome?;
    }
    let result = |name: &String| answers.get(name).cloned().unwrap_or_else(|| "no answer".to_owned());
    let result = |name: &String| {
        if result(name) == "true" {
            "removed".to_owned()
        } else {
            result(name)
        }
    };
    table::print(&["NODE", "RESULT"], names.iter().map(|name| vec![name.clone(), result(name)]));
    let left: Vec<&str> = names.iter().filter(|name| result(name) != "removed").map(String::as_str).collect();
    if left.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "\nnot clean: {}. Look at the log of the agent there (kubectl -n {} get pods -o wide names it), mend what it says and run \
         this again; a node that is gone for good can be deleted (kubectl delete node NODE).",
        left.join(", "),
        flags.namespace,
    );
    Ok(ExitCode::FAILURE)
}

/// Nodes that have published a gateway, were asked before, or run an agent.
async fn find_nodes(client: &kube::Client, nodes: &Api<Node>, flags: &Uninstall) -> Result<BTreeSet<String>> {
    let listed = nodes.list(&ListParams::default()).await.context("list nodes")?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &flags.namespace);
    let pods = pods.list(&ListParams::default()).await;
    let pods = pods.with_context(|| format!("list pods of namespace {}", flags.namespace))?;
    let is_agent = |pod: &Pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.kind == "DaemonSet" && owner.name == flags.daemon_set)
    };
    let agents = pods.items.into_iter().filter(is_agent);
    let agents: BTreeSet<String> = agents.filter_map(|pod| pod.spec?.node_name).collect();
    let marked = |node: &Node| {
        let mut keys = node.metadata.annotations.iter().flat_map(BTreeMap::keys);
        keys.any(|key| key == GATEWAY || key == REMOVE)
    };
    let names = listed.items.into_iter().filter_map(|node| {
        let concerned = marked(&node);
        node.metadata.name.filter(|name| concerned || agents.contains(name))
    });
    Ok(names.collect())
}

/// What tells this installation from the next: the UID of the agents' service account.
async fn installation(client: &kube::Client, flags: &Uninstall) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &flags.namespace);
    let (namespace, name) = (&flags.namespace, &flags.service_account);
    let account = accounts
        .get_opt(name)
        .await
        .with_context(|| format!("read service account {namespace}/{name}"))?;
    // Agents that run without a service account accept any value.
    Ok(account.and_then(|account| account.metadata.uid).unwrap_or_else(|| "any".to_owned()))
}

/// Collects answers until every node has given one, or is gone.
async fn wait(nodes: Api<Node>, names: &BTreeSet<String>, answers: &mut BTreeMap<String, String>) -> Result<()> {
    let mut events = watcher(nodes, watcher::Config::default()).default_backoff().boxed();
    let mut waiting = names.clone();
    let mut listed = BTreeSet::new();
    while !waiting.is_empty() {
        let Some(event) = events.next().await else {
            bail!("the watch on nodes ended")
        };
        match event {
            Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) => {
                let (name, annotations) = (
                    node.metadata.name.unwrap_or_default(),
                    node.metadata.annotations.unwrap_or_default(),
                );
                if let Some(answer) = annotations.get(REMOVED)
                    && waiting.remove(&name)
                {
                    answers.insert(name.clone(), answer.clone());
                }
                listed.insert(name);
            }
            Ok(watcher::Event::Delete(node)) => {
                waiting.remove(&node.metadata.name.unwrap_or_default());
            }
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitDone) => waiting.retain(|name| listed.contains(name)),
            // It tries again by itself; the deadline is above.
            Err(error) => eprintln!("cannot watch nodes: {error}"),
        }
    }
    Ok(())
}

/// A number with an optional unit: seconds, minutes or hours.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        other => return Err(format!("unit {other:?} is unknown: use s, m or h")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no duration: write it as 90s or 2m"))?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("5"), Ok(Duration::from_secs(5)));
        assert!(parse_duration("2d").is_err() && parse_duration("").is_err());
    }
}
