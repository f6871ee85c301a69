//! Calling CNI plugins the way a container runtime does: a configuration list from `/etc/cni/net.d`, one process per plugin and verb.
//!
//! Speaks version 1.1.0 of the protocol. Plugins of a list run in order for ADD, each with the result of the one before, and backwards for DEL.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::root::CNI_BIN;

const CONFIGURATIONS: &str = "/etc/cni/net.d";

/// The pod interface to attach or detach.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// Identifier of the sandbox.
    pub sandbox: String,
    /// Its network namespace.
    pub network: PathBuf,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Ports it has on its node; for plugins that say they can.
    pub port_mappings: Vec<Value>,
}

/// Attaches the pod and returns its addresses.
pub async fn add(attachment: &Attachment) -> anyhow::Result<Vec<IpAddr>> {
    let list = List::load()?;
    let mut previous: Option<Value> = None;
    for plugin in &list.plugins {
        let output = call("ADD", &list, plugin, Some(attachment), previous.as_ref()).await?;
        previous = Some(serde_json::from_str(&output).with_context(|| format!("understanding the result of ADD: {output:?}"))?);
    }
    let result = previous.context("the CNI configuration has no plugins")?;
    addresses(&result)
}

/// The addresses of a result. One without any is a failure, as it is to a container runtime: a pod that is ready has an address.
fn addresses(result: &Value) -> anyhow::Result<Vec<IpAddr>> {
    let ips = result["ips"].as_array().into_iter().flatten();
    let addresses = ips.filter_map(|ip| ip["address"].as_str()).map(|address| {
        let bare = address.split('/').next().unwrap_or(address);
        bare.parse().with_context(|| format!("understanding address {address:?}"))
    });
    let addresses: Vec<IpAddr> = addresses.collect::<anyhow::Result<_>>()?;
    anyhow::ensure!(!addresses.is_empty(), "the result of ADD has no address: {result}");
    Ok(addresses)
}

/// Detaches the pod; succeeds if it is not attached.
pub async fn del(attachment: &Attachment) -> anyhow::Result<()> {
    let list = List::load()?;
    for plugin in list.plugins.iter().rev() {
        call("DEL", &list, plugin, Some(attachment), None).await?;
    }
    Ok(())
}

/// Whether pods can be attached now; the error says why not.
pub async fn status() -> anyhow::Result<()> {
    let list = List::load()?;
    for plugin in &list.plugins {
        call("STATUS", &list, plugin, None, None).await?;
    }
    Ok(())
}

struct List {
    name: String,
    version: String,
    plugins: Vec<Value>,
}

impl List {
    /// The first list by name, as runtimes choose.
    fn load() -> anyhow::Result<Self> {
        let mut files: Vec<_> = fs::read_dir(CONFIGURATIONS)
            .with_context(|| format!("reading {CONFIGURATIONS}"))?
            .flatten()
            .map(|entry| entry.path())
            .collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "conflist"));
        files.sort();
        let file = files
            .first()
            .with_context(|| format!("no network configuration in {CONFIGURATIONS}"))?;
        let list: Value = serde_json::from_slice(&fs::read(file)?).with_context(|| format!("understanding {}", file.display()))?;
        let text = |key: &str| {
            list[key]
                .as_str()
                .map(String::from)
                .with_context(|| format!("{} has no {key}", file.display()))
        };
        Ok(List {
            name: text("name")?,
            version: text("cniVersion")?,
            plugins: list["plugins"].as_array().cloned().unwrap_or_default(),
        })
    }
}

async fn call(
    verb: &str,
    list: &List,
    plugin: &Value,
    attachment: Option<&Attachment>,
    previous: Option<&Value>,
) -> anyhow::Result<String> {
    let kind = plugin["type"].as_str().context("a plugin without a type")?;
    let mut config = plugin.clone();
    config["name"] = json!(list.name);
    config["cniVersion"] = json!(list.version);
    if let Some(previous) = previous {
        config["prevResult"] = previous.clone();
    }
    let mut command = Command::new(Path::new(CNI_BIN).join(kind));
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("CNI_COMMAND", verb)
        .env("CNI_PATH", CNI_BIN);
    if let Some(attachment) = attachment {
        let Attachment {
            sandbox,
            network,
            namespace,
            pod,
            uid,
            port_mappings,
        } = attachment;
        if !port_mappings.is_empty() && plugin["capabilities"]["portMappings"] == true {
            config["runtimeConfig"] = json!({ "portMappings": port_mappings });
        }
        command.env("CNI_CONTAINERID", sandbox).env("CNI_NETNS", network).env("CNI_IFNAME", "eth0").env(
            "CNI_ARGS",
            format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={pod};K8S_POD_INFRA_CONTAINER_ID={sandbox};K8S_POD_UID={uid}"),
        );
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("starting CNI plugin {kind}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(config.to_string().as_bytes())
            .await
            .with_context(|| format!("writing to CNI plugin {kind}"))?;
    }
    let output = child
        .wait_with_output()
        .await
        .with_context(|| format!("waiting for CNI plugin {kind}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let told = serde_json::from_str::<Value>(&text).ok().and_then(|error| {
        Some((
            error["code"].as_i64()?,
            error["msg"].as_str()?.to_string(),
            error["details"].as_str().unwrap_or("").to_string(),
        ))
    });
    match told {
        Some((code, message, details)) if details.is_empty() => Err(anyhow!("plugin {kind} {verb} failed (code {code}): {message}")),
        Some((code, message, details)) => Err(anyhow!("plugin {kind} {verb} failed (code {code}): {message}: {details}")),
        None => bail!(
            "plugin {kind} {verb} failed: {}{}",
            text.trim(),
            String::from_utf8_lossy(&output.stderr).trim()
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_result_without_an_address_is_a_failure() {
        let result = json!({"ips": [{"address": "10.244.0.5/24"}, {"address": "fd00::5/64"}]});
        assert_eq!(
            addresses(&result).unwrap(),
            ["10.244.0.5", "fd00::5"].map(|ip| ip.parse::<IpAddr>().unwrap())
        );
        for none in [json!({}), json!({"ips": []}), json!({"ips": [{"address": "soon"}]})] {
            assert!(addresses(&none).is_err(), "{none}");
        }
    }
}
