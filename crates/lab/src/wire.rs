//! How the API server's part and the kubelets talk about `exec` and `logs`: a JSON request line, then frames both ways.
//!
//! A frame is a channel byte, a length (four bytes, big endian) and that many bytes. The socket is in the directory that all machines share.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::root::SOCKETS;

/// The socket of a node's kubelet, as seen in every machine.
pub fn socket(node: &str) -> PathBuf {
    Path::new(SOCKETS).join(format!("{node}-kubelet.sock"))
}

/// The first line of a connection.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// Run a command in a container.
    Exec {
        /// UID of the pod.
        uid: String,
        /// Name of the container.
        container: String,
        /// Program and arguments.
        command: Vec<String>,
        /// Whether input will come.
        stdin: bool,
        /// Whether to run it on a terminal.
        tty: bool,
    },
    /// Read a container's log.
    Logs {
        /// UID of the pod.
        uid: String,
        /// Name of the container.
        container: String,
        /// Go on as it grows.
        follow: bool,
        /// Only so many lines from the end.
        tail: Option<u64>,
        /// Only entries younger than this many seconds.
        since: Option<u64>,
        /// Start each line with its time.
        timestamps: bool,
        /// The log of the run before this one.
        previous: bool,
    },
}

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// Input of the command; empty means end of file.
    Stdin = 0,
    /// Output.
    Stdout = 1,
    /// Error output.
    Stderr = 2,
    /// Exit code as text; the last frame.
    Exit = 3,
    /// Terminal size as `columns rows`.
    Resize = 4,
    /// Why the request cannot be carried out; the only frame.
    Refused = 5,
    /// The request is being carried out; the first frame.
    Accepted = 6,
}

impl Channel {
    fn from_byte(byte: u8) -> Option<Self> {
        [
            Channel::Stdin,
            Channel::Stdout,
            Channel::Stderr,
            Channel::Exit,
            Channel::Resize,
            Channel::Refused,
            Channel::Accepted,
        ]
        .into_iter()
        .find(|channel| *channel as u8 == byte)
    }
}

/// Writes one frame.
pub async fn write_frame(writer: &mut (impl AsyncWrite + Unpin), channel: Channel, payload: &[u8]) -> std::io::Result<()> {
    let mut frame = Vec::with_capacity(5 + payload.len());
    frame.push(channel as u8);
    frame.extend_from_slice(
        &u32::try_from(payload.len())
            .map_err(|_| std::io::ErrorKind::InvalidInput)?
            .to_be_bytes(),
    );
    frame.extend_from_slice(payload);
    writer.write_all(&frame).await
}

/// Reads one frame; `None` at the end of the connection.
pub async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<(Channel, Vec<u8>)>> {
    let mut head = [0; 5];
    match reader.read_exact(&mut head).await {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let [byte, length @ ..] = head;
    let channel = Channel::from_byte(byte).ok_or(std::io::ErrorKind::InvalidData)?;
    let length = u32::from_be_bytes(length) as usize;
    // Both ends send at most a pipe's worth at a time.
    if length > 1 << 20 {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length];
    reader.read_exact(&mut payload).await?;
    Ok(Some((channel, payload)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn frames_survive_the_trip() {
        let (mut a, mut b) = tokio::io::duplex(1024);
        write_frame(&mut a, Channel::Stdout, b"hello").await.unwrap();
        write_frame(&mut a, Channel::Exit, b"0").await.unwrap();
        drop(a);
        assert_eq!(read_frame(&mut b).await.unwrap(), Some((Channel::Stdout, b"hello".to_vec())));
        assert_eq!(read_frame(&mut b).await.unwrap(), Some((Channel::Exit, b"0".to_vec())));
        assert_eq!(read_frame(&mut b).await.unwrap(), None);
    }
}
