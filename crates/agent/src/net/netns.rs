//! A pod's network namespace, opened once: its file, a netlink socket and a socket for its devices inside it. The sockets are
//! made on a short-lived thread that enters the namespace and ends there, so no thread of the runtime ever changes
//! namespace and none can leak into a pod.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use rtnetlink::sys::{AsyncSocket, TokioSocket, protocols::NETLINK_ROUTE};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::netlink::Netlink;
use super::{NetError, announcement};

/// An open network namespace.
#[derive(Debug)]
pub struct Netns {
    file: File,
    devices: OwnedFd,
    /// Links, addresses and routes inside the namespace.
    pub netlink: Netlink,
}

impl Netns {
    /// Opens the namespace at `path`.
    pub async fn open(path: &Path) -> Result<Self, NetError> {
        let operation = format!("enter network namespace {}", path.display());
        let file = File::open(path).map_err(NetError::io(format!("open network namespace {}", path.display())))?;
        let inside = file.try_clone().map_err(NetError::io(&operation))?;
        let runtime = Handle::current();
        let (done, opened) = oneshot::channel();
        std::thread::Builder::new()
            .name("netns".to_owned())
            .spawn(move || {
                // The netlink socket registers with the reactor while it is made.
                let _guard = runtime.enter();
                // The receiver is gone only when the request was cancelled; the sockets then close here.
                let _ = done.send(open_sockets(&inside));
            })
            .map_err(NetError::io(&operation))?;
        let sockets = opened.await.unwrap_or_else(|_| Err(std::io::Error::other("the thread died")));
        let (netlink, devices) = sockets.map_err(NetError::io(operation))?;
        Ok(Self {
            file,
            devices,
            netlink: Netlink::over(netlink),
        })
    }

    /// The namespace's descriptor, to create links in it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// A socket inside the namespace, for frames to send and for the settings of devices.
    pub fn devices(&self) -> BorrowedFd<'_> {
        self.devices.as_fd()
    }
}

fn open_sockets(netns: &File) -> std::io::Result<(TokioSocket, OwnedFd)> {
    setns(netns, CloneFlags::CLONE_NEWNET)?;
    Ok((TokioSocket::new(NETLINK_ROUTE)?, announcement::socket()?))
}
