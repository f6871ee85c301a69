//! `netloom why`: may this connection be, and by which policy and rule. Reads a cluster or manifests; the judgement and its words are
//! those of `netloom-policy`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::ValueEnum;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use netloom_policy::{Cluster, Question, Source, Target, Verdict, declared, judge, port_to_ask, words};

use super::manifests;

/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Flags of `netloom why`.
#[derive(clap::Args)]
#[command(
    after_help = "FROM and TO are POD, NAMESPACE/POD, node/NAME or an IP address; TO may also be svc/NAME or svc/NAMESPACE/NAME. A connection \
                  through a service is judged for each of its backends. Without PORT every port that TO declares is judged.\n\n\
                  Examples:\n  \
                  netloom why web-0 db-0 5432                         in the cluster of your kubeconfig\n  \
                  netloom why shop/web-0 svc/shop/db                  all ports of a service\n  \
                  netloom why web-0 kube-system/dns-0 53 --protocol udp\n  \
                  netloom why 192.0.2.10 web-0 http                   from outside, to the port the pod calls http\n  \
                  netloom why web-0 192.0.2.10 443                    to the outside\n  \
                  netloom why node/node2 web-0 80                     from a node\n  \
                  netloom why web-0 db-0 5432 -f manifests/           without a cluster\n  \
                  kubectl get ns,po,no,svc,endpointslices,netpol -A -o json | netloom why web-0 db-0 -f -\n\n\
                  Exit code: 0 allowed, 1 denied (also if only some backends, ports or addresses are), 2 it cannot be told."
)]
pub struct Why {
    /// Who sends
    from: String,
    /// To whom
    to: String,
    /// Destination port, by number or by the name TO gives it
    port: Option<String>,
    /// Protocol; TCP for a port number, otherwise all that TO declares
    #[arg(long, value_enum, ignore_case = true)]
    protocol: Option<Protocol>,
    /// Namespace of names that have none
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// Manifests instead of a cluster: files, or folders of .yaml, .yml and .json files; - is standard input
    #[arg(short = 'f', long = "filename", conflicts_with = "kubeconfig")]
    filename: Vec<PathBuf>,
    /// Kubeconfig file; without one KUBECONFIG, the usual places, then the pod's own service account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Answers; the exit code tells scripts.
pub fn run(flags: Why) -> Result<ExitCode> {
    let verdict = match answer(&flags) {
        Ok(verdict) => verdict,
        Err(error) => {
            eprintln!("cannot tell: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    match flags.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&verdict)?),
        Output::Text => print!("{}", words(&verdict, &flags.from, &flags.to)),
    }
    Ok(if verdict.allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn answer(flags: &Why) -> Result<Verdict> {
    let from = Source::parse(&flags.from, &flags.namespace).map_err(|why| anyhow!(why))?;
    let to = Target::parse(&flags.to, &flags.namespace).map_err(|why| anyhow!(why))?;
    let protocol = flags.protocol.map(|protocol| match protocol {
        Protocol::Tcp => netloom_policy::Protocol::Tcp,
        Protocol::Udp => netloom_policy::Protocol::Udp,
        Protocol::Sctp => netloom_policy::Protocol::Sctp,
    });
    let cluster = if flags.filename.is_empty() {
        of_api(flags.kubeconfig.as_deref())?
    } else {
        of_manifests(&flags.filename)?
    };
    let ports = port_to_ask(&declared(&cluster, &to)?, flags.port.as_deref(), protocol).map_err(|why| anyhow!(why))?;
    let mut whole: Option<Verdict> = None;
    for (protocol, port) in ports {
        let (from, to) = (from.clone(), to.clone());
        let verdict = judge(&cluster, &Question { from, to, protocol, port })?;
        match &mut whole {
            Some(whole) => whole.join(verdict),
            None => whole = Some(verdict),
        }
    }
    whole.context("no port to ask about")
}

fn of_manifests(paths: &[PathBuf]) -> Result<Cluster> {
    let mut cluster = Cluster::default();
    for (file, document) in manifests::read(paths)? {
        cluster
            .add_manifest(&document)
            .map_err(|why| anyhow!("{}: {why}", file.display()))?;
    }
    if cluster.pods.is_empty() {
        bail!("there is no pod and no workload in the manifests that were given");
    }
    Ok(cluster)
}

fn of_api(kubeconfig: Option<&Path>) -> Result<Cluster> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let client = netloom_controller::kubernetes(kubeconfig).await?;
        let reading = tokio::time::timeout(PATIENCE, read(&client)).await;
        reading.with_context(|| format!("no answer from the Kubernetes API in {} s", PATIENCE.as_secs()))?
    })
}

/// One list of each kind policies depend on.
async fn read(client: &Client) -> Result<Cluster> {
    let (namespaces, nodes, pods, services, slices, policies) =
        tokio::try_join!(list(client), list(client), list(client), list(client), list(client), list(client))?;
    let mut cluster = Cluster::default();
    namespaces.iter().for_each(|object| cluster.add_namespace(object));
    nodes.iter().for_each(|object| cluster.add_node(object));
    pods.iter().for_each(|object| cluster.add_pod(object));
    services.iter().for_each(|object| cluster.add_service(object));
    slices.iter().for_each(|object| cluster.add_slice(object));
    policies.iter().for_each(|object| cluster.add_policy(object));
    Ok(cluster)
}

async fn list<K>(client: &Client) -> Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let found = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    let found = found.with_context(|| format!("list {}: the verdict needs all of them", K::plural(&())))?;
    Ok(found.items)
}
