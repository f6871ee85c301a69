//! Options of a gateway's load balancer, which OVN copies to the Southbound database: what a node's agent has to know of a service.

/// The option that load balancers of gateways have and others do not.
pub const OF_GATEWAYS: (&str, &str) = ("neighbor_responder", "none");
/// Set to `true` if backends see the client's address.
pub const KEEPS_SOURCE: &str = "skip_snat";

/// The service as `namespace/name`.
pub const SERVICE: &str = "netloom.io/service";
/// The node whose own backends it has.
pub const NODE: &str = "netloom.io/node";
/// The addresses of that node, comma separated.
pub const NODE_ADDRESSES: &str = "netloom.io/node-addresses";
/// The service has `externalTrafficPolicy: Local`, see [`Local`].
pub const LOCAL: &str = "netloom.io/local";
/// The port on which its nodes report how many endpoints they have.
pub const HEALTH_CHECK_PORT: &str = "netloom.io/health-check-port";
/// How many endpoints to report. Not all backends count: one that terminates still serves, but gets no new clients.
pub const READY_ENDPOINTS: &str = "netloom.io/ready-endpoints";

/// Where the endpoints are of a service that every node serves with its own only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// All in networks of pods.
    Pods,
    /// Some in the network of a host.
    Hosts,
}

impl Local {
    /// Its text in an option.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Hosts => "hosts",
        }
    }

    /// What an option says.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pods, Self::Hosts].into_iter().find(|local| local.as_str() == text)
    }
}
