//! The kernel's settings of a node that forwards packets of pods. The host's own firewall is looked at and never changed:
//! a policy that would drop them is told once.

use tokio::process::Command;
use tracing::{info, warn};

use crate::gateway::EXTERNAL_BRIDGE;
use crate::net::{NetError, sysctl};

/// Settings of the node as a whole.
const FORWARDING: [&str; 2] = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"];

/// Keeps the settings, and remembers what it has told.
#[derive(Debug, Default)]
pub struct Settings {
    checked: bool,
}

impl Settings {
    /// Corrects what differs.
    pub async fn apply(&mut self) -> Result<(), NetError> {
        for setting in FORWARDING {
            if sysctl::read(setting)?.is_some_and(|value| value == "0") {
                keep_router_advertisements()?;
                sysctl::set(setting, "1")?;
                info!(setting, "this node forwards now");
            }
        }
        // The kernel uses the larger of the device's and the global one: 1 is strict, 2 is loose.
        let strict = sysctl::read("ipv4/conf/all/rp_filter")?.is_some_and(|value| value != "0");
        sysctl::set(&format!("ipv4/conf/{EXTERNAL_BRIDGE}/rp_filter"), if strict { "2" } else { "0" })?;
        if !std::mem::replace(&mut self.checked, true)
            && let Some(chain) = dropping_chain().await
        {
            warn!(
                chain,
                "a firewall of this node drops what it forwards: allow traffic of netloom0, netloom1 and br-ex there, or pods lose connections; \
                 `netloom doctor` tells more"
            );
        }
        Ok(())
    }
}

/// A node that forwards IPv6 ignores router advertisements, unless a device says 2.
fn keep_router_advertisements() -> Result<(), NetError> {
    let devices = std::fs::read_dir("/proc/sys/net/ipv6/conf").map(|entries| entries.flatten().collect::<Vec<_>>());
    for device in devices.unwrap_or_default() {
        let device = device.file_name().to_string_lossy().into_owned();
        let setting = format!("ipv6/conf/{device}/accept_ra");
        // Only what is there: devices to come are somebody else's decision.
        if device != "all" && device != "default" && sysctl::read(&setting)?.is_some_and(|value| value == "1") {
            sysctl::set(&setting, "2")?;
        }
    }
    Ok(())
}

/// A chain of somebody else that drops what is forwarded and not allowed.
async fn dropping_chain() -> Option<String> {
    let output = Command::new("nft")
        .args(["-j", "list", "chains"])
        .kill_on_drop(true)
        .output()
        .await
        .ok()?;
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    find_dropping(&listed)
}

fn find_dropping(listed: &serde_json::Value) -> Option<String> {
    let chains = listed["nftables"].as_array()?.iter().filter_map(|item| item.get("chain"));
    let text = |chain: &serde_json::Value, key: &str| chain[key].as_str().unwrap_or_default().to_owned();
    let mut dropping = chains.filter(|chain| chain["hook"] == "forward" && chain["policy"] == "drop" && chain["table"] != "netloom");
    dropping
        .next()
        .map(|chain| format!("{} {} {}", text(chain, "family"), text(chain, "table"), text(chain, "name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_policy_that_drops_is_named() {
        let chain = |policy: &str| json!({ "nftables": [{ "metainfo": {} }, { "chain": { "family": "ip", "table": "filter", "name": "FORWARD", "hook": "forward", "policy": policy } }] });
        assert_eq!(find_dropping(&chain("accept")), None);
        assert_eq!(find_dropping(&chain("drop")).as_deref(), Some("ip filter FORWARD"));
    }
}
