//! One command in a running container, with pipes or on a terminal, its streams carried in frames.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;

use anyhow::Context as _;
use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::root::NETLOOM;
use crate::wire::{Channel, read_frame, write_frame};

/// A piece of output on its way to the client; an empty one says that the stream ended.
type Piece = (Channel, Vec<u8>);

/// Runs `command` in the container whose process is `pid` until it ends or the client leaves.
pub async fn run(
    frames: BufReader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
    pid: i32,
    command: &[String],
    stdin: bool,
    tty: bool,
) -> anyhow::Result<()> {
    let mut process = Command::new(NETLOOM);
    process.args([
        "lab",
        "enter",
        "--session",
        "--network",
        &format!("/proc/{pid}/ns/net"),
        "--uts",
        &format!("/proc/{pid}/ns/uts"),
        "--mounts",
        &format!("/proc/{pid}/ns/mnt"),
    ]);
    let environment = std::fs::read(format!("/proc/{pid}/environ")).context("reading the container's environment")?;
    let variables = environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='));
    process.env_clear().envs(variables);
    let terminal = if tty { Some(terminal()?) } else { None };
    let streams = match &terminal {
        Some((_, path)) => {
            let side = || {
                File::options()
                    .read(true)
                    .write(true)
                    .custom_flags(OFlag::O_NOCTTY.bits())
                    .open(path)
            };
            process.env("TERM", "xterm").args(["--terminal", path]);
            process.stdin(side()?).stdout(side()?).stderr(side()?);
            1
        }
        None => {
            process
                .stdin(if stdin { Stdio::piped() } else { Stdio::null() })
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            2
        }
    };
    process.arg("--").args(command);
    let mut child = process.spawn().context("starting the command")?;
    drop(process); // holds the command's side of the terminal
    write_frame(writer, Channel::Accepted, b"").await?;

    let (pieces, output) = mpsc::channel::<Piece>(16);
    let input: Option<Box<dyn AsyncWrite + Send + Unpin>> = match &terminal {
        Some((master, _)) => {
            let reading = File::from(master.as_fd().try_clone_to_owned()?);
            std::thread::spawn(move || read_terminal(reading, &pieces));
            Some(Box::new(tokio::fs::File::from_std(File::from(
                master.as_fd().try_clone_to_owned()?,
            ))))
        }
        None => {
            tokio::spawn(forward(child.stdout.take(), Channel::Stdout, pieces.clone()));
            tokio::spawn(forward(child.stderr.take(), Channel::Stderr, pieces));
            child
                .stdin
                .take()
                .map(|stdin| Box::new(stdin) as Box<dyn AsyncWrite + Send + Unpin>)
        }
    };
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let client = tokio::spawn(follow_client(frames, input, terminal.map(|(master, _)| master)));
    let outcome = tokio::select! {
        sent = send_output(writer, output, streams, &mut child) => sent,
        _ = client_left(client) => Ok(()),
    };
    if let (Some(group), Ok(None)) = (group, child.try_wait()) {
        let _ = kill(Pid::from_raw(-group), Signal::SIGKILL);
        let _ = child.wait().await;
    }
    outcome
}

async fn send_output(
    writer: &mut OwnedWriteHalf,
    mut output: mpsc::Receiver<Piece>,
    streams: usize,
    child: &mut tokio::process::Child,
) -> anyhow::Result<()> {
    let mut open = streams;
    let mut ended = None;
    while open > 0 {
        tokio::select! {
            biased;
            piece = output.recv() => match piece {
                Some((_, bytes)) if bytes.is_empty() => open -= 1,
                Some((channel, bytes)) => write_frame(writer, channel, &bytes).await?,
                None => break,
            },
            // Something it left behind may keep the streams open; what it wrote itself came before.
            status = child.wait(), if ended.is_none() => ended = Some(status.context("waiting for the command")?),
        }
    }
    let status = match ended {
        Some(status) => status,
        None => child.wait().await.context("waiting for the command")?,
    };
    let code = std::os::unix::process::ExitStatusExt::signal(&status).map_or(status.code().unwrap_or(255), |signal| 128 + signal);
    write_frame(writer, Channel::Exit, code.to_string().as_bytes()).await?;
    Ok(())
}

async fn forward(stream: Option<impl AsyncRead + Unpin>, channel: Channel, pieces: mpsc::Sender<Piece>) {
    if let Some(mut stream) = stream {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            if pieces.send((channel, buffer[..length].to_vec())).await.is_err() {
                return;
            }
        }
    }
    let _ = pieces.send((channel, Vec::new())).await;
}

/// A terminal's reading end says "input/output error" when the last process on it ended.
fn read_terminal(mut master: File, pieces: &mpsc::Sender<Piece>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = master.read(&mut buffer) {
        if pieces.blocking_send((Channel::Stdout, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
    let _ = pieces.blocking_send((Channel::Stdout, Vec::new()));
}

/// Carries input and terminal sizes; returns when the client closed the connection.
async fn follow_client(
    mut frames: BufReader<OwnedReadHalf>,
    mut input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    terminal: Option<PtyMaster>,
) {
    while let Ok(Some((channel, bytes))) = read_frame(&mut frames).await {
        match channel {
            // On a terminal, end of input is a character, not a closed stream.
            Channel::Stdin if bytes.is_empty() && terminal.is_some() => {}
            Channel::Stdin if bytes.is_empty() => input = None,
            Channel::Stdin => {
                if let Some(stream) = &mut input
                    && (stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err())
                {
                    input = None; // the command does not read any more, which is its right
                }
            }
            Channel::Resize => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if let (Some(master), Some((columns, rows))) = (
                    &terminal,
                    text.split_once(' ')
                        .and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?))),
                ) {
                    let _ = rustix::termios::tcsetwinsize(
                        master,
                        rustix::termios::Winsize {
                            ws_col: columns,
                            ws_row: rows,
                            ws_xpixel: 0,
                            ws_ypixel: 0,
                        },
                    );
                }
            }
            _ => {}
        }
    }
}

async fn client_left(client: tokio::task::JoinHandle<()>) {
    let _ = client.await;
}

fn terminal() -> anyhow::Result<(PtyMaster, String)> {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).context("opening a terminal")?;
    grantpt(&master).context("granting a terminal")?;
    unlockpt(&master).context("unlocking a terminal")?;
    let path = ptsname_r(&master).context("naming a terminal")?;
    Ok((master, path))
}
