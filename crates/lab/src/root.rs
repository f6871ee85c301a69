//! A machine's own file system: an overlay over the image, its own /proc, /sys, /dev and /run, and nothing of the host's.
//!
//! Called once by a machine's first process, already in its own mount namespace. Writes go to the overlay's upper directory, so files
//! survive a power-cycle; /run does not, as on a real machine. The host's mounts are gone from view when [`enter`] returns.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Context as _;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root, sethostname};

use crate::home::Home;

/// Where the shared directory of sockets appears in every machine.
pub const SOCKETS: &str = "/run/netloom/lab";
/// Where a machine's logs appear in it.
pub const LOGS: &str = "/var/log/netloom";
/// Tells one power-on of a machine from the next.
pub const BOOT_ID: &str = "/run/netloom/boot-id";
/// The kubeconfig of the machine's parts.
pub const KUBECONFIG: &str = "/etc/netloom/kubeconfig";
/// The `netloom` binary in a machine.
pub const NETLOOM: &str = "/usr/bin/netloom";
/// Directory of CNI plugins in a machine.
pub const CNI_BIN: &str = "/opt/cni/bin";

/// Where pods' network namespaces are pinned.
pub const NETWORKS: &str = "/run/netns";

/// What tells a kubelet to call our CNI plugin.
const NETWORK_LIST: &str = r#"{
  "cniVersion": "1.1.0",
  "name": "netloom",
  "plugins": [{"type": "netloom-cni", "capabilities": {"portMappings": true}}]
}
"#;

/// Builds the root of `machine` and makes it this process's root.
pub fn enter(home: &Home, machine: &str, image: &Path, binary: &Path) -> anyhow::Result<()> {
    // Nothing mounted here may reach the host, and nothing the host mounts may reach here.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).context("making mounts private")?;
    let files = home.machine(machine);
    let root = files.join("root");
    for directory in ["root", "upper", "work", "log"] {
        let path = files.join(directory);
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
    }
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        image.display(),
        files.join("upper").display(),
        files.join("work").display()
    );
    mount(Some("overlay"), &root, Some("overlay"), MsFlags::empty(), Some(layers.as_str()))
        .with_context(|| format!("mounting the overlay of {machine} over image {}", image.display()))?;

    mount_fresh("proc", &root.join("proc"), "")?;
    mount_fresh("sysfs", &root.join("sys"), "")?;
    mount_fresh("tmpfs", &root.join("run"), "mode=755")?;
    mount_fresh("tmpfs", &root.join("tmp"), "mode=1777")?;
    devices(&root.join("dev"))?;

    bind(&home.sockets(), &root.join(&SOCKETS[1..]))?;
    bind(&home.logs(machine), &root.join(&LOGS[1..]))?;
    bind_file(binary, &root.join(&NETLOOM[1..]))?;
    let plugin = binary.with_file_name("netloom-cni");
    if plugin.exists() {
        bind_file(&plugin, &root.join(&CNI_BIN[1..]).join("netloom-cni"))?;
    }
    bind_file(&home.inner_kubeconfig(), &root.join(&KUBECONFIG[1..]))?;
    write(&root.join("etc/cni/net.d/10-netloom.conflist"), NETWORK_LIST)?;
    write(&root.join("etc/hostname"), &format!("{machine}\n"))?;
    for directory in ["run/netns", "run/openvswitch", "run/ovn", "run/lock"] {
        fs::create_dir_all(root.join(directory)).with_context(|| format!("creating /{directory}"))?;
    }
    // Pods' namespaces are bound here; the directory must be a mount of its own to be seen by everyone in the machine.
    let networks = root.join(&NETWORKS[1..]);
    bind(&networks, &networks)?;

    // With the old root stacked under the new one, detaching the top leaves only the machine's own mounts.
    chdir(&root)?;
    pivot_root(".", ".").context("pivot_root")?;
    umount2(".", MntFlags::MNT_DETACH).context("detaching the host's root")?;
    chdir("/")?;
    sethostname(machine).context("setting the host name")?;
    Ok(())
}

fn mount_fresh(kind: &str, target: &Path, options: &str) -> anyhow::Result<()> {
    fs::create_dir_all(target).with_context(|| format!("creating {}", target.display()))?;
    mount(Some(kind), target, Some(kind), MsFlags::MS_NOSUID, Some(options))
        .with_context(|| format!("mounting {kind} on {}", target.display()))
}

fn devices(dev: &Path) -> anyhow::Result<()> {
    mount_fresh("tmpfs", dev, "mode=755")?;
    for name in ["null", "zero", "full", "random", "urandom", "tty", "net/tun"] {
        let host = Path::new("/dev").join(name);
        if host.exists() {
            bind_file(&host, &dev.join(name))?;
        }
    }
    mount_fresh("devpts", &dev.join("pts"), "newinstance,ptmxmode=0666,mode=620")?;
    mount_fresh("tmpfs", &dev.join("shm"), "mode=1777")?;
    for (target, link) in [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ] {
        symlink(target, dev.join(link)).with_context(|| format!("linking /dev/{link}"))?;
    }
    Ok(())
}

fn bind(source: &Path, target: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(target).with_context(|| format!("creating {}", target.display()))?;
    mount(Some(source), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("binding {} to {}", source.display(), target.display()))
}

/// Lays one file over another, which is made if it is not there.
pub fn bind_file(source: &Path, target: &Path) -> anyhow::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    if fs::symlink_metadata(target).is_err() {
        fs::write(target, "").with_context(|| format!("creating {}", target.display()))?;
    }
    mount(Some(source), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("binding {} to {}", source.display(), target.display()))
}

/// Writes a file of the machine, making its directory.
fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}
