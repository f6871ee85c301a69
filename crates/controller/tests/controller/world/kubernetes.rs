//! The Kubernetes API on loopback with a store of its own, and what a user, a kubelet or an agent does with it.

use std::collections::BTreeMap;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use netloom_apiserver::{NoKubelet, ServerError, server_url};
use netloom_kubernetes::Kind;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::within;

const TOKEN: &str = "c0ffee";

/// The API server, its address and its store.
pub struct Kubernetes {
    address: SocketAddr,
    data: PathBuf,
    serving: Option<(CancellationToken, JoinHandle<Result<(), ServerError>>)>,
    pub client: Client,
}

impl Kubernetes {
    /// Serves a cluster that knows our resources, and writes its kubeconfig.
    pub async fn start(directory: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = server_url(address, TOKEN);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": { "server": server } }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
            "users": [{ "name": "test", "user": {} }],
        });
        let kubeconfig = directory.join("kubeconfig");
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let data = directory.join("objects.redb");
        let kubernetes = Kubernetes {
            address,
            serving: Some(serve(listener, &data)),
            data,
            client: netloom_controller::kubernetes(Some(&kubeconfig)).await.unwrap(),
        };
        kubernetes.install_crds().await;
        kubernetes
    }

    /// Takes the API away.
    pub async fn stop(&mut self) {
        let (stop, serving) = self.serving.take().unwrap();
        stop.cancel();
        within("the API server to stop", serving).await.unwrap().unwrap();
    }

    /// Serves the same store at the same address again.
    pub fn start_again(&mut self) {
        self.serving = Some(serve(TcpListener::bind(self.address).unwrap(), &self.data));
    }

    /// The API as somebody sees it whom the outage does not concern: the same store at another address.
    pub async fn elsewhere(&self) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let config = kube::Config::new(server_url(address, TOKEN).parse().unwrap());
        Kubernetes {
            address,
            serving: Some(serve(listener, &self.data)),
            data: self.data.clone(),
            client: Client::try_from(config).unwrap(),
        }
    }

    /// A node with an address; its number is the last character of its name.
    pub async fn node(&self, name: &str) {
        let number = name.chars().last().unwrap();
        let node = json!({
            "metadata": { "name": name },
            "status": { "addresses": [{ "type": "InternalIP", "address": format!("172.30.0.{number}") }] },
        });
        create(&self.nodes(), node).await;
    }

    /// A pod bound to a node.
    pub async fn pod(&self, name: &str, node: &str) {
        self.annotated_pod(name, node, json!({})).await;
    }

    pub async fn annotated_pod(&self, name: &str, node: &str, annotations: Value) {
        let pod = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "main" }] },
        });
        create(&self.pods(), pod).await;
    }

    /// Deletes a pod whose containers have already ended.
    pub async fn delete_pod(&self, name: &str) {
        let now = DeleteParams::default().grace_period(0);
        within("the pod's deletion", self.pods().delete(name, &now)).await.unwrap();
    }

    /// Writes, or with `null` removes, an annotation of a pod.
    pub async fn annotate_pod(&self, name: &str, annotation: &str, value: Value) {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { annotation: value } } }));
        let patched = self.pods().patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    /// Shows a pod's addresses in its status, as its kubelet does.
    pub async fn show_addresses(&self, name: &str, addresses: &[String]) {
        let ips: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
        let patch = Patch::Merge(json!({ "status": { "phase": "Running", "podIP": addresses[0], "podIPs": ips } }));
        self.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Makes or changes the addressing of the cluster; `10.244.0.0/16=29` gives each node a /29.
    pub async fn network(&self, ranges: &[&str]) {
        let range = |text: &&str| match text.split_once('=') {
            Some((cidr, prefix)) => json!({ "cidr": cidr, "nodePrefix": prefix.parse::<u8>().unwrap() }),
            None => json!({ "cidr": text }),
        };
        let cidrs: Vec<Value> = ranges.iter().map(range).collect();
        let network = json!({
            "apiVersion": "netloom.io/v1alpha1", "kind": "ClusterNetwork", "metadata": { "name": "default" },
            "spec": { "clusterCIDRs": cidrs },
        });
        match self.networks().get_opt("default").await.unwrap() {
            None => create(&self.networks(), network).await,
            Some(_) => {
                let patch = self
                    .networks()
                    .patch("default", &PatchParams::default(), &Patch::Merge(network))
                    .await;
                patch.unwrap();
            }
        }
    }

    pub async fn delete_network(&self) {
        self.networks().delete("default", &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a pod has our condition with this status and reason; gives its message.
    pub async fn pod_condition(&self, name: &str, status: &str, reason: &str) -> String {
        self.condition(&self.pods(), name, "netloom.io/NetworkReady", status, reason).await
    }

    /// Waits until a node has our condition with this status and reason; gives its message.
    pub async fn node_condition(&self, name: &str, status: &str, reason: &str) -> String {
        self.condition(&self.nodes(), name, "netloom.io/NetworkReady", status, reason).await
    }

    /// Waits until the addressing has the condition `Ready` with this status and reason; gives its message.
    pub async fn network_condition(&self, status: &str, reason: &str) -> String {
        self.condition(&self.networks(), "default", "Ready", status, reason).await
    }

    /// Waits until a node has an annotation, and gives its value.
    pub async fn node_annotation(&self, name: &str, annotation: &str) -> String {
        let value = |node: Option<&Node>| node?.metadata.annotations.as_ref()?.get(annotation).cloned();
        let annotated = await_condition(self.nodes(), name, |node: Option<&Node>| value(node).is_some());
        let node = within(&format!("{annotation} of {name}"), annotated).await.unwrap();
        value(node.as_ref()).unwrap()
    }

    /// The annotations a node has now.
    pub async fn annotations_of_node(&self, name: &str) -> BTreeMap<String, String> {
        self.nodes().get(name).await.unwrap().metadata.annotations.unwrap_or_default()
    }

    /// Waits for an Event with this reason about an object; gives its message.
    pub async fn event(&self, name: &str, reason: &str) -> String {
        let api: Api<Event> = Api::all(self.client.clone());
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).applied_objects());
        let found = async {
            loop {
                let event = events.try_next().await.unwrap().unwrap();
                if event.involved_object.name.as_deref() == Some(name) && event.reason.as_deref() == Some(reason) {
                    return event.message.unwrap();
                }
            }
        };
        within(&format!("an Event {reason} of {name}"), found).await
    }

    pub async fn condition<K>(&self, api: &Api<K>, name: &str, kind: &str, status: &str, reason: &str) -> String
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize + Send + 'static,
    {
        let message = |object: Option<&K>| {
            let object = serde_json::to_value(object?).ok()?;
            let conditions = object.pointer("/status/conditions")?.as_array()?;
            let ours = conditions.iter().find(|condition| condition["type"] == kind)?;
            (ours["status"] == status && ours["reason"] == reason).then(|| ours["message"].as_str().unwrap_or_default().to_owned())
        };
        let shown = await_condition(api.clone(), name, |object: Option<&K>| message(object).is_some());
        let object = within(&format!("{kind}={status} ({reason}) of {name}"), shown).await.unwrap();
        message(object.as_ref()).unwrap()
    }

    async fn install_crds(&self) {
        for manifest in Kind::definitions() {
            let definition: CustomResourceDefinition = serde_saphyr::from_str(manifest).unwrap();
            let name = definition.metadata.name.clone().unwrap();
            let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
            api.create(&PostParams::default(), &definition).await.unwrap();
            let established = await_condition(api, &name, kube::runtime::conditions::is_crd_established());
            within("the resource definition", established).await.unwrap();
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(super) fn networks(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &netloom_controller::resource(Kind::ClusterNetwork))
    }
}

fn serve(listener: TcpListener, data: &Path) -> (CancellationToken, JoinHandle<Result<(), ServerError>>) {
    let stop = CancellationToken::new();
    let options = netloom_apiserver::Options {
        listeners: vec![listener],
        data: data.to_owned(),
        token: TOKEN.to_owned(),
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        advertise: Vec::new(),
        kubelet: Arc::new(NoKubelet),
        stop: stop.clone(),
    };
    (stop, tokio::spawn(netloom_apiserver::run(options)))
}

pub(super) async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    within("an object's creation", api.create(&PostParams::default(), &object))
        .await
        .unwrap();
}
