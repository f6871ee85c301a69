//! `netloom lab`: flags to [`netloom_lab`] and its output for people.
//!
//! The hidden subcommands are what runs inside a lab's machines; commands that enter namespaces run without an async runtime, because
//! only a process with one thread may.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Subcommand;
use netloom_lab::{Datapath, IpFamily, Machine, PartState, Progress, Spec, apiserver, dns, echo, enter, init, kubelet, launch, logs, pods};

use super::table;

/// Flags of `netloom lab`.
#[derive(clap::Args)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Args)]
struct Name {
    /// Name of the lab
    #[arg(long, default_value = "netloom", env = "NETLOOM_LAB")]
    name: String,
}

#[derive(Subcommand)]
enum Command {
    /// Start a lab, or report that it is running
    Up {
        #[command(flatten)]
        name: Name,
        /// Number of nodes
        #[arg(long, default_value_t = 3)]
        nodes: usize,
        /// Address families of pods and services: ipv4, ipv6 or dual
        #[arg(long, default_value = "dual")]
        ip_family: IpFamily,
        /// Open vSwitch datapath: auto, kernel or userspace
        #[arg(long, default_value = "auto")]
        datapath: Datapath,
        /// Keep a lab that failed to start, for inspection
        #[arg(long)]
        keep_failed: bool,
    },
    /// Remove a lab and every trace of it
    Down {
        #[command(flatten)]
        name: Name,
    },
    /// Show the machines and their components
    Status {
        #[command(flatten)]
        name: Name,
        /// Output format: table or json
        #[arg(long, short, default_value = "table", value_parser = ["table", "json"])]
        output: String,
    },
    /// Power-cycle machines: their processes are killed, their files are kept
    Restart {
        #[command(flatten)]
        name: Name,
        /// Only this machine
        #[arg(long, conflicts_with = "all")]
        node: Option<String>,
        /// All machines (the default)
        #[arg(long)]
        all: bool,
    },
    /// Print the path of the lab's kubeconfig
    Kubeconfig {
        #[command(flatten)]
        name: Name,
    },
    /// Run a command in a machine
    Node {
        #[command(flatten)]
        name: Name,
        /// The machine: node1, node2, …, control or outside
        node: String,
        /// The command; a shell by default
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Run a command in the network namespace of a pod
    Pod {
        #[command(flatten)]
        name: Name,
        /// The pod, as namespace/name or name
        pod: String,
        /// The command; a shell by default
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Run a command on the host outside the cluster
    Outside {
        #[command(flatten)]
        name: Name,
        /// The command; a shell by default
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Print the log of a component, e.g. controller or node1/agent
    Logs {
        #[command(flatten)]
        name: Name,
        /// Keep printing new lines
        #[arg(long, short)]
        follow: bool,
        /// The component; lists all of them by default
        part: Option<String>,
    },
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

/// Runs one `netloom lab` subcommand.
pub fn run(lab: Lab) -> anyhow::Result<ExitCode> {
    match lab.command {
        Command::Up {
            name,
            nodes,
            ip_family,
            datapath,
            keep_failed,
        } => {
            let mut spec = Spec::new(name.name).nodes(nodes).ip_family(ip_family).datapath(datapath);
            spec.keep_failed = keep_failed;
            up(spec)
        }
        Command::Down { name } => down(&name.name),
        Command::Status { name, output } => status(&name.name, &output),
        Command::Restart { name, node, all: _ } => restart(&name.name, node.as_deref()),
        Command::Kubeconfig { name } => {
            println!("{}", netloom_lab::Lab::open(&name.name)?.home().kubeconfig().display());
            Ok(ExitCode::SUCCESS)
        }
        Command::Node { name, node, command } => in_machine(&name.name, &node, command),
        Command::Outside { name, command } => in_machine(&name.name, "outside", command),
        Command::Pod { name, pod, command } => in_pod(&name.name, &pod, command),
        Command::Logs { name, follow, part } => print_logs(&name.name, part.as_deref(), follow),
        Command::Launch { name, machine } => launch::launcher(&name.name, &machine).map(|()| ExitCode::SUCCESS),
        Command::Init { name, machine } => {
            log_to_stderr();
            init::run(&name.name, &machine).map(|()| ExitCode::SUCCESS)
        }
        Command::Enter {
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
            let place = enter::Place {
                network,
                uts,
                hostname,
                session,
                terminal,
                directory,
            };
            match mounts.become_command(&place, &command)? {}
        }
        Command::Apiserver { ip_family, kubeconfig } => {
            log_to_stderr();
            block_on(apiserver::run(apiserver::Options { ip_family, kubeconfig }))
        }
        Command::Dns { ip_family, kubeconfig } => {
            log_to_stderr();
            block_on(dns::run(dns::Options { ip_family, kubeconfig }))
        }
        Command::Kubelet {
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
        Command::Container {
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
        Command::Ask {
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

fn up(spec: Spec) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let name = spec.name.clone();
    let (lab, new) = netloom_lab::Lab::start(spec, &Progress::for_people())?;
    let flag = if name == "netloom" {
        String::new()
    } else {
        format!(" --name {name}")
    };
    if new {
        println!("lab {name} is up after {:.1} s", started.elapsed().as_secs_f64());
    } else {
        println!("lab {name} is running");
    }
    println!("\n  export KUBECONFIG={}", lab.home().kubeconfig().display());
    println!("  export PATH=$PATH:{}\n\nTry:", missing_from_path(&lab).join(":"));
    println!("  kubectl create deployment web --image=nginx --port=80 --replicas=3");
    println!("  kubectl get pods -o wide");
    println!("  netloom show ports{flag}");
    Ok(ExitCode::SUCCESS)
}

/// Folders the commands above need: this binary's, and the image's for kubectl where the machine has none.
fn missing_from_path(lab: &netloom_lab::Lab) -> Vec<String> {
    let folder = |path: &std::path::Path| path.parent().map(|folder| folder.display().to_string());
    let on_path =
        |name: &str| std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).exists()));
    let mut folders: Vec<String> = folder(&lab.spec().binary).into_iter().collect();
    if !on_path("kubectl") {
        folders.extend(folder(&lab.spec().image.join("usr/bin/kubectl")));
    }
    folders
}

fn down(name: &str) -> anyhow::Result<ExitCode> {
    match netloom_lab::Lab::find(name)? {
        Some(lab) => {
            lab.down().with_context(|| format!("removing lab {name}"))?;
            println!("lab {name} is gone");
        }
        None => println!("there is no lab {name}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn restart(name: &str, node: Option<&str>) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let lab = netloom_lab::Lab::open(name)?;
    let machines = match node {
        Some(node) => vec![lab.spec().machine(node)?],
        None => lab.spec().machines(),
    };
    lab.restart(&machines, &Progress::for_people())?;
    let names: Vec<_> = machines.iter().map(Machine::name).collect();
    println!("restarted {} in {:.1} s", names.join(", "), started.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

fn status(name: &str, output: &str) -> anyhow::Result<ExitCode> {
    let status = netloom_lab::Lab::open(name)?.status();
    if output == "json" {
        println!("{}", serde_json::to_string_pretty(&status)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    for machine in &status {
        let pid = |pid: Option<i32>| pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let state = if machine.pid.is_some() { "running" } else { "down" };
        rows.push(vec![
            machine.machine.clone(),
            String::new(),
            state.to_owned(),
            pid(machine.pid),
            String::new(),
            String::new(),
        ]);
        for part in &machine.parts {
            let ended = part.reason.clone().unwrap_or_default();
            rows.push(vec![
                String::new(),
                part.name.clone(),
                part.state.to_string(),
                pid(part.pid),
                part.restarts.to_string(),
                ended,
            ]);
        }
    }
    table::print(&["MACHINE", "PART", "STATE", "PID", "RESTARTS", "LAST END"], rows);
    let healthy = status
        .iter()
        .all(|machine| machine.pid.is_some() && machine.parts.iter().all(|part| part.state == PartState::Ready));
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn in_machine(name: &str, machine: &str, command: Vec<String>) -> anyhow::Result<ExitCode> {
    let lab = netloom_lab::Lab::open(name)?;
    let machine = lab.spec().machine(machine)?.name();
    let pid = launch::pid(lab.home(), &machine)
        .with_context(|| format!("machine {machine} of lab {name} is not running: start it with `netloom lab up`"))?;
    enter::enter_machine(pid)?;
    Ok(enter::run(&or_shell(command))?.into())
}

fn in_pod(name: &str, pod: &str, command: Vec<String>) -> anyhow::Result<ExitCode> {
    let lab = netloom_lab::Lab::open(name)?;
    let (namespace, pod) = pod.split_once('/').unwrap_or(("default", pod));
    pods::enter_pod(&lab, namespace, pod)?;
    Ok(enter::run(&or_shell(command))?.into())
}

fn or_shell(command: Vec<String>) -> Vec<String> {
    if command.is_empty() { vec!["bash".into()] } else { command }
}

fn print_logs(name: &str, part: Option<&str>, follow: bool) -> anyhow::Result<ExitCode> {
    let lab = netloom_lab::Lab::open(name)?;
    let mut stdout = std::io::stdout().lock();
    match part {
        Some(part) => logs::copy(&logs::find(lab.home(), lab.spec(), part)?, follow, &mut stdout)?,
        None => writeln!(stdout, "{}", logs::names(lab.home(), lab.spec()).join("\n"))?,
    }
    Ok(ExitCode::SUCCESS)
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
