//! `netloom agent`: flags to [`netloom_agent`].

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use netloom_agent::certificate::Directories;
use netloom_agent::databases::Southbound;
use netloom_agent::install::Files;
use netloom_agent::policy_log;
use netloom_agent::uplink::Choice;
use netloom_discovery::Service;
use netloom_ovsdb::Remotes;
use netloom_ovsdb::client::Tls;

use super::process::{self, DatapathFlag, TlsFlags};

/// Flags of `netloom agent`.
#[derive(clap::Args)]
pub struct Agent {
    /// Name of this node in Kubernetes, also its OVN chassis name
    #[arg(long, env = "NODE_NAME")]
    node: String,
    /// Southbound database servers, e.g. tcp:10.0.0.1:6642
    #[arg(long, env = "NETLOOM_SOUTHBOUND", required_unless_present = "databases")]
    southbound: Option<Remotes>,
    /// Service whose endpoints serve the databases, as NAMESPACE/NAME, instead of --southbound
    #[arg(long, env = "NETLOOM_DATABASES", conflicts_with = "southbound")]
    databases: Option<Service>,
    /// The node's own Open vSwitch database
    #[arg(long, default_value = "unix:/run/openvswitch/db.sock")]
    ovs: String,
    /// Kubeconfig file; the pod's own service account by default
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Socket on which the agent serves netloom-cni
    #[arg(long, default_value = "/run/netloom/cni.sock")]
    socket: PathBuf,
    /// Where to serve /metrics, /healthz and /readyz
    #[arg(long, default_value = "127.0.0.1:9642")]
    http: SocketAddr,
    /// Address to which ovn-controller sends the verdicts of policies to log
    #[arg(long, default_value = policy_log::ADDRESS)]
    policy_log: SocketAddr,
    /// MTU of pods; the underlay's MTU minus the tunnel header by default
    #[arg(long)]
    mtu: Option<u32>,
    /// The node's own address: the tunnel endpoint, also used to find the uplink
    #[arg(long, env = "HOST_IP")]
    node_ip: Option<IpAddr>,
    /// Configure Open vSwitch for OVN (external_ids, br-int) and keep it configured; otherwise it must be configured already
    #[arg(long, requires = "node_ip")]
    set_up_switch: bool,
    /// Device to move to br-ex, with its addresses and routes: a name, auto (the device with the node's address) or none
    #[arg(long, default_value = "none")]
    uplink: Choice,
    /// Datapath; auto is the kernel if it has the openvswitch module, else userspace
    #[arg(long, value_enum, default_value = "auto")]
    datapath: DatapathFlag,
    /// Install the CNI plugin into this directory
    #[arg(long, requires = "cni_conf_directory", value_name = "DIRECTORY")]
    cni_bin_directory: Option<PathBuf>,
    /// Install the CNI configuration into this directory
    #[arg(long, requires = "cni_bin_directory", value_name = "DIRECTORY")]
    cni_conf_directory: Option<PathBuf>,
    /// The CNI plugin to install
    #[arg(long, default_value = "/usr/libexec/netloom/netloom-cni", value_name = "FILE")]
    cni_plugin: PathBuf,
    /// CNI version of the configuration: 1.0.0 works with every runtime, 1.1.0 has GC and STATUS
    #[arg(long, default_value = "1.0.0", value_parser = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"])]
    cni_version: String,
    /// Directory whose contents are deleted when Netloom is removed from the node
    #[arg(long, value_name = "DIRECTORY")]
    state_directory: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsFlags,
    /// Directory with the authorities' certificates (ca.crt, clients.crt): ask for a certificate of this node, and keep it in --tls
    #[arg(long, value_name = "DIRECTORY", requires = "tls")]
    trust: Option<PathBuf>,
}

/// Runs the agent until it is asked to stop.
pub fn run(flags: Agent) -> Result<ExitCode> {
    process::log();
    let directories = flags.cni_bin_directory.zip(flags.cni_conf_directory);
    let cni_files = directories.map(|(binaries, configurations)| Files {
        plugin: flags.cni_plugin,
        binaries,
        configurations,
        version: flags.cni_version,
        socket: flags.socket.clone(),
    });
    let own = flags.tls.directory();
    let certificate = flags.trust.zip(own).map(|(trust, own)| Directories { trust, own });
    let tls: Option<Tls> = flags.tls.into();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let _entered = runtime.enter();
    let southbound = match (flags.southbound, flags.databases) {
        (Some(remotes), _) => Southbound::Fixed(remotes),
        (None, Some(service)) => {
            let client = runtime.block_on(netloom_controller::kubernetes(flags.kubeconfig.as_deref()))?;
            Southbound::Members(netloom_discovery::watch(client, service), tls.is_some())
        }
        (None, None) => anyhow::bail!("find the databases: pass --southbound or --databases"),
    };
    let options = netloom_agent::Options {
        ovs: flags.ovs,
        kubeconfig: flags.kubeconfig,
        socket: flags.socket,
        health: Some(flags.http),
        policy_log: Some(flags.policy_log),
        mtu: flags.mtu,
        tls,
        certificate,
        node_ip: flags.node_ip,
        set_up_switch: flags.set_up_switch,
        uplink: flags.uplink,
        datapath: flags.datapath.into(),
        cni_files,
        state_directory: flags.state_directory,
        ..netloom_agent::Options::new(flags.node, southbound)
    };
    runtime.block_on(netloom_agent::run(options))?;
    Ok(ExitCode::SUCCESS)
}
