//! Ethernet addresses: chosen by whoever asks, or made of the addresses and numbers that are unique already.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How addresses begin that are made of the address of a port on a node's switch.
const MADE_UP: [u8; 2] = [0x0a, 0x4e];

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// How addresses of announcers begin; agents know announced traffic by it.
    pub const ANNOUNCER: [u8; 3] = [0x0a, 0x6c, 0x6f];

    /// The address of the port that has `ip`: locally administered and unique where `ip` is unique within its subnet.
    pub fn of(ip: IpAddr) -> Self {
        let low = match ip {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(ip) => {
                let o = ip.octets();
                [o[12], o[13], o[14], o[15]]
            }
        };
        let [a, b] = MADE_UP;
        Self([a, b, low[0], low[1], low[2], low[3]])
    }

    /// Whether it may be one of those, and so belong to another port of the switch, the router's among them.
    pub fn may_be_made_up(self) -> bool {
        self.0.starts_with(&MADE_UP)
    }

    /// The address of a pod on a network, next to pods of other nodes: unique among all of them as long as they have numbers of 24 bits in their
    /// nodes' subnets.
    pub fn of_numbers(slot: u64, host: u64) -> Self {
        let ([.., a, b], [.., c, d, e]) = (slot.to_be_bytes(), host.to_be_bytes());
        Self([0x0e, a, b, c, d, e])
    }

    /// Addresses for the announcer of a service whose first external address is `ip`, the first being the one it has unless another has it.
    pub fn announcers(ip: IpAddr) -> impl Iterator<Item = Self> {
        let Self([.., a, b, c]) = Self::of(ip);
        let [x, y, z] = Self::ANNOUNCER;
        let first = u32::from_be_bytes([0, a, b, c]);
        (0..1 << 24).map(move |step| {
            let [_, a, b, c] = ((first + step) % (1 << 24)).to_be_bytes();
            Self([x, y, z, a, b, c])
        })
    }

    /// The link-local address that follows from it, which is also the one OVN gives a router port.
    pub fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0.map(u16::from);
        Ipv6Addr::new(0xfe80, 0, 0, 0, ((a ^ 2) << 8) | b, (c << 8) | 0xff, 0xfe00 | d, (e << 8) | f)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a unicast MAC address; write for example 52:54:00:00:00:07");
        let octets: Vec<u8> = text
            .split(':')
            .map(|part| if part.len() == 2 { u8::from_str_radix(part, 16).ok() } else { None })
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let octets: [u8; 6] = octets.try_into().map_err(|_| wrong())?;
        if octets[0] & 1 == 1 || octets == [0; 6] {
            Err(wrong())
        } else {
            Ok(Self(octets))
        }
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
