//! Reads Kubernetes objects down to what the doctor judges by. Called by `gather`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Secret};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt as _};
use netloom_contract::annotation::{GATEWAY, NOT_READY};
use netloom_kubernetes::Kind;
use netloom_network::Object;
use netloom_network::settings::ClusterNetworkSpec;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::kubernetes::{list, list_or_none, unseen};
use crate::unseen::{Seen, Unseen};

/// A definition of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// As `clusternetworks.netloom.io`.
    pub name: String,
    /// Whether the API server serves it.
    pub established: bool,
}

/// The ClusterNetwork `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// As written.
    pub spec: ClusterNetworkSpec,
    /// What the controller says of it.
    pub ready: Option<Condition>,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether it is `True`.
    pub is_true: bool,
    /// Why, and what to do.
    pub message: String,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// Its condition Ready.
    pub ready: Option<Condition>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// What its agent reported of the gateway.
    pub gateway: Option<String>,
    /// Whether the taint that keeps pods away is still there.
    pub tainted: bool,
    /// Version of its kubelet.
    pub kubelet: String,
}

/// A pod of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSeen {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Why a container of it does not run.
    pub waiting: Option<String>,
}

/// A Deployment, StatefulSet or DaemonSet of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// As `DaemonSet/netloom-agent`.
    pub name: String,
    /// Pods there should be.
    pub wanted: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Images of its containers.
    pub images: Vec<String>,
}

/// A DaemonSet of anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSetSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Pods there should be.
    pub wanted: i32,
}

/// Definitions of our kinds, and of cluster-wide policies.
pub async fn definitions(client: &Client) -> Seen<Vec<Definition>> {
    let all = list(Api::<CustomResourceDefinition>::all(client.clone()), &ListParams::default()).await?;
    let names: Vec<String> = Kind::ALL.iter().map(|kind| kind.qualified()).collect();
    let ours = all.iter().filter(|definition| names.contains(&definition.name_any()));
    Ok(ours
        .map(|definition| {
            let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
            Definition {
                name: definition.name_any(),
                established: conditions.into_iter().any(|c| c.type_ == "Established" && c.status == "True"),
            }
        })
        .collect())
}

/// The ClusterNetwork `default`, if there is one.
pub async fn network(client: &Client) -> Seen<Option<Network>> {
    let kind = Kind::ClusterNetwork;
    let networks: Api<DynamicObject> = Api::all_with(client.clone(), &netloom_controller::resource(kind));
    let Some(object) = networks.get_opt("default").await.map_err(unseen)? else {
        return Ok(None);
    };
    let object = serde_json::to_value(object).map_err(Unseen::error)?;
    let spec = match kind.deserialize(&object).map(|read| read.object) {
        Ok(Some(Object::ClusterNetwork(network))) => network.spec,
        _ => ClusterNetworkSpec::default(),
    };
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|condition| condition["type"].as_str() == kind.resource().condition);
    Ok(Some(Network {
        spec,
        ready: conditions.next().map(|condition| Condition {
            is_true: condition["status"] == "True",
            message: condition["message"].as_str().unwrap_or_default().to_owned(),
        }),
    }))
}

/// Ranges of ServiceCIDR objects; none where the API server does not have them yet.
pub async fn service_cidrs(client: &Client) -> Seen<Vec<String>> {
    let all = list_or_none(Api::<ServiceCIDR>::all(client.clone()), &ListParams::default()).await?;
    Ok(all.into_iter().filter_map(|object| object.spec?.cidrs).flatten().collect())
}

/// Nodes.
pub async fn nodes(client: &Client) -> Seen<Vec<NodeSeen>> {
    let all = list(Api::<Node>::all(client.clone()), &ListParams::default()).await?;
    Ok(all.iter().map(node).collect())
}

fn node(node: &Node) -> NodeSeen {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let addresses = status.and_then(|status| status.addresses.as_ref()).into_iter().flatten();
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    NodeSeen {
        name: node.name_any(),
        ready: conditions.into_iter().find(|c| c.type_ == "Ready").map(|c| Condition {
            is_true: c.status == "True",
            message: c.message.clone().unwrap_or_default(),
        }),
        addresses: addresses.filter_map(|address| address.address.parse().ok()).collect(),
        gateway: node.annotations().get(GATEWAY).cloned(),
        tainted: taints.any(|taint| taint.key == NOT_READY),
        kubelet: status
            .and_then(|status| status.node_info.as_ref())
            .map(|info| info.kubelet_version.clone())
            .unwrap_or_default(),
    }
}

/// When each node renewed its lease, by its own clock.
pub async fn renewals(client: &Client) -> Seen<BTreeMap<String, i64>> {
    let all = list_or_none(Api::<Lease>::namespaced(client.clone(), "kube-node-lease"), &ListParams::default()).await?;
    let renewal = |lease: &Lease| Some((lease.name_any(), lease.spec.as_ref()?.renew_time.as_ref()?.0.as_second()));
    Ok(all.iter().filter_map(renewal).collect())
}

/// Pods of the DaemonSet of agents.
pub async fn agents(client: &Client, namespace: &str) -> Seen<Vec<PodSeen>> {
    let all = list(Api::<Pod>::namespaced(client.clone(), namespace), &ListParams::default()).await?;
    let of_agents = |pod: &&Pod| {
        pod.owner_references()
            .iter()
            .any(|owner| owner.kind == "DaemonSet" && owner.name == "netloom-agent")
    };
    Ok(all.iter().filter(of_agents).map(pod).collect())
}

fn pod(pod: &Pod) -> PodSeen {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let waiting = containers.filter_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        Some(format!("{}: {}", container.name, waiting.reason.as_deref().unwrap_or("waiting")))
    });
    PodSeen {
        name: pod.name_any(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        ready: conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True"),
        waiting: waiting.into_iter().next(),
    }
}

/// Workloads in our namespace.
pub async fn workloads(client: &Client, namespace: &str) -> Seen<Vec<Workload>> {
    let every = ListParams::default();
    let (deployments, stateful, daemons) = tokio::join!(
        list_or_none(Api::<Deployment>::namespaced(client.clone(), namespace), &every),
        list_or_none(Api::<StatefulSet>::namespaced(client.clone(), namespace), &every),
        list_or_none(Api::<DaemonSet>::namespaced(client.clone(), namespace), &every),
    );
    let images = |spec: Option<&PodSpec>| {
        spec.into_iter()
            .flat_map(|spec| &spec.containers)
            .filter_map(|c| c.image.clone())
            .collect()
    };
    let deployments = deployments?.into_iter().map(|object| Workload {
        name: format!("Deployment/{}", object.name_any()),
        wanted: object.spec.replicas.unwrap_or(1),
        ready: object.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0),
        images: images(object.spec.template.spec.as_ref()),
    });
    let stateful = stateful?.into_iter().map(|object| Workload {
        name: format!("StatefulSet/{}", object.name_any()),
        wanted: object.spec.replicas.unwrap_or(1),
        ready: object.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0),
        images: images(object.spec.template.spec.as_ref()),
    });
    let daemons = daemons?.into_iter().map(|object| Workload {
        name: format!("DaemonSet/{}", object.name_any()),
        wanted: object.status.as_ref().map_or(0, |status| status.desired_number_scheduled),
        ready: object.status.as_ref().map_or(0, |status| status.number_ready),
        images: images(object.spec.template.spec.as_ref()),
    });
    Ok(deployments.chain(stateful).chain(daemons).collect())
}

/// DaemonSets of all namespaces.
pub async fn daemon_sets(client: &Client) -> Seen<Vec<DaemonSetSeen>> {
    let all = list_or_none(Api::<DaemonSet>::all(client.clone()), &ListParams::default()).await?;
    Ok(all
        .into_iter()
        .map(|object| DaemonSetSeen {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            wanted: object.status.as_ref().map_or(0, |status| status.desired_number_scheduled),
        })
        .collect())
}

/// Pending pods whose network has a problem, so that a large cluster costs little.
pub async fn refused_pods(client: &Client) -> Seen<Vec<String>> {
    let pending = ListParams::default().fields("status.phase=Pending");
    let all = list(Api::<Pod>::all(client.clone()), &pending).await?;
    let refused = |pod: &&Pod| {
        let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|c| Some(c.type_.as_str()) == Kind::Pod.resource().condition && c.status == "False")
    };
    let name = |pod: &Pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    Ok(all.iter().filter(refused).map(name).collect())
}

/// From when until when the certificates in our secrets are valid. Most accounts may not read secrets, and need not.
pub async fn secrets(client: &Client, namespace: &str) -> Seen<BTreeMap<String, (i64, i64)>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut valid = BTreeMap::new();
    for (name, file) in [
        ("netloom-ca", "ca.crt"),
        ("netloom-member-ca", "ca.crt"),
        ("netloom-member-tls", "tls.crt"),
        ("netloom-northbound-tls", "tls.crt"),
    ] {
        let secret = secrets.get_opt(name).await.map_err(unseen)?;
        let pem = secret.and_then(|secret| secret.data?.remove(file));
        let Some(pem) = pem else { continue };
        let der = CertificateDer::from_pem_slice(&pem.0).map_err(Unseen::error)?;
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).map_err(Unseen::error)?;
        let validity = certificate.validity();
        valid.insert(name.to_owned(), (validity.not_before.timestamp(), validity.not_after.timestamp()));
    }
    Ok(valid)
}
