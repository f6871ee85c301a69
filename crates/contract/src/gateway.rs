use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::Mac;

/// What the controller must know of a node's uplink to build its gateway router: annotation [`GATEWAY`](crate::annotation::GATEWAY) as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// MAC address of the uplink bridge, shared by host and gateway router.
    pub mac: Mac,
    /// The node's addresses with their prefix.
    pub addresses: Vec<IpNet>,
    /// Default next hops, at most one of each family.
    #[serde(default)]
    pub next_hops: Vec<IpAddr>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_annotation_has_the_agreed_form() {
        let gateway = Gateway {
            mac: "0a:00:00:00:00:01".parse().unwrap(),
            addresses: vec!["172.30.0.2/24".parse().unwrap(), "fd30::2/64".parse().unwrap()],
            next_hops: vec!["172.30.0.1".parse().unwrap()],
        };
        let text = r#"{"mac":"0a:00:00:00:00:01","addresses":["172.30.0.2/24","fd30::2/64"],"nextHops":["172.30.0.1"]}"#;
        assert_eq!(serde_json::to_string(&gateway).unwrap(), text);
        assert_eq!(serde_json::from_str::<Gateway>(text).unwrap(), gateway);
    }
}
