//! The logs of a lab's parts, read on the host.
//!
//! Every part writes `<machine>/log/<part>.log` below the lab's state directory. Following a file waits for the kernel's word that it grew.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::home::Home;
use crate::spec::{CONTROL, Machine, Spec};

/// Names of all logs, as [`find`] takes them.
pub fn names(home: &Home, spec: &Spec) -> Vec<String> {
    let mut names = Vec::new();
    for machine in spec.machines().iter().map(Machine::name) {
        let entries = fs::read_dir(home.logs(&machine)).into_iter().flatten().flatten();
        let mut parts: Vec<_> = entries
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".log")?.to_string()))
            .collect();
        parts.sort();
        names.extend(parts.into_iter().map(|part| format!("{machine}/{part}")));
    }
    names
}

/// The file of `part`: `machine/part`, or the name of a part of the control machine.
pub fn find(home: &Home, spec: &Spec, part: &str) -> anyhow::Result<PathBuf> {
    let (machine, name) = part.split_once('/').unwrap_or((CONTROL, part));
    let path = home.logs(machine).join(format!("{name}.log"));
    if name.contains('/') || !path.exists() {
        bail!("no log {part:?}; there are:\n  {}", names(home, spec).join("\n  "));
    }
    Ok(path)
}

/// Copies a log to `output`; with `follow`, goes on with what is added until `output` closes.
pub fn copy(path: &std::path::Path, follow: bool, output: &mut impl Write) -> anyhow::Result<()> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let changes = Inotify::init(InitFlags::IN_CLOEXEC).context("watching files")?;
    changes
        .add_watch(path, AddWatchFlags::IN_MODIFY)
        .with_context(|| format!("watching {}", path.display()))?;
    loop {
        if std::io::copy(&mut file, output).and_then(|_| output.flush()).is_err() {
            return Ok(()); // the reader went away
        }
        if !follow {
            return Ok(());
        }
        changes.read_events().context("watching files")?;
    }
}

/// The last lines of a log, for an error message; empty if there are none.
pub fn tail(home: &Home, machine: &str, part: &str) -> String {
    let path = home.logs(machine).join(format!("{part}.log"));
    let read = || -> std::io::Result<String> {
        let mut file = File::open(&path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(8192)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<_> = text.lines().rev().take(15).collect();
    lines.iter().rev().fold(String::new(), |all, line| all + "\n  | " + line)
}
