//! A pod's network namespace: made, pinned by a file, and removed again.
//!
//! Namespaces belong to threads, so each is made on a thread that ends afterwards; the kubelet's own threads never leave the node's.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::root::NETWORKS;
use crate::underlay::enter_fresh_namespace;

/// Where the namespace of this sandbox is pinned.
pub fn path(sandbox: &str) -> PathBuf {
    Path::new(NETWORKS).join(sandbox)
}

/// Makes a network namespace with `lo` up and pins it.
pub async fn create(path: PathBuf) -> anyhow::Result<()> {
    on_thread(move || {
        enter_fresh_namespace()?;
        File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        mount(
            Some("/proc/thread-self/ns/net"),
            &path,
            None::<&str>,
            MsFlags::MS_BIND,
            None::<&str>,
        )
        .with_context(|| format!("pinning {}", path.display()))
    })
    .await
}

/// Removes the namespace's pin; one that is gone is no error.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
        Err(error) => return Err(error).with_context(|| format!("unmounting {}", path.display())),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).with_context(|| format!("removing {}", path.display())),
        _ => Ok(()),
    }
}

async fn on_thread(work: impl FnOnce() -> anyhow::Result<()> + Send + 'static) -> anyhow::Result<()> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.await.map_err(|_| anyhow!("the thread making a namespace panicked"))?
}
