//! Conversations with containers: `exec` over WebSocket in the channel protocol of Kubernetes (the first byte of each
//! message names the stream), and logs as a plain stream. SPDY, which old clients fall back to, is refused.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{
        FromRequestParts,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    http::{header, request::Parts},
    response::{IntoResponse, Response},
};
use futures::{SinkExt, StreamExt, stream::SplitSink};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::Mutex,
};
use tokio_util::io::ReaderStream;

use super::{Server, Target};
use crate::{
    json,
    kubelet::{ExecRequest, ExecSession, KubeletError, LogRequest},
    status::{Failure, Result},
};

const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// Answers exec; attach and port-forward are refused.
pub async fn stream(server: &Server, target: Target, mut parts: Parts) -> Result<Response> {
    if target.subresource != "exec" {
        return Err(Failure::not_implemented(&format!("pods/{}", target.subresource)));
    }
    let (node, pod) = running_pod(server, &target)?;
    let container = container(&target, &pod)?;
    let upgrade = parts.headers.get(header::UPGRADE).and_then(|v| v.to_str().ok()).unwrap_or("");
    if !upgrade.eq_ignore_ascii_case("websocket") {
        return Err(Failure::bad_request(format!(
            "Upgrade request required: exec is served over WebSocket ({V5} or {V4}) only, not \"{upgrade}\""
        )));
    }
    let request = ExecRequest {
        namespace: target.namespace.clone(),
        pod: target.name.clone(),
        uid: json::uid(&pod).to_owned(),
        container,
        command: target.query.all("command"),
        stdin: target.query.flag("stdin"),
        tty: target.query.flag("tty"),
    };
    if request.command.is_empty() {
        return Err(Failure::bad_request("you must specify at least 1 command for the container"));
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade
        .map_err(|error| Failure::bad_request(error.body_text()))?
        .protocols([V5, V4]);
    if upgrade.selected_protocol().is_none() {
        return Err(Failure::bad_request(format!(
            "exec needs one of the WebSocket subprotocols {V5} and {V4}"
        )));
    }
    let session = server
        .kubelet
        .exec(&node, request)
        .await
        .map_err(|KubeletError(why)| Failure::internal(why))?;
    Ok(upgrade.on_upgrade(move |socket| converse(socket, session)))
}

type Sink = Arc<Mutex<SplitSink<WebSocket, Message>>>;

/// Carries the streams until the command has ended and all its output is sent.
async fn converse(socket: WebSocket, session: ExecSession) {
    let (sink, mut source) = socket.split();
    let sink = Arc::new(Mutex::new(sink));
    let ExecSession {
        stdin,
        stdout,
        stderr,
        resize,
        exit,
    } = session;
    let input = async {
        let mut stdin = Some(stdin);
        while let Some(Ok(message)) = source.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Text(text) => Bytes::from(text.to_string()),
                Message::Close(_) => break,
                _ => continue,
            };
            match bytes.split_first() {
                Some((&STDIN, data)) => {
                    if let Some(open) = &mut stdin
                        && (open.write_all(data).await.is_err() || open.flush().await.is_err())
                    {
                        // The command closed its input; what it writes is still wanted.
                        stdin = None;
                    }
                }
                Some((&CLOSE, [STDIN])) => {
                    if let Some(mut open) = stdin.take() {
                        let _ = open.shutdown().await;
                    }
                }
                Some((&RESIZE, data)) => {
                    let size: Value = serde_json::from_slice(data).unwrap_or(Value::Null);
                    let number = |path: &str| json::number(&size, path).and_then(|n| u16::try_from(n).ok());
                    if let (Some(width), Some(height)) = (number("/Width"), number("/Height")) {
                        let _ = resize.send((width, height)).await;
                    }
                }
                _ => {}
            }
        }
    };
    let output = async {
        tokio::join!(forward(STDOUT, stdout, &sink), forward(STDERR, stderr, &sink));
        exit.await
    };
    tokio::select! {
        result = output => {
            let mut sink = sink.lock().await;
            let status = exit_status(result).to_string();
            // The client may be gone already; there is nobody left to tell.
            let _ = sink.send(framed(ERROR, status.as_bytes())).await;
            let normal = CloseFrame { code: close_code::NORMAL, reason: "".into() };
            let _ = sink.send(Message::Close(Some(normal))).await;
        }
        // The client left: dropping the session ends the command.
        () = input => {}
    }
}

async fn forward(channel: u8, mut from: impl AsyncRead + Unpin, to: &Sink) {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => {
                if to.lock().await.send(framed(channel, &buffer[..length])).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn framed(channel: u8, data: &[u8]) -> Message {
    Message::Binary([&[channel], data].concat().into())
}

/// The Status that ends a conversation, from which kubectl takes its own exit code.
fn exit_status(result: std::result::Result<i32, KubeletError>) -> Value {
    match result {
        Ok(0) => json!({ "metadata": {}, "status": "Success" }),
        Ok(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
        }),
        Err(error) => Failure::internal(error).to_value(),
    }
}

/// The log of a container, as a stream of bytes.
pub async fn log(server: &Server, target: &Target) -> Result<Response> {
    let (node, pod) = running_pod(server, target)?;
    let count = |name: &str| target.query.number(name).and_then(|n| u64::try_from(n).ok());
    let request = LogRequest {
        namespace: target.namespace.clone(),
        pod: target.name.clone(),
        uid: json::uid(&pod).to_owned(),
        container: container(target, &pod)?,
        follow: target.query.flag("follow"),
        tail_lines: count("tailLines"),
        since_seconds: count("sinceSeconds"),
        timestamps: target.query.flag("timestamps"),
        previous: target.query.flag("previous"),
    };
    let reader = server
        .kubelet
        .logs(&node, request)
        .await
        .map_err(|KubeletError(why)| Failure::bad_request(why))?;
    let stop = server.stop.clone();
    let stream = ReaderStream::new(reader).take_until(stop.cancelled_owned());
    Ok(([(header::CONTENT_TYPE, "text/plain")], Body::from_stream(stream)).into_response())
}

fn running_pod(server: &Server, target: &Target) -> Result<(String, Value)> {
    let pod = server.api.get(&target.kind, &target.namespace, &target.name)?.value.clone();
    match json::text(&pod, "/spec/nodeName") {
        "" => Err(Failure::bad_request(format!("pod {} does not have a host assigned", target.name))),
        node => Ok((node.to_owned(), pod)),
    }
}

/// The container asked for, or the only one.
fn container(target: &Target, pod: &Value) -> Result<String> {
    let name = json::name(pod);
    let all = json::list(pod, "/spec/containers")
        .iter()
        .chain(json::list(pod, "/spec/initContainers"));
    let names: Vec<_> = all.map(|c| json::text(c, "/name")).collect();
    match target.query.text("container") {
        "" if json::list(pod, "/spec/containers").len() == 1 => Ok(names[0].to_owned()),
        "" => Err(Failure::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            names.join(" ")
        ))),
        given if names.contains(&given) => Ok(given.to_owned()),
        given => Err(Failure::bad_request(format!("container {given} is not valid for pod {name}"))),
    }
}
