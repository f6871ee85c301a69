//! The node image, for tests that run programs of it without a node. Included by path, because tests of several crates do.

use std::path::PathBuf;
use std::process::Command;

/// Where it is.
pub fn image() -> PathBuf {
    let image = std::env::var_os("NETLOOM_IMAGE").unwrap_or_else(|| "/var/cache/netloom/image/rootfs".into());
    let image = PathBuf::from(image);
    assert!(
        image.join("usr/bin/ovn-controller").exists(),
        "no node image at {}: run `make rootfs` first",
        image.display()
    );
    image
}

/// A program of it, run with its own loader and libraries: the host may be older or have none of it.
#[allow(dead_code)] // not everybody runs one
pub fn program(path: &str) -> Command {
    let image = image();
    let libraries = format!("{0}/usr/lib/x86_64-linux-gnu:{0}/lib/x86_64-linux-gnu", image.display());
    let mut command = Command::new(image.join("lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(libraries).arg(image.join(path));
    command
}
