//! The cluster's addressing: read from the `ClusterNetwork` object, validated as a whole, recorded in the Northbound database
//! and in force from then on. A bad or unsafe later edit is a problem; what is recorded stays in force.

mod host;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use host::{bits, number, with_number};
pub use host::{host_number, hosts, is_ipv4, nth_host};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
pub use netloom_contract::ServiceMode;
use serde::Deserialize;

use crate::service::Family;

/// Addresses of a join range that no gateway has: the network itself, the cluster router, the one of node ports, and the broadcast.
const JOIN_RESERVED: u64 = 4;
/// How many addresses of a join range are numbered, however many it has.
const JOIN_NUMBERED: u64 = 1 << 16;

/// `spec` of a `ClusterNetwork`, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetworkSpec {
    /// Where pods' addresses come from.
    #[serde(rename = "clusterCIDRs")]
    pub cluster_cidrs: Vec<ClusterCidrSpec>,
    /// Addresses between the cluster router and the gateways.
    #[serde(rename = "joinCIDRs")]
    pub join_cidrs: Vec<String>,
    /// How services are served.
    pub services: ServicesSpec,
}

/// `spec.services` of a `ClusterNetwork`, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicesSpec {
    /// `native` (the default) or `kube-proxy`.
    pub mode: Option<String>,
    /// Ranges of ClusterIPs, as the API server has them.
    pub cidrs: Vec<String>,
}

/// One entry of `spec.clusterCIDRs`, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCidrSpec {
    /// The range, e.g. `10.244.0.0/16`.
    pub cidr: String,
    /// Prefix length of one node's share; 24 or 64 unless given.
    #[serde(default)]
    pub node_prefix: Option<u8>,
}

/// A range of pod addresses and the size of one node's share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterCidr {
    /// The range.
    pub cidr: IpNet,
    /// Prefix length of one node's share.
    pub node_prefix: u8,
}

/// How services are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// Who translates their addresses.
    pub mode: ServiceMode,
    /// Ranges of ClusterIPs; nodes and, with kube-proxy, pods are routed to them.
    pub cidrs: Vec<IpNet>,
}

/// Validated addressing of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Ranges of pod addresses, in order; each family's node subnets are numbered through them.
    pub cluster_cidrs: Vec<ClusterCidr>,
    /// Join ranges, one of each family in use.
    pub join_cidrs: Vec<IpNet>,
    /// How services are served.
    pub services: Services,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            services: Services {
                mode: ServiceMode::Native,
                cidrs: vec![default_services(true), default_services(false)],
            },
            cluster_cidrs: vec![
                ClusterCidr {
                    cidr: v4(10, 244, 0, 0, 16),
                    node_prefix: 24,
                },
                ClusterCidr {
                    cidr: v6([0xfd00, 0x10, 0x244, 0, 0, 0, 0, 0], 48),
                    node_prefix: 64,
                },
            ],
            join_cidrs: vec![default_join(true), default_join(false)],
        }
    }
}

impl Settings {
    /// Reads and validates a spec; the error says what to change.
    pub fn from_spec(spec: &ClusterNetworkSpec) -> Result<Self, String> {
        let mut cluster_cidrs = spec.cluster_cidrs.iter().map(cluster_cidr).collect::<Result<Vec<_>, _>>()?;
        if cluster_cidrs.is_empty() {
            cluster_cidrs = Self::default().cluster_cidrs;
        }
        let mut join_cidrs = spec
            .join_cidrs
            .iter()
            .map(|text| range("spec.joinCIDRs", text))
            .collect::<Result<Vec<_>, _>>()?;
        for ipv4 in [true, false] {
            let used = cluster_cidrs.iter().any(|c| is_ipv4(&c.cidr) == ipv4);
            if used && !join_cidrs.iter().any(|j| is_ipv4(j) == ipv4) {
                join_cidrs.push(default_join(ipv4));
            }
        }
        let written = spec.services.cidrs.iter().map(|text| range("spec.services.cidrs", text));
        let mut settings = Self {
            cluster_cidrs,
            join_cidrs,
            services: Services {
                mode: service_mode(spec.services.mode.as_deref().unwrap_or_default())?,
                cidrs: written.collect::<Result<_, _>>()?,
            },
        };
        if settings.services.cidrs.is_empty() {
            settings.services.cidrs = settings.usual_services();
        }
        settings.validate()?;
        Ok(settings)
    }

    /// The address by which every gateway and every node switch serves node ports: the last one of each join range.
    pub fn node_port_addresses(&self) -> Vec<IpAddr> {
        let last = |join: &IpNet| match join.broadcast() {
            IpAddr::V4(broadcast) => IpAddr::V4((u32::from(broadcast).saturating_sub(1)).into()),
            last @ IpAddr::V6(_) => last,
        };
        self.join_cidrs.iter().map(last).collect()
    }

    /// The range of services that contains `address`, if any.
    pub fn service_range_of(&self, address: IpAddr) -> Option<IpNet> {
        self.services.cidrs.iter().find(|range| range.contains(&address)).copied()
    }

    /// Where ClusterIPs come from unless told otherwise: the usual range of each family in use, if nothing else has it.
    fn usual_services(&self) -> Vec<IpNet> {
        let free = |usual: &IpNet| !self.ranges().any(|range| range.contains(usual) || usual.contains(&range));
        [true, false]
            .into_iter()
            .filter(|ipv4| !self.family(*ipv4).is_empty())
            .map(default_services)
            .filter(free)
            .collect()
    }

    /// Whether `next` may replace these settings while addresses of these are in use: ranges may be added, never changed.
    pub fn may_become(&self, next: &Self) -> Result<(), String> {
        for ipv4 in [true, false] {
            let old = self.family(ipv4);
            if !next.family(ipv4).starts_with(&old) {
                return Err(format!(
                    "ranges in use cannot change while nodes have subnets of them: in force is {self}; keep these entries and add new ones after them"
                ));
            }
        }
        if self.join_cidrs.iter().any(|join| !next.join_cidrs.contains(join)) {
            return Err(format!("join ranges in use cannot change: in force is {self}"));
        }
        Ok(())
    }

    /// How many nodes can have a subnet.
    pub fn slots(&self) -> u64 {
        let join = self.join_cidrs.iter().map(|join| hosts(join).saturating_sub(JOIN_RESERVED));
        let subnets = [true, false].into_iter().filter_map(|ipv4| {
            let of_family = self.family(ipv4);
            (!of_family.is_empty()).then(|| of_family.iter().map(ClusterCidr::subnets).fold(0u64, u64::saturating_add))
        });
        join.chain(subnets).min().unwrap_or(0)
    }

    /// The subnets of the node in `slot`, one of each family.
    pub fn subnets(&self, slot: u64) -> Vec<IpNet> {
        [true, false]
            .into_iter()
            .filter_map(|ipv4| {
                let mut rest = slot;
                for range in self.family(ipv4) {
                    if rest < range.subnets() {
                        return Some(range.subnet(rest));
                    }
                    rest -= range.subnets();
                }
                None
            })
            .collect()
    }

    /// Addresses with prefix on the join switch: number 0 is the cluster router, a node in `slot` has number `slot + 1`.
    pub fn join_addresses(&self, number: u64) -> Vec<IpNet> {
        self.join_cidrs.iter().filter_map(|join| nth_host(join, number + 1)).collect()
    }

    /// Addresses with prefix on the join switch of the router of the network in `slot`: from the end of the range, before those of node
    /// ports. None when nodes have the range for themselves.
    pub fn network_join_addresses(&self, slot: u64) -> Vec<IpNet> {
        let address = |join: &IpNet| {
            let number = hosts(join).min(JOIN_NUMBERED).checked_sub(3 + slot)?;
            nth_host(join, number).filter(|_| number > self.slots() + 1)
        };
        let addresses: Option<Vec<IpNet>> = self.join_cidrs.iter().map(address).collect();
        addresses.unwrap_or_default()
    }

    /// The slot a set of subnets belongs to, if it is one of ours.
    pub fn slot_of(&self, subnet: &IpNet) -> Option<u64> {
        let mut first = 0;
        for range in self.family(is_ipv4(subnet)) {
            if range.cidr.contains(subnet) && subnet.prefix_len() == range.node_prefix {
                let shift = u32::from(bits(subnet) - range.node_prefix);
                return Some(((number(subnet.network()) - number(range.cidr.network())) >> shift) as u64)
                    .map(|own| own.saturating_add(first));
            }
            first = range.subnets().saturating_add(first);
        }
        None
    }

    /// The range that contains `address`, if any.
    pub fn range_of(&self, address: IpAddr) -> Option<IpNet> {
        self.ranges().find(|range| range.contains(&address))
    }

    /// Whether `address` lies where pods have theirs.
    pub fn is_pod_address(&self, address: IpAddr) -> bool {
        self.cluster_cidrs.iter().any(|range| range.cidr.contains(&address))
    }

    /// Families of the addresses of pods.
    pub fn families(&self) -> BTreeSet<Family> {
        self.cluster_cidrs.iter().map(|range| Family::of(range.cidr.addr())).collect()
    }

    /// Ranges of pods and of the join switch.
    pub fn ranges(&self) -> impl Iterator<Item = IpNet> {
        self.cluster_cidrs.iter().map(|c| c.cidr).chain(self.join_cidrs.iter().copied())
    }

    fn family(&self, ipv4: bool) -> Vec<ClusterCidr> {
        self.cluster_cidrs.iter().filter(|c| is_ipv4(&c.cidr) == ipv4).copied().collect()
    }

    fn validate(&self) -> Result<(), String> {
        let all: Vec<IpNet> = self.ranges().chain(self.services.cidrs.iter().copied()).collect();
        for (i, a) in all.iter().enumerate() {
            if let Some(b) = all[i + 1..].iter().find(|b| a.contains(*b) || b.contains(a)) {
                return Err(format!("{a} and {b} overlap; give ranges that share no address"));
            }
        }
        for ipv4 in [true, false] {
            if self.join_cidrs.iter().filter(|j| is_ipv4(j) == ipv4).count() > 1 {
                return Err("spec.joinCIDRs has more than one range of a family; give one of each".to_owned());
            }
        }
        Ok(())
    }
}

/// The recorded form: `10.244.0.0/16=24,fd00:10:244::/48=64;100.64.0.0/16,fd98::/64;native:10.96.0.0/16,fd00:10:96::/112`.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cidrs: Vec<String> = self.cluster_cidrs.iter().map(|c| format!("{}={}", c.cidr, c.node_prefix)).collect();
        let joins: Vec<String> = self.join_cidrs.iter().map(ToString::to_string).collect();
        let services: Vec<String> = self.services.cidrs.iter().map(ToString::to_string).collect();
        let mode = self.services.mode.as_str();
        write!(f, "{};{};{mode}:{}", cidrs.join(","), joins.join(","), services.join(","))
    }
}

impl std::str::FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (cidrs, rest) = text.split_once(';').ok_or("no join ranges")?;
        let (joins, services) = rest.split_once(';').unwrap_or((rest, ""));
        let cluster_cidrs = cidrs
            .split(',')
            .map(|entry| {
                let (cidr, prefix) = entry.split_once('=').ok_or("no node prefix")?;
                cluster_cidr(&ClusterCidrSpec {
                    cidr: cidr.to_owned(),
                    node_prefix: prefix.parse().ok(),
                })
            })
            .collect::<Result<_, String>>()?;
        let mut settings = Self {
            cluster_cidrs,
            join_cidrs: joins.split(',').map(|j| range("join", j)).collect::<Result<_, _>>()?,
            services: Services::default(),
        };
        if let Some((mode, ranges)) = services.split_once(':') {
            let ranges = ranges.split(',').filter(|text| !text.is_empty());
            settings.services = Services {
                mode: service_mode(mode)?,
                cidrs: ranges.map(|text| range("services", text)).collect::<Result<_, _>>()?,
            };
        } else {
            settings.services.cidrs = settings.usual_services(); // written before there were services
        }
        settings.validate()?;
        Ok(settings)
    }
}

impl ClusterCidr {
    fn subnets(&self) -> u64 {
        1u64.checked_shl(u32::from(self.node_prefix - self.cidr.prefix_len()))
            .unwrap_or(u64::MAX)
    }

    fn subnet(&self, n: u64) -> IpNet {
        let shift = u32::from(bits(&self.cidr) - self.node_prefix);
        with_number(&self.cidr, number(self.cidr.network()) + (u128::from(n) << shift), self.node_prefix)
    }
}

fn cluster_cidr(spec: &ClusterCidrSpec) -> Result<ClusterCidr, String> {
    let cidr = range("spec.clusterCIDRs", &spec.cidr)?;
    let (default, longest) = if is_ipv4(&cidr) { (24, 29) } else { (64, 120) };
    let node_prefix = spec.node_prefix.unwrap_or(default);
    if node_prefix < cidr.prefix_len() || node_prefix > longest {
        return Err(format!(
            "nodePrefix {node_prefix} does not fit {cidr}; choose one between {} and {longest}",
            cidr.prefix_len()
        ));
    }
    Ok(ClusterCidr { cidr, node_prefix })
}

/// Reads a range without host bits.
pub(crate) fn range(field: &str, text: &str) -> Result<IpNet, String> {
    let range: IpNet = text
        .trim()
        .parse()
        .map_err(|_| format!("{field}: \"{text}\" is not a CIDR; write for example 10.244.0.0/16"))?;
    if range.trunc() != range {
        return Err(format!("{field}: {range} has host bits set; write {}", range.trunc()));
    }
    Ok(range)
}

fn default_services(ipv4: bool) -> IpNet {
    if ipv4 {
        v4(10, 96, 0, 0, 16)
    } else {
        v6([0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0], 112)
    }
}

fn default_join(ipv4: bool) -> IpNet {
    if ipv4 {
        v4(100, 64, 0, 0, 16)
    } else {
        v6([0xfd98, 0, 0, 0, 0, 0, 0, 0], 64)
    }
}

fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> IpNet {
    Ipv4Net::new_assert([a, b, c, d].into(), prefix).into()
}

fn v6(segments: [u16; 8], prefix: u8) -> IpNet {
    Ipv6Net::new_assert(segments.into(), prefix).into()
}

/// The mode a spec or a record names; native unless it names one.
fn service_mode(text: &str) -> Result<ServiceMode, String> {
    if text.is_empty() {
        return Ok(ServiceMode::default());
    }
    ServiceMode::parse(text).ok_or_else(|| format!("spec.services.mode: \"{text}\" is unknown; write native or kube-proxy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(cidrs: &[&str]) -> ClusterNetworkSpec {
        let cluster_cidrs = cidrs
            .iter()
            .map(|c| ClusterCidrSpec {
                cidr: (*c).to_owned(),
                node_prefix: None,
            })
            .collect();
        ClusterNetworkSpec {
            cluster_cidrs,
            ..ClusterNetworkSpec::default()
        }
    }

    #[test]
    fn subnets_are_numbered_through_all_ranges_of_a_family() {
        let settings = Settings::from_spec(&spec(&["10.244.0.0/23", "10.9.0.0/24", "fd00::/48"])).unwrap();
        assert_eq!(settings.slots(), 3);
        let shown = |slot| settings.subnets(slot).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(shown(1), "10.244.1.0/24 fd00:0:0:1::/64");
        assert_eq!(shown(2), "10.9.0.0/24 fd00:0:0:2::/64");
        for slot in 0..3 {
            for subnet in settings.subnets(slot) {
                assert_eq!(settings.slot_of(&subnet), Some(slot));
            }
        }
        assert_eq!(settings.slot_of(&"10.244.1.0/25".parse().unwrap()), None);
    }

    #[test]
    fn what_is_not_written_has_its_default() {
        assert_eq!(Settings::from_spec(&spec(&[])), Ok(Settings::default()));
    }

    #[test]
    fn mistakes_are_named_with_what_to_write() {
        let wrong = |cidrs: &[&str]| Settings::from_spec(&spec(cidrs)).unwrap_err();
        assert!(wrong(&["10.244.0.0"]).contains("\"10.244.0.0\" is not a CIDR"));
        assert!(wrong(&["10.244.0.1/16"]).contains("write 10.244.0.0/16"));
        assert!(wrong(&["10.244.0.0/16", "10.244.128.0/17"]).contains("overlap"));
        assert!(wrong(&["100.64.0.0/10"]).contains("100.64.0.0/16 overlap"));
        assert!(wrong(&["10.0.0.0/30"]).contains("nodePrefix 24 does not fit 10.0.0.0/30"));
    }

    #[test]
    fn ranges_may_be_added_but_not_changed() {
        let old = Settings::from_spec(&spec(&["10.244.0.0/16"])).unwrap();
        assert!(
            old.may_become(&Settings::from_spec(&spec(&["10.244.0.0/16", "10.9.0.0/16", "fd00::/48"])).unwrap())
                .is_ok()
        );
        assert!(
            old.may_become(&Settings::from_spec(&spec(&["10.9.0.0/16", "10.244.0.0/16"])).unwrap())
                .is_err()
        );
    }

    #[test]
    fn the_record_reads_back() {
        let settings = Settings::default();
        assert_eq!(settings.to_string().parse(), Ok(settings.clone()));
        let older = "10.244.0.0/16=24,fd00:10:244::/48=64;100.64.0.0/16,fd98::/64";
        assert_eq!(older.parse(), Ok(settings), "a record without services has the usual ones");
        let taken: Settings = "10.96.0.0/16=24;100.64.0.0/16".parse().unwrap();
        assert_eq!(taken.services.cidrs, [], "pods have the usual range of services");
    }

    #[test]
    fn services_have_ranges_of_their_own_and_a_mode_that_may_change() {
        let mut written = spec(&["10.244.0.0/16"]);
        let native = Settings::from_spec(&written).unwrap();
        assert_eq!(native.services.cidrs, [v4(10, 96, 0, 0, 16)]);
        written.services = ServicesSpec {
            mode: Some("kube-proxy".to_owned()),
            cidrs: vec!["10.32.0.0/12".to_owned()],
        };
        let other = Settings::from_spec(&written).unwrap();
        assert_eq!(native.may_become(&other), Ok(()));
        assert_eq!(other.to_string().parse(), Ok(other.clone()));
        assert!(other.to_string().ends_with(";kube-proxy:10.32.0.0/12"), "{other}");
        written.services.cidrs = vec!["10.244.7.0/24".to_owned()];
        assert!(Settings::from_spec(&written).unwrap_err().contains("overlap"));
        written.services.mode = Some("iptables".to_owned());
        assert!(Settings::from_spec(&written).unwrap_err().contains("write native or kube-proxy"));
    }

    #[test]
    fn node_ports_have_an_address_no_gateway_has() {
        let settings = Settings::default();
        let shown: Vec<String> = settings.node_port_addresses().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["100.64.255.254", "fd98::ffff:ffff:ffff:ffff"]);
        let mut small = spec(&["10.244.0.0/16"]);
        small.join_cidrs = vec!["100.64.0.0/28".to_owned()];
        let small = Settings::from_spec(&small).unwrap();
        let last = small.join_addresses(small.slots());
        assert_eq!(small.node_port_addresses(), [IpAddr::from([100, 64, 0, 14])]);
        assert_eq!(last[0].addr(), IpAddr::from([100, 64, 0, 13]), "the last gateway comes before it");
    }
}
