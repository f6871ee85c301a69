//! The fence around devices given to the userspace datapath: there the kernel's own stack also sees every frame and
//! answers ARP for the node, which ruins connections between pod and node. A `netdev` ingress chain with policy drop
//! keeps the stack out while OVS still gets its copy. Used only when br-int is a `netdev` bridge; one chain per device.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::NetError;

/// Keeps the kernel's stack off `device`.
pub async fn raise(device: &str) -> Result<(), NetError> {
    nft(format!("fence {device}"), raise_script(device)).await
}

/// Removes the fences of `devices`; those that have none are fine.
pub async fn lower(devices: &[String]) -> Result<(), NetError> {
    if devices.is_empty() {
        return Ok(());
    }
    nft(format!("remove the fence of {}", devices.join(", ")), lower_script(devices)).await
}

fn raise_script(device: &str) -> String {
    format!(
        "add table netdev netloom\n\
         add chain netdev netloom {device} {{ type filter hook ingress device \"{device}\" priority 0; policy drop; }}\n"
    )
}

/// Adding before deleting makes deletion safe to repeat on every nftables version.
fn lower_script(devices: &[String]) -> String {
    let mut script = String::from("add table netdev netloom\n");
    for device in devices {
        script.push_str(&format!(
            "add chain netdev netloom {device}\ndelete chain netdev netloom {device}\n"
        ));
    }
    script
}

async fn nft(operation: String, script: String) -> Result<(), NetError> {
    let run = async {
        let mut child = Command::new("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(script.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    let output = run.await.map_err(NetError::io(format!("{operation} (is nft installed?)")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(NetError::Nft {
        operation,
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_idempotent_by_construction() {
        assert_eq!(
            raise_script("nl0a"),
            "add table netdev netloom\n\
             add chain netdev netloom nl0a { type filter hook ingress device \"nl0a\" priority 0; policy drop; }\n"
        );
        assert_eq!(
            lower_script(&["nl0a".to_owned()]),
            "add table netdev netloom\nadd chain netdev netloom nl0a\ndelete chain netdev netloom nl0a\n"
        );
    }
}
