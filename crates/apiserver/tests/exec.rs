//! exec and logs with the real kubectl, against a kubelet that runs commands on this machine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{process::Stdio, sync::Arc};

use futures::future::BoxFuture;
use netloom_apiserver::{ExecRequest, ExecSession, Kubelet, KubeletError, LogRequest};
use support::Lab;
use tokio::{io::AsyncRead, io::AsyncWriteExt, process::Command, sync::mpsc};

struct Local;

impl Kubelet for Local {
    fn exec(&self, _: &str, request: ExecRequest) -> BoxFuture<'static, Result<ExecSession, KubeletError>> {
        Box::pin(async move {
            let mut command = Command::new(&request.command[0]);
            command
                .args(&request.command[1..])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true);
            let mut child = command.spawn().map_err(|error| KubeletError(error.to_string()))?;
            let (stdin, stdout, stderr) = (
                child.stdin.take().unwrap(),
                child.stdout.take().unwrap(),
                child.stderr.take().unwrap(),
            );
            let exit = Box::pin(async move { Ok(child.wait().await.unwrap().code().unwrap_or(-1)) });
            Ok(ExecSession {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr: Box::new(stderr),
                resize: mpsc::channel(1).0,
                exit,
            })
        })
    }

    fn logs(&self, _: &str, request: LogRequest) -> BoxFuture<'static, Result<Box<dyn AsyncRead + Send + Unpin>, KubeletError>> {
        let text = format!("{} tail={:?} follow={}\n", request.container, request.tail_lines, request.follow);
        Box::pin(async move { Ok(Box::new(std::io::Cursor::new(text.into_bytes())) as Box<dyn AsyncRead + Send + Unpin>) })
    }
}

#[tokio::test]
async fn commands_run_and_logs_are_read() {
    let lab = Lab::with_kubelet(Arc::new(Local)).await;
    lab.node("node1").await;
    lab.kubectl(&["run", "p", "--image=x"]).await;
    lab.kubectl(&["wait", "--for=condition=PodScheduled", "pod/p", "--timeout=20s"])
        .await;
    assert_eq!(lab.kubectl(&["exec", "p", "--", "echo", "hello world"]).await, "hello world\n");
    let (success, text) = lab.try_kubectl(&["exec", "p", "--", "sh", "-c", "echo oops >&2; exit 7"]).await;
    assert!(
        !success && text.contains("oops") && text.contains("command terminated with exit code 7"),
        "{text}"
    );

    let mut command = tokio::process::Command::from(lab.command(&["exec", "-i", "p", "--", "cat"]));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = "line\n".repeat(20_000);
    stdin.write_all(text.as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.len(), text.len());

    assert_eq!(lab.kubectl(&["logs", "p", "--tail=5"]).await, "p tail=Some(5) follow=false\n");
    assert!(
        lab.refused(&["attach", "p"])
            .await
            .contains("not supported by the lab's API server")
    );
    lab.kubectl(&[
        "patch",
        "pod",
        "p",
        "--subresource=status",
        "-p",
        r#"{"status":{"phase":"Running"}}"#,
    ])
    .await;
    let text = lab.refused(&["port-forward", "p", "18080:80"]).await;
    assert!(text.contains("not supported by the lab's API server"), "{text}");
    assert!(lab.refused(&["exec", "p", "-c", "nope", "--", "true"]).await.contains("nope"));
}
