//! A small Kubernetes-compatible API server with a durable store, so that kubectl and client libraries work in a lab
//! without a cluster. It serves the kinds a network product touches, and the controllers that make them live (scheduler,
//! Deployments, EndpointSlices…). What it does not do, it refuses with a proper `Status`: no TLS, no users or RBAC, no
//! admission webhooks, no CEL, no aggregation, no attach or port-forward.
//!
//! ```text
//! HTTP ──► rest ──► api (verbs) ──► store ──► journal (redb)
//!            │        ▲  kinds, patch, validate     │
//!            ▼        └──────── controllers ◄── watch
//!          kubelet (exec, logs)
//! ```

pub mod api;
pub mod controllers;
pub mod crd;
pub mod defaults;
pub mod discovery;
pub mod json;
pub mod kind;
pub mod kubelet;
pub mod native;
mod node_ports;
pub mod openapi;
pub mod patch;
pub mod rest;
pub mod selector;
pub mod services;
pub mod status;
pub mod store;
pub mod table;
mod taken;
pub mod validate;

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

use axum::serve::ListenerExt;
use futures::future::try_join_all;
use ipnet::IpNet;
use tokio_util::sync::CancellationToken;

pub use kubelet::{ExecRequest, ExecSession, Kubelet, KubeletError, LogRequest, NoKubelet};
pub use store::StoreError;

/// How to run the server.
pub struct Options {
    /// Sockets to serve on, already bound and listening; they may belong to other network namespaces.
    pub listeners: Vec<TcpListener>,
    /// The database file; created if missing.
    pub data: PathBuf,
    /// The bearer token every request must carry.
    pub token: String,
    /// Ranges for cluster addresses of Services, one per family; the first is the default family.
    pub service_cidrs: Vec<IpNet>,
    /// Where pods reach this server: the endpoints of the `kubernetes` Service.
    pub advertise: Vec<SocketAddr>,
    /// Runs commands in pods and reads their logs.
    pub kubelet: Arc<dyn Kubelet>,
    /// Stops the server: open requests and watches end, the store is closed.
    pub stop: CancellationToken,
}

/// Why the server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The store could not be opened, or a write failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A socket failed.
    #[error("serve the API: {0}")]
    Socket(#[from] std::io::Error),
    /// The objects every cluster has could not be made.
    #[error("create the built-in objects: {0}")]
    Bootstrap(#[from] status::Failure),
}

/// The server URL for a kubeconfig. kubectl does not send a token over plain HTTP, so the URL carries it.
pub fn server_url(address: SocketAddr, token: &str) -> String {
    format!("http://{address}/token/{token}")
}

/// Serves until `options.stop` is cancelled, or something the server cannot live without fails. The store is closed when
/// this returns.
pub async fn run(options: Options) -> Result<(), ServerError> {
    run_with(options, &[]).await
}

/// The same with objects that are there before the first request is served, so that no client ever sees a part of them.
pub async fn run_with(options: Options, objects: &[serde_json::Value]) -> Result<(), ServerError> {
    let store = store::Store::open(&options.data)?;
    let api = api::Api::new(store.clone(), &options);
    controllers::bootstrap::run(&api, &options.advertise).await?;
    controllers::bootstrap::provide(&api, objects).await?;

    // The controllers end with the server, also when it fails.
    let stop = options.stop.child_token();
    let _ends = stop.clone().drop_guard();
    let controllers = controllers::start(&api, &stop);
    let state = rest::Server {
        api,
        token: options.token,
        kubelet: options.kubelet,
        stop: stop.clone(),
    };
    let router = rest::router(state);
    let servers = options.listeners.into_iter().map(|listener| {
        let (router, stop) = (router.clone(), stop.clone());
        async move {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?.tap_io(|stream| {
                // Small watch events must not wait for the previous one to be acknowledged.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "cannot disable Nagle's algorithm");
                }
            });
            axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
        }
    });
    let served = tokio::select! {
        served = try_join_all(servers) => served.map(drop).map_err(ServerError::from),
        broken = store.broken() => Err(broken.into()),
    };
    stop.cancel();
    controllers.wait().await;
    served
}
