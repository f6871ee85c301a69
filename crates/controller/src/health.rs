//! `/healthz` (the process runs), `/readyz` (it has listed everything and is connected) and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use crate::metrics::Metrics;

/// Serves for ever.
pub async fn serve(address: SocketAddr, metrics: Arc<Metrics>) -> Result<()> {
    let (ready, text) = (Arc::clone(&metrics), metrics);
    let readyz = move || async move {
        if ready.is_ready() {
            (StatusCode::OK, "ok\n")
        } else {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "not ready: waiting for the Kubernetes API or the Northbound database\n",
            )
        }
    };
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(move || async move { text.text() }));
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("listen on {address}"))?;
    axum::serve(listener, router).await.context("serve")
}
