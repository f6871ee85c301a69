//! Netlink notifications of the host, reduced to "something about links, addresses, routes or rules changed". The
//! node's ports, the gateway and the underlay's MTU re-read what they need when it ticks. Changes of pods' own veths are left
//! out: they are ours, frequent, and concern nobody else.

use futures::StreamExt;
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::RouteNetlinkMessage;
use tokio::sync::watch;

use super::NetError;
use super::netlink::link_of;

/// Prefix of the host's end of every pod's veth.
pub const VETH_PREFIX: &str = "nl";
/// Length of such a name: the prefix and twelve hexadecimal digits.
pub const VETH_LENGTH: usize = VETH_PREFIX.len() + 12;

/// Starts listening; the receiver's value counts changes. Returns a future that ends only if the socket fails.
pub fn start() -> Result<(watch::Receiver<u64>, impl Future<Output = anyhow::Error>), NetError> {
    let (connection, _handle, mut messages) = rtnetlink::new_multicast_connection(&[
        MulticastGroup::Link,
        MulticastGroup::Ipv4Ifaddr,
        MulticastGroup::Ipv6Ifaddr,
        MulticastGroup::Ipv4Route,
        MulticastGroup::Ipv6Route,
        MulticastGroup::Ipv4Rule,
        MulticastGroup::Ipv6Rule,
    ])
    .map_err(NetError::io("subscribe to netlink notifications"))?;
    let (ticks, receiver) = watch::channel(0);
    let run = async move {
        // Keeps the connection's command side open as long as we listen.
        let _handle = _handle;
        tokio::spawn(connection);
        while let Some((message, _)) = messages.next().await {
            // An overrun means that notifications were lost: the next reader reads everything anyway.
            if concerns_host(&message.payload) {
                ticks.send_modify(|count| *count += 1);
            }
        }
        anyhow::anyhow!("the netlink notification socket closed")
    };
    Ok((receiver, run))
}

fn concerns_host(payload: &NetlinkPayload<RouteNetlinkMessage>) -> bool {
    match payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link)) => {
            !is_pod_veth(&link_of(link).name)
        }
        _ => true,
    }
}

/// Whether a link name is one of a pod's veths on the host.
pub fn is_pod_veth(name: &str) -> bool {
    name.len() == VETH_LENGTH
        && name
            .strip_prefix(VETH_PREFIX)
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_veths_are_ours() {
        assert!(is_pod_veth("nl0123456789ab"));
        assert!(!is_pod_veth("nl0"));
        assert!(!is_pod_veth("netloom0"));
        assert!(!is_pod_veth("nl0123456789xy"));
    }
}
