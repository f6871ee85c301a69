//! External ids: on rows of the Northbound database, which OVN copies to the port bindings agents read, and on interfaces of a node's switch.

/// On every row of ours: its key. Rows without it are not ours.
pub const KEY: &str = "netloom.io/key";
/// On every row: the object it was made for.
pub const OWNER: &str = "netloom.io/owner";

/// On a port and on an interface: the pod as `namespace:name`.
pub const POD: &str = "netloom.io/pod";
/// On a port and on an interface: the UID of its pod.
pub const UID: &str = "netloom.io/uid";
/// On a port and on an interface: its addresses and their prefix, comma separated.
pub const ADDRESSES: &str = "netloom.io/addresses";
/// On an announcer: its Ethernet address, if it is not the one that follows from its address.
pub const MAC: &str = "netloom.io/mac";
/// On a port: the `Network` it is on.
pub const NETWORK: &str = "netloom.io/network";
/// On a port: its addresses in its `Network` and their prefix, comma separated.
pub const NETWORK_ADDRESSES: &str = "netloom.io/network-addresses";
/// On a port: the gateway addresses of its switch, comma separated.
pub const GATEWAYS: &str = "netloom.io/gateways";
/// On a port of a node: the destinations it leads to, comma separated.
pub const ROUTES: &str = "netloom.io/routes";
/// On a node's service port: who translates services there, see [`ServiceMode`](crate::ServiceMode).
pub const SERVICE_GATEWAY: &str = "netloom.io/service-gateway";

/// On the switch of a node or network: the number of its subnets.
pub const SLOT: &str = "netloom.io/slot";
/// On the switch of a node or network: its subnets, for people who look.
pub const SUBNETS: &str = "netloom.io/subnets";
/// On the router of a `Network`: what it said when it could last be read.
pub const SPEC: &str = "netloom.io/spec";
/// On the cluster router: the addressing in force.
pub const SETTINGS: &str = "netloom.io/settings";

/// On a node's switch: the installation that removed Netloom from this node.
pub const REMOVED: &str = "netloom.io/removed";

/// On a node's external bridge: the uplink that was moved into it. Beside it, [`ADDRESSES`] and [`ROUTES`] of the uplink.
pub const UPLINK: &str = "netloom.io/uplink";
/// On a node's external bridge: the boot, and the bridge in it, that has all of that.
pub const COMPLETE: &str = "netloom.io/complete-on";

/// On an interface: the logical port OVN binds to it.
pub const IFACE_ID: &str = "iface-id";
/// On an interface: the Ethernet address inside the pod.
pub const ATTACHED_MAC: &str = "attached-mac";
/// On an interface: set by ovn-controller when all flows of the port are in place.
pub const INSTALLED: &str = "ovn-installed";
/// On an interface: the container id of the sandbox. Its presence marks the interface as a pod's, and as ours.
pub const SANDBOX: &str = "netloom.io/sandbox";
/// On an interface: its name in the pod.
pub const IFNAME: &str = "netloom.io/ifname";
/// On an interface: the path of the pod's network namespace.
pub const NETNS: &str = "netloom.io/netns";
/// On an interface: the name of the CNI network configuration it was made for.
pub const CNI_NETWORK: &str = "netloom.io/cni-network";
/// On an interface: the ports the pod publishes on its node, as the runtime's `portMappings`; absent if there are none.
pub const HOST_PORTS: &str = "netloom.io/host-ports";
