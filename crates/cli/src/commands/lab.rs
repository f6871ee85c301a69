//! `netloom lab`: flags to [`netloom_lab`] and its output for people.
//!
//! Commands that enter namespaces run without an async runtime, because only a process with one thread may.

mod inside;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use clap::Subcommand;
use netloom_lab::{Datapath, IpFamily, Machine, PartState, Progress, Spec, enter, launch, logs, pods};

use super::{stdout, table};

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
    #[command(flatten)]
    Inside(inside::Inside),
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
        Command::Inside(command) => inside::run(command),
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
        stdout::print_line(&serde_json::to_string_pretty(&status)?);
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
