//! The unix socket `netloom-cni` talks to: one connection, one request, one reply. Requests run in parallel; those for
//! one sandbox take turns. Stopping the agent answers waiting requests with "try again" and leaves finished work alone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug, info_span, warn};

use super::error::CniError;
use super::request::{Command, MAX_REQUEST, Request, parse_request};
use super::{attach, check, detach, status};
use crate::node::Node;
use netloom_contract::cni::Code;
use netloom_contract::cni::Version;

/// Opens the socket for root only, replacing one that an earlier agent left behind.
pub fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove the old socket {}", path.display()));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).with_context(|| format!("listen on {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .with_context(|| format!("restrict access to {}", path.display()))?;
    Ok(listener)
}

/// Serves until `stop` fires, then until the requests at hand are answered.
pub async fn serve(node: Arc<Node>, listener: UnixListener, stop: CancellationToken) {
    let requests = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (node, stop) = (node.clone(), stop.clone());
                requests.spawn(async move {
                    if let Err(error) = converse(&node, stream, &stop).await {
                        debug!(%error, "the plugin went away");
                    }
                });
            }
            Err(error) => warn!(%error, "cannot accept a CNI connection"),
        }
    }
    requests.close();
    requests.wait().await;
}

async fn converse(node: &Node, mut stream: UnixStream, stop: &CancellationToken) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    // One byte more than allowed, so that the parser sees and names the excess.
    (&mut stream).take(MAX_REQUEST as u64 + 1).read_to_end(&mut bytes).await?;
    let reply = match parse_request(&bytes) {
        Ok(request) => answer(node, &request, stop).await,
        Err(error) => error.to_json(Version::V1_1_0.as_str()),
    };
    stream.write_all(reply.to_string().as_bytes()).await?;
    stream.shutdown().await
}

/// Runs one request; the reply is a result, an empty object, or an error.
async fn answer(node: &Node, request: &Request, stop: &CancellationToken) -> Value {
    let command = name_of(request.command);
    let span = info_span!(
        "cni",
        command,
        container = request.sandbox.container,
        ifname = request.sandbox.ifname
    );
    let outcome = perform(node, request, stop).instrument(span.clone()).await;
    node.metrics.record_request(command, outcome.is_ok());
    outcome.unwrap_or_else(|error| {
        span.in_scope(|| warn!(code = error.code as u32, error = %error, "request failed"));
        error.to_json(request.version.as_str())
    })
}

async fn perform(node: &Node, request: &Request, stop: &CancellationToken) -> Result<Value, CniError> {
    let nothing = || json!({});
    if request.command != Command::Status {
        node.switch.connected().await?;
    }
    match request.command {
        Command::Add => add(node, request, stop).await,
        Command::Del => {
            let _claim = node.busy.claim(&request.sandbox, true).await;
            detach::detach(node, &request.sandbox).await.map(|()| nothing())
        }
        Command::Check => {
            let _claim = node.busy.claim(&request.sandbox, false).await;
            check::check(node, request).await.map(|()| nothing())
        }
        Command::Gc => detach::collect(node, request).await.map(|()| nothing()),
        Command::Status => status::status(node).map(|()| nothing()),
    }
}

/// ADD, unless the agent stops or a DEL for the same sandbox overtakes it.
async fn add(node: &Node, request: &Request, stop: &CancellationToken) -> Result<Value, CniError> {
    if node.removing.load(Ordering::Relaxed) {
        return Err(CniError::new(Code::TryAgain, "netloom is being removed from this node"));
    }
    let claim = node.busy.claim(&request.sandbox, false).await;
    let why = tokio::select! {
        result = attach::attach(node, request) => return result,
        () = claim.cancelled.cancelled() => "a later DEL for the same sandbox cancelled it",
        () = stop.cancelled() => "the agent is stopping",
    };
    // Under the claim: nobody else works on this sandbox until its remains are gone.
    detach::detach(node, &request.sandbox).await?;
    Err(CniError::new(Code::TryAgain, format!("the attachment was not finished: {why}")))
}

fn name_of(command: Command) -> &'static str {
    match command {
        Command::Add => "ADD",
        Command::Del => "DEL",
        Command::Check => "CHECK",
        Command::Gc => "GC",
        Command::Status => "STATUS",
    }
}
