//! The agent's small HTTP face: `/healthz` (the process runs), `/readyz` (pods can be attached) and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cni::status;
use crate::node::Node;

/// Opens the address.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("listen for health checks on {address}"))
}

/// Serves until `stop` fires.
pub async fn serve(node: Arc<Node>, listener: TcpListener, stop: CancellationToken) -> anyhow::Result<()> {
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(async |State(node): State<Arc<Node>>| node.metrics.text()))
        .with_state(node);
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
        .context("serve health checks")
}

async fn ready(State(node): State<Arc<Node>>) -> (StatusCode, String) {
    match status::status(&node) {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}
