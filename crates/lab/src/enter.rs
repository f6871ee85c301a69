//! Going into a machine, a pod or a namespace and running a command there.
//!
//! Runs in a process of its own with one thread: a mount namespace cannot be changed otherwise. The library starts such a process
//! (`netloom lab node …`), the command line is one.

use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{chdir, sethostname, setsid};

use crate::root::{NETWORKS, bind_file};

/// Enters every namespace of the process `pid` (a machine's init).
pub fn enter_machine(pid: i32) -> anyhow::Result<()> {
    // All are opened first: after entering the mount namespace, /proc is another one.
    let mut namespaces = Vec::new();
    for (name, kind) in [
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("uts", CloneFlags::CLONE_NEWUTS),
        ("net", CloneFlags::CLONE_NEWNET),
        ("pid", CloneFlags::CLONE_NEWPID),
        ("mnt", CloneFlags::CLONE_NEWNS),
    ] {
        let path = format!("/proc/{pid}/ns/{name}");
        namespaces.push((File::open(&path).with_context(|| format!("opening {path}"))?, kind, name));
    }
    for (file, kind, name) in namespaces {
        setns(file, kind).with_context(|| format!("entering the {name} namespace of process {pid}"))?;
    }
    chdir("/").context("entering the root directory")
}

/// Runs a command with this process's standard streams and returns its exit code.
pub fn run(command: &[String]) -> anyhow::Result<u8> {
    let (program, arguments) = command.split_first().context("no command given")?;
    // The terminal's signals are the command's to handle; children start with a clear mask.
    let mut terminal = SigSet::empty();
    terminal.add(Signal::SIGINT);
    terminal.add(Signal::SIGQUIT);
    terminal.thread_block().context("blocking terminal signals")?;
    let status = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cni/bin")
        .env("HOME", "/root")
        .env("KUBECONFIG", crate::root::KUBECONFIG)
        .status()
        .with_context(|| format!("running {program}"))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(u8::try_from(code).unwrap_or(255))
}

/// Where to run a command inside a machine; the form `netloom lab enter` takes.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Network namespace to enter.
    pub network: Option<PathBuf>,
    /// UTS namespace to enter.
    pub uts: Option<PathBuf>,
    /// Make a UTS namespace with this host name.
    pub hostname: Option<String>,
    /// Start a session of its own.
    pub session: bool,
    /// Controlling terminal of that session.
    pub terminal: Option<PathBuf>,
    /// Working directory.
    pub directory: Option<PathBuf>,
}

/// What of the file system a command sees instead of the machine's own.
#[derive(Debug, Default)]
pub struct Mounts {
    /// Mount namespace to enter.
    pub namespace: Option<PathBuf>,
    /// Make a mount namespace in which the files of this directory lie over those of the same name in `/etc`.
    pub files: Option<PathBuf>,
}

impl Mounts {
    /// Becomes `command` at this place with this view of files; returns only if that fails.
    pub fn become_command(&self, place: &Surroundings, command: &[String]) -> anyhow::Result<std::convert::Infallible> {
        if place.session {
            setsid().context("starting a session")?;
        }
        if let Some(terminal) = &place.terminal {
            // A session leader without a terminal gets the first one it opens.
            File::options()
                .read(true)
                .write(true)
                .open(terminal)
                .with_context(|| format!("opening {}", terminal.display()))?;
        }
        if let Some(path) = &place.network {
            enter_file(path, CloneFlags::CLONE_NEWNET)?;
        }
        if let Some(path) = &place.uts {
            enter_file(path, CloneFlags::CLONE_NEWUTS)?;
        }
        // After those whose files the new view may not have, before the directory, which is one of the new view.
        self.enter()?;
        if let Some(hostname) = &place.hostname {
            unshare(CloneFlags::CLONE_NEWUTS).context("making a UTS namespace")?;
            sethostname(hostname).context("setting the host name")?;
        }
        if let Some(directory) = &place.directory {
            chdir(directory).with_context(|| format!("entering {}", directory.display()))?;
        }
        let (program, arguments) = command.split_first().context("no command given")?;
        Err(Command::new(program).args(arguments).exec()).with_context(|| format!("running {program}"))
    }

    /// Gives this process that view; it must have one thread.
    pub fn enter(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.namespace {
            enter_file(path, CloneFlags::CLONE_NEWNS)?;
        }
        let Some(files) = &self.files else { return Ok(()) };
        unshare(CloneFlags::CLONE_NEWNS).context("making a mount namespace")?;
        // A copy of another pod's pinned network would keep that network alive after its pod.
        match umount2(NETWORKS, MntFlags::MNT_DETACH) {
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(error) => return Err(error).context("letting go of the networks of other pods"),
        }
        for entry in std::fs::read_dir(files).with_context(|| format!("reading {}", files.display()))? {
            let source = entry.with_context(|| format!("reading {}", files.display()))?.path();
            let Some(name) = source.file_name() else { continue };
            bind_file(&source, &Path::new("/etc").join(name))?;
        }
        Ok(())
    }
}

/// Becomes `command` at this place, with the machine's files; returns only if that fails.
pub fn become_command(place: &Surroundings, command: &[String]) -> anyhow::Result<std::convert::Infallible> {
    Mounts::default().become_command(place, command)
}

/// Enters one namespace by its file.
pub fn enter_file(path: &Path, kind: CloneFlags) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    setns(file, kind).with_context(|| format!("entering {}", path.display()))
}
