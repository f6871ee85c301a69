//! A Kubernetes API on the node's loopback, with `kubectl` to look at it; it ends with the test.

use std::sync::Arc;

use netloom_apiserver::NoKubelet;
use tokio_util::sync::CancellationToken;

use super::World;

/// The server.
pub struct Api {
    runtime: Option<tokio::runtime::Runtime>,
    stop: CancellationToken,
    _data: tempfile::TempDir,
}

impl World {
    /// Starts a Kubernetes API; its kubeconfig is `/root/kubeconfig`.
    pub fn start_api(&self) -> Api {
        let data = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let address = "127.0.0.1:6443".parse().unwrap();
        let options = netloom_apiserver::Options {
            listeners: vec![self.listen("127.0.0.1:6443")],
            data: data.path().join("objects"),
            token: "t0ken".to_owned(),
            service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
            advertise: vec![address],
            kubelet: Arc::new(NoKubelet),
            stop: stop.clone(),
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.spawn(netloom_apiserver::run(options));
        let url = netloom_apiserver::server_url(address, "t0ken");
        self.sh(&format!(
            "printf 'apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \"{url}\"}}}}]\n\
             users: [{{name: u, user: {{token: t0ken}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n' >/root/kubeconfig"
        ));
        Api {
            runtime: Some(runtime),
            stop,
            _data: data,
        }
    }

    /// Runs kubectl on the node; returns what it printed.
    pub fn kubectl(&self, arguments: &str) -> String {
        self.sh(&format!("KUBECONFIG=/root/kubeconfig kubectl {arguments}"))
    }

    /// Registers the node, with this specification.
    pub fn register(&self, spec: &str) {
        self.sh(&format!(
            "printf 'apiVersion: v1\nkind: Node\nmetadata: {{name: node1}}\nspec: {spec}\n' | KUBECONFIG=/root/kubeconfig kubectl create -f -"
        ));
    }

    /// An annotation of the node, by its name after `netloom.io/`.
    pub fn annotation(&self, name: &str) -> String {
        self.kubectl(&format!(
            "get node node1 -o jsonpath='{{.metadata.annotations.netloom\\.io/{name}}}'"
        ))
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
