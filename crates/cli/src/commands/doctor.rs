//! `netloom doctor`: flags to [`netloom_doctor`], and its findings to the terminal.

mod print;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Subcommand, ValueEnum};
use netloom_doctor::{ClusterOptions, Finding, NodeOptions, State};

use super::stdout;

/// Flags of `netloom doctor`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Every check is one line: ok, warning (it works, with the consequence named) or failed (something does not work). \
                  docs/doctor.md lists all checks.\n\n\
                  Examples:\n  \
                  netloom doctor                                      the cluster of your kubeconfig\n  \
                  netloom doctor -o json | jq '.findings[] | select(.state != \"ok\")'\n  \
                  kubectl -n netloom-system exec ds/netloom-agent -c agent -- netloom doctor node\n  \
                  netloom doctor node --problems                      this machine, only what is not ok\n\n\
                  Exit code: 0 nothing failed (there may be warnings), 1 something failed, 2 the checks could not run."
)]
pub struct Doctor {
    #[command(subcommand)]
    place: Option<Target>,
    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(Subcommand)]
enum Target {
    /// Check this machine: kernel, Open vSwitch, OVN, MTU, firewall, clock, certificates, leftovers of another network
    Node(NodeFlags),
}

/// How to print, the same for both.
#[derive(Clone, clap::Args)]
struct Printing {
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    /// Leave out checks that are ok
    #[arg(long)]
    problems: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Flags for looking at a cluster.
#[derive(Clone, clap::Args)]
struct ClusterFlags {
    /// Kubeconfig file; by default the usual places, then the pod's own service account
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Namespace Netloom is installed in
    #[arg(long, default_value = "netloom-system")]
    namespace: String,
    /// Also check the databases of this service, as NAMESPACE/SERVICE; they must be reachable, as from a pod of Netloom
    #[arg(long, env = "NETLOOM_DATABASES")]
    databases: Option<String>,
    /// Directory with ca.crt, tls.crt and tls.key for the databases
    #[arg(long, env = "NETLOOM_TLS")]
    tls: Option<PathBuf>,
    #[command(flatten)]
    printing: Printing,
}

/// Flags for looking at this machine.
#[derive(Clone, clap::Args)]
#[command(
    after_help = "The agent's pod needs no flags. On the node itself, give --node if its name in Kubernetes is not its host name.\n\n\
                  Exit code: 0 nothing failed (there may be warnings), 1 something failed, 2 the checks could not run."
)]
struct NodeFlags {
    /// Name of this node in Kubernetes; its host name by default
    #[arg(long, env = "NODE_NAME")]
    node: Option<String>,
    /// Kubeconfig file, to compare clocks with the API server and to find the databases
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Service of the databases, as NAMESPACE/SERVICE; the Southbound servers configured in Open vSwitch by default
    #[arg(long, env = "NETLOOM_DATABASES")]
    databases: Option<String>,
    /// Directory with ca.crt, tls.crt and tls.key
    #[arg(long, env = "NETLOOM_TLS")]
    tls: Option<PathBuf>,
    /// The node's own Open vSwitch database
    #[arg(long, default_value = "unix:/run/openvswitch/db.sock")]
    ovs: String,
    /// Directory of ovn-controller's management socket
    #[arg(long, default_value = "/run/ovn")]
    ovn_run_directory: PathBuf,
    /// Socket of the agent
    #[arg(long, default_value = "/run/netloom/cni.sock")]
    socket: PathBuf,
    /// Directory of CNI plugins
    #[arg(long, default_value = "/opt/cni/bin")]
    cni_bin_directory: PathBuf,
    /// Directory of CNI configurations
    #[arg(long, default_value = "/etc/cni/net.d")]
    cni_conf_directory: PathBuf,
    #[command(flatten)]
    printing: Printing,
}

/// Looks, judges, prints; the exit code tells scripts.
pub fn run(flags: Doctor) -> Result<ExitCode> {
    let (findings, printing) = match look(flags) {
        Ok(seen) => seen,
        Err(error) => {
            eprintln!("error: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    let shown = findings.iter().filter(|finding| !printing.problems || finding.state != State::Ok);
    match printing.output {
        Output::Json => stdout::print_line(&print::json(shown, &findings)?),
        Output::Table => stdout::print(&print::table(shown, &findings)),
    }
    let failed = findings.iter().any(|finding| finding.state == State::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn look(flags: Doctor) -> Result<(Vec<Finding>, Printing)> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        Ok(match flags.place {
            Some(Target::Node(flags)) => {
                let printing = flags.printing.clone();
                (netloom_doctor::examine_node(&flags.into()).await?, printing)
            }
            None => {
                let printing = flags.cluster.printing.clone();
                (netloom_doctor::examine_cluster(&flags.cluster.into()).await?, printing)
            }
        })
    })
}

impl From<ClusterFlags> for ClusterOptions {
    fn from(flags: ClusterFlags) -> Self {
        Self {
            kubeconfig: flags.kubeconfig,
            namespace: flags.namespace,
            databases: flags.databases,
            tls: flags.tls,
        }
    }
}

impl From<NodeFlags> for NodeOptions {
    fn from(flags: NodeFlags) -> Self {
        Self {
            node: flags.node,
            kubeconfig: flags.kubeconfig,
            databases: flags.databases,
            tls: flags.tls,
            ovs: flags.ovs,
            ovn_run_directory: flags.ovn_run_directory,
            socket: flags.socket,
            cni_bin_directory: flags.cni_bin_directory,
            cni_conf_directory: flags.cni_conf_directory,
        }
    }
}
