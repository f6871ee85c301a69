//! Ending a process and knowing that it is gone.
//!
//! A machine's first process takes its whole PID namespace with it; the kernel reports its exit on a pidfd only after every process
//! inside is dead, so waiting here means the machine's sockets, mounts and devices have no user left.

use std::os::fd::AsFd as _;

use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills the process and returns when it has exited; a process that is not there is no error.
pub fn kill_and_wait(pid: i32) -> anyhow::Result<()> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(()) };
    let fd = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("opening process {pid:?}")),
    };
    match pidfd_send_signal(&fd, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(error).with_context(|| format!("killing process {pid:?}")),
    }
    loop {
        let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting for a process to exit"),
        }
    }
}
