//! The container runtime of a machine: processes in a pod's network namespace, their output kept with time stamps.
//!
//! Lives inside init, so containers outlive the kubelet, which asks for them over init's socket and finds them again after its own restart.
//! Every change is published as a whole new map: a watcher that was away misses nothing.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;

use crate::protocol::{ContainerSpec, ContainerStatus};
use crate::reaper::Reaper;
use crate::root::NETLOOM;

/// All containers of a machine.
#[derive(Clone)]
pub struct Containers {
    reaper: Reaper,
    state: Arc<watch::Sender<BTreeMap<String, ContainerStatus>>>,
}

impl Containers {
    /// No containers yet.
    pub fn new(reaper: Reaper) -> Self {
        Containers {
            reaper,
            state: Arc::new(watch::Sender::new(BTreeMap::new())),
        }
    }

    /// A view that tells when something changes.
    pub fn watch(&self) -> watch::Receiver<BTreeMap<String, ContainerStatus>> {
        self.state.subscribe()
    }

    /// Starts a container.
    pub fn start(&self, spec: &ContainerSpec) -> anyhow::Result<()> {
        if self.state.borrow().contains_key(&spec.id) {
            bail!("container {} already exists", spec.id);
        }
        let mut command = Command::new(NETLOOM);
        command.args(["lab", "enter", "--session", "--hostname", &spec.hostname]);
        if let Some(network) = &spec.network {
            command.arg("--network").arg(network);
        }
        if let Some(files) = &spec.files {
            command.arg("--files").arg(files);
        }
        command.arg("--directory").arg(&spec.directory).arg("--").args(&spec.command);
        let (stdout, stdout_writer) = std::io::pipe()?;
        let (stderr, stderr_writer) = std::io::pipe()?;
        command
            .env_clear()
            .envs(&spec.env)
            .stdin(Stdio::null())
            .stdout(stdout_writer)
            .stderr(stderr_writer);
        let log = open_log(&spec.log)?;
        let running = self.reaper.spawn(&mut command)?;
        drop(command); // holds the write ends of the pipes

        let (id, pid) = (spec.id.clone(), running.pid);
        self.state.send_modify(|all| {
            all.insert(
                id.clone(),
                ContainerStatus {
                    pid,
                    started: jiff::Timestamp::now(),
                    serving: !spec.announces,
                    ended: None,
                },
            );
        });
        let log = Arc::new(Mutex::new(log));
        let said = self.announced(spec);
        let copies = [
            tokio::spawn(copy(Receiver::from_owned_fd(stdout.into())?, "stdout", log.clone(), said)),
            tokio::spawn(copy(Receiver::from_owned_fd(stderr.into())?, "stderr", log, || {})),
        ];
        let state = self.state.clone();
        tokio::spawn(async move {
            let Ok(exit) = running.exit.await else { return };
            // What it said last should be in the log when its end is known; a child it left behind may hold the pipe for ever.
            let _ = tokio::time::timeout(Duration::from_millis(500), futures::future::join_all(copies)).await;
            state.send_modify(|all| {
                if let Some(container) = all.get_mut(&id) {
                    container.ended = Some((exit, jiff::Timestamp::now()));
                }
            });
        });
        Ok(())
    }

    /// What to do when a container has printed a line.
    fn announced(&self, spec: &ContainerSpec) -> impl FnMut() + Send + use<> {
        let (state, id, mut silent) = (self.state.clone(), spec.id.clone(), spec.announces);
        move || {
            if std::mem::take(&mut silent) {
                state.send_modify(|all| {
                    if let Some(container) = all.get_mut(&id) {
                        container.serving = true;
                    }
                });
            }
        }
    }

    /// Signals a container's processes; one that has ended is left alone.
    pub fn signal(&self, id: &str, signal: i32) -> anyhow::Result<()> {
        let all = self.state.borrow();
        let container = all.get(id).with_context(|| format!("no container {id}"))?;
        if container.ended.is_none() {
            let signal = Signal::try_from(signal).context("unknown signal")?;
            // Its own session, so the group is the container.
            match kill(Pid::from_raw(-container.pid), signal) {
                Ok(()) => {}
                // The group does not exist until the new process made its session.
                Err(nix::errno::Errno::ESRCH) => drop(kill(Pid::from_raw(container.pid), signal)),
                Err(error) => return Err(error).with_context(|| format!("signalling container {id}")),
            }
        }
        Ok(())
    }

    /// Forgets a container that has ended.
    pub fn remove(&self, id: &str) -> anyhow::Result<()> {
        if self.state.borrow().get(id).is_some_and(|container| container.ended.is_none()) {
            bail!("container {id} is running");
        }
        self.state.send_modify(|all| {
            all.remove(id);
        });
        Ok(())
    }
}

fn open_log(path: &Path) -> anyhow::Result<File> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))
}

/// Writes each line as `TIME STREAM F LINE`, the form container runtimes use (`P` when a line is not complete), and tells of each.
async fn copy(pipe: Receiver, stream: &'static str, log: Arc<Mutex<File>>, mut said: impl FnMut()) {
    let mut reader = BufReader::with_capacity(16 * 1024, pipe);
    loop {
        let mut line = Vec::new();
        // A program may print for ever without a line end; then its output is cut here.
        let mut limited = tokio::io::AsyncReadExt::take(&mut reader, 16 * 1024);
        match limited.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let complete = line.last() == Some(&b'\n');
        if complete {
            line.pop();
        }
        let mut record = format!("{:.9} {stream} {} ", jiff::Timestamp::now(), if complete { 'F' } else { 'P' }).into_bytes();
        record.extend_from_slice(&line);
        record.push(b'\n');
        if let Err(error) = log.lock().unwrap_or_else(PoisonError::into_inner).write_all(&record) {
            tracing::warn!(%error, "writing a container's log");
        }
        said();
    }
}
