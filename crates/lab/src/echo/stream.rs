//! TCP and SCTP: a conversation that begins like HTTP gets a page, any other one line of identity and then its own bytes back.
//!
//! SCTP is spoken over one-to-one sockets, which behave as those of TCP do, so both share everything after `listen`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context as _;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Options;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A listener on this port of all addresses of both families, or of IPv4 where there is no IPv6.
pub fn listen(protocol: Protocol, port: u16) -> std::io::Result<TcpListener> {
    listen_on(protocol, Domain::IPV6, (Ipv6Addr::UNSPECIFIED, port).into())
        .or_else(|_| listen_on(protocol, Domain::IPV4, (Ipv4Addr::UNSPECIFIED, port).into()))
}

fn listen_on(protocol: Protocol, domain: Domain, address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(domain, Type::STREAM, Some(protocol))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

/// Answers for ever.
pub async fn serve(listener: TcpListener, options: Options) -> anyhow::Result<()> {
    loop {
        let (stream, client) = listener.accept().await.context("accepting a connection")?;
        let options = options.clone();
        tokio::spawn(async move {
            if let Err(error) = converse(stream, client, &options).await {
                println!("{client}: {error}");
            }
        });
    }
}

async fn converse(mut stream: TcpStream, client: SocketAddr, options: &Options) -> std::io::Result<()> {
    let mut first = Vec::new();
    while looks_like_http(&first) == Guess::Unknown {
        if stream.read_buf(&mut first).await? == 0 {
            break;
        }
    }
    if looks_like_http(&first) == Guess::Yes {
        return answer_http(stream, first, client, options).await;
    }
    let greeting = options.identity(client).trim_end().replace('\n', ", ") + "\n";
    stream.write_all(greeting.as_bytes()).await?;
    stream.write_all(&first).await?;
    let (mut reader, mut writer) = stream.split();
    tokio::io::copy(&mut reader, &mut writer).await?;
    writer.shutdown().await
}

#[derive(Debug, PartialEq, Eq)]
enum Guess {
    Yes,
    No,
    Unknown,
}

fn looks_like_http(bytes: &[u8]) -> Guess {
    const METHODS: [&[u8]; 7] = [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"PATCH ", b"OPTIONS "];
    if METHODS.iter().any(|method| bytes.starts_with(method)) {
        Guess::Yes
    } else if METHODS.iter().any(|method| method.starts_with(bytes)) {
        Guess::Unknown
    } else {
        Guess::No
    }
}

async fn answer_http(mut stream: TcpStream, mut request: Vec<u8>, client: SocketAddr, options: &Options) -> std::io::Result<()> {
    let head = loop {
        if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if request.len() > 64 * 1024 || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).into_owned();
    let length = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0);
    // Leaving a body unread would reset the connection under the answer.
    let mut left = length.saturating_sub(request.len() - head);
    let mut scrap = vec![0; 16 * 1024];
    while left > 0 {
        let want = left.min(scrap.len());
        match stream.read(&mut scrap[..want]).await? {
            0 => return Ok(()),
            read => left -= read,
        }
    }
    let path = text.split_whitespace().nth(1).unwrap_or("/");
    let body = page(path, client, options);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    if !text.starts_with("HEAD ") {
        stream.write_all(&body).await?;
    }
    stream.shutdown().await
}

fn page(path: &str, client: SocketAddr, options: &Options) -> Vec<u8> {
    const LARGEST: usize = 1 << 30;
    match path.strip_prefix("/bytes/").and_then(|count| count.parse::<usize>().ok()) {
        Some(count) => vec![b'x'; count.min(LARGEST)],
        None if path == "/hostname" => options.name.clone().into_bytes(),
        None => options.identity(client).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::options;
    use super::*;

    async fn ask(request: &[u8]) -> Vec<u8> {
        let listener = listen_on(Protocol::TCP, Domain::IPV4, "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, options()));
        let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
        let request = request.to_vec();
        tokio::spawn(async move {
            writer.write_all(&request).await.unwrap();
            writer.shutdown().await.unwrap();
        });
        let mut answer = Vec::new();
        reader.read_to_end(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn http_gets_a_page() {
        let answer = String::from_utf8(ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(answer.contains("\r\n\r\npod: web-0\nnamespace: default\nnode: node1\nclient: 127.0.0.1:"));
        let answer = ask(b"GET /bytes/100000 HTTP/1.1\r\n\r\n").await;
        assert_eq!(
            answer.iter().filter(|byte| **byte == b'x').count(),
            100_000 + "text/plain".matches('x').count()
        );
    }

    #[tokio::test]
    async fn other_tcp_is_echoed_whole_after_one_line() {
        let sent: Vec<u8> = (0..60_000u32).map(|n| (n % 251) as u8).collect();
        let answer = ask(&sent).await;
        let line = answer.iter().position(|byte| *byte == b'\n').unwrap();
        assert!(answer.starts_with(b"pod: web-0, namespace: default, node: node1, client: 127.0.0.1:"));
        assert_eq!(answer[line + 1..], sent);
    }
}
