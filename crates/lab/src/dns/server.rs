//! The sockets of the DNS server: one of each protocol per address, so that an answer comes from the address that was asked.

use std::net::{IpAddr, SocketAddr};
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::message::{Answer, Code, Query};
use super::zone::LIFETIME;
use super::{PORT, Shared};

/// How long a stream may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bound sockets, not served yet.
pub struct Server {
    names: Shared,
    datagrams: Vec<UdpSocket>,
    streams: Vec<TcpListener>,
}

/// Takes the port on each address.
pub async fn bind(addresses: impl Iterator<Item = IpAddr>, names: Shared) -> anyhow::Result<Server> {
    let (mut datagrams, mut streams) = (Vec::new(), Vec::new());
    for address in addresses {
        let address = SocketAddr::new(address, PORT);
        datagrams.push(
            UdpSocket::bind(address)
                .await
                .with_context(|| format!("listening on udp {address}"))?,
        );
        streams.push(
            TcpListener::bind(address)
                .await
                .with_context(|| format!("listening on tcp {address}"))?,
        );
    }
    Ok(Server { names, datagrams, streams })
}

impl Server {
    /// Answers until a socket fails.
    pub async fn run(self) -> anyhow::Result<()> {
        let mut tasks = JoinSet::new();
        for socket in self.datagrams {
            tasks.spawn(serve_datagrams(socket, self.names.clone()));
        }
        for listener in self.streams {
            tasks.spawn(serve_streams(listener, self.names.clone()));
        }
        match tasks.join_next().await {
            Some(ended) => ended.context("a listener panicked")?,
            None => Err(anyhow!("no address to listen on")),
        }
    }
}

async fn serve_datagrams(socket: UdpSocket, names: Shared) -> anyhow::Result<()> {
    let mut buffer = vec![0; 65536];
    loop {
        // An earlier answer may have been refused by its receiver; that is not this socket's end.
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let answer = respond(&buffer[..length], &names, |query, answer| query.encode_datagram(answer, LIFETIME));
        if let Some(answer) = answer {
            let _ = socket.send_to(&answer, client).await;
        }
    }
}

async fn serve_streams(listener: TcpListener, names: Shared) -> anyhow::Result<()> {
    loop {
        let (stream, client) = listener.accept().await.context("accepting a connection")?;
        let names = names.clone();
        tokio::spawn(async move {
            if let Err(error) = converse(stream, &names).await {
                tracing::debug!(%client, %error, "a client left");
            }
        });
    }
}

/// Questions and answers, each after its length, until the client has no more.
async fn converse(mut stream: TcpStream, names: &Shared) -> std::io::Result<()> {
    loop {
        let mut question = Vec::new();
        let receive = async {
            question.resize(stream.read_u16().await?.into(), 0);
            stream.read_exact(&mut question).await
        };
        tokio::time::timeout(PATIENCE, receive).await??;
        let Some(answer) = respond(&question, names, |query, answer| query.encode(answer, LIFETIME)) else {
            return Ok(());
        };
        let length = u16::try_from(answer.len()).map_err(|_| std::io::ErrorKind::InvalidData)?;
        stream.write_all(&[&length.to_be_bytes()[..], &answer].concat()).await?;
    }
}

fn respond(question: &[u8], names: &Shared, encode: impl FnOnce(&Query, &Answer) -> Vec<u8>) -> Option<Vec<u8>> {
    let query = match Query::decode(question) {
        Ok(query) => query,
        Err(refusal) => return refusal,
    };
    let names = names.read().unwrap_or_else(PoisonError::into_inner);
    let answer = if names.missing.is_empty() {
        names.zone.answer(&query.name, query.kind)
    } else {
        Answer::bare(Code::ServerFailure)
    };
    Some(encode(&query, &answer))
}
