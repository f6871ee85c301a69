//! Serves the API on loopback for trying things by hand: `cargo run --example serve -- PORT FILE`, token `secret`.

use std::{net::TcpListener, sync::Arc};

use netloom_apiserver::{NoKubelet, Options};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().unwrap_or_default().parse().unwrap_or(8001);
    let data = arguments.next().unwrap_or_else(|| "objects.redb".into());
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let stop = CancellationToken::new();
    let options = Options {
        advertise: vec![listener.local_addr()?],
        listeners: vec![listener],
        data: data.into(),
        token: "secret".into(),
        service_cidrs: vec!["10.96.0.0/16".parse()?, "fd00:10:96::/112".parse()?],
        kubelet: Arc::new(NoKubelet),
        stop: stop.clone(),
    };
    let server = tokio::spawn(netloom_apiserver::run(options));
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    Ok(server.await??)
}
