//! A process of ours, killed when dropped, and what the kernel says it has used.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running program.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a program.
    pub fn start(command: &mut Command) -> Self {
        Self(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    /// The time all its threads have run so far. `/proc/PID/stat` counts it too, but in steps of 10 ms, which is more than most changes take.
    pub fn cpu(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let run = |path: std::path::PathBuf| -> Option<u64> { fs::read_to_string(path).ok()?.split(' ').next()?.parse().ok() };
        let nanoseconds = threads.filter_map(|thread| run(thread.unwrap().path().join("schedstat")));
        Duration::from_nanos(nanoseconds.sum())
    }

    /// Its resident memory in KiB.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
        resident.expect("a running process has memory")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that ended by itself is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
