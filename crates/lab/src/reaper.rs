//! Child processes of a machine's first process: starting them, and learning that they ended.
//!
//! PID 1 inherits every orphan of its namespace, so exits are collected for all children at once and handed to whoever waits for that
//! process. Starting a process and registering interest happen under one lock, so no exit is missed. Nothing else in this process may wait for children.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// The code a shell would show.
    pub fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(number) => 128 + number,
        }
    }

    /// Whether it ended as it should.
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exited with code {code}"),
            Exit::Signal(number) => write!(f, "was ended by signal {number}"),
        }
    }
}

/// A running child: its process number and its end to come.
#[derive(Debug)]
pub struct Running {
    /// Process number in this namespace.
    pub pid: i32,
    /// Resolves when it ends.
    pub exit: oneshot::Receiver<Exit>,
}

/// Starts children and collects their exits.
#[derive(Clone, Default)]
pub struct Reaper {
    waiting: Arc<Mutex<HashMap<i32, oneshot::Sender<Exit>>>>,
}

impl Reaper {
    /// Starts a process.
    pub fn spawn(&self, command: &mut Command) -> anyhow::Result<Running> {
        let mut waiting = self.lock();
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
        let pid = i32::try_from(child.id()).context("process number out of range")?;
        let (sender, exit) = oneshot::channel();
        waiting.insert(pid, sender);
        Ok(Running { pid, exit })
    }

    /// Starts a process and waits for its end.
    pub async fn run(&self, command: &mut Command) -> anyhow::Result<Exit> {
        self.spawn(command)?.exit.await.context("the reaper is gone")
    }

    /// Waits for a process that was started by a child and left to PID 1, as daemons are.
    pub fn adopt(&self, pid: i32) -> anyhow::Result<Running> {
        let mut waiting = self.lock();
        kill(Pid::from_raw(pid), None).with_context(|| format!("process {pid} has already exited"))?;
        let (sender, exit) = oneshot::channel();
        waiting.insert(pid, sender);
        Ok(Running { pid, exit })
    }

    /// A reaper, and the future that collects exits for ever. Listens from here on, so no exit of a later start is missed.
    pub fn new() -> anyhow::Result<(Self, impl Future<Output = ()>)> {
        let mut children = signal(SignalKind::child()).context("watching for child exits")?;
        let reaper = Reaper::default();
        let collector = reaper.clone();
        let collect = async move {
            while children.recv().await.is_some() {
                collector.drain();
            }
        };
        Ok((reaper, collect))
    }

    fn drain(&self) {
        let mut waiting = self.lock();
        loop {
            let (pid, exit) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, Exit::Code(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, Exit::Signal(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(error) => {
                    tracing::error!(%error, "waiting for children");
                    return;
                }
            };
            if let Some(sender) = waiting.remove(&pid.as_raw()) {
                // The one who waited may have gone away; then nobody needs to know.
                let _ = sender.send(exit);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, oneshot::Sender<Exit>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
