//! `netloom show`: the network in the user's words, read from the Kubernetes API and the Northbound database and computed by the same
//! pure core the controller runs.

mod look;
mod services;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use look::{Seen, Sources};
use netloom_discovery::Service;
use netloom_network::{Scope, diff, show};
use serde::Serialize;

use super::process::TlsFlags;
use super::{stdout, table};

/// Flags of `netloom show`.
#[derive(clap::Args)]
pub struct Show {
    /// What to show
    #[arg(value_enum)]
    what: What,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    /// Name of the lab
    #[arg(long = "name", default_value = "netloom", conflicts_with_all = ["kubeconfig", "northbound", "southbound", "databases"])]
    lab: String,
    /// Kubeconfig of a cluster, instead of a lab; the pod's own service account in a pod
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Northbound database servers, instead of a lab's
    #[arg(long, requires = "kubeconfig")]
    northbound: Option<String>,
    /// Southbound database servers, for the health of services' backends
    #[arg(long, requires = "northbound")]
    southbound: Option<String>,
    /// Service whose endpoints serve both databases, as NAMESPACE/NAME; set in the pods of Netloom
    #[arg(long, env = "NETLOOM_DATABASES")]
    databases: Option<Service>,
    #[command(flatten)]
    tls: TlsFlags,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Nodes with their addresses, subnets and state
    Nodes,
    /// Virtual networks
    Networks,
    /// Ports of pods and machines with their addresses and state
    Ports,
    /// Services with their addresses, backends and the node that answers for them
    Services,
    /// Problems that users have to fix, and how
    Problems,
    /// Differences between the Northbound database and what the cluster compiles to; none unless a controller is busy or down
    Drift,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    /// Like table, with every backend of a service
    Wide,
    Json,
}

/// Prints what was asked for.
pub fn run(flags: Show) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let tls = flags.tls.into();
    let place = match (flags.kubeconfig, flags.northbound, flags.databases) {
        (kubeconfig, Some(northbound), _) => Sources {
            kubeconfig,
            northbound,
            southbound: flags.southbound,
            tls,
        },
        (kubeconfig, None, Some(databases)) => runtime.block_on(Sources::of_cluster(kubeconfig, databases, tls))?,
        (Some(_), None, None) => bail!("where the databases are is not known: add --databases or --northbound to --kubeconfig"),
        (None, None, None) => Sources::of_lab(&flags.lab)?,
    };
    let seen = runtime.block_on(look::at(&place))?;
    let Seen { planner, observed, .. } = &seen;
    let cluster = planner.cluster();
    let is_up = |port: &str| seen.up.contains(port);
    match flags.what {
        What::Nodes => print(
            flags.output,
            &show::nodes(cluster, is_up),
            &["NAME", "STATE", "ADDRESSES", "SUBNETS", "GATEWAY", "PORTS"],
            |node| {
                vec![
                    node.name.clone(),
                    node.state.into(),
                    list(&node.addresses),
                    list(&node.subnets),
                    list(&node.gateway),
                    node.ports.to_string(),
                ]
            },
        ),
        What::Networks => print(
            flags.output,
            &show::networks(cluster),
            &["NAME", "RANGES", "NODES", "PORTS", "TOPOLOGY"],
            |network| {
                vec![
                    network.name.clone(),
                    list(&network.ranges),
                    network.nodes.to_string(),
                    network.ports.to_string(),
                    network.topology.into(),
                ]
            },
        ),
        What::Ports => print(
            flags.output,
            &show::ports(cluster, is_up),
            &["NAMESPACE", "POD", "NODE", "NETWORK", "ADDRESSES", "MAC", "STATE"],
            |port| {
                vec![
                    port.namespace.clone(),
                    port.pod.clone(),
                    port.node.clone(),
                    port.network.as_str().into(),
                    list(&[port.addresses.clone(), port.network_addresses.clone()].concat()),
                    port.mac.clone(),
                    port.state.into(),
                ]
            },
        ),
        What::Services => {
            let health = runtime.block_on(look::health(&place));
            let hosting = |port: &str| seen.hosting.get(port).cloned();
            let services = show::services(cluster, hosting, |ip, port, protocol| health.get(&(ip, port, protocol)).copied());
            let wide = flags.output == Output::Wide;
            print(flags.output, &services, services::HEADER, |service| services::row(service, wide))
        }
        What::Problems => {
            let problems: Vec<_> = planner.problems().iter().collect();
            print(flags.output, &problems, &["OBJECT", "REASON", "WHAT TO DO"], |problem| {
                vec![problem.object.to_string(), problem.reason.into(), problem.message.clone()]
            })
        }
        What::Drift => {
            let missing: Vec<String> = diff(observed, planner.desired(), &Scope::All)
                .to_string()
                .lines()
                .map(str::to_owned)
                .collect();
            print(flags.output, &missing, &["MISSING OPERATION"], |operation| vec![operation.clone()])
        }
    }
}

fn print<T: Serialize>(output: Output, items: &[T], header: &[&str], row: impl Fn(&T) -> Vec<String>) -> Result<ExitCode> {
    match output {
        Output::Json => stdout::print_line(&serde_json::to_string_pretty(items)?),
        Output::Table | Output::Wide if items.is_empty() => stdout::print_line("None."),
        Output::Table | Output::Wide => table::print(header, items.iter().map(row)),
    }
    Ok(ExitCode::SUCCESS)
}

fn list<T: ToString>(values: &[T]) -> String {
    if values.is_empty() {
        "-".to_owned()
    } else {
        values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}
