//! Where a lab keeps its files on the host, and the one record (`lab.json`) that says what it is.
//!
//! `/var/lib/netloom/<lab>` survives power-cycles and reboots of the host; `/run/netloom/<lab>` lives as long as the lab runs.
//! `lab down` removes both; nothing else of the host's file system is written.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::spec::Spec;

/// The directories of one lab.
#[derive(Debug, Clone)]
pub struct Home {
    state: PathBuf,
    run: PathBuf,
}

/// What must stay the same over restarts of a lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// What was asked for, with `auto` resolved.
    pub spec: Spec,
    /// Port of the API server on the host's loopback.
    pub api_port: u16,
    /// Bearer token of the API server.
    pub token: String,
}

impl Home {
    /// The directories of the lab with this name; nothing is created.
    pub fn of(name: &str) -> Self {
        Home {
            state: Path::new("/var/lib/netloom").join(name),
            run: Path::new("/run/netloom").join(name),
        }
    }

    /// Names of all labs that left a record on this machine.
    pub fn all() -> Vec<String> {
        let Ok(entries) = fs::read_dir("/var/lib/netloom") else {
            return Vec::new();
        };
        let mut names: Vec<_> = entries
            .flatten()
            .filter(|entry| entry.path().join("lab.json").exists())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Directory of everything that survives a restart.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Directory of everything that does not.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Files of one machine: overlay directories and logs.
    pub fn machine(&self, machine: &str) -> PathBuf {
        self.state.join("machines").join(machine)
    }

    /// Log files of one machine's parts.
    pub fn logs(&self, machine: &str) -> PathBuf {
        self.machine(machine).join("log")
    }

    /// What the machine's own init says, outside any part.
    pub fn init_log(&self, machine: &str) -> PathBuf {
        self.logs(machine).join("init.log")
    }

    /// Directory of sockets shared by all machines and the host.
    pub fn sockets(&self) -> PathBuf {
        self.run.join("sockets")
    }

    /// The socket of a machine's init.
    pub fn init_socket(&self, machine: &str) -> PathBuf {
        self.sockets().join(format!("{machine}.sock"))
    }

    /// The pinned network namespace of the control machine, which holds the underlay bridge.
    pub fn underlay(&self) -> PathBuf {
        self.run.join("underlay")
    }

    /// The kubeconfig for people on the host.
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig")
    }

    /// The kubeconfig the machines use.
    pub fn inner_kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig.machines")
    }

    /// Reads the record; `None` if there is no such lab.
    pub fn load(&self) -> anyhow::Result<Option<Record>> {
        let path = self.state.join("lab.json");
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("reading {}", path.display()))
                .map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Writes the record.
    pub fn save(&self, record: &Record) -> anyhow::Result<()> {
        write_private(&self.state.join("lab.json"), &serde_json::to_vec_pretty(record)?)
    }
}

/// Writes a file that only root may read, whole or not at all.
pub fn write_private(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let aside = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&aside)?;
        file.write_all(content)?;
        fs::rename(&aside, path)
    };
    write().with_context(|| format!("writing {}", path.display()))
}
