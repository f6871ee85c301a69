//! Tells when vswitchd was restarted. A restart may leave every row and every port number as it was, but the flows are
//! gone; what always happens is that the new process creates its management socket for the bridge anew.

use std::path::Path;

use anyhow::Context;
use nix::sys::inotify::AddWatchFlags;

use crate::directory::DirectoryWatch;

/// Watches for the creation of one socket.
pub struct SocketWatch {
    directory: DirectoryWatch,
    name: String,
}

impl SocketWatch {
    /// Watches for `name` in `directory`.
    pub fn new(directory: &Path, name: &str) -> anyhow::Result<Self> {
        let watch = DirectoryWatch::new(directory, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO);
        Ok(Self {
            directory: watch.with_context(|| format!("watch {} for restarts of ovs-vswitchd", directory.display()))?,
            name: name.to_owned(),
        })
    }

    /// Waits until the socket is created. Cancel safe.
    pub async fn created(&mut self) {
        self.directory.changed(|name| name == self.name.as_str()).await;
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
