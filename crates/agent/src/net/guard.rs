//! The guard in front of a device of a pod or machine: what only a router may send does not reach it. OVN lets router advertisements and
//! multicast queries pass before any ACL, so the node drops them on the way out of the switch, whoever sent them. One `netdev` egress chain per
//! device; it works the same for both datapaths.

use std::collections::BTreeSet;

use super::{NetError, nft};

/// The nftables table.
pub const TABLE: &str = "netdev netloom-guard";

/// Guards `devices`. Chains that are there are replaced: one whose device is gone stays without it.
pub async fn raise(devices: &[String]) -> Result<(), NetError> {
    if devices.is_empty() {
        return Ok(());
    }
    nft::run(format!("guard {}", devices.join(", ")), raise_script(devices)).await
}

/// Removes the guards of `devices`; those that have none are fine.
pub async fn lower(devices: &[String]) -> Result<(), NetError> {
    if devices.is_empty() {
        return Ok(());
    }
    nft::run(format!("remove the guard of {}", devices.join(", ")), lower_script(devices)).await
}

/// The devices that have a guard.
pub async fn raised() -> Result<BTreeSet<String>, NetError> {
    Ok(nft::list_table(TABLE).await?.map(|table| chains(&table)).unwrap_or_default())
}

fn raise_script(devices: &[String]) -> String {
    let mut script = lower_script(devices);
    for device in devices {
        script.push_str(&format!(
            "add chain {TABLE} {device} {{ type filter hook egress device \"{device}\" priority 0; policy accept; }}\n\
             add rule {TABLE} {device} icmpv6 type {{ nd-router-advert, nd-redirect, mld-listener-query }} drop\n"
        ));
    }
    script
}

/// Adding before deleting makes deletion safe to repeat on every nftables version.
fn lower_script(devices: &[String]) -> String {
    let mut script = format!("add table {TABLE}\n");
    for device in devices {
        script.push_str(&format!("add chain {TABLE} {device}\ndelete chain {TABLE} {device}\n"));
    }
    script
}

/// Names of the chains of a table as nft lists it.
fn chains(table: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.trim().strip_prefix("chain ")?.strip_suffix(" {")?.to_owned());
    table.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_replaced_as_a_whole() {
        assert_eq!(
            raise_script(&["nl0a".to_owned()]),
            "add table netdev netloom-guard\n\
             add chain netdev netloom-guard nl0a\n\
             delete chain netdev netloom-guard nl0a\n\
             add chain netdev netloom-guard nl0a { type filter hook egress device \"nl0a\" priority 0; policy accept; }\n\
             add rule netdev netloom-guard nl0a icmpv6 type { nd-router-advert, nd-redirect, mld-listener-query } drop\n"
        );
    }

    #[test]
    fn devices_are_found_in_what_nft_lists() {
        let listed = "table netdev netloom-guard {\n\tchain nl0a {\n\t\ttype filter hook egress device \"nl0a\" priority filter; policy accept;\n\t}\n\n\tchain tap1 {\n\t}\n}\n";
        assert_eq!(chains(listed), ["nl0a", "tap1"].map(str::to_owned).into());
    }
}
