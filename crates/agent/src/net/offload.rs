//! Transmit checksum offload of a pod's interface. The userspace datapath without TSO reads frames as they are, with
//! checksums nobody has filled in, so the pod must compute them itself. Called once per attachment, inside the pod.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

use super::NetError;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_STXCSUM: u32 = 0x17;

/// `struct ethtool_value` of the kernel.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Turns transmit checksum offload (and with it segmentation offload) off on `ifname`, in the namespace `control` is in.
pub fn disable_transmit_checksum(control: BorrowedFd<'_>, ifname: &str) -> Result<(), NetError> {
    let mut value = EthtoolValue {
        command: ETHTOOL_STXCSUM,
        data: 0,
    };
    // SAFETY: ifreq is plain data for which all zeroes is a valid value.
    #[allow(unsafe_code)]
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (slot, byte) in request.ifr_name.iter_mut().zip(ifname.bytes().take(room)) {
        *slot = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: `request` and the `value` it points to live across the call and have the layout SIOCETHTOOL expects.
    #[allow(unsafe_code)]
    let status = unsafe { libc::ioctl(control.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if status == 0 {
        return Ok(());
    }
    Err(NetError::io(format!("turn off checksum offload of {ifname}"))(
        std::io::Error::last_os_error(),
    ))
}
