//! Addresses as numbers inside their range.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

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

pub(super) fn bits(range: &IpNet) -> u8 {
    range.max_prefix_len()
}

pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    }
}

pub(super) fn with_number(like: &IpNet, value: u128, prefix: u8) -> IpNet {
    match like {
        IpNet::V4(_) => Ipv4Net::new_assert((value as u32).into(), prefix).into(),
        IpNet::V6(_) => Ipv6Net::new_assert(value.into(), prefix).into(),
    }
}
