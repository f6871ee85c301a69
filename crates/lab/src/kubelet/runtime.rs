//! The kubelet's view of the node's containers, which live in the node's init.
//!
//! One task keeps a copy of init's map up to date; it is complete before [`Runtime::connect`] returns, so a restarted kubelet finds its containers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use nix::sys::signal::Signal;
use tokio::net::UnixStream;
use tokio::sync::watch;

use crate::protocol::{ContainerSpec, ContainerStatus, Conversation, Reply, Request, ask};

/// All containers of the node by identifier.
pub type Running = BTreeMap<String, ContainerStatus>;

/// The node's containers.
#[derive(Clone)]
pub struct Runtime {
    socket: PathBuf,
    containers: watch::Receiver<Running>,
}

impl Runtime {
    /// Connects to init; the returned future ends, with an error, only if init goes away.
    pub async fn connect(socket: PathBuf) -> anyhow::Result<(Self, impl Future<Output = anyhow::Error>)> {
        let stream = UnixStream::connect(&socket)
            .await
            .with_context(|| format!("connecting to {}", socket.display()))?;
        let mut conversation = Conversation::new(stream);
        conversation.send(&Request::WatchContainers).await?;
        let (sender, containers) = watch::channel(next(&mut conversation).await?);
        let follow = async move {
            loop {
                match next(&mut conversation).await {
                    Ok(containers) => drop(sender.send_replace(containers)),
                    Err(error) => return error,
                }
            }
        };
        Ok((Runtime { socket, containers }, follow))
    }

    /// The containers now and every change to come.
    pub fn watch(&self) -> watch::Receiver<Running> {
        self.containers.clone()
    }

    /// Starts a container; returns when the kubelet's own view has it.
    pub async fn start(&self, spec: ContainerSpec) -> anyhow::Result<()> {
        let id = spec.id.clone();
        ask(&self.socket, &Request::Start(spec)).await?;
        self.watch()
            .wait_for(|containers| containers.contains_key(&id))
            .await
            .context("init is gone")?;
        Ok(())
    }

    /// Signals a container.
    pub async fn signal(&self, id: &str, signal: Signal) -> anyhow::Result<()> {
        ask(
            &self.socket,
            &Request::Signal {
                id: id.into(),
                signal: signal as i32,
            },
        )
        .await
        .map(drop)
    }

    /// Forgets a container that has ended.
    pub async fn remove(&self, id: &str) -> anyhow::Result<()> {
        ask(&self.socket, &Request::Remove { id: id.into() }).await.map(drop)
    }
}

async fn next(conversation: &mut Conversation) -> anyhow::Result<Running> {
    match conversation.receive().await? {
        Some(Reply::Containers(containers)) => Ok(containers),
        Some(other) => bail!("init answered {other:?}"),
        None => bail!("init closed the connection"),
    }
}
