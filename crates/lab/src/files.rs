//! Waiting for a file or directory to change, in async code.
//!
//! A change between making the [`Watch`] and waiting is not lost; several changes may be reported as one.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::Context as _;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::net::unix::pipe;

/// A watch of one path.
pub struct Watch {
    // An inotify descriptor is read like a pipe, so the runtime's pipe serves.
    events: pipe::Receiver,
}

impl Watch {
    /// Watches a directory for files that come and go.
    pub fn directory(path: &Path) -> anyhow::Result<Self> {
        Watch::new(
            path,
            AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_TO,
        )
    }

    /// Watches a file for what is written to it.
    pub fn file(path: &Path) -> anyhow::Result<Self> {
        Watch::new(path, AddWatchFlags::IN_MODIFY)
    }

    fn new(path: &Path, events: AddWatchFlags) -> anyhow::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).context("watching files")?;
        inotify
            .add_watch(path, events)
            .with_context(|| format!("watching {}", path.display()))?;
        let events = pipe::Receiver::from_file_unchecked(File::from(OwnedFd::from(inotify))).context("watching files")?;
        Ok(Watch { events })
    }

    /// Returns when something changed.
    pub async fn changed(&self) -> anyhow::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            self.events.readable().await.context("waiting for files")?;
            // Which change it was does not matter: the caller looks at the state.
            match self.events.try_read(&mut buffer) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("reading changes of files"),
            }
        }
    }
}
