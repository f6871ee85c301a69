//! Running commands where a machine or a pod runs, for tests and scripts.
//!
//! Each command goes through the `netloom` binary in a process of its own, because a test program has threads and cannot enter namespaces.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::spec::Spec;

/// A place to run commands.
#[derive(Debug, Clone)]
pub struct Shell<'a> {
    spec: &'a Spec,
    verb: &'static str,
    place: String,
    /// Words before every command.
    prefix: Vec<String>,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; 128 + N if signal N ended it.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it printed to standard error.
    pub stderr: String,
}

impl Output {
    /// Whether it succeeded.
    pub fn success(&self) -> bool {
        self.code == 0
    }
}

impl<'a> Shell<'a> {
    pub(crate) fn machine(spec: &'a Spec, name: &str) -> Self {
        Shell {
            spec,
            verb: "node",
            place: name.into(),
            prefix: Vec::new(),
        }
    }

    pub(crate) fn pod(spec: &'a Spec, namespace: &str, name: &str) -> Self {
        Shell {
            spec,
            verb: "pod",
            place: format!("{namespace}/{name}"),
            prefix: Vec::new(),
        }
    }

    /// The same place in another network namespace, by its file there.
    pub fn in_namespace(mut self, file: &str) -> Self {
        self.prefix = vec!["nsenter".to_owned(), format!("--net={file}")];
        self
    }

    /// Runs a command that should succeed and returns what it printed.
    pub fn run(&self, command: &[&str]) -> anyhow::Result<String> {
        self.run_with_input(command, "")
    }

    /// Like [`Shell::run`], for owned words.
    pub fn run_words(&self, command: &[String]) -> anyhow::Result<String> {
        self.run(&command.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Runs a command that reads `input` and should succeed.
    pub fn run_with_input(&self, command: &[&str], input: &str) -> anyhow::Result<String> {
        let output = self.output(command, input)?;
        if !output.success() {
            bail!(
                "`{}` in {} failed with code {}: {}{}",
                command.join(" "),
                self.place,
                output.code,
                output.stdout,
                output.stderr.trim()
            );
        }
        Ok(output.stdout)
    }

    /// Runs a command that may fail.
    pub fn try_run(&self, command: &[&str]) -> anyhow::Result<Output> {
        self.output(command, "")
    }

    /// Starts a command in the background, its output dropped; kill the child to end it.
    pub fn spawn(&self, command: &[&str]) -> anyhow::Result<std::process::Child> {
        self.command(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {command:?} in {}", self.place))
    }

    /// Output goes to memory files, not pipes: what a command leaves running in the background may keep them open without being waited for.
    fn output(&self, command: &[&str], input: &str) -> anyhow::Result<Output> {
        let (stdout, stderr) = (memory_file()?, memory_file()?);
        let mut child = self
            .command(command)
            .stdin(Stdio::piped())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .spawn()
            .with_context(|| format!("running {}", self.spec.binary.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that does not read its input is fine.
            let _ = stdin.write_all(input.as_bytes());
        }
        let status = child.wait().with_context(|| format!("waiting for {command:?}"))?;
        Ok(Output {
            code: status.code().unwrap_or(255),
            stdout: content(&stdout)?,
            stderr: content(&stderr)?,
        })
    }

    fn command(&self, command: &[&str]) -> Command {
        let mut process = Command::new(&self.spec.binary);
        process
            .args(["lab", self.verb, "--name", &self.spec.name, &self.place, "--"])
            .args(&self.prefix)
            .args(command);
        process
    }
}

fn memory_file() -> anyhow::Result<File> {
    Ok(memfd_create("output", MFdFlags::MFD_CLOEXEC)
        .context("making a memory file")?
        .into())
}

/// Read through a description of its own: somebody may still be writing through the other.
fn content(file: &File) -> anyhow::Result<String> {
    let bytes = std::fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).context("reading a command's output")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
