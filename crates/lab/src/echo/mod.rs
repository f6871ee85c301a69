//! What a pod without a command runs: a program that answers on every declared port and tells who answered and whom it saw.
//!
//! HTTP gets the identity as a page (`/bytes/N` gives N bytes, `/hostname` the name alone); other TCP gets it as one line and then every byte
//! back unchanged, and so does SCTP; a UDP datagram gets it followed by the datagram. The client's address in the answer is how tests see
//! address translation. [`client`] is the other side: it asks many times and tells what came of each.

pub mod client;
mod datagram;
mod stream;

use std::net::SocketAddr;
use std::str::FromStr;

use anyhow::{Context as _, bail};
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
    /// SCTP, where the kernel has it.
    Sctp,
}

impl FromStr for Port {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (number, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
        Ok(Port {
            number: number.parse().with_context(|| format!("understanding port {number:?}"))?,
            protocol: protocol.parse()?,
        })
    }
}

impl FromStr for Protocol {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => bail!("unknown protocol {text:?}: use TCP, UDP or SCTP"),
        })
    }
}

/// Answers until told to stop.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let mut stop = signal(SignalKind::terminate())?;
    let mut tasks = JoinSet::new();
    for Port { number, protocol } in options.ports.iter().cloned() {
        match protocol {
            Protocol::Tcp => {
                let listener = stream::listen(socket2::Protocol::TCP, number).with_context(|| format!("listening on tcp port {number}"))?;
                tasks.spawn(stream::serve(listener, options.clone()));
            }
            Protocol::Udp => drop(tasks.spawn(datagram::serve(datagram::bind(number).await?, options.clone()))),
            Protocol::Sctp => match stream::listen(socket2::Protocol::SCTP, number) {
                Ok(listener) => drop(tasks.spawn(stream::serve(listener, options.clone()))),
                // The other ports are still worth answering on.
                Err(error) => eprintln!("port {number}/SCTP is not answered: {error}; the kernel may have no SCTP (modprobe sctp)"),
            },
        }
    }
    // The first line on this stream: the kubelet waits for it before it calls the container ready.
    println!("{}/{} answers on {} ports", options.namespace, options.name, tasks.len());
    tokio::select! {
        _ = stop.recv() => Ok(()),
        Some(ended) = tasks.join_next() => ended.context("a listener panicked")?,
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub fn options() -> Options {
        Options {
            name: "web-0".into(),
            namespace: "default".into(),
            node: "node1".into(),
            ports: vec![],
        }
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
