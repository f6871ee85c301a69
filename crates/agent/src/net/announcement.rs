//! Tells a link that addresses have moved: a gratuitous ARP or an unsolicited neighbour advertisement for each. The gateway tells
//! the wire outside, where OVN would too, but a second later; a pod on a network its neighbours, who may know another at its address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType};

use crate::net::NetError;
use netloom_contract::Mac;

const BROADCAST: [u8; 6] = [0xff; 6];
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const ICMPV6: u8 = 58;

/// Who has an address, in the flags of an advertisement; both override what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A router, as OVN's own answers for external addresses say.
    Router = 0xa0,
    /// A host.
    Host = 0x20,
}

/// A socket that sends frames and receives none.
pub fn socket() -> io::Result<OwnedFd> {
    Ok(nix::sys::socket::socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?)
}

/// Says on the link with this index, in the namespace of `socket`, that `mac` has these addresses.
pub fn announce(socket: BorrowedFd<'_>, index: u32, owner: Owner, mac: Mac, addresses: &[IpAddr]) -> Result<(), NetError> {
    let mut addresses = addresses.iter();
    let sent = addresses.try_for_each(|address| send(socket, index, &frame(owner, mac, *address)));
    sent.map_err(NetError::io(format!("announce {mac}")))
}

fn frame(owner: Owner, mac: Mac, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => gratuitous_arp(mac, address),
        IpAddr::V6(address) => neighbour_advertisement(owner, mac, address),
    }
}

/// A request for the own address, to everyone.
fn gratuitous_arp(mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    // Ethernet, IPv4, lengths 6 and 4, request.
    const HEADER: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    let (mac, address) = (mac.0, address.octets());
    [&BROADCAST[..], &mac, &ETHERTYPE_ARP, &HEADER, &mac, &address, &[0; 6], &address].concat()
}

/// An advertisement nobody asked for, to all nodes.
fn neighbour_advertisement(owner: Owner, mac: Mac, address: Ipv6Addr) -> Vec<u8> {
    let (mac, source, destination) = (mac.0, address.octets(), ALL_NODES.octets());
    let mut message = [&[136, 0, 0, 0, owner as u8, 0, 0, 0][..], &source, &[2, 1], &mac].concat();
    let length = message.len() as u16;
    let pseudo_header = [&source[..], &destination, &u32::from(length).to_be_bytes(), &[0, 0, 0, ICMPV6]].concat();
    let sum = checksum(&[pseudo_header, message.clone()].concat());
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[ICMPV6, 255], &source, &destination].concat();
    [&ALL_NODES_MAC[..], &mac, &ETHERTYPE_IPV6, &header, &message].concat()
}

/// The internet checksum of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.as_chunks::<2>().0;
    let mut sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn send(socket: BorrowedFd<'_>, index: u32, frame: &[u8]) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data for which all zeroes is a valid value.
    #[allow(unsafe_code)]
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    // SAFETY: `frame` and `to` live across the call, and the lengths are theirs.
    #[allow(unsafe_code)]
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const to).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn mac() -> Mac {
        "0a:6c:6f:01:02:03".parse().unwrap()
    }

    #[test]
    fn a_gratuitous_arp_asks_for_its_own_address() {
        #[rustfmt::skip]
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0a, 0x6c, 0x6f, 1, 2, 3, 0x08, 0x06,
            0, 1, 8, 0, 6, 4, 0, 1,
            0x0a, 0x6c, 0x6f, 1, 2, 3, 172, 30, 0, 200,
            0, 0, 0, 0, 0, 0, 172, 30, 0, 200,
        ];
        assert_eq!(frame(Owner::Router, mac(), "172.30.0.200".parse().unwrap()), expected);
    }

    #[test]
    fn a_neighbour_advertisement_has_a_true_checksum() {
        let of_host = frame(Owner::Host, mac(), "fd30::200".parse().unwrap());
        let frame = frame(Owner::Router, mac(), "fd30::200".parse().unwrap());
        assert_eq!((frame[58], of_host[58]), (0xa0, 0x20), "flags");
        assert_eq!(frame.len(), 14 + 40 + 32);
        assert_eq!(frame[..6], ALL_NODES_MAC);
        assert_eq!(frame[14 + 4..14 + 8], [0, 32, 58, 255]);
        let source = "fd30::200".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!((&frame[22..38], &frame[62..78]), (&source[..], &source[..]), "source and target");
        assert_eq!(frame[78..], [2, 1, 0x0a, 0x6c, 0x6f, 1, 2, 3]);
        // Over pseudo header and message, a checksum that is right adds up to nothing.
        let covered = [&frame[22..54], &[0, 0, 0, 32, 0, 0, 0, 58], &frame[54..]].concat();
        assert_eq!(checksum(&covered), 0);
    }
}
