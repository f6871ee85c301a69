//! Policies through a real controller and a real northd, and then the same policies as rows of the naive layout.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client as Kubernetes};
use netloom_lab::{Lab, Spec};
use netloom_network::{Northbound, Planner, Scope, diff};
use netloom_ovsdb::Row;
use netloom_ovsdb::client::{Client, Event, Events, MonitorTable, Options};
use serde_json::{Value, json};

use super::naive::Naive;
use super::shape::{NAMESPACES, Shape, apply, namespace, namespace_name, node_name, policy};
use super::{Counted, name};
use crate::control::{flows, memory, northbound};
use crate::report::{Report, percentile, time};

const SHAPE: Shape = Shape {
    pods: 1_000,
    policies: 1_000,
};
const CREATORS: usize = 32;
const MORE: usize = 20;

/// Measures and prints.
pub fn run() -> Result<()> {
    let lab = Lab::up(Spec::new(format!("bench-policies-{}", std::process::id())).nodes(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&lab))
}

async fn measure(lab: &Lab) -> Result<()> {
    let mut world = World::make(lab).await?;
    let mut report = Report::new(
        "Policies through OVN: 1,000 pods on 10 nodes, 1,000 policies",
        &[
            "layout",
            "all in",
            "northd then takes",
            "logical flows each",
            "members",
            "one pod more: northd, p50",
            "max",
            "controller memory",
        ],
    );
    let before = flows(lab)?;
    let each = |now: usize| format!("{:.2}", (now as f64 - before as f64) / SHAPE.policies as f64);

    let started = Instant::now();
    let policies = world.kubernetes.clone();
    let (created, seen) = tokio::join!(create_policies(&policies), world.acls(SHAPE.policies));
    created?;
    seen?;
    let all_in = started.elapsed();
    let northd = sync(lab)?;
    let mut planner = SHAPE.planner()?;
    planner.compile();
    let with = flows(lab)?;
    let one = world.more_pods(0, None).await?;
    let members = Counted::of(planner.desired()).members.to_string();
    report.row(&[
        "a set for each selector".to_owned(),
        time(all_in),
        time(northd),
        each(with),
        members,
        time(percentile(&one, 0.5)),
        time(percentile(&one, 1.0)),
        memory(lab)?,
    ]);

    world.delete_policies().await?;
    let mut layout = Written::build()?;
    let started = Instant::now();
    let rows = diff(&layout.observed(), &layout.desired(), &Scope::All);
    world.client.transact(rows).await.context("write the naive layout")?;
    let all_in = started.elapsed();
    let northd = sync(lab)?;
    let with = flows(lab)?;
    let members = Counted::of(&layout.naive.northbound).members.to_string();
    let one = world.more_pods(MORE, Some(&mut layout)).await?;
    report.row(&[
        "sets for each policy".to_owned(),
        format!("{} (one transaction)", time(all_in)),
        time(northd),
        each(with),
        members,
        time(percentile(&one, 0.5)),
        time(percentile(&one, 1.0)),
        "-".to_owned(),
    ]);
    report.print();
    Ok(())
}

/// The naive layout with the ports it is about. Ports have the UUIDs the controller gives them, so it can be written beside them.
struct Written {
    bare: Planner,
    naive: Naive,
}

impl Written {
    fn build() -> Result<Self> {
        let mut bare = SHAPE.without_policies()?;
        bare.compile();
        let naive = Naive::build(&bare, &SHAPE.policies()?);
        Ok(Self { bare, naive })
    }

    fn observed(&self) -> Northbound {
        self.bare.desired().clone()
    }

    fn desired(&self) -> Northbound {
        let mut desired = self.observed();
        self.naive
            .northbound
            .rows()
            .for_each(|(id, row)| desired.insert_row(*id, row.clone()));
        self.naive.northbound.all_members().for_each(|member| desired.insert_member(member));
        desired
    }
}

/// The lab, its API and its database.
struct World<'a> {
    lab: &'a Lab,
    kubernetes: Kubernetes,
    client: Client,
    events: Events,
}

impl<'a> World<'a> {
    /// Nodes, namespaces and pods, all with their ports.
    async fn make(lab: &'a Lab) -> Result<Self> {
        let kubernetes = netloom_controller::kubernetes(Some(&lab.home().kubeconfig())).await?;
        let mut options = Options::new(northbound(lab)?.parse()?, "OVN_Northbound");
        options.monitor = ["ACL", "Logical_Switch_Port"]
            .map(|table| MonitorTable {
                table: table.to_owned(),
                columns: Some(vec!["name".to_owned(), "external_ids".to_owned()]),
                condition: vec![],
            })
            .into();
        let (client, events) = Client::start(options);
        client.ready().await?;
        let mut this = Self {
            lab,
            kubernetes,
            client,
            events,
        };
        for number in 0..SHAPE.nodes() {
            let api: Api<Node> = Api::all(this.kubernetes.clone());
            let node = serde_json::from_value(json!({ "metadata": { "name": node_name(number) } }))?;
            api.create(&PostParams::default(), &node).await.context("create a node")?;
            let status = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": format!("172.31.0.{}", number + 1) }] } });
            let patch = Patch::Merge(status);
            api.patch_status(&node_name(number), &PatchParams::default(), &patch)
                .await
                .context("give a node its address")?;
        }
        for number in 0..NAMESPACES {
            let api: Api<Namespace> = Api::all(this.kubernetes.clone());
            let namespace = serde_json::from_value(namespace(number, number))?;
            api.create(&PostParams::default(), &namespace).await.context("create a namespace")?;
        }
        this.create_pods((0..SHAPE.pods).map(|number| SHAPE.pod(number)).collect()).await?;
        Ok(this)
    }

    /// Creates pods and returns when all have their ports.
    async fn create_pods(&mut self, pods: Vec<Value>) -> Result<()> {
        let count = pods.len();
        let kubernetes = self.kubernetes.clone();
        let creating = stream::iter(pods).map(|pod| {
            let kubernetes = kubernetes.clone();
            async move {
                let api: Api<Pod> = Api::namespaced(kubernetes, pod["metadata"]["namespace"].as_str().unwrap_or_default());
                api.create(&PostParams::default(), &serde_json::from_value(pod)?)
                    .await
                    .context("create a pod")?;
                anyhow::Ok(())
            }
        });
        let creating = creating.buffer_unordered(CREATORS).collect::<Vec<Result<()>>>();
        let (created, seen) = tokio::join!(creating, self.rows("Logical_Switch_Port", "port/namespace-", count));
        created.into_iter().collect::<Result<()>>()?;
        seen
    }

    /// Waits for the rows of this many policies, one for each family.
    async fn acls(&mut self, count: usize) -> Result<()> {
        self.rows("ACL", "policy/", 2 * count).await
    }

    /// Waits for this many new rows of a table with such keys.
    async fn rows(&mut self, table: &str, prefix: &str, count: usize) -> Result<()> {
        let mut seen = 0;
        while seen < count {
            let event = tokio::time::timeout(Duration::from_secs(300), self.events.recv())
                .await
                .with_context(|| format!("{seen} of {count} rows of {table} after five minutes"))?;
            match event {
                Some(Event::Update(changes)) => {
                    let of_table = changes.iter().filter(|change| &*change.table == table && change.old.is_none());
                    let keys = of_table.filter_map(|change| change.new.as_ref()?.get("external_ids")?.get("netloom.io/key"));
                    seen += keys.filter(|key| key.starts_with(prefix)).count();
                }
                Some(_) => {}
                None => bail!("the database client ended"),
            }
        }
        Ok(())
    }

    /// Adds pods one by one; how long northd takes for each.
    async fn more_pods(&mut self, first: usize, mut layout: Option<&mut Written>) -> Result<Vec<Duration>> {
        let mut lags = Vec::new();
        for number in first..first + MORE {
            let pod = SHAPE.pod(1_000_000 + number * 37);
            self.create_pods(vec![pod.clone()]).await?;
            if let Some(layout) = layout.as_mut() {
                apply(&mut layout.bare, &pod)?;
                layout.bare.compile();
                let observed = layout.desired();
                let scope = layout.naive.add_pod(&layout.bare, &name(&pod)?);
                let changes = diff(&observed, &layout.desired(), &scope);
                self.client.transact(changes).await.context("add a pod to the naive layout")?;
            }
            lags.push(sync(self.lab)?);
        }
        lags.sort();
        Ok(lags)
    }

    /// Deletes all policies and returns when their rows are gone.
    async fn delete_policies(&mut self) -> Result<()> {
        for number in 0..NAMESPACES {
            let api: Api<NetworkPolicy> = Api::namespaced(self.kubernetes.clone(), &namespace_name(number));
            for policy in api.list(&ListParams::default()).await.context("list policies")? {
                let name = policy.metadata.name.unwrap_or_default();
                api.delete(&name, &DeleteParams::default()).await.context("delete a policy")?;
            }
        }
        let key = |row: &Row| row.get("external_ids").and_then(|ids| ids.get("netloom.io/key")).map(str::to_owned);
        let of_policy = |row: &Row| key(row).is_some_and(|key| key.starts_with("policy/"));
        let left = || {
            self.client
                .read(|replica| replica.rows("ACL").filter(|(_, row)| of_policy(row)).count())
                .unwrap_or_default()
        };
        while left() > 0 {
            let event = tokio::time::timeout(Duration::from_secs(300), self.events.recv()).await;
            event
                .context("policies were deleted and their rows stayed")?
                .context("the database client ended")?;
        }
        Ok(())
    }
}

async fn create_policies(kubernetes: &Kubernetes) -> Result<()> {
    let creating = stream::iter(0..SHAPE.policies).map(|number| {
        let kubernetes = kubernetes.clone();
        async move {
            let policy = policy(number);
            let api: Api<NetworkPolicy> = Api::namespaced(kubernetes, policy["metadata"]["namespace"].as_str().unwrap_or_default());
            api.create(&PostParams::default(), &serde_json::from_value(policy)?)
                .await
                .context("create a policy")?;
            anyhow::Ok(())
        }
    });
    let results: Vec<Result<()>> = creating.buffer_unordered(CREATORS).collect().await;
    results.into_iter().collect()
}

/// How long it takes until northd has seen everything.
fn sync(lab: &Lab) -> Result<Duration> {
    let started = Instant::now();
    lab.control().run(&["ovn-nbctl", "--timeout=300", "--wait=sb", "sync"])?;
    Ok(started.elapsed())
}
