//! A world that lives as long as a test: a Northbound server, a Kubernetes API and as many controllers as the scenario wants.
//! Every wait is for an event, with a deadline that only a hanging test meets.

mod database;
mod kubernetes;
mod services;

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use netloom_controller::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use database::{Database, PORT, SWITCH, holds, port_name, row};
pub use kubernetes::Kubernetes;
pub use services::Endpoint;

/// A hanging test fails; no test depends on how long anything takes.
pub async fn within<T>(waiting_for: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), future).await {
        Ok(value) => value,
        Err(_) => panic!("still waiting for {waiting_for} after a minute"),
    }
}

/// Everything around the controllers.
pub struct World {
    pub kubernetes: Kubernetes,
    pub database: Database,
    directory: tempfile::TempDir,
}

impl World {
    /// An empty database and a cluster without nodes.
    pub async fn empty() -> Self {
        let _ = tracing_subscriber::fmt()
            .with_test_writer()
            .with_env_filter("warn,netloom_controller=debug")
            .try_init();
        let directory = tempfile::tempdir().unwrap();
        World {
            kubernetes: Kubernetes::start(directory.path()).await,
            database: Database::start().await,
            directory,
        }
    }

    /// A cluster of `node1` and `node2`.
    pub async fn two_nodes() -> Self {
        let world = Self::empty().await;
        world.kubernetes.node("node1").await;
        world.kubernetes.node("node2").await;
        world
    }

    /// Starts a controller.
    pub fn controller(&self) -> Controller {
        self.controller_of_commits(2000)
    }

    /// Starts a controller whose transactions have at most so many operations.
    pub fn controller_of_commits(&self, largest_commit: usize) -> Controller {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = Options {
            kubeconfig: Some(self.directory.path().join("kubeconfig")),
            northbound: self.database.remote().to_owned(),
            databases: None,
            certificates: None,
            probe: Duration::from_secs(5),
            largest_commit,
            http: Some(address),
            tls: None,
        };
        let stop = CancellationToken::new();
        Controller {
            address,
            running: tokio::spawn(netloom_controller::run(options, stop.clone())),
            stop,
        }
    }
}

/// A running controller; dropping it kills it where it stands.
pub struct Controller {
    address: SocketAddr,
    running: JoinHandle<anyhow::Result<()>>,
    stop: CancellationToken,
}

impl Controller {
    /// Asks it to stop and waits until it has.
    pub async fn stop(mut self) {
        self.stop.cancel();
        within("the controller to stop", &mut self.running).await.unwrap().unwrap();
    }

    /// Kills it, and waits until nothing of it is left.
    pub async fn kill(mut self) {
        self.running.abort();
        assert!(within("the controller's end", &mut self.running).await.unwrap_err().is_cancelled());
    }

    /// Waits until it says it is ready.
    pub async fn ready(&self) {
        let ready = async || self.get("/readyz").await.is_some_and(|answer| answer.starts_with("HTTP/1.0 200"));
        self.probe("the controller to be ready", ready).await;
    }

    /// Waits until a metric has a value.
    pub async fn has(&self, metric: &str, value: f64) {
        self.probe(metric, async || self.metric(metric).await == Some(value)).await;
    }

    /// Asks again and again, as a kubelet does: a standby writes nothing by which to tell.
    async fn probe(&self, waiting_for: &str, mut holds: impl AsyncFnMut() -> bool) {
        let mut interval = tokio::time::interval(Duration::from_millis(20));
        let asking = async {
            while !holds().await {
                interval.tick().await;
            }
        };
        within(waiting_for, asking).await;
    }

    /// What it answers on its health and metrics address; nothing while it does not listen.
    pub async fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).await.ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    }

    /// The value of one metric.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let text = self.get("/metrics").await?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("netloom_controller_{name} ")))?;
        line.parse().ok()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.running.abort();
    }
}
