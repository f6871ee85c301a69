//! What is said on the socket of a machine's init: one JSON request per line, one JSON reply per line.
//!
//! Spoken by the `lab` commands on the host (state of parts) and by the node's kubelet (containers). The socket's peer credentials also
//! tell the host the machine's process number, so no pid file can be stale.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::reaper::Exit;

/// A request to init.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// State of all parts; answered by [`Reply::Parts`].
    Status,
    /// Send a signal to a part.
    Kill {
        /// Name of the part.
        part: String,
        /// Number of the signal.
        signal: i32,
    },
    /// Start a container.
    Start(ContainerSpec),
    /// All containers; answered by [`Reply::Containers`].
    Containers,
    /// Send a signal to a container.
    Signal {
        /// Identifier of the container.
        id: String,
        /// Number of the signal.
        signal: i32,
    },
    /// Forget a container that has exited.
    Remove {
        /// Identifier of the container.
        id: String,
    },
    /// All containers now, then again each time one changes; the connection stays open.
    WatchContainers,
}

/// An answer of init.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Done.
    Done,
    /// It could not be done.
    Error(String),
    /// State of the parts.
    Parts(Vec<PartStatus>),
    /// State of the containers by identifier.
    Containers(BTreeMap<String, ContainerStatus>),
}

/// State of one part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartStatus {
    /// Name of the part.
    pub name: String,
    /// What it is doing.
    pub state: PartState,
    /// Process number inside the machine, when running.
    pub pid: Option<i32>,
    /// How often it was started again.
    pub restarts: u32,
    /// Why it ended last, if it did.
    pub reason: Option<String>,
}

/// What a part is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartState {
    /// Waiting for parts it needs.
    Waiting,
    /// Started, not serving yet.
    Starting,
    /// Serving.
    Ready,
    /// Ended; will be started again.
    Failed,
}

impl std::fmt::Display for PartState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            PartState::Waiting => "waiting",
            PartState::Starting => "starting",
            PartState::Ready => "ready",
            PartState::Failed => "failed",
        })
    }
}

/// A container to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Identifier chosen by the caller.
    pub id: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment, complete.
    pub env: BTreeMap<String, String>,
    /// Network namespace; the machine's own without.
    pub network: Option<PathBuf>,
    /// Directory of files that it sees in `/etc` instead of the machine's.
    #[serde(default)]
    pub files: Option<PathBuf>,
    /// Host name it sees.
    pub hostname: String,
    /// Working directory.
    pub directory: PathBuf,
    /// Where its output goes.
    pub log: PathBuf,
    /// Whether its first line says that it serves; any other serves as soon as it runs.
    pub announces: bool,
}

/// State of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// Process number inside the machine.
    pub pid: i32,
    /// When it started.
    pub started: jiff::Timestamp,
    /// Whether it serves, as far as can be seen.
    pub serving: bool,
    /// How and when it ended, if it did.
    pub ended: Option<(Exit, jiff::Timestamp)>,
}

/// What init reports to `lab up` while the machine comes up, one JSON object per line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootEvent {
    /// A part serves.
    PartReady(String),
    /// A step or part failed.
    Failed {
        /// Name of the part, or `init`.
        part: String,
        /// What happened.
        reason: String,
    },
    /// The machine is up.
    Up,
}

/// Sends one request and returns the answer; an error answer becomes an error.
pub async fn ask(socket: &std::path::Path, request: &Request) -> anyhow::Result<Reply> {
    let stream = UnixStream::connect(socket)
        .await
        .with_context(|| format!("connecting to {}", socket.display()))?;
    let mut conversation = Conversation::new(stream);
    conversation.send(request).await?;
    match conversation.receive().await?.context("init closed the connection")? {
        Reply::Error(reason) => Err(anyhow!(reason)),
        reply => Ok(reply),
    }
}

/// A connection on which JSON lines go both ways.
pub struct Conversation {
    reader: tokio::io::Lines<BufReader<tokio::net::unix::OwnedReadHalf>>,
    writer: tokio::net::unix::OwnedWriteHalf,
}

impl Conversation {
    /// Speaks on this connection.
    pub fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Conversation {
            reader: BufReader::new(reader).lines(),
            writer,
        }
    }

    /// Sends one value.
    pub async fn send<T: Serialize>(&mut self, value: &T) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.writer.write_all(&line).await.context("writing to a lab socket")
    }

    /// Receives the next value; `None` when the other side is done.
    pub async fn receive<T: serde::de::DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        match self.reader.next_line().await.context("reading from a lab socket")? {
            Some(line) => Ok(Some(
                serde_json::from_str(&line).with_context(|| format!("understanding {line:?}"))?,
            )),
            None => Ok(None),
        }
    }
}
