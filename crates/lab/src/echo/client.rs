//! Asks an echo server many times from one process and tells what came of each attempt: who answered, whom it saw, how long it took.
//!
//! Run by tests in a pod's network, on a node or outside. Every attempt is a new connection (for UDP a new socket), unless one is kept. A
//! line is printed as soon as its attempt is over, so a reader sees failures while they happen and may end the process at any time.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::Protocol;

/// The longest answer that is read.
const ANSWER: usize = 4096;

/// Whom to ask and how often.
#[derive(Debug, Clone)]
pub struct Options {
    /// `ADDRESS:PORT` or `NAME:PORT`.
    pub target: String,
    /// Protocol to ask over.
    pub protocol: Protocol,
    /// How many attempts; 0 goes on until the process is ended.
    pub count: u64,
    /// Time from the start of one attempt to the start of the next; attempts never overlap within one of `parallel`.
    pub interval: Duration,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// How many attempts run at the same time.
    pub parallel: u64,
    /// Address to ask from.
    pub source: Option<IpAddr>,
    /// Port to ask from, the same for every attempt.
    pub source_port: Option<u16>,
    /// Length of the question. It comes back with the answer.
    pub size: usize,
    /// Ask again over the same connection or socket; one that failed is replaced.
    pub keep: bool,
    /// Print one JSON object per attempt.
    pub json: bool,
}

/// What came of one attempt; one line of output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Number of the attempt, from 1.
    pub attempt: u64,
    /// When it began, in milliseconds since the first.
    pub at: f64,
    /// How long it took, in milliseconds.
    pub took: f64,
    /// `ok`, `refused`, `timeout`, `reset`, `closed`, `unreachable` or `failed`.
    pub outcome: String,
    /// Who answered: name of the pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Namespace of that pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Node of that pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The address and port the server saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<SocketAddr>,
    /// The address and port the question left from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    /// Why it failed, in the kernel's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Asks, prints, and returns whether every attempt was answered.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut all = true;
    let mut output = std::io::stdout().lock();
    ask(options, |attempt| {
        all &= attempt.outcome == "ok";
        let who = if attempt.outcome == "ok" { &attempt.pod } else { &attempt.outcome };
        *seen.entry(who.clone()).or_default() += 1;
        let line = if options.json {
            serde_json::to_string(&attempt).context("writing an attempt")?
        } else {
            attempt.to_string()
        };
        writeln!(output, "{line}").and_then(|()| output.flush()).context("printing")
    })?;
    if !options.json {
        let summary: Vec<_> = seen.iter().map(|(who, count)| format!("{who} {count}")).collect();
        eprintln!("{}", summary.join(", "));
    }
    Ok(all)
}

/// Makes all attempts and hands each to `report` when it is over.
pub fn ask(options: &Options, mut report: impl FnMut(Attempt) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let resolved = options.target.to_socket_addrs();
    let target = resolved
        .with_context(|| format!("resolving {}", options.target))?
        .find(|address| options.source.is_none_or(|source| source.is_ipv4() == address.is_ipv4()))
        .with_context(|| format!("{} has no address of the wanted family", options.target))?;
    let (sender, attempts) = mpsc::channel();
    let next = Arc::new(Mutex::new(0));
    let started = Instant::now();
    for _ in 0..options.parallel.max(1) {
        let (sender, next, options) = (sender.clone(), next.clone(), options.clone());
        std::thread::spawn(move || {
            let mut kept = None;
            while let Some(number) = take(&next, options.count) {
                let begin = Instant::now();
                let attempt = once(&options, target, number, started, &mut kept);
                if sender.send(attempt).is_err() {
                    return;
                }
                std::thread::sleep(options.interval.saturating_sub(begin.elapsed()));
            }
        });
    }
    drop(sender);
    attempts.into_iter().try_for_each(&mut report)
}

fn take(next: &Mutex<u64>, count: u64) -> Option<u64> {
    let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
    (count == 0 || *next < count).then(|| {
        *next += 1;
        *next
    })
}

/// A connection to ask again over, and what it said of itself at first.
struct Kept {
    socket: Socket,
    greeting: String,
}

fn once(options: &Options, target: SocketAddr, number: u64, started: Instant, kept: &mut Option<Kept>) -> Attempt {
    let begin = Instant::now();
    let deadline = begin + options.timeout;
    let mut local = None;
    let answer = (|| {
        let (socket, greeting) = match kept.take() {
            Some(Kept { socket, greeting }) => (socket, Some(greeting)),
            None => (connect(options, target, deadline)?, None),
        };
        local = socket.local_addr().ok().and_then(|address| address.as_socket());
        let answer = exchange(&socket, options, greeting.is_some(), deadline)?;
        // A stream greets once, a datagram is greeted each time.
        let greeting = greeting.filter(|_| options.protocol != Protocol::Udp).unwrap_or(answer);
        if options.keep {
            *kept = Some(Kept {
                socket,
                greeting: greeting.clone(),
            });
        }
        Ok(greeting)
    })();
    let took = begin.elapsed();
    let mut attempt = Attempt {
        attempt: number,
        at: milliseconds(begin.duration_since(started)),
        took: milliseconds(took),
        outcome: "ok".into(),
        pod: String::new(),
        namespace: String::new(),
        node: String::new(),
        client: None,
        local: local.map(|address| SocketAddr::new(address.ip().to_canonical(), address.port())),
        error: String::new(),
    };
    match answer {
        Ok(text) => attempt.identify(&text),
        Err(error) => {
            attempt.outcome = outcome(&error).into();
            attempt.error = error.to_string();
        }
    }
    attempt
}

fn connect(options: &Options, target: SocketAddr, deadline: Instant) -> std::io::Result<Socket> {
    let (kind, protocol) = match options.protocol {
        Protocol::Tcp => (Type::STREAM, socket2::Protocol::TCP),
        Protocol::Udp => (Type::DGRAM, socket2::Protocol::UDP),
        Protocol::Sctp => (Type::STREAM, socket2::Protocol::SCTP),
    };
    let socket = Socket::new(Domain::for_address(target), kind, Some(protocol))?;
    if options.source.is_some() || options.source_port.is_some() {
        let any: IpAddr = if target.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let source = SocketAddr::new(options.source.unwrap_or(any), options.source_port.unwrap_or(0));
        socket.set_reuse_address(true)?;
        socket.bind(&source.into())?;
        if options.source_port.is_some() && options.protocol != Protocol::Udp {
            // The next attempt needs the port at once, not after the time an orderly end would keep it.
            socket.set_linger(Some(Duration::ZERO))?;
        }
    }
    socket.connect_timeout(&target.into(), left(deadline)?)?;
    Ok(socket)
}

/// Sends the question and reads the answer. A stream greets once; after that it only gives the question back.
fn exchange(mut socket: &Socket, options: &Options, greeted: bool, deadline: Instant) -> std::io::Result<String> {
    socket.set_write_timeout(Some(left(deadline)?))?;
    // No beginning of an HTTP request.
    let mut question = vec![b'?'; options.size.max(2)];
    question.pop();
    question.push(b'\n');
    socket.write_all(&question)?;
    let longest = question.len() + ANSWER;
    let mut answer = Vec::new();
    let mut buffer = vec![0; longest];
    loop {
        socket.set_read_timeout(Some(left(deadline)?))?;
        let length = socket.read(&mut buffer)?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..length]);
        let given_back = if greeted { &answer[..] } else { after_line(&answer) };
        let complete = options.protocol == Protocol::Udp || given_back.len() >= question.len();
        if complete || answer.len() > longest {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
    }
}

/// What follows the greeting.
fn after_line(answer: &[u8]) -> &[u8] {
    let end = answer.iter().position(|byte| *byte == b'\n').map_or(answer.len(), |end| end + 1);
    &answer[end..]
}

fn left(deadline: Instant) -> std::io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(std::io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

fn outcome(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => "refused",
        // A read that ran into its time limit says that it would have to wait.
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "timeout",
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => "reset",
        ErrorKind::UnexpectedEof => "closed",
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "unreachable",
        _ => "failed",
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl Attempt {
    /// Takes the identity from an answer: `pod: …` and so on, on one line or on several.
    fn identify(&mut self, answer: &str) {
        for (name, value) in answer.split(['\n', ',']).filter_map(|item| item.trim().split_once(": ")) {
            match name {
                "pod" => self.pod = value.into(),
                "namespace" => self.namespace = value.into(),
                "node" => self.node = value.into(),
                "client" => self.client = value.parse().ok(),
                _ => {}
            }
        }
    }
}

impl std::fmt::Display for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:.3}", self.attempt, self.outcome, self.took)?;
        if self.outcome == "ok" {
            let client = self.client.map(|client| client.to_string()).unwrap_or_default();
            write!(f, " {}/{} {} {client}", self.namespace, self.pod, self.node)
        } else {
            write!(f, " {}", self.error)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::options as server;
    use super::super::{datagram, stream};
    use super::*;

    fn options(protocol: Protocol, target: SocketAddr) -> Options {
        Options {
            target: target.to_string(),
            protocol,
            count: 3,
            interval: Duration::ZERO,
            timeout: Duration::from_secs(20),
            parallel: 1,
            source: None,
            source_port: None,
            size: 2,
            keep: false,
            json: false,
        }
    }

    async fn attempts(options: Options) -> Vec<Attempt> {
        let collect = move || {
            let mut attempts = Vec::new();
            ask(&options, |attempt| {
                attempts.push(attempt);
                Ok(())
            })
            .map(|()| attempts)
        };
        tokio::task::spawn_blocking(collect).await.unwrap().unwrap()
    }

    async fn start(protocol: Protocol) -> SocketAddr {
        let port = if protocol == Protocol::Udp {
            let socket = datagram::bind(0).await.unwrap();
            let port = socket.local_addr().unwrap().port();
            tokio::spawn(datagram::serve(socket, server()));
            port
        } else {
            let listener = stream::listen(socket2::Protocol::TCP, 0).unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(stream::serve(listener, server()));
            port
        };
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// A port that nobody had a moment ago.
    fn free_port() -> u16 {
        stream::listen(socket2::Protocol::TCP, 0).unwrap().local_addr().unwrap().port()
    }

    #[tokio::test]
    async fn every_attempt_says_who_answered_and_whom_it_saw() {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let target = start(protocol).await;
            let seen = attempts(options(protocol, target)).await;
            assert_eq!(seen.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(), [1, 2, 3]);
            for attempt in &seen {
                assert_eq!(
                    (attempt.outcome.as_str(), attempt.pod.as_str(), attempt.node.as_str()),
                    ("ok", "web-0", "node1"),
                    "{attempt:?}"
                );
                assert_eq!(attempt.client, attempt.local);
            }
        }
    }

    #[tokio::test]
    async fn a_kept_connection_and_a_fixed_port_stay_the_same() {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let target = start(protocol).await;
            let kept = Options {
                keep: true,
                ..options(protocol, target)
            };
            let seen = attempts(kept).await;
            let same = |attempt: &Attempt| attempt.outcome == "ok" && attempt.pod == "web-0" && attempt.local == seen[0].local;
            assert!(seen.iter().all(same), "{seen:?}");
            let port = free_port();
            let fixed = Options {
                source_port: Some(port),
                ..options(protocol, target)
            };
            let seen = attempts(fixed).await;
            let from = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            assert!(
                seen.iter().all(|attempt| attempt.outcome == "ok" && attempt.client == Some(from)),
                "{seen:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_closed_port_refuses() {
        let seen = attempts(options(Protocol::Tcp, (Ipv4Addr::LOCALHOST, free_port()).into())).await;
        assert!(
            seen.iter().all(|attempt| attempt.outcome == "refused" && !attempt.error.is_empty()),
            "{seen:?}"
        );
        let line: Attempt = serde_json::from_str(&serde_json::to_string(&seen[0]).unwrap()).unwrap();
        assert_eq!(line, seen[0]);
    }
}
