//! Identity of rows: a readable key names a row, its UUID follows from table and key, so references between rows are plain values
//! and two processes that never met agree on them.

use std::fmt;

use uuid::Uuid;

/// External id that carries a row's key; rows without it are not ours.
pub const KEY: &str = "netloom.io/key";
/// External id that names the object a row was made for.
pub const OWNER: &str = "netloom.io/owner";
/// External id with the pod of a port as `namespace:name`.
pub const POD: &str = "netloom.io/pod";
/// External id with the UID of the pod a port belongs to.
pub const UID: &str = "netloom.io/uid";
/// External id with a port's addresses and their prefix, comma separated.
pub const ADDRESSES: &str = "netloom.io/addresses";
/// External id with the Ethernet address of an announcer, if it is not the one that follows from its address.
pub const MAC: &str = "netloom.io/mac";
/// External id with the `Network` a pod's port is on.
pub const NETWORK: &str = "netloom.io/network";
/// External id with a port's addresses in its `Network` and their prefix, comma separated.
pub const NETWORK_ADDRESSES: &str = "netloom.io/network-addresses";
/// External id with the gateway addresses of a port's switch, comma separated.
pub const GATEWAYS: &str = "netloom.io/gateways";
/// External id with the destinations a management port leads to, comma separated.
pub const ROUTES: &str = "netloom.io/routes";
/// External id with the number of a node's subnets, on its switch.
pub const SLOT: &str = "netloom.io/slot";
/// External id with what a `Network` said when it could last be read, on its router.
pub const SPEC: &str = "netloom.io/spec";
/// External id with the addressing in force, on the cluster router.
pub const SETTINGS: &str = "netloom.io/settings";

/// External id that marks a node's service port and says who translates services there: `native` or `kube-proxy`.
pub const SERVICE_GATEWAY: &str = "netloom.io/service-gateway";
/// Option of a load balancer: the port on which its node tells how many endpoints it has.
pub const HEALTH_CHECK_PORT: &str = "netloom.io/health-check-port";
/// Option of a load balancer: how many it has to tell of. Not all its backends: those that terminate serve on, but nobody new is to come.
pub const READY_ENDPOINTS: &str = "netloom.io/ready-endpoints";
/// Option of a gateway's load balancer: it serves with `externalTrafficPolicy: Local`. `pods` or, if some endpoint is in a host's network, `hosts`.
pub const LOCAL: &str = "netloom.io/local";
/// Load balancer option with the addresses of the node whose own backends a gateway has.
pub const NODE_ADDRESSES: &str = "netloom.io/node-addresses";

/// Fixed for all time: changing it orphans every row ever written.
const NAMESPACE: Uuid = Uuid::from_u128(0x6e65_746c_6f6f_6d2e_8f3a_94b1_07c6_52d8);

/// A readable row key, e.g. `port/default/web-0/eth0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// A key from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The UUID of the row with this key in `table`.
    pub fn uuid(&self, table: &str) -> Uuid {
        Uuid::new_v5(&NAMESPACE, format!("{table}/{}", self.0).as_bytes())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
