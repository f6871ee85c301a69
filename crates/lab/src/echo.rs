//! What a pod without a command runs: a program that answers on every declared port and tells who answered and whom it saw.
//!
//! HTTP gets the identity as a page (`/bytes/N` gives N bytes, `/hostname` the name alone); other TCP gets it as one line and then every byte
//! back unchanged; a UDP datagram gets it followed by the datagram. The client's address in the answer is how tests see address translation.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Who answers, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the pod (or machine).
    pub name: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Node it runs on.
    pub node: String,
    /// Ports to answer on; none means to wait for a signal.
    pub ports: Vec<Port>,
}

/// A port and its protocol, written `80/TCP`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Port number.
    pub number: u16,
    /// Protocol.
    pub protocol: Protocol,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP; declared, but not answered.
    Sctp,
}

impl FromStr for Port {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (number, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
        let protocol = match protocol {
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => bail!("unknown protocol {protocol:?}: use TCP, UDP or SCTP"),
        };
        Ok(Port {
            number: number.parse().with_context(|| format!("understanding port {number:?}"))?,
            protocol,
        })
    }
}

/// Answers until told to stop.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let mut stop = signal(SignalKind::terminate())?;
    let mut tasks = JoinSet::new();
    for port in &options.ports {
        match port.protocol {
            Protocol::Tcp => {
                let listener = listen(port.number).await?;
                tasks.spawn(serve_tcp(listener, options.clone()));
            }
            Protocol::Udp => {
                for address in local_addresses()? {
                    let socket = UdpSocket::bind((address, port.number))
                        .await
                        .with_context(|| format!("listening on udp {address} port {}", port.number))?;
                    tasks.spawn(serve_udp(socket, options.clone()));
                }
            }
            Protocol::Sctp => println!("port {}/SCTP is not answered: this program speaks TCP and UDP", port.number),
        }
    }
    println!("{}/{} answers on {} ports", options.namespace, options.name, options.ports.len());
    tokio::select! {
        _ = stop.recv() => Ok(()),
        Some(ended) = tasks.join_next() => ended.context("a listener panicked")?,
    }
}

async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    // One socket serves both families, unless there is no IPv6 at all.
    match TcpListener::bind(("::", port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(("0.0.0.0", port))
            .await
            .with_context(|| format!("listening on tcp port {port}")),
    }
}

/// One UDP socket per address, so that an answer comes from the address that was asked.
fn local_addresses() -> anyhow::Result<Vec<IpAddr>> {
    let interfaces = nix::ifaddrs::getifaddrs().context("listing addresses")?;
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    });
    Ok(addresses
        .filter(|address| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .collect())
}

impl Options {
    fn identity(&self, client: SocketAddr) -> String {
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        format!(
            "pod: {}\nnamespace: {}\nnode: {}\nclient: {client}\n",
            self.name, self.namespace, self.node
        )
    }
}

async fn serve_udp(socket: UdpSocket, options: Options) -> anyhow::Result<()> {
    let mut buffer = vec![0; 65536];
    loop {
        // An earlier answer may have been refused by its receiver; that is not this socket's end.
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let mut answer = options.identity(client).into_bytes();
        answer.push(b'\n');
        answer.extend_from_slice(&buffer[..length.min(65507 - answer.len())]);
        let _ = socket.send_to(&answer, client).await;
    }
}

async fn serve_tcp(listener: TcpListener, options: Options) -> anyhow::Result<()> {
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
    use super::*;

    fn options() -> Options {
        Options {
            name: "web-0".into(),
            namespace: "default".into(),
            node: "node1".into(),
            ports: vec![],
        }
    }

    async fn ask(request: &[u8]) -> Vec<u8> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_tcp(listener, options()));
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

    #[tokio::test]
    async fn udp_is_answered() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        tokio::spawn(serve_udp(server, options()));
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.send_to(b"hello", address).await.unwrap();
        let mut buffer = [0; 500];
        let (length, _) = client.recv_from(&mut buffer).await.unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        assert_eq!(
            text,
            format!(
                "pod: web-0\nnamespace: default\nnode: node1\nclient: {}\n\nhello",
                client.local_addr().unwrap()
            )
        );
    }

    #[test]
    fn ports() {
        assert_eq!(
            "80".parse::<Port>().unwrap(),
            Port {
                number: 80,
                protocol: Protocol::Tcp
            }
        );
        assert_eq!(
            "53/UDP".parse::<Port>().unwrap(),
            Port {
                number: 53,
                protocol: Protocol::Udp
            }
        );
        assert!("53/udp".parse::<Port>().is_err());
    }
}
