//! Longer receive queues for the userspace datapath. There vswitchd reads devices through packet sockets of the kernel's default length, which
//! three large segments fill (a database that sends its contents to a new client does that), and what arrives meanwhile is lost. Open vSwitch has
//! no setting for it and the default is the whole host's, so the queues are lengthened from outside, each when the switch's database tells that
//! its device was opened.

use std::collections::BTreeSet;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use netloom_ovsdb::client::{Client, MonitorTable, Options};
use netloom_ovsdb::{Event, Remotes};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use tracing::{info, warn};

/// Bytes of packets that may wait for vswitchd at one device.
const LENGTH: usize = 4 << 20;

/// Lengthens the queues of a running vswitchd as it opens them, until it is dropped.
pub async fn lengthen(database: Remotes, switch: u32) {
    let mut options = Options::new(database, "Open_vSwitch");
    // A device is open when it has a number.
    options.monitor = vec![MonitorTable {
        columns: Some(vec!["ofport".to_owned()]),
        ..MonitorTable::all("Interface")
    }];
    let (_client, mut events) = Client::start(options);
    let mut done = BTreeSet::new();
    while let Some(event) = events.recv().await {
        if matches!(event, Event::Snapshot(_) | Event::Update(_))
            && let Err(error) = lengthen_new(switch, &mut done)
        {
            warn!(%error, "cannot lengthen the receive queues of vswitchd: bursts may cost packets");
        }
    }
}

/// Lengthens those that are not in `done`, by their inode, and keeps there what is open now.
fn lengthen_new(switch: u32, done: &mut BTreeSet<u64>) -> Result<()> {
    let open = packet_sockets(switch)?;
    for (descriptor, inode) in open.iter().filter(|(_, inode)| !done.contains(inode)) {
        let socket = borrow(switch, *descriptor)?;
        setsockopt(&socket, sockopt::RcvBufForce, &LENGTH)?;
        info!(inode, bytes = LENGTH, "receive queue lengthened");
    }
    *done = open.into_iter().map(|(_, inode)| inode).collect();
    Ok(())
}

/// The packet sockets of a process: descriptor and inode.
fn packet_sockets(process: u32) -> Result<Vec<(RawFd, u64)>> {
    let directory = Path::new("/proc").join(process.to_string());
    let listed = std::fs::read_to_string(directory.join("net/packet"))?;
    let packet = inodes(&listed);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory.join("fd"))? {
        let entry = entry?;
        let name = entry.file_name();
        let descriptor = name.to_str().and_then(|name| name.parse().ok());
        // One that was closed meanwhile is none.
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let inode = target
            .to_str()
            .and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        if let (Some(descriptor), Some(inode)) = (descriptor, inode)
            && packet.contains(&inode)
        {
            found.push((descriptor, inode));
        }
    }
    Ok(found)
}

/// The last column of `/proc/net/packet`.
fn inodes(listed: &str) -> BTreeSet<u64> {
    let last = |line: &str| line.split_whitespace().last()?.parse().ok();
    listed.lines().skip(1).filter_map(last).collect()
}

/// A descriptor of ours for another process's open file.
#[allow(unsafe_code)]
fn borrow(process: u32, descriptor: RawFd) -> Result<OwnedFd> {
    let owned = |result: libc::c_long| match RawFd::try_from(result) {
        Ok(result) if result >= 0 => {
            // SAFETY: the kernel has just made it for us.
            Ok(unsafe { OwnedFd::from_raw_fd(result) })
        }
        _ => Err(Error::last_os_error()),
    };
    // SAFETY: system calls with plain numbers.
    let handle = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, handle.as_raw_fd(), descriptor, 0) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_lists_inodes_last() {
        let listed = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                      00000000dccc4c98 3      3    0003   8     1 0      0      97564143\n\
                      00000000fda48b64 2      3    0000   0     0 0      0      97564761\n";
        assert_eq!(inodes(listed), [97_564_143, 97_564_761].into());
    }

    #[test]
    fn a_borrowed_descriptor_is_the_same_socket() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let borrowed = borrow(std::process::id(), socket.as_raw_fd()).unwrap();
        let borrowed = std::net::UdpSocket::from(borrowed);
        assert_eq!(borrowed.local_addr().unwrap(), socket.local_addr().unwrap());
        assert!(borrow(std::process::id(), 100_000).is_err());
    }
}
