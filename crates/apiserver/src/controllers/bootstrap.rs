//! The objects every cluster has: its first namespaces, and the `kubernetes` Service that leads to this server. Made
//! before the first request is served; existing ones stay as they are.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{
    api::{Api, Part},
    json,
    status::{Failure, Result},
};

/// Namespaces that always exist.
pub const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Makes what is missing.
pub async fn run(api: &Api, advertise: &[SocketAddr]) -> Result<()> {
    for name in NAMESPACES {
        ensure(api, "", "namespaces", "", json!({ "metadata": { "name": name } })).await?;
    }
    let Some(port) = advertise.first().map(SocketAddr::port) else {
        return Ok(());
    };
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    let reachable = |address: &std::net::IpAddr| advertise.iter().any(|a| a.is_ipv4() == address.is_ipv4());
    let addresses: Vec<_> = api.addresses.first().into_iter().filter(reachable).map(|a| a.to_string()).collect();
    let service = json!({
        "metadata": { "name": "kubernetes", "labels": labels },
        "spec": {
            "type": "ClusterIP", "clusterIP": addresses.first(), "clusterIPs": addresses,
            "ports": [{ "name": "http", "port": port, "targetPort": port, "protocol": "TCP" }],
        },
    });
    ensure(api, "", "services", "default", service).await?;
    for (family, suffix) in [("IPv4", ""), ("IPv6", "-ipv6")] {
        let endpoints: Vec<_> = advertise.iter().filter(|a| a.is_ipv4() == (family == "IPv4")).collect();
        if endpoints.is_empty() {
            continue;
        }
        let endpoints: Vec<_> = endpoints
            .iter()
            .map(|a| json!({ "addresses": [a.ip().to_string()], "conditions": { "ready": true, "serving": true, "terminating": false } }))
            .collect();
        let slice = json!({
            "metadata": { "name": format!("kubernetes{suffix}"), "labels": { "kubernetes.io/service-name": "kubernetes" } },
            "addressType": family, "endpoints": endpoints,
            "ports": [{ "name": "http", "port": port, "protocol": "TCP" }],
        });
        ensure(api, "discovery.k8s.io", "endpointslices", "default", slice).await?;
    }
    Ok(())
}

/// Makes the objects that are missing. A definition that exists becomes like the one given, which may be of a later version; any other
/// object stays as it is, because people may have changed it.
pub async fn provide(api: &Api, objects: &[Value]) -> Result<()> {
    for wanted in objects {
        let (version, kind) = (json::text(wanted, "/apiVersion"), json::text(wanted, "/kind"));
        let kind = api.registry.by_name(version, kind);
        let kind = kind.ok_or_else(|| Failure::internal(format!("{wanted} is of a kind that is not served")))?;
        let (namespace, name) = (json::namespace(wanted), json::name(wanted));
        match api.create(&kind, namespace, wanted.clone(), false).await {
            Err(Failure {
                reason: "AlreadyExists", ..
            }) if kind.is("customresourcedefinitions") => {
                let change = |old: &Value| {
                    let mut new = old.clone();
                    new["spec"] = wanted["spec"].clone();
                    Ok(new)
                };
                api.update(&kind, namespace, name, Part::Main, false, change).await?;
            }
            Err(Failure {
                reason: "AlreadyExists", ..
            }) => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// Makes an object, or gives an existing one the wanted top-level fields.
async fn ensure(api: &Api, group: &str, plural: &str, namespace: &str, wanted: Value) -> Result<()> {
    let kind = api.registry.find(group, "v1", plural)?;
    let name = json::name(&wanted).to_owned();
    match api.create(&kind, namespace, wanted.clone(), false).await {
        Err(Failure {
            reason: "AlreadyExists", ..
        }) if plural == "endpointslices" => {
            let change = |old: &Value| {
                let mut new = old.clone();
                for field in ["endpoints", "ports"] {
                    new[field] = wanted[field].clone();
                }
                Ok(new)
            };
            api.update(&kind, namespace, &name, Part::Main, false, change).await.map(drop)
        }
        Err(Failure {
            reason: "AlreadyExists", ..
        }) => Ok(()),
        other => other.map(drop),
    }
}
