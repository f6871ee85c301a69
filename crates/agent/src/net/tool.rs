//! Runs a tool that reads its instructions from standard input. They are complete before the tool starts: from a pipe it would take the end of an
//! agent that is killed for the end of its input, and `ovs-ofctl replace-flows` would then remove every flow that it has not read.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::process::{Output, Stdio};

use nix::sys::memfd::{MFdFlags, memfd_create};
use tokio::process::Command;

/// Runs it to its end.
pub async fn run(program: &str, arguments: &[&str], input: &str) -> std::io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(complete(input)?).kill_on_drop(true);
    command.output().await
}

fn complete(input: &str) -> std::io::Result<Stdio> {
    let mut file = File::from(memfd_create("input", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn the_input_is_a_file_that_is_complete() {
        let input = "add table=0,actions=drop\n".repeat(10_000);
        let output = run("sh", &["-c", "[ -f /dev/stdin ] && cat"], &input).await.unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), input);
    }
}
