//! The health check ports of services with `externalTrafficPolicy: Local`: an outside load balancer asks every node there
//! whether it has endpoints of the service. One small HTTP server per port, opened and closed as services come and go.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use netloom_retry::{Changes, Converge};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use crate::node::Node;
use crate::southbound::SouthboundState;

/// What one port answers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    namespace: String,
    name: String,
    endpoints: usize,
}

/// An open port; closed when dropped.
struct Server {
    report: watch::Sender<Report>,
    _open: DropGuard,
}

/// Keeps the ports as they should be.
pub struct HealthChecks {
    node: Arc<Node>,
    changes: Changes,
    servers: BTreeMap<u16, Server>,
}

impl HealthChecks {
    /// Watches the gateways' load balancers.
    pub fn new(node: Arc<Node>) -> Self {
        let changes = Changes::default().of(node.southbound.changes());
        Self {
            node,
            changes,
            servers: BTreeMap::new(),
        }
    }
}

impl Converge for HealthChecks {
    const NAME: &'static str = "health check ports";
    type Inputs = u64;

    fn inputs(&self) -> u64 {
        self.node.southbound.read(|state| state.balancers_revision)
    }

    async fn changed(&mut self) {
        self.changes.next().await;
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        // Without rows nothing is known: an answer that may be old is better than a closed port.
        let Some(wanted) = self
            .node
            .southbound
            .read(|state| state.connected.then(|| reports(state, &self.node.name)))
        else {
            return Ok(());
        };
        self.servers.retain(|port, _| wanted.contains_key(port));
        for (port, report) in wanted {
            if let Some(server) = self.servers.get(&port) {
                server.report.send_replace(report);
                continue;
            }
            let (namespace, name) = (report.namespace.clone(), report.name.clone());
            // Not an error of ours: it is tried again when a service changes, not over and over.
            match open(port, report).await {
                Ok(server) => {
                    info!(port, namespace, name, "health check port opened");
                    self.servers.insert(port, server);
                }
                Err(error) => warn!(
                    port,
                    namespace,
                    name,
                    %error,
                    "cannot open the health check port: does something else on the node use it?"
                ),
            }
        }
        Ok(())
    }
}

/// The ports and what each answers on this node. A node without a row of its own has no endpoints.
fn reports(state: &SouthboundState, node: &str) -> BTreeMap<u16, Report> {
    let mut reports: BTreeMap<u16, Report> = BTreeMap::new();
    for balancer in state.balancers() {
        let Some(check) = &balancer.health_check else { continue };
        let own = balancer.node.as_deref() == Some(node);
        let endpoints = if own { check.endpoints } else { 0 };
        let report = reports.entry(check.port).or_insert_with(|| Report {
            namespace: balancer.namespace.clone(),
            name: balancer.name.clone(),
            endpoints: 0,
        });
        // A service with two protocols has two rows.
        report.endpoints = report.endpoints.max(endpoints);
    }
    reports
}

async fn open(port: u16, report: Report) -> io::Result<Server> {
    // One socket serves both families, unless the node has no IPv6.
    let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?,
        listener => listener?,
    };
    let stop = CancellationToken::new();
    let (report, reported) = watch::channel(report);
    let router = Router::new().fallback(answer).with_state(reported);
    let serve = axum::serve(listener, router).into_future();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = stopped.cancelled() => {}
            outcome = serve => if let Err(error) = outcome {
                warn!(port, %error, "the health check port failed");
            }
        }
    });
    Ok(Server {
        report,
        _open: stop.drop_guard(),
    })
}

/// The form and the status codes that load balancers know from kube-proxy.
async fn answer(State(report): State<watch::Receiver<Report>>) -> impl IntoResponse {
    let Report {
        namespace,
        name,
        endpoints,
    } = report.borrow().clone();
    let status = if endpoints > 0 {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({
        "service": { "namespace": namespace, "name": name },
        "localEndpoints": endpoints,
        "serviceProxyHealthy": true,
    });
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::mirror::Reflect as _;
    use netloom_contract::balancer;
    use netloom_ovsdb::{Datum, Row};
    use uuid::Uuid;

    #[test]
    fn only_the_nodes_own_row_counts() {
        let mut state = SouthboundState::default();
        for (protocol, node, ready) in [
            ("tcp", Some("node1"), "2"),
            ("udp", Some("node1"), "1"),
            ("tcp", Some("node2"), "3"),
            ("tcp", None, "0"),
        ] {
            let options = [
                (balancer::SERVICE, "a/web"),
                (balancer::HEALTH_CHECK_PORT, "32000"),
                (balancer::READY_ENDPOINTS, ready),
                balancer::OF_GATEWAYS,
            ];
            let options = options.into_iter().chain(node.map(|node| (balancer::NODE, node)));
            let row = Row::from([
                ("protocol".to_owned(), Datum::string(protocol)),
                ("vips".to_owned(), Datum::map([("172.30.0.200:80", "")])),
                ("options".to_owned(), Datum::map(options)),
            ]);
            state.put("Load_Balancer", Uuid::new_v4(), Some(&row));
        }
        let endpoints = |node| reports(&state, node).get(&32000).unwrap().endpoints;
        assert_eq!((endpoints("node1"), endpoints("node2"), endpoints("node3")), (2, 3, 0));
    }
}
