//! Names of logical ports. Parts are joined by characters that no Kubernetes name has, so no two objects get one name.

use std::fmt;

/// Between the parts of the name of a pod's port.
const SEPARATOR: char = '/';
/// Before the name of a machine that is no pod.
const MACHINE: &str = "port_";
const MANAGEMENT: &str = "management_";
const ANNOUNCER: &str = "announcer_";
/// What OVN puts before the name of a router port that it places on a chassis.
const REDIRECT: &str = "cr-";

/// The port by which all uplinks are on the switch external addresses are announced on.
pub const ANNOUNCE_UPLINK: &str = "uplink_announce";

/// The patch port that ovn-controller makes for it on the bridge with the uplink.
pub const ANNOUNCE_PATCH: &str = "patch-uplink_announce-to-br-int";

/// The interface that a container runtime attaches to the cluster's network: a pod's first one.
pub const FIRST_INTERFACE: &str = "eth0";

/// The name of a pod's or machine's port: `namespace/pod` for its first interface, `namespace/pod/interface` for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodPort<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod, or of the machine as [`machine`] gives it.
    pub pod: &'a str,
    /// The interface; none is the first one.
    pub interface: Option<&'a str>,
}

impl<'a> PodPort<'a> {
    /// The port of the interface that has this name in the pod.
    pub fn of_interface(namespace: &'a str, pod: &'a str, ifname: &'a str) -> Self {
        let interface = Some(ifname).filter(|ifname| *ifname != FIRST_INTERFACE);
        Self { namespace, pod, interface }
    }

    /// The parts of a name; none if it is not that of a pod's port.
    pub fn parse(name: &'a str) -> Option<Self> {
        let mut parts = name.split(SEPARATOR);
        let (namespace, pod, interface) = (parts.next()?, parts.next()?, parts.next());
        parts.next().is_none().then_some(Self { namespace, pod, interface })
    }

    /// Whether it is the port of a machine that is no pod.
    pub fn is_machine(&self) -> bool {
        machine_of(self.pod).is_some()
    }
}

impl fmt::Display for PodPort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{SEPARATOR}{}", self.namespace, self.pod)?;
        match self.interface {
            None => Ok(()),
            Some(interface) => write!(f, "{SEPARATOR}{interface}"),
        }
    }
}

/// External id [`POD`](crate::external_id::POD) of a pod.
pub fn pod_id(namespace: &str, pod: &str) -> String {
    format!("{namespace}:{pod}")
}

/// The name a machine that is no pod has among pods.
pub fn machine(name: &str) -> String {
    format!("{MACHINE}{name}")
}

/// The machine with this name among pods; none if it is a pod.
pub fn machine_of(pod: &str) -> Option<&str> {
    pod.strip_prefix(MACHINE)
}

/// The port by which a node reaches its pods.
pub fn management_port(node: &str) -> String {
    format!("{MANAGEMENT}{node}")
}

/// The node whose management port has this name.
pub fn node_of_management_port(port: &str) -> Option<&str> {
    port.strip_prefix(MANAGEMENT)
}

/// The port by which a node meets services.
pub fn service_port(node: &str) -> String {
    format!("service_{node}")
}

/// The router port that has a service's external addresses.
pub fn announcer_port(namespace: &str, service: &str) -> String {
    format!("{ANNOUNCER}{namespace}_{service}_port")
}

/// Whether a chassisredirect port is that of an announcer.
pub fn is_placed_announcer(port: &str) -> bool {
    port.strip_prefix(REDIRECT).is_some_and(|port| port.starts_with(ANNOUNCER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_by_its_name() {
        for name in ["shop/web", "shop/port_db", "shop/web/net1"] {
            assert_eq!(PodPort::parse(name).map(|port| port.to_string()).as_deref(), Some(name));
        }
        for name in ["join", "management_node1", "a/b/c/d"] {
            assert_eq!(PodPort::parse(name), None, "{name}");
        }
        let is_machine = |name| PodPort::parse(name).is_some_and(|port| port.is_machine());
        assert!(is_machine("shop/port_db") && !is_machine("shop/db"));
        assert_eq!(machine_of(&machine("db")), Some("db"));
        assert_eq!(PodPort::of_interface("shop", "web", "eth0").to_string(), "shop/web");
        assert_eq!(PodPort::of_interface("shop", "web", "net1").to_string(), "shop/web/net1");
    }

    #[test]
    fn nodes_and_announcers_are_found_by_the_names_of_their_ports() {
        assert_eq!(node_of_management_port(&management_port("node1")), Some("node1"));
        assert_eq!(node_of_management_port(&service_port("node1")), None);
        assert!(is_placed_announcer(&format!("cr-{}", announcer_port("shop", "web"))));
        assert!(!is_placed_announcer(&announcer_port("shop", "web")) && !is_placed_announcer("cr-other"));
    }
}
