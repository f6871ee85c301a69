//! Services from the API to the Northbound database: many at once, one endpoint at a time with many present, what the controller's memory
//! and OVN's flows make of them, and a restart with all of that in place.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client as Kubernetes};
use netloom_lab::{Lab, Signal, Spec};
use netloom_ovsdb::Row;
use netloom_ovsdb::client::{Client, Event, Events, MonitorTable, Options};
use serde_json::{Value, json};

use crate::control::{flows, memory, northbound};
use crate::report::{Report, percentile, time};

const SIZES: [usize; 2] = [2_000, 10_000];
const ENDPOINTS: usize = 5;
const CREATORS: usize = 32;
const CHANGES: usize = 200;

/// Measures and prints.
pub fn run() -> Result<()> {
    let lab = Lab::up(Spec::new(format!("bench-services-{}", std::process::id())).nodes(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&lab))
}

async fn measure(lab: &Lab) -> Result<()> {
    let kubernetes = netloom_controller::kubernetes(Some(&lab.home().kubeconfig())).await?;
    let mut watched = Watched::connect(lab).await?;
    let mut report = Report::new(
        "Services of 5 endpoints: from API create to Northbound commit",
        &[
            "services",
            "all in",
            "services/s",
            "one endpoint change: p50",
            "p99",
            "controller memory",
            "logical flows each",
        ],
    );
    let flows_before = flows(lab)?;
    let (mut made, mut turn) = (0, 0);
    for size in SIZES {
        let started = Instant::now();
        let (created, seen) = tokio::join!(create(&kubernetes, made..size), watched.complete(size - made));
        created?;
        seen?;
        let took = started.elapsed();
        let count = size - made;
        made = size;
        let flows = (flows(lab)? - flows_before) as f64 / made as f64;
        let mut lags = Vec::new();
        for change in 0..CHANGES {
            turn += 1;
            lags.push(watched.change(&kubernetes, (change * 37) % made, turn).await?);
        }
        lags.sort();
        report.row(&[
            made.to_string(),
            format!("{} for {count}", time(took)),
            format!("{:.0}", count as f64 / took.as_secs_f64()),
            time(percentile(&lags, 0.5)),
            time(percentile(&lags, 0.99)),
            memory(lab)?,
            format!("{flows:.1}"),
        ]);
    }
    report.print();

    let mut report = Report::new(
        "Restart of the controller with these services in place",
        &[
            "services",
            "until the next endpoint change is in",
            "rows written meanwhile",
            "memory after",
        ],
    );
    for round in 0..3 {
        watched.drain();
        let before = watched.changes;
        lab.kill_part("control", "controller", Signal::SIGKILL)?;
        turn += 1;
        let lag = watched.change(&kubernetes, round, turn).await?;
        // The change itself is one row.
        report.row(&[
            made.to_string(),
            time(lag),
            (watched.changes - before).saturating_sub(1).to_string(),
            memory(lab)?,
        ]);
    }
    report.print();
    Ok(())
}

fn name(number: usize) -> String {
    format!("bench-{number}")
}

/// Endpoints outside the cluster, so that no pods are needed; `turn` makes them different.
fn endpoints(number: usize, turn: usize) -> Value {
    let address = |n: usize| {
        format!(
            "198.{}.{}.{}",
            18 + (number >> 14),
            (number >> 6) & 255,
            ((number & 63) << 2 | (n & 3)) as u8
        )
    };
    let list = (0..ENDPOINTS).map(|n| json!({ "addresses": [if n == 4 { format!("198.51.100.{}", turn % 250 + 1) } else { address(n) }], "conditions": { "ready": true } }));
    list.collect()
}

async fn create(kubernetes: &Kubernetes, numbers: std::ops::Range<usize>) -> Result<()> {
    let services: Api<Service> = Api::namespaced(kubernetes.clone(), "default");
    let slices: Api<EndpointSlice> = Api::namespaced(kubernetes.clone(), "default");
    let creating = stream::iter(numbers).map(|number| {
        let (services, slices) = (services.clone(), slices.clone());
        async move {
            let service =
                json!({ "metadata": { "name": name(number) }, "spec": { "ports": [{ "name": "web", "port": 80, "targetPort": 8080 }] } });
            let slice = json!({
                "metadata": { "name": name(number), "labels": { "kubernetes.io/service-name": name(number) } },
                "addressType": "IPv4", "endpoints": endpoints(number, 0), "ports": [{ "name": "web", "port": 8080, "protocol": "TCP" }],
            });
            services
                .create(&PostParams::default(), &serde_json::from_value(service)?)
                .await
                .context("create a service")?;
            slices
                .create(&PostParams::default(), &serde_json::from_value(slice)?)
                .await
                .context("create its endpoints")?;
            anyhow::Ok(())
        }
    });
    let results: Vec<Result<()>> = creating.buffer_unordered(CREATORS).collect().await;
    results.into_iter().collect()
}

/// The load balancers as the database tells of them.
struct Watched {
    _client: Client,
    events: Events,
    changes: usize,
}

impl Watched {
    async fn connect(lab: &Lab) -> Result<Self> {
        let mut options = Options::new(northbound(lab)?.parse()?, "OVN_Northbound");
        options.monitor = vec![MonitorTable {
            table: "Load_Balancer".to_owned(),
            columns: Some(vec!["name".to_owned(), "vips".to_owned()]),
            condition: vec![],
        }];
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

    /// The next rows that changed.
    async fn next(&mut self) -> Result<Vec<std::sync::Arc<Row>>> {
        let event = tokio::time::timeout(Duration::from_secs(300), self.events.recv())
            .await
            .context("nothing changed for five minutes")?;
        match event {
            Some(Event::Update(changes)) => {
                self.changes += changes.len();
                Ok(changes.into_iter().filter_map(|change| change.new).collect())
            }
            Some(_) => Ok(Vec::new()),
            None => bail!("the database client ended"),
        }
    }

    /// Waits until so many more services have all their endpoints.
    async fn complete(&mut self, count: usize) -> Result<()> {
        let mut complete = HashSet::new();
        while complete.len() < count {
            for row in self.next().await? {
                let vips = row.get("vips").map(ToString::to_string).unwrap_or_default();
                if vips.matches(":8080").count() == ENDPOINTS {
                    complete.extend(row.get("name").and_then(|name| name.as_str()).map(str::to_owned));
                }
            }
        }
        Ok(())
    }

    /// Changes one endpoint of a service and waits for it.
    async fn change(&mut self, kubernetes: &Kubernetes, number: usize, turn: usize) -> Result<Duration> {
        let slices: Api<EndpointSlice> = Api::namespaced(kubernetes.clone(), "default");
        let patch = json!({ "endpoints": endpoints(number, turn) });
        let wanted = format!("198.51.100.{}:8080", turn % 250 + 1);
        let row_name = format!("service_default_{}_tcp", name(number));
        self.drain();
        let started = Instant::now();
        slices
            .patch(&name(number), &PatchParams::default(), &Patch::Merge(patch))
            .await
            .context("change an endpoint")?;
        loop {
            for row in self.next().await? {
                let vips = row.get("vips").map(ToString::to_string).unwrap_or_default();
                if row.get("name").and_then(|name| name.as_str()) == Some(&row_name) && vips.contains(&wanted) {
                    return Ok(started.elapsed());
                }
            }
        }
    }
}
