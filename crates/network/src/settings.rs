//! The cluster's addressing: read from the `ClusterNetwork` object, validated as a whole, recorded in the Northbound database
//! and in force from then on. A bad or unsafe later edit is a problem; what is recorded stays in force.

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserialize;

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

/// Validated addressing of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Ranges of pod addresses, in order; each family's node subnets are numbered through them.
    pub cluster_cidrs: Vec<ClusterCidr>,
    /// Join ranges, one of each family in use.
    pub join_cidrs: Vec<IpNet>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
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
        if spec.cluster_cidrs.is_empty() {
            return Err("spec.clusterCIDRs is empty; give at least one range, for example 10.244.0.0/16".to_owned());
        }
        let cluster_cidrs = spec.cluster_cidrs.iter().map(cluster_cidr).collect::<Result<Vec<_>, _>>()?;
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
        let settings = Self { cluster_cidrs, join_cidrs };
        settings.validate()?;
        Ok(settings)
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
        let join = self.join_cidrs.iter().map(|join| hosts(join).saturating_sub(2));
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

    /// The slot a set of subnets belongs to, if it is one of ours.
    pub fn slot_of(&self, subnet: &IpNet) -> Option<u64> {
        let mut first = 0;
        for range in self.family(is_ipv4(subnet)) {
            if range.cidr.contains(subnet) && subnet.prefix_len() == range.node_prefix {
                let shift = u32::from(bits(subnet) - range.node_prefix);
                return Some(first + ((number(subnet.network()) - number(range.cidr.network())) >> shift) as u64);
            }
            first += range.subnets();
        }
        None
    }

    /// The range that contains `address`, if any.
    pub fn range_of(&self, address: IpAddr) -> Option<IpNet> {
        self.cluster_cidrs
            .iter()
            .map(|c| c.cidr)
            .chain(self.join_cidrs.iter().copied())
            .find(|range| range.contains(&address))
    }

    fn family(&self, ipv4: bool) -> Vec<ClusterCidr> {
        self.cluster_cidrs.iter().filter(|c| is_ipv4(&c.cidr) == ipv4).copied().collect()
    }

    fn validate(&self) -> Result<(), String> {
        let all: Vec<IpNet> = self
            .cluster_cidrs
            .iter()
            .map(|c| c.cidr)
            .chain(self.join_cidrs.iter().copied())
            .collect();
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

/// The recorded form: `10.244.0.0/16=24,fd00:10:244::/48=64;100.64.0.0/16,fd98::/64`.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cidrs: Vec<String> = self.cluster_cidrs.iter().map(|c| format!("{}={}", c.cidr, c.node_prefix)).collect();
        let joins: Vec<String> = self.join_cidrs.iter().map(ToString::to_string).collect();
        write!(f, "{};{}", cidrs.join(","), joins.join(","))
    }
}

impl std::str::FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (cidrs, joins) = text.split_once(';').ok_or("no join ranges")?;
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
        let settings = Self {
            cluster_cidrs,
            join_cidrs: joins.split(',').map(|j| range("join", j)).collect::<Result<_, _>>()?,
        };
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

/// The address number `n` of a range, with the range's prefix; none past its end.
pub fn nth_host(range: &IpNet, n: u64) -> Option<IpNet> {
    let value = number(range.network()).checked_add(u128::from(n))?;
    let host = with_number(range, value, range.prefix_len());
    range.contains(&host.addr()).then_some(host)
}

/// The number of an address inside its range.
pub fn host_number(range: &IpNet, address: IpAddr) -> Option<u64> {
    range
        .contains(&address)
        .then(|| u64::try_from(number(address) - number(range.network())).unwrap_or(u64::MAX))
}

/// How many addresses a range has.
pub fn hosts(range: &IpNet) -> u64 {
    1u64.checked_shl(u32::from(bits(range) - range.prefix_len())).unwrap_or(u64::MAX)
}

/// Whether a range is of the IPv4 family.
pub fn is_ipv4(range: &IpNet) -> bool {
    matches!(range, IpNet::V4(_))
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

fn range(field: &str, text: &str) -> Result<IpNet, String> {
    let range: IpNet = text
        .trim()
        .parse()
        .map_err(|_| format!("{field}: \"{text}\" is not a CIDR; write for example 10.244.0.0/16"))?;
    if range.trunc() != range {
        return Err(format!("{field}: {range} has host bits set; write {}", range.trunc()));
    }
    Ok(range)
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

fn bits(range: &IpNet) -> u8 {
    range.max_prefix_len()
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    }
}

fn with_number(like: &IpNet, value: u128, prefix: u8) -> IpNet {
    match like {
        IpNet::V4(_) => Ipv4Net::new_assert((value as u32).into(), prefix).into(),
        IpNet::V6(_) => Ipv6Net::new_assert(value.into(), prefix).into(),
    }
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
            join_cidrs: vec![],
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
    fn mistakes_are_named_with_what_to_write() {
        let wrong = |cidrs: &[&str]| Settings::from_spec(&spec(cidrs)).unwrap_err();
        assert!(wrong(&[]).contains("spec.clusterCIDRs is empty"));
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
        assert_eq!(settings.to_string().parse(), Ok(settings));
    }
}
