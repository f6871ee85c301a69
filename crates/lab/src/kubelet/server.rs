//! `kubectl exec` and `kubectl logs` for this node, on the socket that the API server's part knows.
//!
//! A command runs in the network and UTS namespaces of its container, with the container's environment. When the client leaves, the command ends.

use std::path::PathBuf;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncSeekExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use super::container::{log, parse_id};
use super::exec;
use super::runtime::Runtime;
use crate::files::Watch;
use crate::protocol::ContainerStatus;
use crate::wire::{Ask, Channel, read_frame, socket, write_frame};

/// Serves for ever.
pub async fn run(node: String, runtime: Runtime) -> anyhow::Result<()> {
    let path = socket(&node);
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).with_context(|| format!("listening on {}", path.display()))?;
    loop {
        let (stream, _) = listener.accept().await.context("accepting a connection")?;
        let runtime = runtime.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(stream, &runtime).await {
                tracing::warn!(error = format!("{error:#}"), "exec or logs");
            }
        });
    }
}

async fn serve(stream: UnixStream, runtime: &Runtime) -> anyhow::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    let outcome = match serde_json::from_str(&line).context("understanding a request")? {
        Ask::Exec {
            uid,
            container,
            command,
            stdin,
            tty,
        } => match last_run(runtime, &uid, &container, false) {
            Ok((_, status)) if status.ended.is_none() => exec::run(reader, &mut writer, status.pid, &command, stdin, tty).await,
            Ok(_) => Err(anyhow::anyhow!("container {container} is not running")),
            Err(error) => Err(error),
        },
        Ask::Logs {
            uid,
            container,
            follow,
            tail,
            since,
            timestamps,
            previous,
        } => match last_run(runtime, &uid, &container, previous) {
            Ok((attempt, _)) => {
                let wanted = Wanted {
                    follow,
                    tail,
                    since,
                    timestamps,
                };
                send_log(reader, &mut writer, runtime, (&uid, &container, attempt), &wanted).await
            }
            Err(error) => Err(error),
        },
    };
    if let Err(error) = outcome {
        // Refused if nothing was accepted yet; afterwards the client takes it for the end.
        write_frame(&mut writer, Channel::Refused, format!("{error:#}").as_bytes()).await?;
    }
    Ok(())
}

fn last_run(runtime: &Runtime, uid: &str, container: &str, previous: bool) -> anyhow::Result<(i32, ContainerStatus)> {
    let containers = runtime.watch();
    let all = containers.borrow();
    let mut runs: Vec<_> = all
        .iter()
        .filter_map(|(id, status)| {
            parse_id(id)
                .filter(|(of, name, _)| *of == uid && *name == container)
                .map(|(_, _, attempt)| (attempt, status.clone()))
        })
        .collect();
    runs.sort_by_key(|(attempt, _)| -attempt);
    runs.into_iter().nth(usize::from(previous)).with_context(|| match previous {
        true => format!("previous terminated container {container:?} not found"),
        false => format!("container {container:?} is waiting to start"),
    })
}

struct Wanted {
    follow: bool,
    tail: Option<u64>,
    since: Option<u64>,
    timestamps: bool,
}

async fn send_log(
    mut reader: BufReader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
    runtime: &Runtime,
    (uid, container, attempt): (&str, &str, i32),
    wanted: &Wanted,
) -> anyhow::Result<()> {
    let path: PathBuf = log(uid, container, attempt);
    let changes = Watch::file(&path)?;
    let mut file = BufReader::new(
        tokio::fs::File::open(&path)
            .await
            .with_context(|| format!("opening {}", path.display()))?,
    );
    write_frame(writer, Channel::Accepted, b"").await?;

    let oldest = wanted.since.and_then(|seconds| {
        jiff::Timestamp::now()
            .checked_sub(jiff::SignedDuration::from_secs(i64::try_from(seconds).ok()?))
            .ok()
    });
    let mut lines = entries(&mut file).await?;
    lines.retain(|line| {
        oldest.is_none_or(|oldest| {
            line.split(' ')
                .next()
                .and_then(|time| time.parse::<jiff::Timestamp>().ok())
                .is_none_or(|time| time >= oldest)
        })
    });
    let skip = wanted
        .tail
        .map_or(0, |tail| lines.len().saturating_sub(usize::try_from(tail).unwrap_or(usize::MAX)));
    let mut containers = runtime.watch();
    let mut pending = lines.split_off(skip);
    loop {
        // The end is looked at before the file is read, so nothing written before it is missed.
        let running = containers
            .borrow_and_update()
            .get(&super::container::id(uid, container, attempt))
            .is_some_and(|status| status.ended.is_none());
        pending.extend(entries(&mut file).await?);
        for line in pending.drain(..) {
            write_frame(writer, Channel::Stdout, present(&line, wanted.timestamps).as_bytes()).await?;
        }
        if !wanted.follow || !running {
            return Ok(());
        }
        tokio::select! {
            changed = changes.changed() => changed?,
            _ = containers.changed() => {}
            _ = read_frame(&mut reader) => return Ok(()), // the client went away
        }
    }
}

/// All complete entries from here to the end; an incomplete one is left for the next time.
async fn entries(file: &mut BufReader<tokio::fs::File>) -> anyhow::Result<Vec<String>> {
    let mut entries = Vec::new();
    loop {
        let mut line = Vec::new();
        match read_line(file, &mut line).await? {
            0 => return Ok(entries),
            length if line.last() != Some(&b'\n') => {
                file.seek(std::io::SeekFrom::Current(-i64::try_from(length)?)).await?;
                return Ok(entries);
            }
            _ => entries.push(String::from_utf8_lossy(&line).into_owned()),
        }
    }
}

async fn read_line(file: &mut BufReader<impl AsyncRead + Unpin>, line: &mut Vec<u8>) -> anyhow::Result<usize> {
    file.read_until(b'\n', line).await.context("reading a log")
}

/// `TIME STREAM F TEXT` as kubectl shows it.
fn present(entry: &str, timestamps: bool) -> String {
    let mut fields = entry.splitn(4, ' ');
    let (Some(time), Some(_stream), Some(kind), Some(text)) = (fields.next(), fields.next(), fields.next(), fields.next()) else {
        return entry.into();
    };
    let text = if kind == "P" { text.trim_end_matches('\n') } else { text };
    if timestamps { format!("{time} {text}") } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_as_people_see_them() {
        assert_eq!(present("2026-01-01T00:00:00Z stdout F a b  c\n", false), "a b  c\n");
        assert_eq!(present("2026-01-01T00:00:00Z stdout F a\n", true), "2026-01-01T00:00:00Z a\n");
        assert_eq!(present("2026-01-01T00:00:00Z stdout P part\n", false), "part");
    }
}
