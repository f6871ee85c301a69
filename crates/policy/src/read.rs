//! From Kubernetes objects to a [`Cluster`]: typed ones as the API gives them, and manifests. Values that cannot be read are left out,
//! as the API server would not have let them in; mistakes in policies are kept, because they are what this crate is asked about.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace as NamespaceObject, Node as NodeObject, Pod as PodObject, PodSpec, Service as ServiceObject};
use k8s_openapi::api::discovery::v1::{Endpoint as EndpointObject, EndpointSlice};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::cluster::{Cluster, ContainerPort, Name, Namespace, Node, Pod, Protocol};
use crate::cluster_policy::{ClusterKind, ClusterPolicy, ClusterPolicyName};
use crate::fields;
use crate::group::{self, SecurityGroup};
use crate::isolation::Isolation;
use crate::network::{self, Network};
use crate::policy::Policy;
use crate::service::{Endpoint, Service, ServicePort, Slice, SlicePort, TargetPort};

/// Beginning of the apiVersion of our kinds.
const OURS: &str = "netloom.io/";
/// Label that names a slice's service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Annotation with a node's subnets, written by the controller.
const SUBNETS: &str = "netloom.io/subnets";
/// Place of a node's management port in each of its subnets: where it talks to pods from.
const MANAGEMENT_PORT: u8 = 2;
/// Place of a node's service port in each of its subnets: where it talks to services from.
const SERVICE_PORT: u8 = 3;

impl Cluster {
    /// Adds what a manifest holds. Kinds policies do not depend on give nothing; a workload stands for the pods it would create; a
    /// malformed manifest gives a sentence naming it.
    pub fn add_manifest(&mut self, manifest: &Value) -> Result<(), String> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let known = [
            "Namespace",
            "Node",
            "Pod",
            "Port",
            "Service",
            "EndpointSlice",
            "NetworkPolicy",
            "ClusterNetworkPolicy",
            "AdminNetworkPolicy",
            "BaselineAdminNetworkPolicy",
            "SecurityGroup",
            "Network",
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
        ];
        if kind.ends_with("List") {
            let items = manifest.get("items").and_then(Value::as_array);
            return items.into_iter().flatten().try_for_each(|item| self.add_manifest(item));
        }
        if known.contains(&kind) && name.is_empty() {
            return Err(format!("{kind}: metadata.name is missing"));
        }
        match kind {
            "Namespace" => self.add_namespace(&typed(manifest)?),
            "Node" => self.add_node(&typed(manifest)?),
            "Pod" => self.add_pod(&typed(manifest)?),
            "Service" => self.add_service(&typed(manifest)?),
            "EndpointSlice" => self.add_slice(&typed(manifest)?),
            "NetworkPolicy" => {
                let object: NetworkPolicy = typed(manifest)?;
                self.add_policy(&object);
                let name = named(&object.metadata);
                if let (Some(policy), Some(spec)) = (self.policies.get_mut(&name), manifest.get("spec")) {
                    fields::close_unknown(&name, policy, spec);
                }
            }
            // Others have kinds of these names too.
            "Network" | "Port" if !(text("/apiVersion").is_empty() || text("/apiVersion").starts_with(OURS)) => {}
            "Network" => drop(self.networks.insert(name.to_owned(), Network::read(name, &manifest["spec"]))),
            "Port" => self.add_port(manifest)?,
            "SecurityGroup" => {
                let name = named(&part(manifest, manifest, "metadata")?);
                let group = SecurityGroup::read(&name, &manifest["spec"]);
                self.groups.insert(name, group);
            }
            "Deployment" | "ReplicaSet" | "StatefulSet" => self.add_workload(manifest)?,
            _ => {
                if let Some(kind) = ClusterKind::ALL.into_iter().find(|other| other.name() == kind) {
                    let name = name.to_owned();
                    let name = ClusterPolicyName { kind, name };
                    let policy = ClusterPolicy::read(&name, &manifest["spec"]);
                    self.cluster_policies.insert(name, policy);
                }
            }
        }
        Ok(())
    }

    /// Adds a namespace.
    pub fn add_namespace(&mut self, object: &NamespaceObject) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let annotations = object.metadata.annotations.clone().unwrap_or_default();
        let (isolation, problems) = Isolation::read(&name, &annotations);
        let labels = object.metadata.labels.clone().unwrap_or_default();
        let namespace = Namespace {
            labels,
            isolation,
            network: network::named(&annotations),
            problems,
        };
        self.namespaces.insert(name, namespace);
    }

    /// Adds a node.
    pub fn add_node(&mut self, object: &NodeObject) {
        let addresses = object.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let annotations = object.metadata.annotations.as_ref();
        let subnets = annotations.and_then(|annotations| annotations.get(SUBNETS));
        let subnets = subnets
            .iter()
            .flat_map(|text| text.split(','))
            .filter_map(|text| text.trim().parse().ok());
        let node = Node {
            labels: object.metadata.labels.clone().unwrap_or_default(),
            addresses: addresses.filter_map(|address| address.address.parse().ok()).collect(),
            inside: subnets.flat_map(inside).collect(),
        };
        self.nodes.insert(object.metadata.name.clone().unwrap_or_default(), node);
    }

    /// Adds a pod.
    pub fn add_pod(&mut self, object: &PodObject) {
        let mut pod = pod(&object.metadata, &object.spec.clone().unwrap_or_default());
        if let Some(status) = &object.status {
            let listed = status.pod_ips.iter().flatten().map(|entry| &entry.ip);
            pod.addresses = listed.chain(&status.pod_ip).filter_map(|ip| ip.parse().ok()).collect();
            let mut seen = Vec::new();
            pod.addresses.retain(|ip| !seen.contains(ip) && (seen.push(*ip), true).1);
            pod.finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        }
        self.pods.insert(named(&object.metadata), pod);
    }

    /// Adds the port of a machine: it is judged as a pod is.
    fn add_port(&mut self, manifest: &Value) -> Result<(), String> {
        let metadata: ObjectMeta = part(manifest, manifest, "metadata")?;
        let Name { namespace, name } = named(&metadata);
        let texts = |pointer: &str| {
            let list = manifest.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let served = manifest.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
        let served = served.filter_map(|port| {
            Some(ContainerPort {
                name: port["name"].as_str()?.to_owned(),
                protocol: Protocol::parse(port["protocol"].as_str().unwrap_or("TCP"))?,
                port: u16::try_from(port["port"].as_u64()?).ok()?,
            })
        });
        let of_node = texts("/status/addresses");
        let addresses = of_node.iter().filter_map(|text| text.split('/').next()?.parse().ok());
        let port = Pod {
            node: manifest.pointer("/spec/node").and_then(Value::as_str).map(str::to_owned),
            ports: served.collect(),
            addresses: addresses.collect(),
            ..pod(&metadata, &PodSpec::default())
        };
        self.pods.insert(Name::of_machine(namespace, &name), port);
        Ok(())
    }

    /// Adds a service.
    pub fn add_service(&mut self, object: &ServiceObject) {
        let spec = object.spec.clone().unwrap_or_default();
        let all = spec.cluster_ips.unwrap_or_else(|| spec.cluster_ip.into_iter().collect());
        let ingress = object.status.iter().filter_map(|status| status.load_balancer.as_ref());
        let ingress = ingress
            .flat_map(|status| status.ingress.iter().flatten())
            .filter_map(|one| one.ip.clone());
        let external = spec.external_ips.into_iter().flatten().chain(ingress);
        let ports = spec.ports.into_iter().flatten().filter_map(|port| {
            let number = u16::try_from(port.port).ok()?;
            Some(ServicePort {
                name: port.name.unwrap_or_default(),
                protocol: Protocol::parse(port.protocol.as_deref().unwrap_or("TCP"))?,
                port: number,
                node_port: port.node_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0),
                target: match port.target_port {
                    None | Some(IntOrString::Int(0)) => TargetPort::Number(number),
                    Some(IntOrString::Int(target)) => TargetPort::Number(u16::try_from(target).ok()?),
                    Some(IntOrString::String(name)) => TargetPort::Named(name),
                },
            })
        });
        let service = Service {
            headless: all.iter().any(|ip| ip == "None"),
            cluster_ips: all.iter().filter_map(|ip| ip.parse().ok()).collect(),
            external_ips: external.filter_map(|ip| ip.parse().ok()).collect(),
            external_name: spec.external_name.filter(|_| spec.type_.as_deref() == Some("ExternalName")),
            published: matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer")),
            app: App::read(&object.metadata.labels.clone().unwrap_or_default()),
            selector: spec.selector.unwrap_or_default(),
            ports: ports.collect(),
            internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            external_local: spec.external_traffic_policy.as_deref() == Some("Local"),
        };
        self.services.insert(named(&object.metadata), service);
    }

    /// Adds an endpoint slice, if it is of a service.
    pub fn add_slice(&mut self, object: &EndpointSlice) {
        let name = named(&object.metadata);
        let labels = object.metadata.labels.as_ref();
        let Some(service) = labels.and_then(|labels| labels.get(SERVICE_NAME)) else {
            return;
        };
        let ports = object.ports.iter().flatten().filter_map(|port| {
            Some(SlicePort {
                name: port.name.clone().unwrap_or_default(),
                protocol: Protocol::parse(port.protocol.as_deref().unwrap_or("TCP"))?,
                port: u16::try_from(port.port?).ok()?,
            })
        });
        let slice = Slice {
            service: Name::new(&name.namespace, service),
            ports: ports.collect(),
            endpoints: object
                .endpoints
                .iter()
                .flatten()
                .map(|one| endpoint(one, &name.namespace))
                .collect(),
        };
        self.slices.insert(name, slice);
    }

    /// Adds a policy.
    pub fn add_policy(&mut self, object: &NetworkPolicy) {
        let name = named(&object.metadata);
        let policy = Policy::read(&name, &object.spec.clone().unwrap_or_default());
        self.policies.insert(name, policy);
    }

    fn add_workload(&mut self, manifest: &Value) -> Result<(), String> {
        let replicas = manifest.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
        let template = manifest.pointer("/spec/template").cloned().unwrap_or_default();
        let metadata: ObjectMeta = part(manifest, manifest, "metadata")?;
        let (inner, spec): (ObjectMeta, PodSpec) = (part(manifest, &template, "metadata")?, part(manifest, &template, "spec")?);
        for number in 0..replicas {
            let mut name = named(&metadata);
            name.name = format!("{}-{number}", name.name);
            self.pods.insert(name, pod(&inner, &spec));
        }
        Ok(())
    }
}

fn pod(metadata: &ObjectMeta, spec: &PodSpec) -> Pod {
    // Init containers that go on running serve ports like the others.
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let ports = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten());
    let labels = metadata.labels.clone().unwrap_or_default();
    let annotations = metadata.annotations.clone().unwrap_or_default();
    Pod {
        app: App::read(&labels),
        groups: group::names(&annotations, &labels),
        network: network::named(&annotations),
        labels,
        node: spec.node_name.clone().filter(|node| !node.is_empty()),
        host_network: spec.host_network == Some(true),
        ports: ports
            .filter_map(|port| {
                Some(ContainerPort {
                    name: port.name.clone().unwrap_or_default(),
                    protocol: Protocol::parse(port.protocol.as_deref().unwrap_or("TCP"))?,
                    port: u16::try_from(port.container_port).ok()?,
                })
            })
            .collect(),
        ..Pod::default()
    }
}

fn endpoint(object: &EndpointObject, namespace: &str) -> Endpoint {
    let conditions = object.conditions.clone().unwrap_or_default();
    let target = object.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
    Endpoint {
        addresses: object.addresses.iter().filter_map(|ip| ip.parse().ok()).collect(),
        pod: target.and_then(|target| Some(Name::new(target.namespace.as_deref().unwrap_or(namespace), target.name.as_deref()?))),
        node: object.node_name.clone(),
        ready: conditions.ready != Some(false),
        last_resort: conditions.serving == Some(true) && conditions.terminating == Some(true),
    }
}

/// The addresses a node has in one of its subnets.
fn inside(subnet: IpNet) -> [IpAddr; 2] {
    [MANAGEMENT_PORT, SERVICE_PORT].map(|place| match subnet.network() {
        IpAddr::V4(network) => IpAddr::V4(u32::from(network).wrapping_add(place.into()).into()),
        IpAddr::V6(network) => IpAddr::V6(u128::from(network).wrapping_add(place.into()).into()),
    })
}

fn named(metadata: &ObjectMeta) -> Name {
    let namespace = metadata.namespace.clone().filter(|namespace| !namespace.is_empty());
    Name::new(
        namespace.unwrap_or_else(|| "default".to_owned()),
        metadata.name.clone().unwrap_or_default(),
    )
}

fn typed<T: DeserializeOwned>(manifest: &Value) -> Result<T, String> {
    T::deserialize(manifest).map_err(|error| format!("{}: {error}", title(manifest)))
}

fn part<T: DeserializeOwned + Default>(manifest: &Value, of: &Value, field: &str) -> Result<T, String> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => T::deserialize(value).map_err(|error| format!("{}: {field}: {error}", title(manifest))),
    }
}

fn title(manifest: &Value) -> String {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", text("/kind"), text("/metadata/name"))
}
