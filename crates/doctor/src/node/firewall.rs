//! Reads what nftables does, rules of iptables-nft included. Called by `gather`; the parser is pure.

use serde_json::Value;
use tokio::process::Command;

use crate::unseen::{Seen, Unseen};

/// What of a rule set concerns us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firewall {
    /// Chains that drop what the host forwards unless a rule lets it through, as `ip filter FORWARD`.
    pub forward_drops: Vec<String>,
    /// Tables and chains of kube-proxy, as `ip kube-proxy` or `ip nat KUBE-SERVICES`.
    pub kube_proxy: Vec<String>,
}

/// Asks nft.
pub async fn read() -> Seen<Firewall> {
    let run = Command::new("nft").args(["-j", "list", "ruleset"]).kill_on_drop(true).output();
    let output = run.await.map_err(|error| Unseen::Error(format!("run nft: {error}")))?;
    if !output.status.success() {
        return Err(Unseen::Error(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let ruleset = serde_json::from_slice(&output.stdout).map_err(|error| Unseen::Error(format!("read the answer of nft: {error}")))?;
    Ok(parse(&ruleset))
}

/// Finds what concerns us in the JSON of `nft -j list ruleset`.
pub fn parse(ruleset: &Value) -> Firewall {
    let mut firewall = Firewall::default();
    for item in ruleset["nftables"].as_array().into_iter().flatten() {
        let text = |kind: &str, field: &str| item[kind][field].as_str().unwrap_or_default().to_owned();
        if item["table"].is_object() && text("table", "name") == "kube-proxy" {
            firewall.kube_proxy.push(format!("{} kube-proxy", text("table", "family")));
        }
        if item["chain"].is_object() {
            let (table, chain) = (text("chain", "table"), text("chain", "name"));
            let name = format!("{} {table} {chain}", text("chain", "family"));
            let ours = table.starts_with("netloom");
            if text("chain", "hook") == "forward" && text("chain", "policy") == "drop" && !ours {
                firewall.forward_drops.push(name);
            } else if chain == "KUBE-SERVICES" {
                firewall.kube_proxy.push(name);
            }
        }
    }
    firewall
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_concerns_us_is_found() {
        let ruleset = serde_json::json!({ "nftables": [
            { "metainfo": { "version": "1.1.3" } },
            { "table": { "family": "ip", "name": "filter" } },
            { "chain": { "family": "ip", "table": "filter", "name": "FORWARD", "hook": "forward", "policy": "drop" } },
            { "chain": { "family": "ip6", "table": "filter", "name": "FORWARD", "hook": "forward", "policy": "accept" } },
            { "chain": { "family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "drop" } },
            { "chain": { "family": "ip", "table": "filter", "name": "KUBE-FIREWALL" } },
            { "chain": { "family": "ip", "table": "nat", "name": "KUBE-SERVICES" } },
            { "chain": { "family": "inet", "table": "netloom-fence", "name": "forward", "hook": "forward", "policy": "drop" } },
            { "table": { "family": "ip6", "name": "kube-proxy" } },
        ] });
        assert_eq!(
            parse(&ruleset),
            Firewall {
                forward_drops: vec!["ip filter FORWARD".to_owned()],
                kube_proxy: vec!["ip nat KUBE-SERVICES".to_owned(), "ip6 kube-proxy".to_owned()],
            }
        );
        assert_eq!(parse(&Value::Null), Firewall::default());
    }
}
