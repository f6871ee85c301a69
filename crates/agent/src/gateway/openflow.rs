//! Runs `ovs-ofctl` on a bridge. Every call is one bundle: it takes effect as a whole or not at all.

use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Makes the bridge have exactly these flows; those that it has already stay untouched.
pub async fn replace(target: &str, flows: &str) -> anyhow::Result<()> {
    ofctl("replace-flows", target, flows).await
}

/// Adds and removes single flows: lines that begin with `add` or `delete_strict`.
pub async fn change(target: &str, changes: &str) -> anyhow::Result<()> {
    ofctl("add-flows", target, changes).await
}

async fn ofctl(command: &str, target: &str, flows: &str) -> anyhow::Result<()> {
    let run = async {
        let mut child = Command::new("ovs-ofctl")
            .args(["--bundle", command, target, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(flows.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    let output = run.await.context("run ovs-ofctl")?;
    if !output.status.success() {
        bail!("{command} of {target}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
