//! A server on loopback with a store of its own, and the real kubectl pointed at it.
#![allow(dead_code, missing_docs)]

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::Arc,
};

use netloom_apiserver::{Kubelet, NoKubelet, Options, ServerError, server_url};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const TOKEN: &str = "c0ffee";

pub struct Lab {
    pub directory: TempDir,
    pub address: SocketAddr,
    stop: CancellationToken,
    server: Option<JoinHandle<Result<(), ServerError>>>,
}

impl Lab {
    pub async fn start() -> Self {
        Self::with_kubelet(Arc::new(NoKubelet)).await
    }

    pub async fn with_kubelet(kubelet: Arc<dyn Kubelet>) -> Self {
        let directory = TempDir::new().unwrap();
        let mut lab = Self {
            directory,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            stop: CancellationToken::new(),
            server: None,
        };
        lab.serve(kubelet);
        lab
    }

    fn serve(&mut self, kubelet: Arc<dyn Kubelet>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        self.address = listener.local_addr().unwrap();
        self.stop = CancellationToken::new();
        let options = Options {
            listeners: vec![listener],
            data: self.directory.path().join("objects.redb"),
            token: TOKEN.into(),
            service_cidrs: vec!["10.96.0.0/16".parse().unwrap(), "fd00:10:96::/112".parse().unwrap()],
            advertise: vec!["192.0.2.1:6443".parse().unwrap()],
            kubelet,
            stop: self.stop.clone(),
        };
        self.server = Some(tokio::spawn(netloom_apiserver::run(options)));
        let server = server_url(self.address, TOKEN);
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{ "name": "lab", "cluster": { "server": server } }],
            "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
            "users": [{ "name": "lab", "user": {} }],
        });
        std::fs::write(self.directory.path().join("kubeconfig"), config.to_string()).unwrap();
    }

    pub async fn stop(&mut self) {
        self.stop.cancel();
        self.server.take().unwrap().await.unwrap().unwrap();
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.serve(Arc::new(NoKubelet));
    }

    pub fn client(&self) -> kube::Client {
        let mut config = kube::Config::new(format!("http://{}", self.address).parse().unwrap());
        config.auth_info.token = Some(TOKEN.to_owned().into());
        kube::Client::try_from(config).unwrap()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(kubectl());
        command
            .args(arguments)
            .env("KUBECONFIG", self.directory.path().join("kubeconfig"))
            .env("HOME", self.directory.path())
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs kubectl and gives what it printed; both streams, and whether it succeeded.
    pub async fn try_kubectl(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = self.command(arguments);
        let output: Output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        let (success, text) = self.try_kubectl(arguments).await;
        assert!(success, "kubectl {arguments:?}: {text}");
        text
    }

    /// Runs kubectl that must fail, and gives its message.
    pub async fn refused(&self, arguments: &[&str]) -> String {
        let (success, text) = self.try_kubectl(arguments).await;
        assert!(!success, "kubectl {arguments:?} succeeded: {text}");
        text
    }

    /// Writes a manifest and gives its path.
    pub fn manifest(&self, name: &str, content: &str) -> String {
        let path: PathBuf = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Makes a node that is ready.
    pub async fn node(&self, name: &str) {
        let node = format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{conditions: [{{type: Ready, status: 'True'}}], addresses: [{{type: InternalIP, address: 172.30.0.2}}]}}\n"
        );
        let path = self.manifest(&format!("node-{name}.yaml"), &node);
        self.kubectl(&["create", "-f", &path]).await;
    }
}

fn kubectl() -> PathBuf {
    if let Some(path) = std::env::var_os("NETLOOM_KUBECTL") {
        return path.into();
    }
    let path = netloom_fixtures::image().join("usr/bin/kubectl");
    assert!(path.exists(), "no kubectl at {}: run `make rootfs` first", path.display());
    path
}
