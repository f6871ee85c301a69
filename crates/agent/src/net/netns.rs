//! A pod's network namespace, opened once: its file, a netlink socket and a socket for its devices inside it. What has to be done inside is
//! done on a short-lived thread that enters the namespace and ends there, so no thread of the runtime ever changes namespace and none can leak
//! into a pod.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use rtnetlink::sys::{AsyncSocket, TokioSocket, protocols::NETLINK_ROUTE};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::netlink::Netlink;
use super::{NetError, announcement, sysctl};

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
        let file = File::open(path).map_err(NetError::io(format!("open network namespace {}", path.display())))?;
        let open = || Ok((TokioSocket::new(NETLINK_ROUTE)?, announcement::socket()?));
        let sockets = inside(&file, open).await.and_then(|opened: std::io::Result<_>| opened);
        let (netlink, devices) = sockets.map_err(NetError::io(format!("enter network namespace {}", path.display())))?;
        Ok(Self {
            file,
            devices,
            netlink: Netlink::over(netlink),
        })
    }

    /// Sets a kernel setting of the namespace, as `ipv6/conf/default/accept_ra`.
    pub async fn set(&self, name: &'static str, value: &'static str) -> Result<(), NetError> {
        let entered = inside(&self.file, move || sysctl::set(name, value)).await;
        entered.map_err(NetError::io(format!("set net/{name} in a network namespace")))?
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

/// Does something inside a namespace, on a thread that ends there.
async fn inside<T: Send + 'static>(netns: &File, work: impl FnOnce() -> T + Send + 'static) -> std::io::Result<T> {
    let netns = netns.try_clone()?;
    let runtime = Handle::current();
    let (done, result) = oneshot::channel();
    std::thread::Builder::new().name("netns".to_owned()).spawn(move || {
        // A socket registers with the reactor while it is made.
        let _guard = runtime.enter();
        // The receiver is gone only when the request was cancelled; sockets then close here.
        let _ = done.send(
            setns(netns, CloneFlags::CLONE_NEWNET)
                .map_err(std::io::Error::from)
                .map(|()| work()),
        );
    })?;
    result.await.unwrap_or_else(|_| Err(std::io::Error::other("the thread died")))
}
