//! `netloom show`: the network in the user's words, read from the Kubernetes API and the Northbound database and computed by the same
//! pure core the controller runs.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use netloom_lab::Lab;
use netloom_network::{Northbound, Planner, Scope, diff, view};
use netloom_ovsdb::client::{Client, MonitorTable, Options};
use serde::Serialize;

use super::table;

/// Flags of `netloom show`.
#[derive(clap::Args)]
pub struct Show {
    /// What to show
    #[arg(value_enum)]
    what: What,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    /// The lab to look at
    #[arg(long = "name", default_value = "netloom", conflicts_with_all = ["kubeconfig", "northbound"])]
    lab: String,
    /// Kubeconfig of a cluster, instead of a lab
    #[arg(long, requires = "northbound")]
    kubeconfig: Option<PathBuf>,
    /// Northbound database servers, instead of a lab's
    #[arg(long, requires = "kubeconfig")]
    northbound: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Nodes with their addresses, subnets and state
    Nodes,
    /// Virtual networks
    Networks,
    /// Pods' ports with their addresses and state
    Ports,
    /// What users have to mend, and how
    Problems,
    /// Where the Northbound database differs from what the cluster compiles to: nothing, unless a controller is at work or away
    Drift,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Prints what was asked for.
pub fn run(flags: Show) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let Seen { planner, observed, up } = runtime.block_on(look(&flags))?;
    let cluster = planner.cluster();
    let is_up = |port: &str| up.contains(port);
    match flags.what {
        What::Nodes => print(
            flags.output,
            &view::nodes(cluster, is_up),
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
            &view::networks(cluster),
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
            &view::ports(cluster, is_up),
            &["NAMESPACE", "POD", "NODE", "NETWORK", "ADDRESSES", "MAC", "STATE"],
            |port| {
                vec![
                    port.namespace.clone(),
                    port.pod.clone(),
                    port.node.clone(),
                    port.network.into(),
                    list(&port.addresses),
                    port.mac.clone(),
                    port.state.into(),
                ]
            },
        ),
        What::Problems => {
            let problems: Vec<_> = planner.problems().iter().collect();
            print(flags.output, &problems, &["OBJECT", "REASON", "WHAT TO DO"], |problem| {
                vec![problem.object.to_string(), problem.reason.into(), problem.message.clone()]
            })
        }
        What::Drift => {
            let missing: Vec<String> = diff(&observed, planner.desired(), &Scope::All)
                .to_string()
                .lines()
                .map(str::to_owned)
                .collect();
            print(flags.output, &missing, &["MISSING OPERATION"], |operation| vec![operation.clone()])
        }
    }
}

/// Reads the cluster and the database and plans, without writing: records come from the database, as after a restart.
async fn look(flags: &Show) -> Result<Seen> {
    let (kubeconfig, northbound) = match (&flags.kubeconfig, &flags.northbound) {
        (Some(kubeconfig), Some(northbound)) => (kubeconfig.clone(), northbound.clone()),
        _ => of_lab(&flags.lab)?,
    };
    let kubernetes = netloom_controller::kubernetes(Some(&kubeconfig)).await?;
    let objects = netloom_controller::read_cluster(&kubernetes)
        .await
        .context("read the cluster from the Kubernetes API")?;

    let mut options = Options::new(northbound.parse().context("read the northbound remotes")?, "OVN_Northbound");
    options.monitor = netloom_network::northbound::TABLES
        .iter()
        .map(|(table, _)| MonitorTable::all(*table))
        .collect();
    let (client, _events) = Client::start(options);
    tokio::time::timeout(Duration::from_secs(5), client.ready())
        .await
        .with_context(|| format!("no answer from the Northbound database at {northbound}"))??;

    let mut observed = Northbound::default();
    let mut up = HashSet::new();
    client.read(|replica| {
        for (table, rows) in replica.tables() {
            for (uuid, row) in rows {
                observed.observe(table, *uuid, Some(row));
                if row.get("up").and_then(|datum| datum.as_bool()) == Some(true) {
                    up.extend(row.get("name").and_then(|name| name.as_str()).map(str::to_owned));
                }
            }
        }
    });
    let mut planner = Planner::default();
    planner.restore(&observed);
    for object in objects {
        planner.apply(object);
    }
    planner.compile();
    Ok(Seen { planner, observed, up })
}

/// A cluster and its database at one moment.
struct Seen {
    planner: Planner,
    observed: Northbound,
    /// Names of ports OVN says are up.
    up: HashSet<String>,
}

/// Kubeconfig and Northbound remote of a lab on this machine.
fn of_lab(name: &str) -> Result<(PathBuf, String)> {
    let lab = Lab::open(name)?;
    let control = lab
        .status()
        .into_iter()
        .find(|machine| machine.machine == "control")
        .and_then(|machine| machine.pid);
    let pid = control.with_context(|| format!("lab {name} is not running: start it with `netloom lab up --name {name}`"))?;
    Ok((lab.home().kubeconfig(), format!("unix:/proc/{pid}/root/run/ovn/ovnnb_db.sock")))
}

fn print<T: Serialize>(output: Output, items: &[T], header: &[&str], row: impl Fn(&T) -> Vec<String>) -> Result<ExitCode> {
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(items)?),
        Output::Table if items.is_empty() => println!("None."),
        Output::Table => table::print(header, items.iter().map(row)),
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
