//! The fence around devices given to the userspace datapath: there the kernel's own stack also sees every frame and
//! answers ARP for the node, which ruins connections between pod and node. A `netdev` ingress chain with policy drop
//! keeps the stack out while OVS still gets its copy. Used only when br-int is a `netdev` bridge; one chain per device.

use super::{NetError, nft};

/// Keeps the kernel's stack off `device`.
pub async fn raise(device: &str) -> Result<(), NetError> {
    nft::run(format!("fence {device}"), raise_script(device)).await
}

/// Whether the kernel's stack is kept off `device`.
pub async fn is_raised(device: &str) -> Result<bool, NetError> {
    let table = nft::list_table("netdev netloom").await?;
    Ok(table.is_some_and(|table| table.contains(&format!("chain {device} {{"))))
}

/// Removes the fences of `devices`; those that have none are fine.
pub async fn lower(devices: &[String]) -> Result<(), NetError> {
    if devices.is_empty() {
        return Ok(());
    }
    nft::run(format!("remove the fence of {}", devices.join(", ")), lower_script(devices)).await
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
