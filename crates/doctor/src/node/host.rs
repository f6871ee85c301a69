//! Reads the kernel: its release, modules, settings, devices files, and the free space of the disk. Called by `gather`. A file that
//! is not there is a fact, not an error.

use std::collections::BTreeMap;
use std::path::Path;

use crate::unseen::{Seen, Unseen};

/// Where Netloom keeps what must survive a restart.
pub const DATA: &str = "/var/lib/netloom";
/// Settings that matter, under /proc/sys/net.
const SETTINGS: &[&str] = &[
    "ipv4/ip_forward",
    "ipv6/conf/all/forwarding",
    "ipv6/conf/all/disable_ipv6",
    "ipv4/conf/all/rp_filter",
    "ipv4/conf/netloom0/rp_filter",
    "ipv4/conf/netloom1/rp_filter",
    "ipv4/conf/netloom0/forwarding",
    "ipv4/conf/netloom1/forwarding",
    "netfilter/nf_conntrack_max",
    "netfilter/nf_conntrack_count",
];

/// A kernel module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// At work.
    Loaded,
    /// There, for whoever loads it.
    Loadable,
    /// Not part of this kernel.
    Absent,
    /// /lib/modules of this kernel is not visible here.
    Unknown,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// As `uname -r`.
    pub release: String,
    /// Of Open vSwitch's datapath.
    pub openvswitch: Module,
    /// Of the tunnels.
    pub geneve: Module,
    /// Settings under /proc/sys/net that exist.
    pub settings: BTreeMap<String, String>,
    /// Whether /dev/net/tun is there.
    pub tun: bool,
    /// Free and total bytes where Netloom keeps its data.
    pub disk: Seen<(u64, u64)>,
}

/// This host's name, as the kubelet would use it.
pub fn name() -> nix::Result<String> {
    Ok(nix::unistd::gethostname()?.to_string_lossy().to_lowercase())
}

/// Reads it all.
pub async fn read() -> Host {
    let release = nix::sys::utsname::uname()
        .map(|uname| uname.release().to_string_lossy().into_owned())
        .unwrap_or_default();
    let settings = SETTINGS.iter().filter_map(|name| {
        let value = std::fs::read_to_string(Path::new("/proc/sys/net").join(name)).ok()?;
        Some(((*name).to_owned(), value.trim().to_owned()))
    });
    Host {
        openvswitch: module(&release, "openvswitch"),
        geneve: module(&release, "geneve"),
        settings: settings.collect(),
        tun: Path::new("/dev/net/tun").exists(),
        disk: disk(Path::new(DATA)),
        release,
    }
}

fn module(release: &str, name: &str) -> Module {
    if Path::new("/sys/module").join(name).exists() {
        return Module::Loaded;
    }
    let directory = Path::new("/lib/modules").join(release);
    let list = |file: &str| std::fs::read_to_string(directory.join(file));
    let has = |text: &str| lists(text, name);
    match (list("modules.builtin"), list("modules.dep")) {
        (Ok(text), _) if has(&text) => Module::Loaded,
        (_, Ok(text)) if has(&text) => Module::Loadable,
        (Err(_), Err(_)) => Module::Unknown,
        _ => Module::Absent,
    }
}

/// Whether a list of modules, one path a line, has this one.
fn lists(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let path = line.split(':').next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        file.split_once(".ko").is_some_and(|(module, _)| module == name)
    })
}

fn disk(path: &Path) -> Seen<(u64, u64)> {
    // The directory may not be there yet; its file system is that of the nearest one that is.
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let seen = nix::sys::statvfs::statvfs(there).map_err(Unseen::error)?;
    let size = seen.fragment_size();
    Ok((seen.blocks_available() * size, seen.blocks() * size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_by_its_whole_name() {
        let dep = "kernel/net/openvswitch/vport-geneve.ko.xz: kernel/net/openvswitch/openvswitch.ko.xz\nkernel/drivers/net/geneve.ko: kernel/x.ko\n";
        assert!(lists(dep, "geneve"));
        assert!(lists(dep, "vport-geneve"));
        assert!(!lists(dep, "openvswitch"), "it is only a dependency here");
    }

    #[test]
    fn a_directory_that_is_not_there_has_the_disk_of_its_parent() {
        let (free, total) = disk(Path::new("/tmp/not/there/at/all")).unwrap();
        assert!(free <= total && total > 0);
    }
}
