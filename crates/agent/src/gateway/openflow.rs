//! Runs `ovs-ofctl` on a bridge. Every call is one bundle: it takes effect as a whole or not at all.

use anyhow::{Context, bail};

use crate::net::tool;

/// Makes the bridge have exactly these flows; those that it has already stay untouched.
pub async fn replace(target: &str, flows: &str) -> anyhow::Result<()> {
    ofctl("replace-flows", target, flows).await
}

/// Adds and removes single flows: lines that begin with `add` or `delete_strict`.
pub async fn change(target: &str, changes: &str) -> anyhow::Result<()> {
    ofctl("add-flows", target, changes).await
}

async fn ofctl(command: &str, target: &str, flows: &str) -> anyhow::Result<()> {
    let arguments = ["--bundle", command, target, "-"];
    let output = tool::run("ovs-ofctl", &arguments, flows).await.context("run ovs-ofctl")?;
    if !output.status.success() {
        bail!("{command} of {target}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
