//! From the API to the Northbound database: bursts of pods, one pod at a time, and a restart with everything in place. A real API, a real
//! database with northd at work, ten nodes of which only the objects exist, and the controller as its own process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client as Kubernetes};
use netloom_lab::{Lab, Signal, Spec};
use netloom_ovsdb::client::{Client, Event, Events, MonitorTable, Options};
use serde_json::json;

use crate::control::{memory, northbound};
use crate::report::{Report, percentile, time};

const NODES: usize = 60;
const CREATORS: usize = 32;

/// Measures and prints.
pub fn run() -> Result<()> {
    let lab = Lab::up(Spec::new(format!("bench-burst-{}", std::process::id())).nodes(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&lab))
}

async fn measure(lab: &Lab) -> Result<()> {
    let kubernetes = netloom_controller::kubernetes(Some(&lab.home().kubeconfig())).await?;
    let mut northbound = Northbound::connect(lab).await?;
    nodes(&kubernetes).await?;

    let mut report = Report::new(
        "From API create to Northbound commit",
        &["pods", "all in", "pods/s", "p50", "p99", "controller memory"],
    );
    let mut made = 0;
    for count in [1_000usize, 4_000, 5_000] {
        let started = Instant::now();
        let mut lags = burst(&kubernetes, &mut northbound, made..made + count).await?;
        let took = started.elapsed();
        made += count;
        lags.sort();
        let memory = format!("{} at {made}", memory(lab)?);
        report.row(&[
            format!("burst of {count}"),
            time(took),
            format!("{:.0}", count as f64 / took.as_secs_f64()),
            time(percentile(&lags, 0.5)),
            time(percentile(&lags, 0.99)),
            memory,
        ]);
    }
    let mut lags = Vec::new();
    for number in made..made + 200 {
        lags.extend(burst(&kubernetes, &mut northbound, number..number + 1).await?);
    }
    made += 200;
    lags.sort();
    report.row(&[
        "one at a time".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        time(percentile(&lags, 0.5)),
        time(percentile(&lags, 0.99)),
        format!("{} at {made}", memory(lab)?),
    ]);
    report.print();

    let mut report = Report::new(
        "Restart of the controller with that in place",
        &["pods", "until the next pod is in", "rows written meanwhile", "memory after"],
    );
    for _ in 0..3 {
        northbound.drain();
        lab.kill_part("control", "controller", Signal::SIGKILL)?;
        let started = Instant::now();
        let before = northbound.changes;
        burst(&kubernetes, &mut northbound, made..made + 1).await?;
        let took = started.elapsed();
        made += 1;
        // The pod itself is two changes: its port and its switch.
        report.row(&[
            made.to_string(),
            time(took),
            (northbound.changes - before).saturating_sub(2).to_string(),
            memory(lab)?,
        ]);
    }
    report.print();
    Ok(())
}

/// Creates pods with many hands and returns how long each took to its port.
async fn burst(kubernetes: &Kubernetes, northbound: &mut Northbound, numbers: std::ops::Range<usize>) -> Result<Vec<Duration>> {
    let api: Api<Pod> = Api::namespaced(kubernetes.clone(), "default");
    let count = numbers.len();
    let started: Arc<std::sync::Mutex<HashMap<String, Instant>>> = Arc::default();
    let noted = Arc::clone(&started);
    let creating = stream::iter(numbers).map(move |number| {
        let (api, noted) = (api.clone(), Arc::clone(&noted));
        async move {
            let name = format!("bench-{number}");
            let pod = serde_json::from_value(json!({
                "metadata": { "name": name },
                "spec": { "nodeName": format!("fake{}", number % NODES), "containers": [{ "name": "main", "image": "any" }] },
            }))?;
            noted
                .lock()
                .map_err(|_| anyhow::anyhow!("a creator panicked"))?
                .insert(format!("default/{name}"), Instant::now());
            api.create(&PostParams::default(), &pod)
                .await
                .with_context(|| format!("create pod {name}"))?;
            anyhow::Ok(())
        }
    });
    let creating = async {
        let results: Vec<Result<()>> = creating.buffer_unordered(CREATORS).collect().await;
        results.into_iter().collect::<Result<()>>()
    };
    let (created, seen) = tokio::join!(creating, northbound.see(count));
    created?;
    let started = started.lock().map_err(|_| anyhow::anyhow!("a creator panicked"))?;
    Ok(seen?
        .into_iter()
        .filter_map(|(name, at)| Some(at.duration_since(*started.get(&name)?)))
        .collect())
}

async fn nodes(kubernetes: &Kubernetes) -> Result<()> {
    let api: Api<Node> = Api::all(kubernetes.clone());
    for number in 0..NODES {
        let name = format!("fake{number}");
        let node = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        api.create(&PostParams::default(), &node).await.context("create a node")?;
        let status = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": format!("172.31.0.{}", number + 1) }] } });
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .context("give a node its address")?;
    }
    Ok(())
}

/// The bench's own view of the database.
struct Northbound {
    _client: Client,
    events: Events,
    changes: usize,
}

impl Northbound {
    async fn connect(lab: &Lab) -> Result<Self> {
        let mut options = Options::new(northbound(lab)?.parse()?, "OVN_Northbound");
        let columns = |table: &str, columns: &[&str]| MonitorTable {
            table: table.to_owned(),
            columns: Some(columns.iter().map(|c| (*c).to_owned()).collect()),
            condition: vec![],
        };
        options.monitor = vec![
            columns("Logical_Switch_Port", &["name", "addresses", "external_ids", "options"]),
            columns("Logical_Switch", &["ports", "external_ids"]),
            columns("Logical_Router", &["ports", "static_routes", "nat"]),
        ];
        let (client, events) = Client::start(options);
        client.ready().await?;
        let mut this = Self {
            _client: client,
            events,
            changes: 0,
        };
        this.drain();
        Ok(this)
    }

    fn drain(&mut self) {
        while self.events.try_recv().is_some() {}
    }

    /// Waits for this many new ports.
    async fn see(&mut self, count: usize) -> Result<Vec<(String, Instant)>> {
        let mut seen = Vec::with_capacity(count);
        while seen.len() < count {
            let event = tokio::time::timeout(Duration::from_secs(120), self.events.recv())
                .await
                .with_context(|| format!("{} of {count} ports after two minutes", seen.len()))?;
            match event {
                Some(Event::Update(changes)) => {
                    self.changes += changes.len();
                    let new = changes
                        .iter()
                        .filter(|change| &*change.table == "Logical_Switch_Port" && change.old.is_none());
                    seen.extend(new.filter_map(|change| Some((change.new.as_ref()?.get("name")?.as_str()?.to_owned(), Instant::now()))));
                }
                Some(_) => {}
                None => bail!("the database client ended"),
            }
        }
        Ok(seen)
    }
}
