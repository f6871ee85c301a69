//! Room for the machines' overlays: the state directory, or a memory file system where the state directory cannot hold them.
//!
//! An overlay's upper directory may not lie inside its lower one, which it would when the image is the host's own root (a virtual machine
//! that boots from the node image). Then the machines' files live in memory as long as the lab runs, and power-cycles still find them.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::home::Home;

/// Makes the directory of the machines' files usable with this image.
pub fn prepare(home: &Home, image: &Path) -> anyhow::Result<()> {
    let machines = home.state().join("machines");
    let fresh = !machines.exists();
    fs::create_dir_all(&machines).with_context(|| format!("creating {}", machines.display()))?;
    let image = image.canonicalize().with_context(|| format!("finding {}", image.display()))?;
    if fresh && machines.starts_with(&image) {
        mount(Some("tmpfs"), &machines, Some("tmpfs"), MsFlags::empty(), Some("mode=755"))
            .with_context(|| format!("mounting memory on {}", machines.display()))?;
    }
    Ok(())
}

/// Undoes [`prepare`].
pub fn release(home: &Home) -> anyhow::Result<()> {
    match umount2(&home.state().join("machines"), MntFlags::MNT_DETACH) {
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => Ok(()),
        Err(error) => Err(error).context("unmounting the machines' files"),
    }
}
