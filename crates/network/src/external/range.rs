//! Ranges of addresses: `192.0.2.0/28` or `192.0.2.10-192.0.2.20`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::service::Family;

/// From the first to the last address, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The first address.
    pub first: IpAddr,
    /// The last address.
    pub last: IpAddr,
}

impl Range {
    /// All addresses of a network.
    pub fn of(network: IpNet) -> Self {
        Self {
            first: network.network(),
            last: network.broadcast(),
        }
    }

    /// The addresses of a CIDR that a host can have: not the network's own first one and not its broadcast address, where there are such.
    pub fn of_cidr(text: &str) -> Result<Self, String> {
        let network: IpNet = text
            .trim()
            .parse()
            .map_err(|_| format!("spec.cidrs: \"{text}\" is not a CIDR; write for example 192.0.2.0/28"))?;
        if network.trunc() != network {
            return Err(format!("spec.cidrs: {network} has host bits set; write {}", network.trunc()));
        }
        let whole = Self::of(network);
        let hosts = network.max_prefix_len() - network.prefix_len();
        let (Some(first), Some(last)) = (step(whole.first, 1), step(whole.last, -1)) else {
            return Ok(whole);
        };
        // IPv6 has no broadcast address, and its first one is that of every router on the link.
        let last = if network.addr().is_ipv4() { last } else { whole.last };
        Ok(if hosts > 1 { Self { first, last } } else { whole })
    }

    /// Its family.
    pub fn family(&self) -> Family {
        Family::of(self.first)
    }

    /// Whether it has `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        Family::of(address) == self.family() && self.first <= address && address <= self.last
    }

    /// Whether it shares an address with `other`.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.family() == other.family() && self.first <= other.last && other.first <= self.last
    }

    /// Its addresses from `start` on.
    pub fn from(&self, start: IpAddr) -> impl Iterator<Item = IpAddr> {
        let last = self.last;
        let next = move |address: &IpAddr| if *address < last { step(*address, 1) } else { None };
        std::iter::successors(Some(start).filter(|start| self.contains(*start)), next)
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("spec.ranges: \"{text}\" is not a range; write for example 192.0.2.10-192.0.2.20");
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let range = Self {
            first: first.trim().parse().map_err(|_| wrong())?,
            last: last.trim().parse().map_err(|_| wrong())?,
        };
        if Family::of(range.first) != Family::of(range.last) {
            return Err(format!("spec.ranges: {range} is of two families; give both ends of one"));
        }
        if range.first > range.last {
            return Err(format!(
                "spec.ranges: {range} ends before it begins; write {}-{}",
                range.last, range.first
            ));
        }
        Ok(range)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

fn step(address: IpAddr, by: i32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => u32::from(address).checked_add_signed(by).map(|number| IpAddr::V4(number.into())),
        IpAddr::V6(address) => u128::from(address)
            .checked_add_signed(i128::from(by))
            .map(|number| IpAddr::V6(number.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let range = if text.contains('/') { Range::of_cidr(text) } else { text.parse() };
        range.map_or_else(|why| why, |range| range.to_string())
    }

    #[test]
    fn a_cidr_gives_the_addresses_a_host_can_have() {
        assert_eq!(shown("192.0.2.0/28"), "192.0.2.1-192.0.2.14");
        assert_eq!(shown("192.0.2.0/31"), "192.0.2.0-192.0.2.1");
        assert_eq!(shown(" 192.0.2.7/32 "), "192.0.2.7-192.0.2.7");
        assert_eq!(shown("0.0.0.0/0"), "0.0.0.1-255.255.255.254");
        assert_eq!(shown("fd01::/126"), "fd01::1-fd01::3");
        assert!(shown("192.0.2.1/28").contains("write 192.0.2.0/28"));
        assert!(shown("192.0.2.0/33").contains("is not a CIDR"));
    }

    #[test]
    fn a_range_has_two_ends_of_one_family_in_order() {
        assert_eq!(shown("192.0.2.10 - 192.0.2.20"), "192.0.2.10-192.0.2.20");
        assert!(shown("192.0.2.10").contains("is not a range"));
        assert!(shown("192.0.2.10-").contains("is not a range"));
        assert!(shown("192.0.2.10-fd01::1").contains("two families"));
        assert!(shown("192.0.2.20-192.0.2.10").contains("write 192.0.2.10-192.0.2.20"));
    }

    #[test]
    fn addresses_come_in_order_and_end_with_the_last() {
        let range: Range = "255.255.255.254-255.255.255.255".parse().unwrap();
        let all: Vec<String> = range.from(range.first).map(|ip| ip.to_string()).collect();
        assert_eq!(all, ["255.255.255.254", "255.255.255.255"]);
        assert_eq!(range.from("192.0.2.1".parse().unwrap()).count(), 0);
    }

    #[test]
    fn families_do_not_overlap() {
        let (four, six): (Range, Range) = ("0.0.0.0-255.255.255.255".parse().unwrap(), "::-ffff::".parse().unwrap());
        assert!(!four.overlaps(&six));
        assert!(four.overlaps(&"10.0.0.1-10.0.0.1".parse().unwrap()));
    }
}
