//! UDP: each datagram is answered with the identity followed by the datagram.
//!
//! One socket serves every address of the machine or pod, also those that come later; an answer leaves from the very address that was asked,
//! because the kernel tells it with each datagram and is told it with each answer.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd as _;

use anyhow::Context as _;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::Options;

/// The most one datagram can carry over IPv4.
const LARGEST: usize = 65507;

/// A socket for this port of all addresses of both families, or of IPv4 where there is no IPv6.
pub async fn bind(port: u16) -> anyhow::Result<UdpSocket> {
    let socket = match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(socket) => socket,
        Err(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))
            .await
            .with_context(|| format!("listening on udp port {port}"))?,
    };
    if socket.local_addr()?.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)
    } else {
        setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)
    }
    .context("asking for the address a datagram was sent to")?;
    Ok(socket)
}

/// Answers for ever.
pub async fn serve(socket: UdpSocket, options: Options) -> anyhow::Result<()> {
    let mut buffer = vec![0; 65536];
    loop {
        // An earlier answer may have been refused by its receiver; that is not this socket's end.
        let Ok((length, client, asked)) = socket.async_io(Interest::READABLE, || receive(&socket, &mut buffer)).await else {
            continue;
        };
        let mut answer = options.identity(client).into_bytes();
        answer.push(b'\n');
        answer.extend_from_slice(&buffer[..length.min(LARGEST - answer.len())]);
        let _ = socket.async_io(Interest::WRITABLE, || send(&socket, &answer, client, asked)).await;
    }
}

/// One datagram: its length, who sent it, and the address it was sent to.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> std::io::Result<(usize, SocketAddr, Option<IpAddr>)> {
    let mut control = nix::cmsg_space!(libc::in_pktinfo, libc::in6_pktinfo);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())?;
    let asked = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)))),
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr))),
        _ => None,
    });
    let sender = message.address.and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|address| SocketAddr::V4(SocketAddrV4::from(*address)));
        v4.or_else(|| {
            address
                .as_sockaddr_in6()
                .map(|address| SocketAddr::V6(SocketAddrV6::from(*address)))
        })
    });
    let sender = sender.ok_or(std::io::ErrorKind::InvalidData)?;
    Ok((message.bytes, sender, asked))
}

/// Sends an answer from the address that was asked; the way out is the routing's choice.
fn send(socket: &UdpSocket, answer: &[u8], client: SocketAddr, asked: Option<IpAddr>) -> std::io::Result<usize> {
    let (socket, parts) = (socket.as_raw_fd(), [IoSlice::new(answer)]);
    let (v4, v6);
    let control = match asked {
        // A multicast or broadcast address cannot be a source.
        Some(address) if address.is_multicast() => None,
        Some(IpAddr::V4(address)) => {
            v4 = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from(address).to_be(),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            Some(ControlMessage::Ipv4PacketInfo(&v4))
        }
        Some(IpAddr::V6(address)) if !address.is_unicast_link_local() => {
            v6 = libc::in6_pktinfo {
                ipi6_ifindex: 0,
                ipi6_addr: libc::in6_addr { s6_addr: address.octets() },
            };
            Some(ControlMessage::Ipv6PacketInfo(&v6))
        }
        _ => None,
    };
    let control = control.as_slice();
    let sent = match client {
        SocketAddr::V4(client) => sendmsg(socket, &parts, control, MsgFlags::empty(), Some(&SockaddrIn::from(client))),
        SocketAddr::V6(client) => sendmsg(socket, &parts, control, MsgFlags::empty(), Some(&SockaddrIn6::from(client))),
    };
    Ok(sent?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::options;
    use super::*;

    async fn ask(server: SocketAddr, from: &str) -> (String, SocketAddr, SocketAddr) {
        let client = UdpSocket::bind((from, 0)).await.unwrap();
        client.send_to(b"hello", server).await.unwrap();
        let mut buffer = [0; 500];
        let (length, answered) = client.recv_from(&mut buffer).await.unwrap();
        (
            String::from_utf8_lossy(&buffer[..length]).into_owned(),
            answered,
            client.local_addr().unwrap(),
        )
    }

    #[tokio::test]
    async fn answers_come_from_the_address_that_was_asked() {
        let socket = bind(0).await.unwrap();
        let port = socket.local_addr().unwrap().port();
        tokio::spawn(serve(socket, options()));
        for (asked, from) in [("127.0.0.1", "127.0.0.1"), ("127.0.0.77", "127.0.0.1")] {
            let server = SocketAddr::new(asked.parse().unwrap(), port);
            let (text, answered, client) = ask(server, from).await;
            assert_eq!(answered, server);
            assert_eq!(
                text,
                format!("pod: web-0\nnamespace: default\nnode: node1\nclient: {client}\n\nhello")
            );
        }
    }
}
