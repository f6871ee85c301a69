//! What a lab should be: its name, size, address families and datapath, and the addresses that follow from them.
//!
//! [`Spec`] is plain data made by the command line and by tests; everything else in this crate reads it and nothing changes it after `up`.
//! Labs never share a network namespace, so every lab uses the same addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

/// Name of the machine that runs the databases, the API server and the controller.
pub const CONTROL: &str = "control";
/// Name of the machine that stands for the world outside the cluster.
pub const OUTSIDE: &str = "outside";

/// Port of the Northbound database on the control machine.
pub const NORTHBOUND_PORT: u16 = 6641;
/// Port of the Southbound database on the control machine.
pub const SOUTHBOUND_PORT: u16 = 6642;
/// Port of the API server inside the lab.
pub const API_PORT: u16 = 6443;

/// Where services get their IPv4 addresses; what `ClusterNetwork` assumes when it does not say.
const SERVICES_V4: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
/// Where services get their IPv6 addresses.
const SERVICES_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0);

/// A lab to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Name of the lab; labs with different names run side by side.
    pub name: String,
    /// Number of nodes, named `node1`, `node2`, …
    pub nodes: usize,
    /// Address families of pods and services.
    pub ip_family: IpFamily,
    /// Which Open vSwitch datapath forwards packets.
    pub datapath: Datapath,
    /// Root filesystem of the machines.
    pub image: PathBuf,
    /// The `netloom` binary that the machines run.
    pub binary: PathBuf,
    /// Keep a lab that failed to start, to look at it, instead of removing it.
    pub keep_failed: bool,
}

impl Spec {
    /// The default lab: three nodes, dual stack, the datapath this machine has.
    pub fn new(name: impl Into<String>) -> Self {
        Spec {
            name: name.into(),
            nodes: 3,
            ip_family: IpFamily::Dual,
            datapath: Datapath::Auto,
            image: default_image(),
            binary: default_binary(),
            keep_failed: false,
        }
    }

    /// The same lab with another number of nodes.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// The same lab with other address families.
    pub fn ip_family(mut self, ip_family: IpFamily) -> Self {
        self.ip_family = ip_family;
        self
    }

    /// The same lab with another datapath.
    pub fn datapath(mut self, datapath: Datapath) -> Self {
        self.datapath = datapath;
        self
    }

    /// Refuses what could not work, before anything is started.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !self.name.is_empty()
                && self.name.len() <= 32
                && self.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
            "lab name {:?} is not usable: use up to 32 lower-case letters, digits and dashes",
            self.name
        );
        ensure!((1..=100).contains(&self.nodes), "a lab has 1 to 100 nodes, not {}", self.nodes);
        ensure!(
            self.image.join("usr/share/ovn/ovn-nb.ovsschema").exists(),
            "no node image at {}: run `make rootfs` first, or set NETLOOM_IMAGE to a root filesystem that has Open vSwitch and OVN",
            self.image.display()
        );
        ensure!(
            self.binary.exists(),
            "no netloom binary at {}: build it first, or set NETLOOM_BIN",
            self.binary.display()
        );
        ensure!(
            nix::unistd::geteuid().is_root(),
            "a lab is made of namespaces and needs root: run it with sudo"
        );
        Ok(())
    }

    /// All machines, in starting order.
    pub fn machines(&self) -> Vec<Machine> {
        std::iter::once(Machine::Control)
            .chain(std::iter::once(Machine::Outside))
            .chain((1..=self.nodes).map(Machine::Node))
            .collect()
    }

    /// The machine with this name.
    pub fn machine(&self, name: &str) -> anyhow::Result<Machine> {
        let all = self.machines();
        all.iter().find(|machine| machine.name() == name).copied().with_context(|| {
            let names: Vec<_> = all.iter().map(Machine::name).collect();
            format!("lab {} has no machine {name:?}; it has {}", self.name, names.join(", "))
        })
    }
}

/// Address families of the pods' and services' addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpFamily {
    /// IPv4 only.
    Ipv4,
    /// IPv6 only (tunnels between nodes still use IPv4).
    Ipv6,
    /// Both, IPv4 first.
    Dual,
}

impl IpFamily {
    /// Whether pods have IPv4 addresses.
    pub fn has_v4(self) -> bool {
        self != IpFamily::Ipv6
    }

    /// Whether pods have IPv6 addresses.
    pub fn has_v6(self) -> bool {
        self != IpFamily::Ipv4
    }

    /// The families that these addresses have.
    pub fn of(addresses: &[IpAddr]) -> Self {
        let has = |v4: bool| addresses.iter().any(|address| address.is_ipv4() == v4);
        match (has(true), has(false)) {
            (true, true) => IpFamily::Dual,
            (false, true) => IpFamily::Ipv6,
            _ => IpFamily::Ipv4,
        }
    }

    /// The ranges of services' cluster addresses, as network address and prefix length.
    pub fn service_ranges(self) -> Vec<(IpAddr, u8)> {
        self.pick((SERVICES_V4.into(), 16), (SERVICES_V6.into(), 112))
    }

    /// Where pods reach the cluster's DNS: by custom the tenth address of each range.
    pub fn cluster_dns(self) -> Vec<IpAddr> {
        let (v4, v6) = (u32::from(SERVICES_V4) + 10, u128::from(SERVICES_V6) + 10);
        self.pick(Ipv4Addr::from(v4).into(), Ipv6Addr::from(v6).into())
    }

    /// Keeps, of one value per family, those that this lab uses.
    pub fn pick<T>(self, v4: T, v6: T) -> Vec<T> {
        match self {
            IpFamily::Ipv4 => vec![v4],
            IpFamily::Ipv6 => vec![v6],
            IpFamily::Dual => vec![v4, v6],
        }
    }
}

impl std::fmt::Display for IpFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            IpFamily::Ipv4 => "ipv4",
            IpFamily::Ipv6 => "ipv6",
            IpFamily::Dual => "dual",
        })
    }
}

impl FromStr for IpFamily {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "ipv4" => IpFamily::Ipv4,
            "ipv6" => IpFamily::Ipv6,
            "dual" => IpFamily::Dual,
            _ => bail!("unknown address family {text:?}: use ipv4, ipv6 or dual"),
        })
    }
}

/// Which Open vSwitch datapath the nodes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// The kernel's where this kernel has one, else the userspace one.
    Auto,
    /// The openvswitch module of the kernel.
    Kernel,
    /// The one inside ovs-vswitchd; works on every kernel.
    Userspace,
}

impl FromStr for Datapath {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "auto" => Datapath::Auto,
            "kernel" => Datapath::Kernel,
            "userspace" => Datapath::Userspace,
            _ => bail!("unknown datapath {text:?}: use auto, kernel or userspace"),
        })
    }
}

/// One machine of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// Databases, API server, controller; also holds the underlay bridge.
    Control,
    /// A cluster node, numbered from 1.
    Node(usize),
    /// The world outside the cluster; next hop of every node.
    Outside,
}

impl Machine {
    /// The machine's name, which is also its host name.
    pub fn name(&self) -> String {
        match self {
            Machine::Control => CONTROL.into(),
            Machine::Outside => OUTSIDE.into(),
            Machine::Node(number) => format!("node{number}"),
        }
    }

    fn host_part(self) -> u8 {
        match self {
            Machine::Control => 1,
            Machine::Outside => 254,
            // At most 100 nodes, see `Spec::check`.
            Machine::Node(number) => 10 + u8::try_from(number).unwrap_or(100),
        }
    }

    /// Its IPv4 address on the underlay.
    pub fn v4(self) -> Ipv4Addr {
        Ipv4Addr::new(172, 30, 0, self.host_part())
    }

    /// Its IPv6 address on the underlay.
    pub fn v6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd30, 0, 0, 0, 0, 0, 0, self.host_part().into())
    }

    /// Its addresses on the underlay with prefix lengths; IPv4 is always there because tunnels use it.
    pub fn addresses(self, family: IpFamily) -> Vec<(IpAddr, u8)> {
        let mut addresses = vec![(IpAddr::V4(self.v4()), 24)];
        if family.has_v6() {
            addresses.push((IpAddr::V6(self.v6()), 64));
        }
        addresses
    }

    /// The hardware address of its underlay interface; fixed, so that a power-cycle does not change it.
    pub fn mac(self) -> [u8; 6] {
        [0x02, 0x4e, 0x4c, 0x1e, 0x00, self.host_part()]
    }
}

/// The image to use when nothing else is said.
pub fn default_image() -> PathBuf {
    std::env::var_os("NETLOOM_IMAGE").map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("NETLOOM_CACHE")
            .map(PathBuf::from)
            .unwrap_or_else(|| "/var/cache/netloom".into());
        cache.join("image/rootfs")
    })
}

/// The `netloom` binary: the running one, or, for a test program, the one Cargo put beside it.
fn default_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("NETLOOM_BIN") {
        return path.into();
    }
    // Test programs run from `deps`, one folder below the binaries.
    let running = std::env::current_exe().unwrap_or_else(|_| "netloom".into());
    let beside = running.ancestors().skip(1).take(2).map(|folder| folder.join("netloom"));
    beside.into_iter().find(|path| path.is_file()).unwrap_or(running)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn machines_have_distinct_addresses() {
        let spec = Spec::new("t").nodes(100);
        let mut seen = std::collections::BTreeSet::new();
        for machine in spec.machines() {
            assert!(seen.insert(machine.v4()), "{} shares an address", machine.name());
        }
        assert_eq!(seen.len(), 102);
        assert_eq!(spec.machine("node3").unwrap(), Machine::Node(3));
        assert!(spec.machine("node101").is_err());
    }

    #[test]
    fn families() {
        assert_eq!(IpFamily::Dual.pick(4, 6), [4, 6]);
        assert_eq!(IpFamily::Ipv6.pick(4, 6), [6]);
        assert_eq!(Machine::Node(1).addresses(IpFamily::Ipv4).len(), 1);
        assert_eq!(
            IpFamily::of(&[Machine::Control.v4().into(), Machine::Control.v6().into()]),
            IpFamily::Dual
        );
        let dns: Vec<IpAddr> = vec!["10.96.0.10".parse().unwrap(), "fd00:10:96::a".parse().unwrap()];
        assert_eq!(IpFamily::Dual.cluster_dns(), dns);
    }
}
