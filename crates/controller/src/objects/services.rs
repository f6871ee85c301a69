//! Services, endpoint slices and pools of external addresses, as they are read. What others serve is never read: services with another
//! proxy and slices of headless services are left out by the API server.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::ObjectMeta;
use netloom_network::service::{Endpoint, ExternalPoolSpec, Family, Protocol, ServiceKind, ServicePort, SlicePort};
use netloom_network::{EndpointSlice, ExternalPool, Namespaced, Object, Service, app, manifest};
use serde::{Deserialize, Deserializer};

use super::{Reduce, named, resource};

/// The label that names a slice's service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A service, reduced.
#[derive(Clone, Debug, Deserialize)]
pub struct ServiceObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ServiceSpec,
    #[serde(default)]
    status: ServiceStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    r#type: String,
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Vec<String>,
    ip_families: Vec<String>,
    ports: Vec<PortSpec>,
    session_affinity: String,
    internal_traffic_policy: String,
    external_traffic_policy: String,
    #[serde(rename = "externalIPs")]
    external_ips: Vec<String>,
    load_balancer_class: Option<String>,
    #[serde(rename = "loadBalancerIP")]
    load_balancer_ip: String,
    load_balancer_source_ranges: Vec<String>,
    health_check_node_port: i64,
    selector: Option<BTreeMap<String, String>>,
}

/// A port of a service or of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PortSpec {
    name: Option<String>,
    protocol: Option<String>,
    port: Option<i64>,
    node_port: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatus {
    load_balancer: LoadBalancerStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancerStatus {
    #[serde(deserialize_with = "nullable")]
    ingress: Vec<Ingress>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ingress {
    ip: String,
    ip_mode: Option<String>,
}

/// A slice of endpoints, reduced.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSliceObject {
    metadata: ObjectMeta,
    #[serde(default)]
    address_type: String,
    #[serde(default, deserialize_with = "nullable")]
    ports: Vec<PortSpec>,
    #[serde(default, deserialize_with = "nullable")]
    endpoints: Vec<EndpointSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EndpointSpec {
    #[serde(deserialize_with = "nullable")]
    addresses: Vec<String>,
    conditions: Conditions,
    node_name: Option<String>,
    hints: Option<Hints>,
    target_ref: Option<Target>,
}

/// What is not said is meant well: ready unless told otherwise, serving if ready.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Hints {
    for_zones: Vec<Hint>,
    for_nodes: Vec<Hint>,
}

#[derive(Clone, Debug, Deserialize)]
struct Hint {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Target {
    kind: String,
}

/// A pool of external addresses, as in `deploy/chart/crds/externalpools.yaml`.
#[derive(Clone, Debug, Deserialize)]
pub struct ExternalPoolObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ExternalPoolSpec,
}

resource!(ServiceObject, NamespaceResourceScope, "", "v1", "Service", "services");
resource!(
    EndpointSliceObject,
    NamespaceResourceScope,
    "discovery.k8s.io",
    "v1",
    "EndpointSlice",
    "endpointslices"
);
resource!(
    ExternalPoolObject,
    ClusterResourceScope,
    "netloom.io",
    "v1alpha1",
    "ExternalPool",
    "externalpools"
);

impl Reduce for ServiceObject {
    const SELECTOR: &str = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name";

    /// A service that is only a name (`ExternalName`) is one without addresses and ports: it may have had some before.
    fn reduce(self) -> Option<Object> {
        let (metadata, spec) = (self.metadata, self.spec);
        let kind = ServiceKind::parse(&spec.r#type);
        let mut service = Service {
            created: metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0.to_string())
                .unwrap_or_default(),
            status_addresses: self
                .status
                .load_balancer
                .ingress
                .iter()
                .filter(|ingress| ingress.ip_mode.as_deref().is_none_or(|mode| mode == "VIP"))
                .filter_map(|ingress| ingress.ip.parse().ok())
                .collect(),
            annotations: manifest::relevant(metadata.annotations.clone().unwrap_or_default()),
            labels: app::relevant(metadata.labels.clone().unwrap_or_default()),
            selector: spec.selector.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            ..Service::default()
        };
        if let Some(kind) = kind {
            let cluster_ips = if spec.cluster_ips.is_empty() {
                addresses(std::slice::from_ref(&spec.cluster_ip))
            } else {
                addresses(&spec.cluster_ips)
            };
            service = Service {
                kind,
                families: families(&spec.ip_families, &cluster_ips),
                cluster_ips,
                ports: spec.ports.iter().filter_map(service_port).collect(),
                affinity: spec.session_affinity == "ClientIP",
                internal_local: spec.internal_traffic_policy == "Local",
                external_local: spec.external_traffic_policy == "Local",
                external_ips: addresses(&spec.external_ips),
                class: spec.load_balancer_class,
                requested: Some(spec.load_balancer_ip).filter(|text| !text.is_empty()),
                source_ranges: spec.load_balancer_source_ranges,
                health_check_port: number(spec.health_check_node_port),
                ..service
            };
        }
        Some(Object::Service(named(metadata), service))
    }
}

impl Reduce for EndpointSliceObject {
    const SELECTOR: &str = "kubernetes.io/service-name,!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name";

    fn reduce(self) -> Option<Object> {
        if self.address_type == "FQDN" {
            return None;
        }
        let service = Namespaced {
            namespace: self.metadata.namespace.clone().unwrap_or_default(),
            name: self.metadata.labels.as_ref()?.get(SERVICE_NAME)?.clone(),
        };
        let slice = EndpointSlice {
            service,
            ports: self.ports.iter().filter_map(slice_port).collect(),
            endpoints: self.endpoints.into_iter().flat_map(endpoints).collect(),
        };
        Some(Object::EndpointSlice(named(self.metadata), slice))
    }
}

impl Reduce for ExternalPoolObject {
    fn reduce(self) -> Option<Object> {
        let pool = ExternalPool {
            uid: self.metadata.uid.unwrap_or_default(),
            spec: self.spec,
        };
        Some(Object::ExternalPool(self.metadata.name.unwrap_or_default(), pool))
    }
}

fn service_port(spec: &PortSpec) -> Option<ServicePort> {
    Some(ServicePort {
        name: spec.name.clone().unwrap_or_default(),
        protocol: Protocol::parse(spec.protocol.as_deref().unwrap_or_default())?,
        port: number(spec.port?)?,
        node_port: number(spec.node_port),
    })
}

fn slice_port(spec: &PortSpec) -> Option<SlicePort> {
    Some(SlicePort {
        name: spec.name.clone().unwrap_or_default(),
        protocol: Protocol::parse(spec.protocol.as_deref().unwrap_or_default())?,
        port: number(spec.port?)?,
    })
}

fn endpoints(spec: EndpointSpec) -> Vec<Endpoint> {
    let ready = spec.conditions.ready.unwrap_or(true);
    let names = |hints: Vec<Hint>| hints.into_iter().map(|hint| hint.name).collect();
    let hints = spec.hints.unwrap_or_default();
    let (zones, nodes): (Vec<String>, Vec<String>) = (names(hints.for_zones), names(hints.for_nodes));
    let one = |address| Endpoint {
        address,
        ready,
        serving: spec.conditions.serving.unwrap_or(ready),
        terminating: spec.conditions.terminating.unwrap_or(false),
        node: spec.node_name.clone(),
        zones: zones.clone(),
        nodes: nodes.clone(),
        pod: spec.target_ref.as_ref().is_some_and(|target| target.kind == "Pod"),
    };
    addresses(&spec.addresses).into_iter().map(one).collect()
}

/// The families written, or those of the addresses it has.
fn families(written: &[String], cluster_ips: &[IpAddr]) -> Vec<Family> {
    if written.is_empty() {
        cluster_ips.iter().copied().map(Family::of).collect()
    } else {
        written.iter().filter_map(|text| Family::parse(text)).collect()
    }
}

/// The addresses among the texts; `None`, as headless services have it, is none.
fn addresses(texts: &[String]) -> Vec<IpAddr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// A port number; zero is none.
fn number(written: i64) -> Option<u16> {
    u16::try_from(written).ok().filter(|number| *number != 0)
}

/// Go writes an empty list as null.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(value: Value) -> Service {
        match serde_json::from_value::<ServiceObject>(value).unwrap().reduce() {
            Some(Object::Service(_, service)) => service,
            other => panic!("{other:?}"),
        }
    }

    fn slice(value: Value) -> Option<EndpointSlice> {
        match serde_json::from_value::<EndpointSliceObject>(value).unwrap().reduce() {
            Some(Object::EndpointSlice(_, slice)) => Some(slice),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_addresses_that_are_used_as_they_are_count_as_shown() {
        let ingress = json!([
            { "ip": "192.0.2.1" }, { "ip": "192.0.2.2", "ipMode": "VIP" }, { "ip": "192.0.2.3", "ipMode": "Proxy" }, { "hostname": "a.example" },
        ]);
        let service = service(json!({
            "metadata": { "name": "a", "namespace": "b" },
            "spec": { "type": "LoadBalancer", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"] },
            "status": { "loadBalancer": { "ingress": ingress } },
        }));
        assert_eq!(
            service.status_addresses,
            ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse::<IpAddr>().unwrap())
        );
        assert_eq!(service.families, [Family::Ipv4]);
    }

    #[test]
    fn headless_services_and_mere_names_have_no_cluster_address() {
        let headless =
            service(json!({ "metadata": {}, "spec": { "clusterIP": "None", "clusterIPs": ["None"], "ports": [{ "port": 80 }] } }));
        assert_eq!((headless.cluster_ips.len(), headless.ports.len()), (0, 1));
        let name = service(json!({
            "metadata": { "uid": "1" },
            "spec": { "type": "ExternalName", "externalName": "a.example", "ports": [{ "port": 80 }], "externalIPs": ["192.0.2.1"] },
        }));
        let nothing = Service {
            uid: "1".to_owned(),
            ..Service::default()
        };
        assert_eq!(name, nothing);
    }

    #[test]
    fn a_slice_says_little_and_means_the_usual() {
        let metadata = json!({ "name": "a-1", "namespace": "b", "labels": { "kubernetes.io/service-name": "a" } });
        let minimal = slice(json!({
            "metadata": metadata, "addressType": "IPv4",
            "ports": [{ "port": 8080 }, { "name": "all" }],
            "endpoints": [{ "addresses": ["10.244.0.5"] }, { "addresses": ["10.244.0.6"], "conditions": { "ready": false } }],
        }))
        .unwrap();
        assert_eq!(minimal.service.to_string(), "b/a");
        assert_eq!(
            minimal.ports.len(),
            1,
            "a port without a number stands for any: there is nothing to translate to"
        );
        let states: Vec<_> = minimal
            .endpoints
            .iter()
            .map(|e| (e.ready, e.serving, e.terminating, e.pod))
            .collect();
        assert_eq!(states, [(true, true, false, false), (false, false, false, false)]);
        let empty = slice(json!({ "metadata": metadata, "addressType": "IPv4", "ports": null, "endpoints": null })).unwrap();
        assert!(empty.endpoints.is_empty());
        assert_eq!(
            slice(json!({ "metadata": metadata, "addressType": "FQDN", "endpoints": [{ "addresses": ["a.example"] }] })),
            None
        );
        assert_eq!(slice(json!({ "metadata": { "name": "a-1" }, "addressType": "IPv4" })), None);
    }
}
