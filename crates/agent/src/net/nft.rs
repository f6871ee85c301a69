//! Runs nftables scripts, and tells when tables are deleted: a firewall that is set up anew flushes those of others too.
//! Each script is one transaction: it takes effect as a whole or not at all.

use nix::libc;
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use tokio::process::Command;
use tokio::sync::watch;

use super::{NetError, tool};

/// The multicast group of changes to nftables.
const CHANGES: u32 = 7;
/// The message that tells of a deleted table: the number of nftables within netfilter, and of the message within that.
const TABLE_DELETED: u16 = 10 << 8 | 2;

/// Starts listening; the receiver's value counts deletions of tables, our own included. Returns a future that ends only
/// if the socket fails.
pub fn watch_deletions() -> Result<(watch::Receiver<u64>, impl Future<Output = anyhow::Error>), NetError> {
    let open = || {
        let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
        socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
        socket.socket_mut().add_membership(CHANGES)?;
        Ok(socket)
    };
    let socket = open().map_err(NetError::io("subscribe to notifications of nftables"))?;
    let (ticks, receiver) = watch::channel(0);
    let run = async move {
        loop {
            let deleted = match socket.recv_from_full().await {
                Ok((messages, _)) => kinds(&messages).any(|kind| kind == TABLE_DELETED),
                // Some were lost: rather look once too often.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => true,
                Err(error) => return anyhow::Error::new(error).context("listen to nftables"),
            };
            if deleted {
                ticks.send_modify(|count| *count += 1);
            }
        }
    };
    Ok((receiver, run))
}

/// The types of the netlink messages in a buffer.
fn kinds(mut messages: &[u8]) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let (length, kind) = (messages.get(..4)?, messages.get(4..6)?);
        let length = u32::from_ne_bytes(length.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(kind.try_into().ok()?);
        // Messages are aligned to four bytes; one that claims to be shorter than its header would never end.
        messages = messages.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
        Some(kind)
    })
}

/// Whether a table exists.
pub async fn has_table(table: &str) -> Result<bool, NetError> {
    let output = Command::new("nft").args(["list", "tables"]).kill_on_drop(true).output().await;
    let output = output.map_err(NetError::io("list nftables tables (is nft installed?)"))?;
    let listed = String::from_utf8_lossy(&output.stdout);
    Ok(listed.lines().any(|line| line.strip_prefix("table ") == Some(table)))
}

/// What a table says, without the elements of its sets and maps; none if there is no such table.
pub async fn list_table(table: &str) -> Result<Option<String>, NetError> {
    let operation = format!("list table {table}");
    let output = Command::new("nft")
        .args(["--terse", "list", "table"])
        .args(table.split(' '))
        .env("LC_ALL", "C")
        .kill_on_drop(true)
        .output()
        .await
        .map_err(NetError::io(format!("{operation} (is nft installed?)")))?;
    if output.status.success() {
        return Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No such file or directory") {
        return Ok(None);
    }
    Err(NetError::Nft {
        operation,
        output: said.trim().to_owned(),
    })
}

/// Runs `script`; `operation` names what for, in errors.
pub async fn run(operation: impl Into<String>, script: String) -> Result<(), NetError> {
    let operation = operation.into();
    let output = tool::run("nft", &["-f", "-"], &script).await;
    let output = output.map_err(NetError::io(format!("{operation} (is nft installed?)")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(NetError::Nft {
        operation,
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_found_among_other_messages() {
        let message = |kind: u16, body: usize| {
            let mut bytes = (16 + body as u32).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.resize((16 + body).next_multiple_of(4), 0);
            bytes
        };
        let buffer = [message(10 << 8, 5), message(TABLE_DELETED, 8), message(10 << 8 | 15, 0)].concat();
        assert_eq!(kinds(&buffer).collect::<Vec<_>>(), [10 << 8, TABLE_DELETED, 10 << 8 | 15]);
        assert_eq!(kinds(&[0; 20]).count(), 1, "a message without a length ends the buffer");
    }
}
