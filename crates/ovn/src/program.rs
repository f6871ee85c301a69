//! A program in place of this process, or as its child: then it ends when this process is asked to, and this process ends with the same code.

use std::ffi::OsStr;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};
use netloom_ovsdb::client::Tls;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;
use tracing::info;

/// How a program runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// In the foreground, logging to standard error, as a container wants it.
    #[default]
    Foreground,
    /// Detached from whoever started it as soon as it serves, logging to this file, as a machine's init wants it.
    Detached(PathBuf),
}

impl Manner {
    /// The arguments of a daemon of OVS or OVN whose process id is in `RUN/NAME.pid`.
    pub(crate) fn arguments(&self, run: &Path, name: &str) -> Vec<String> {
        let run = run.display();
        let mut arguments = match self {
            Manner::Foreground => ["-vconsole:info", "-vsyslog:off", "-vfile:off"].map(str::to_owned).to_vec(),
            Manner::Detached(log) => {
                let log = format!("--log-file={}", log.display());
                ["--detach", "--no-chdir", &log, "-vconsole:off", "-vsyslog:off", "-vfile:info"]
                    .map(str::to_owned)
                    .to_vec()
            }
        };
        arguments.push(format!("--pidfile={run}/{name}.pid"));
        if *self == Manner::Foreground {
            // Probes of a container cannot know the process id, which is in the name that OVS chooses and its tools look for.
            arguments.push(format!("--unixctl={run}/{name}.ctl"));
        }
        arguments
    }

    /// Whether nothing stays beside the program.
    pub(crate) fn is_detached(&self) -> bool {
        matches!(self, Manner::Detached(_))
    }
}

/// The arguments that name the certificates to a program of OVS or OVN. It reads changed files again by itself.
pub fn certificates(tls: &Tls) -> [String; 3] {
    [
        format!("--private-key={}", tls.key.display()),
        format!("--certificate={}", tls.cert.display()),
        format!("--ca-cert={}", tls.ca.display()),
    ]
}

/// Replaces this process.
pub fn replace<S: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = S>) -> Result<ExitCode> {
    let error = std::process::Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("run {program}; is this the node image?"))
}

/// A running program.
pub struct Child {
    child: tokio::process::Child,
    program: &'static str,
}

impl Child {
    /// Starts it. It does not outlive us unless we are killed.
    pub fn start<S: AsRef<OsStr>>(program: &'static str, arguments: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("run {program}; is this the node image?"))?;
        Ok(Child { child, program })
    }

    /// Its process id, unless it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        self.child.wait().await.with_context(|| format!("wait for {}", self.program))
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        if let Some(id) = self.id().and_then(|id| i32::try_from(id).ok()) {
            kill(Pid::from_raw(id), Signal::SIGTERM).with_context(|| format!("stop {}", self.program))?;
        }
        self.ended().await
    }
}

/// What to exit with after a program has ended by itself.
pub fn code(program: &str, status: ExitStatus) -> ExitCode {
    info!(program, %status, "ended");
    match (status.code(), status.signal()) {
        (Some(0), _) => ExitCode::SUCCESS,
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        (None, signal) => ExitCode::from(128 + u8::try_from(signal.unwrap_or(0)).unwrap_or(0)),
    }
}

/// Runs a tool to its end and gives what it printed.
pub async fn output<S: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = S>) -> Result<String> {
    let arguments: Vec<_> = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
    let mut command = Command::new(program);
    command.args(&arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = command
        .output()
        .await
        .with_context(|| format!("run {program}; is this the node image?"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!(
            "{program} {}: {said} ({})",
            arguments.join(OsStr::new(" ")).display(),
            output.status
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detached_program_logs_to_its_file_alone() {
        let arguments = |manner: Manner| manner.arguments(Path::new("/run/ovn"), "ovn-northd").join(" ");
        let foreground = arguments(Manner::Foreground);
        assert!(
            foreground.contains("-vconsole:info") && foreground.contains("-vfile:off"),
            "{foreground}"
        );
        assert!(foreground.contains("--unixctl=/run/ovn/ovn-northd.ctl"), "{foreground}");
        let detached = arguments(Manner::Detached("/var/log/northd.log".into()));
        assert!(detached.contains("-vconsole:off") && detached.contains("--detach"), "{detached}");
        assert!(detached.contains("--log-file=/var/log/northd.log"), "{detached}");
        assert!(!detached.contains("--unixctl"), "{detached}");
    }
}
