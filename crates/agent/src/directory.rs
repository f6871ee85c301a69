//! Tells when something in a directory changes, by inotify. The gateway watches for vswitchd's sockets with it, the
//! installation of the CNI plugin for files that somebody else touches.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

/// A watched directory.
pub struct DirectoryWatch(AsyncFd<Descriptor>);

/// The runtime wants raw descriptors, nix has owned ones.
struct Descriptor(Inotify);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl DirectoryWatch {
    /// Watches `directory` for these kinds of changes.
    pub fn new(directory: &Path, changes: AddWatchFlags) -> std::io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        inotify.add_watch(directory, changes)?;
        // SAFETY: `Descriptor` owns its descriptor and always returns the same one, until it is dropped.
        #[allow(unsafe_code)]
        let registered = unsafe { AsyncFd::register(Descriptor(inotify)) }.map_err(std::io::Error::from)?;
        Ok(Self(registered))
    }

    /// Waits until an entry that `matches` changes. Safe to cancel.
    pub async fn changed(&mut self, matches: impl Fn(&OsStr) -> bool) {
        loop {
            let Ok(mut ready) = self.0.readable().await else {
                return std::future::pending().await;
            };
            let Ok(events) = ready.get_inner().0.read_events() else {
                ready.clear_ready();
                continue;
            };
            // An overflow, or the end of the directory itself, has no name: rather look once too often.
            if events.iter().any(|event| event.name.as_deref().is_none_or(&matches)) {
                return;
            }
        }
    }
}
