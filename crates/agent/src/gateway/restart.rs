//! Tells when vswitchd was restarted. A restart may leave every row and every port number as it was, but the flows are
//! gone; what always happens is that the new process creates its management socket for the bridge anew.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;

use anyhow::Context;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

/// Watches for the creation of one socket.
pub struct SocketWatch {
    notifications: AsyncFd<Descriptor>,
    name: String,
}

/// The runtime wants raw descriptors, nix has owned ones.
struct Descriptor(Inotify);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl SocketWatch {
    /// Watches for `name` in `directory`.
    pub fn new(directory: &Path, name: &str) -> anyhow::Result<Self> {
        let watch = || -> anyhow::Result<AsyncFd<Descriptor>> {
            let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
            inotify.add_watch(directory, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO)?;
            // SAFETY: `Descriptor` owns its descriptor and always returns the same one, until it is dropped.
            #[allow(unsafe_code)]
            let registered = unsafe { AsyncFd::register(Descriptor(inotify)) }?;
            Ok(registered)
        };
        let notifications = watch().with_context(|| format!("watch {} for restarts of ovs-vswitchd", directory.display()))?;
        Ok(Self {
            notifications,
            name: name.to_owned(),
        })
    }

    /// Waits until the socket is created. Cancel safe.
    pub async fn created(&mut self) {
        loop {
            let Ok(mut ready) = self.notifications.readable().await else {
                return std::future::pending().await;
            };
            let events = match ready.get_inner().0.read_events() {
                Ok(events) => events,
                Err(_) => {
                    ready.clear_ready();
                    continue;
                }
            };
            let ours = |name: &Option<std::ffi::OsString>| name.as_ref().is_some_and(|name| name == self.name.as_str());
            // An overflow has no name: rather program once too often.
            if events
                .iter()
                .any(|event| ours(&event.name) || event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW))
            {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn only_the_socket_counts() {
        let directory = tempfile::tempdir().unwrap();
        let mut watch = SocketWatch::new(directory.path(), "br-ex.mgmt").unwrap();
        std::fs::write(directory.path().join("other"), "").unwrap();
        let other = tokio::time::timeout(std::time::Duration::from_millis(50), watch.created()).await;
        assert!(other.is_err());
        std::fs::write(directory.path().join("br-ex.mgmt"), "").unwrap();
        watch.created().await;
    }
}
