//! The hidden subcommands of `netloom lab`: what runs inside a lab's machines.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use netloom_agent::set_up::once;
use netloom_agent::set_up::plan::Terms;
use netloom_lab::{Datapath, IpFamily, apiserver, dns, echo, enter, init, kubelet, launch};
use netloom_ovsdb::Remotes;

use super::Name;

/// A subcommand for a lab's machines.
#[derive(Subcommand)]
pub enum Inside {
    /// Create the namespaces of a machine and start its init process
    #[command(hide = true)]
    Launch {
        #[command(flatten)]
        name: Name,
        machine: String,
    },
    /// Run as the first process of a machine
    #[command(hide = true)]
    Init {
        #[command(flatten)]
        name: Name,
        machine: String,
    },
    /// Execute a command in namespaces of this machine
    #[command(hide = true)]
    Enter {
        #[arg(long)]
        network: Option<PathBuf>,
        #[arg(long)]
        uts: Option<PathBuf>,
        #[arg(long)]
        hostname: Option<String>,
        #[arg(long)]
        session: bool,
        #[arg(long)]
        terminal: Option<PathBuf>,
        #[arg(long)]
        directory: Option<PathBuf>,
        #[arg(long)]
        mounts: Option<PathBuf>,
        #[arg(long)]
        files: Option<PathBuf>,
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Serve the lab's Kubernetes API; the host's listener is standard input
    #[command(hide = true)]
    Apiserver {
        #[arg(long)]
        ip_family: IpFamily,
        #[arg(long, default_value = "/etc/netloom/kubeconfig")]
        kubeconfig: PathBuf,
    },
    /// Serve DNS for services and pods
    #[command(hide = true)]
    Dns {
        #[arg(long)]
        ip_family: IpFamily,
        #[arg(long)]
        kubeconfig: PathBuf,
    },
    /// Run the pods of a node
    #[command(hide = true)]
    Kubelet {
        #[arg(long)]
        node: String,
        #[arg(long = "address")]
        addresses: Vec<IpAddr>,
        #[arg(long)]
        kubeconfig: PathBuf,
    },
    /// Set up the Open vSwitch of a node, before vswitchd runs
    #[command(hide = true)]
    SetUpSwitch {
        #[arg(long)]
        node: String,
        #[arg(long)]
        address: IpAddr,
        #[arg(long)]
        southbound: Remotes,
        #[arg(long)]
        datapath: Datapath,
        #[arg(long)]
        uplink: String,
        #[arg(long)]
        mac: String,
    },
    /// Answer on ports, like a pod without a command
    #[command(hide = true)]
    Container {
        #[arg(long)]
        name: String,
        #[arg(long, default_value = "")]
        namespace: String,
        #[arg(long, default_value = "")]
        node: String,
        #[arg(long = "port")]
        ports: Vec<echo::Port>,
    },
    /// Send requests to a pod without a command, or to its service: which pod answers, and which client address it sees
    #[command(hide = true, alias = "client")]
    Ask {
        /// ADDRESS:PORT or NAME:PORT
        target: String,
        #[arg(long, default_value = "TCP")]
        protocol: echo::Protocol,
        #[arg(long, default_value_t = 1)]
        count: u64,
        #[arg(long, default_value_t = 0)]
        interval_ms: u64,
        #[arg(long, default_value_t = 5000)]
        timeout_ms: u64,
        #[arg(long, default_value_t = 1)]
        parallel: u64,
        #[arg(long)]
        source: Option<IpAddr>,
        #[arg(long)]
        source_port: Option<u16>,
        /// Size of the request in bytes; the answer contains it
        #[arg(long, default_value_t = 2)]
        size: usize,
        #[arg(long)]
        keep: bool,
        #[arg(long)]
        json: bool,
    },
}

/// Runs one of them.
pub fn run(command: Inside) -> anyhow::Result<ExitCode> {
    match command {
        Inside::Launch { name, machine } => launch::launcher(&name.name, &machine).map(|()| ExitCode::SUCCESS),
        Inside::Init { name, machine } => {
            log_to_stderr();
            init::run(&name.name, &machine).map(|()| ExitCode::SUCCESS)
        }
        Inside::Enter {
            network,
            uts,
            hostname,
            session,
            terminal,
            directory,
            mounts,
            files,
            command,
        } => {
            let mounts = enter::Mounts { namespace: mounts, files };
            let place = enter::Surroundings {
                network,
                uts,
                hostname,
                session,
                terminal,
                directory,
            };
            match mounts.become_command(&place, &command)? {}
        }
        Inside::Apiserver { ip_family, kubeconfig } => {
            log_to_stderr();
            block_on(apiserver::run(apiserver::Options { ip_family, kubeconfig }))
        }
        Inside::Dns { ip_family, kubeconfig } => {
            log_to_stderr();
            block_on(dns::run(dns::Options { ip_family, kubeconfig }))
        }
        Inside::Kubelet {
            node,
            addresses,
            kubeconfig,
        } => {
            log_to_stderr();
            block_on(kubelet::run(kubelet::Options {
                node,
                addresses,
                kubeconfig,
            }))
        }
        Inside::SetUpSwitch {
            node,
            address,
            southbound,
            datapath,
            uplink,
            mac,
        } => {
            let terms = Terms {
                node,
                encap: address,
                southbound: Some(southbound.to_string()),
                settled: false,
                userspace: datapath == Datapath::Userspace,
                external_bridge: true,
            };
            let uplink = once::Device { name: uplink, mac };
            block_on(async { once::once("unix:/run/openvswitch/db.sock".parse()?, &terms, &uplink).await })
        }
        Inside::Container {
            name,
            namespace,
            node,
            ports,
        } => block_on(echo::run(echo::Options {
            name,
            namespace,
            node,
            ports,
        })),
        Inside::Ask {
            target,
            protocol,
            count,
            interval_ms,
            timeout_ms,
            parallel,
            source,
            source_port,
            size,
            keep,
            json,
        } => {
            let answered = echo::client::run(&echo::client::Options {
                target,
                protocol,
                count,
                interval: Duration::from_millis(interval_ms),
                timeout: Duration::from_millis(timeout_ms),
                parallel,
                source,
                source_port,
                size,
                keep,
                json,
            })?;
            Ok(if answered { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn block_on(future: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(future)?;
    Ok(ExitCode::SUCCESS)
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("NETLOOM_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}
