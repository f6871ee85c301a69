//! A verdict as ovn-controller words it: the ACL's name, what became of the packet, and the packet itself as a flow.

use std::fmt;
use std::net::IpAddr;

/// One verdict.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The name of the ACL: the policies that decided.
    pub policy: &'a str,
    /// What became of the packet.
    pub verdict: Verdict,
    /// Whose policies decided: the sender's or the receiver's.
    pub direction: Direction,
    /// Protocol, in the words of Open vSwitch without the family: `tcp`, `udp`, `sctp`, `icmp`, `ip`.
    pub protocol: &'a str,
    /// Sender.
    pub from: IpAddr,
    /// Receiver, after services were translated.
    pub to: IpAddr,
    /// The receiver's port, if the protocol has any.
    pub port: Option<u16>,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passed.
    Allowed,
    /// It did not.
    Dropped,
}

/// Whose policies decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The receiver's.
    Ingress,
    /// The sender's.
    Egress,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allowed => "allowed",
            Self::Dropped => "dropped",
        })
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

impl<'a> Line<'a> {
    /// Reads a message; `None` if it is about something else.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (_, text) = text.trim_end().split_once("|acl_log(")?;
        let (_, text) = text.split_once(r#"name=""#)?;
        let (policy, text) = text.split_once(r#"", verdict="#)?;
        let (verdict, text) = text.split_once(", severity=")?;
        let (_, text) = text.split_once("direction=")?;
        let (direction, flow) = text.split_once(": ")?;
        let (protocol, fields) = flow.split_once(',')?;
        let field = |names: [&str; 2]| {
            let mut all = fields.split(',').filter_map(|field| field.split_once('='));
            all.find(|(name, _)| names.contains(name)).map(|(_, value)| value)
        };
        Some(Self {
            policy,
            verdict: match verdict {
                "allow" => Verdict::Allowed,
                "drop" | "reject" => Verdict::Dropped,
                _ => return None,
            },
            direction: match direction {
                "to-lport" => Direction::Ingress,
                "from-lport" => Direction::Egress,
                _ => return None,
            },
            protocol: match protocol.strip_suffix('6').unwrap_or(protocol) {
                "ipv" => "ip",
                protocol => protocol,
            },
            from: field(["nw_src", "ipv6_src"])?.parse().ok()?,
            to: field(["nw_dst", "ipv6_dst"])?.parse().ok()?,
            port: field(["tp_dst", "tp_dst"]).and_then(|port| port.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_verdict_is_read() {
        let text = "<142>Nov 15 22:40:00 ovn-controller: ovs|00012|acl_log(ovn_pinctrl0)|INFO|name=\"shop/deny\", verdict=drop, severity=info, \
                    direction=to-lport: tcp,vlan_tci=0x0000,dl_src=0a:58:00:00:00:01,dl_dst=0a:58:00:00:00:02,nw_src=10.244.1.5,nw_dst=10.244.0.4,\
                    nw_tos=0,nw_ecn=0,nw_ttl=63,nw_frag=no,tp_src=49732,tp_dst=8080,tcp_flags=syn\n";
        let line = Line::parse(text).unwrap();
        assert_eq!(
            line,
            Line {
                policy: "shop/deny",
                verdict: Verdict::Dropped,
                direction: Direction::Ingress,
                protocol: "tcp",
                from: "10.244.1.5".parse().unwrap(),
                to: "10.244.0.4".parse().unwrap(),
                port: Some(8080),
            }
        );
    }

    #[test]
    fn both_families_and_protocols_without_ports_are_read() {
        let with = |flow: &str| format!("ovs|1|acl_log(x)|INFO|name=\"a\", verdict=allow, severity=info, direction=from-lport: {flow}");
        let text = with("icmp6,vlan_tci=0x0000,ipv6_src=fd00::1,ipv6_dst=fd00::2,ipv6_label=0x0,icmp_type=128,icmp_code=0");
        let line = Line::parse(&text).unwrap();
        assert_eq!((line.protocol, line.port, line.direction), ("icmp", None, Direction::Egress));
        assert_eq!(Line::parse(&with("ipv6,ipv6_src=fd00::1,ipv6_dst=fd00::2")).unwrap().protocol, "ip");
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "",
            "ovs|00012|reconnect|INFO|connected",
            "|acl_log(x)|INFO|name=\"",
            "|acl_log(x)|INFO|name=\"a\", verdict=drop, severity=info, direction=to-lport: arp,arp_spa=1.2.3.4",
        ] {
            assert_eq!(Line::parse(text), None, "{text}");
        }
    }
}
