//! An announcer's port that OVN has placed on a chassis: the MAC and the addresses for which that node answers. Read from
//! `chassisredirect` port bindings; the gateway lets frames for the MAC in and tells the wire where it is now.

use std::net::IpAddr;

use ipnet::IpNet;
use netloom_contract::name::is_placed_announcer;

use netloom_contract::Mac;

/// What a node announces for one service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The MAC that stands for the addresses on the wire.
    pub mac: Mac,
    /// The service's external addresses.
    pub addresses: Vec<IpAddr>,
}

impl Claim {
    /// Reads the `mac` column (`MAC ADDRESS/LENGTH...`) of an announcer's port; none for any other port.
    pub fn parse(logical_port: &str, mac: &[&str]) -> Option<Self> {
        let mut words = mac.first().filter(|_| is_placed_announcer(logical_port))?.split_whitespace();
        let mac = words.next()?.parse().ok()?;
        let address = |word: &str| word.parse().map(|net: IpNet| net.addr()).or_else(|_| word.parse()).ok();
        Some(Self {
            mac,
            addresses: words.filter_map(address).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_announcers_claim() {
        let mac = ["0a:6c:6f:01:02:03 172.30.0.200/32 fd30::200/128"];
        let claim = Claim::parse("cr-announcer_default_web_port", &mac).unwrap();
        assert_eq!(claim.mac.to_string(), "0a:6c:6f:01:02:03");
        assert_eq!(
            claim.addresses,
            ["172.30.0.200".parse::<IpAddr>().unwrap(), "fd30::200".parse().unwrap()]
        );
        assert_eq!(Claim::parse("cr-other", &mac), None);
        assert_eq!(Claim::parse("cr-announcer_default_web_port", &[]), None);
    }
}
