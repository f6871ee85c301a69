//! Starting and ending one machine from the host.
//!
//! A short-lived launcher process (`netloom lab launch`) makes the namespaces and leaves the machine's init in them; being its own process,
//! it may enter namespaces freely. The caller gets a pipe on which init reports how the machine comes up.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, PipeReader, Read as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{getsockopt, sockopt};

use crate::home::{Home, Record};
use crate::process::kill_and_wait;
use crate::protocol::BootEvent;
use crate::spec::Machine;
use crate::underlay;

/// A machine that is coming up.
pub struct Launched {
    events: BufReader<PipeReader>,
}

impl Launched {
    /// The next thing that happened; `None` when init is done reporting or gone.
    pub fn next_event(&mut self) -> anyhow::Result<Option<BootEvent>> {
        let mut line = String::new();
        match self.events.read_line(&mut line).context("reading what a machine reports")? {
            0 => Ok(None),
            _ => serde_json::from_str(&line)
                .context("understanding what a machine reports")
                .map(Some),
        }
    }
}

/// Starts `machine`; returns when its init runs.
pub fn launch(home: &Home, record: &Record, machine: Machine) -> anyhow::Result<Launched> {
    let (events, writer) = std::io::pipe()?;
    let (mut complaints, complaint_writer) = std::io::pipe()?;
    std::fs::create_dir_all(home.logs(&machine.name()))?;
    let mut command = Command::new(&record.spec.binary);
    command
        .args(["lab", "launch", "--name", &record.spec.name, &machine.name()])
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(complaint_writer);
    let status = command
        .status()
        .with_context(|| format!("running {}", record.spec.binary.display()))?;
    drop(command);
    if !status.success() {
        let mut text = String::new();
        complaints.read_to_string(&mut text)?;
        bail!("{}", text.trim().trim_start_matches("error: "));
    }
    Ok(Launched {
        events: BufReader::new(events),
    })
}

/// The launcher itself: makes the namespaces, starts init in them and ends.
pub fn launcher(name: &str, machine: &str) -> anyhow::Result<()> {
    let home = Home::of(name);
    let record = home.load()?.with_context(|| format!("no lab {name}"))?;
    let machine = record.spec.machine(machine)?;
    let stdin = match machine {
        Machine::Control => {
            // Made here, still in the host's network namespace, and handed down: the only thing of the lab that the host can reach.
            let listener = TcpListener::bind(("127.0.0.1", record.api_port))
                .with_context(|| format!("listening on 127.0.0.1:{} for the API", record.api_port))?;
            underlay::enter_bridge_namespace(&home.underlay(), record.spec.ip_family)?;
            Stdio::from(OwnedFd::from(listener))
        }
        _ => {
            underlay::enter_new_namespace(&home.underlay(), machine)?;
            Stdio::null()
        }
    };
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)
        .context("making namespaces")?;
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(home.init_log(&machine.name()))
        .context("opening the log of init")?;
    // The next child is the first process of the new PID namespace.
    Command::new(&record.spec.binary)
        .args(["lab", "init", "--name", name, &machine.name()])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .env("LANG", "C.UTF-8")
        .env("NETLOOM_LOG", std::env::var("NETLOOM_LOG").unwrap_or_else(|_| "info".into()))
        .stdin(stdin)
        .stderr(log)
        .spawn()
        .context("starting init")?;
    Ok(())
}

/// The process number of a machine's init as the host sees it; `None` when the machine is not running.
pub fn pid(home: &Home, machine: &str) -> Option<i32> {
    let stream = UnixStream::connect(home.init_socket(machine)).ok()?;
    let pid = getsockopt(&stream, sockopt::PeerCredentials).ok()?.pid();
    (pid > 0).then_some(pid)
}

/// Ends a machine and returns when nothing of it runs.
pub fn end(home: &Home, machine: &str) -> anyhow::Result<()> {
    if let Some(pid) = pid(home, machine) {
        kill_and_wait(pid).with_context(|| format!("ending machine {machine}"))?;
    }
    Ok(())
}
