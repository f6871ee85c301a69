//! The Kubernetes side of a lab: kubeconfigs, the objects it has from the first, and waiting until every node is Ready.
//!
//! Speaks to the lab's API server with the same client the product uses. Waits are watches.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::Context as _;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Config};
use netloom_apiserver::server_url;
use serde_json::{Value, json};

use crate::dns;
use crate::home::{Home, Record, write_private};
use crate::spec::{API_PORT, IpFamily, Machine};

/// The manifests a cluster needs before anything else, embedded at build time.
const MANIFESTS: &[&str] = include!(concat!(env!("OUT_DIR"), "/manifests.rs"));

/// The Service of the cluster's DNS.
const DNS_SERVICE: &str = "kube-dns";

/// Writes the kubeconfig for people and the one for the machines.
pub fn write_kubeconfigs(home: &Home, record: &Record) -> anyhow::Result<()> {
    let outer = server_url((Ipv4Addr::LOCALHOST, record.api_port).into(), &record.token);
    let inner = server_url((Machine::Control.v4(), API_PORT).into(), &record.token);
    write_private(&home.kubeconfig(), kubeconfig(&record.spec.name, &outer, &record.token).as_bytes())?;
    write_private(
        &home.inner_kubeconfig(),
        kubeconfig(&record.spec.name, &inner, &record.token).as_bytes(),
    )
}

fn kubeconfig(name: &str, server: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    server: {server}\nusers:\n- name: {name}\n  user:\n    token: {token}\n\
         contexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n    namespace: default\ncurrent-context: {name}\n"
    )
}

/// The token in a kubeconfig that [`write_kubeconfigs`] wrote.
pub fn token(kubeconfig: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
    let file: Value = serde_saphyr::from_str(&text).with_context(|| format!("understanding {}", kubeconfig.display()))?;
    file.pointer("/users/0/user/token")
        .and_then(Value::as_str)
        .map(String::from)
        .with_context(|| format!("no token in {}", kubeconfig.display()))
}

/// A client for the API server named in this kubeconfig.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .context("understanding the kubeconfig")?;
    config.read_timeout = None; // watches are quiet for as long as nothing happens
    Client::try_from(config).context("making a Kubernetes client")
}

/// What a cluster has from the first: the product's resource definitions, the description of its network, and the Service by which pods
/// reach the DNS part. They are there before anything is served: a controller that saw the definitions alone would choose ranges itself.
pub fn objects(family: IpFamily) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for manifest in MANIFESTS {
        let documents: Vec<Value> = serde_saphyr::from_multiple(manifest).context("understanding an embedded manifest")?;
        objects.extend(documents.into_iter().filter(|document| !document.is_null()));
    }
    if !MANIFESTS.is_empty() {
        objects.push(default_network(family));
    }
    objects.extend(dns_service(family));
    Ok(objects)
}

fn dns_service(family: IpFamily) -> Vec<Value> {
    let addresses = family.cluster_dns();
    let port = |name: &str, protocol: &str| json!({"name": name, "port": dns::PORT, "protocol": protocol});
    let ports = json!([port("dns", "UDP"), port("dns-tcp", "TCP")]);
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": DNS_SERVICE,
            "namespace": "kube-system",
            "labels": {"k8s-app": DNS_SERVICE, "kubernetes.io/name": "CoreDNS"},
        },
        "spec": {"clusterIP": addresses.first(), "clusterIPs": addresses, "ports": ports},
    });
    let endpoints = family.pick(
        ("IPv4", IpAddr::from(Machine::Control.v4())),
        ("IPv6", IpAddr::from(Machine::Control.v6())),
    );
    let slices = endpoints.into_iter().map(|(kind, address)| {
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{DNS_SERVICE}-{}", kind.to_lowercase()),
                "namespace": "kube-system",
                "labels": {"kubernetes.io/service-name": DNS_SERVICE},
            },
            "addressType": kind,
            "endpoints": [{"addresses": [address], "conditions": {"ready": true, "serving": true, "terminating": false}}],
            "ports": ports,
        })
    });
    std::iter::once(service).chain(slices).collect()
}

fn default_network(family: IpFamily) -> Value {
    json!({
        "apiVersion": "netloom.io/v1alpha1",
        "kind": "ClusterNetwork",
        "metadata": {"name": "default"},
        "spec": {
            "clusterCIDRs": family.pick(
                json!({"cidr": "10.244.0.0/16", "nodePrefix": 24}),
                json!({"cidr": "fd00:10:244::/48", "nodePrefix": 64}),
            ),
            "joinCIDRs": family.pick("100.64.0.0/16", "fd98::/64"),
        },
    })
}

/// Returns when every node says it is Ready; `progress` gets each node's name when it is.
///
/// `boots` maps node names to the boot ID of their present power-on: what a node said before that does not count.
pub async fn wait_for_nodes(client: &Client, boots: &BTreeMap<String, String>, mut progress: impl FnMut(&str)) -> anyhow::Result<()> {
    let mut missing: BTreeMap<&str, &str> = boots.iter().map(|(name, boot)| (name.as_str(), boot.as_str())).collect();
    let mut nodes = Box::pin(
        watcher(Api::<Node>::all(client.clone()), watcher::Config::default())
            .default_backoff()
            .applied_objects(),
    );
    while !missing.is_empty() {
        let node = nodes
            .try_next()
            .await
            .context("watching nodes")?
            .context("the watch of nodes ended")?;
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let boot = node
            .status
            .as_ref()
            .and_then(|status| status.node_info.as_ref())
            .map(|info| info.boot_id.as_str());
        if missing.get(name).copied() == boot && boot.is_some() && is_ready(&node) {
            missing.remove(name);
            progress(name);
        }
    }
    Ok(())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|condition| condition.type_ == "Ready")
        .any(|condition| condition.status == "True")
}

/// Why each of these nodes is not Ready, for people.
pub async fn explain_nodes(client: &Client, boots: &BTreeMap<String, String>) -> Vec<String> {
    let api = Api::<Node>::all(client.clone());
    let mut reasons = Vec::new();
    for name in boots.keys() {
        let reason = match api.get(name).await {
            Ok(node) if is_ready(&node) => continue,
            Ok(node) => node
                .status
                .and_then(|status| status.conditions)
                .into_iter()
                .flatten()
                .find(|condition| condition.type_ == "Ready")
                .and_then(|condition| condition.message)
                .unwrap_or_else(|| "it has not said why".into()),
            Err(error) => format!("{error}"),
        };
        reasons.push(format!("{name}: {reason}"));
    }
    reasons
}
