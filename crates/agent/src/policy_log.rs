//! What policies did to connections, in the agent's log, with the names of pods: ovn-controller tells every logged verdict by syslog, with
//! addresses only.
//!
//! ```text
//! ovn-controller ──datagram──► line ──► names ──► log
//! ```
//!
//! Nothing is logged, and nothing is watched, until a namespace or policy asks for it. OVN limits how much is told.

pub mod line;
mod names;

use std::net::{IpAddr, SocketAddr};

use anyhow::Context as _;
use netloom_ovsdb::Tls;
use tokio::net::UdpSocket;
use tracing::{debug, info};

use crate::databases::Southbound;
use line::Line;
use names::Names;

/// Where ovn-controller tells them, unless it is told otherwise.
pub const ADDRESS: &str = "127.0.0.1:9643";

/// Longer than any line of ovn-controller.
const LONGEST: usize = 8192;

/// Opens the address ovn-controller writes to.
pub async fn listen(address: SocketAddr) -> anyhow::Result<UdpSocket> {
    UdpSocket::bind(address)
        .await
        .with_context(|| format!("listen for the log of policies on {address}: is another agent running on this node?"))
}

/// Logs what ovn-controller tells, for ever.
pub async fn run(socket: UdpSocket, southbound: Southbound, tls: Option<Tls>) -> anyhow::Error {
    let mut buffer = vec![0; LONGEST];
    let mut names: Option<Names> = None;
    loop {
        let length = match socket.recv(&mut buffer).await {
            Ok(length) => length,
            Err(error) => return anyhow::Error::from(error).context("receive the log of policies"),
        };
        let text = String::from_utf8_lossy(&buffer[..length]);
        let Some(line) = Line::parse(&text) else {
            debug!(%text, "not a verdict");
            continue;
        };
        let names = names.get_or_insert_with(|| Names::watch(southbound.clone(), tls.clone()));
        names.known().await;
        tell(&line, &|address| names.of(address));
    }
}

fn tell(line: &Line<'_>, name: &dyn Fn(IpAddr) -> String) {
    let Line {
        policy,
        verdict,
        direction,
        protocol,
        from,
        to,
        port,
    } = line;
    let (from, to, source, destination) = (name(*from), name(*to), from, to);
    info!(target: "netloom::policy", %verdict, policy, %direction, from, to, protocol, port, %source, %destination, "verdict of a policy");
}
