//! EndpointSlices: for each Service with a selector, the addresses of its pods, one slice per family and set of port
//! numbers (named ports may mean different numbers in different pods). Names of slices follow from that, so a slice is
//! updated in place and a restart changes nothing. Endpoints say in which zone they are, and, if the Service wants traffic
//! to stay close, for which zone or node they are meant.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{Reconciler, key_of, owned_by, pods, reference};
use crate::{
    api::{Api, Deletion, Part, key},
    json,
    kind::Kind,
    status::{Failure, Result},
    store::{Change, Event, Key, Object},
};

const ZONE: &str = "/metadata/labels/topology.kubernetes.io~1zone";
const SERVICE_NAME: &str = "/metadata/labels/kubernetes.io~1service-name";

/// The API allows this many endpoints in one slice.
const CAPACITY: usize = 1000;

/// The controller.
pub(crate) struct EndpointSlices;

impl Reconciler for EndpointSlices {
    const NAME: &'static str = "endpointslice-controller";
    type Key = Key;

    fn resources(&self, _: &Api) -> Vec<String> {
        let resources = ["services", "pods", "nodes", "endpointslices.discovery.k8s.io"];
        resources.map(str::to_owned).to_vec()
    }

    fn affected(&mut self, api: &Api, resource: &str, event: &Event) -> Vec<Key> {
        let object = &event.object.value;
        match resource {
            "services" => vec![key_of(object)],
            "pods" => {
                let states = [Some(&event.object), event.previous.as_ref()];
                let labels: Vec<_> = states
                    .into_iter()
                    .flatten()
                    .map(|o| json::at(&o.value, "/metadata/labels"))
                    .collect();
                let (services, _) = api.store.list("services", Some(json::namespace(object)));
                let matching = services.iter().filter(|s| labels.iter().any(|labels| selects(&s.value, labels)));
                matching.map(|service| key_of(&service.value)).collect()
            }
            "nodes" => {
                let zone = |state: Option<&Arc<Object>>| state.map_or("", |state| json::text(&state.value, ZONE)).to_owned();
                let now = (event.change != Change::Deleted).then_some(&event.object);
                if zone(now) == zone(event.previous.as_ref()) {
                    return Vec::new();
                }
                let (services, _) = api.store.list("services", None);
                services.iter().map(|service| key_of(&service.value)).collect()
            }
            _ => match json::text(object, SERVICE_NAME) {
                "" => Vec::new(),
                service => vec![(json::namespace(object).to_owned(), service.to_owned())],
            },
        }
    }

    async fn reconcile(&mut self, api: &Api, (namespace, name): &Key) -> Result<()> {
        let kind = api.registry.find("", "v1", "services")?;
        let slices = api.registry.find("discovery.k8s.io", "v1", "endpointslices")?;
        let service = api.get(&kind, namespace, name)?;
        let selective = json::entries(&service.value, "/spec/selector").next().is_some();
        if json::terminating(&service.value) || !selective || json::text(&service.value, "/spec/type") == "ExternalName" {
            return Ok(());
        }
        let wanted = desired(api, &kind, &service.value);
        let existing = owned_by(api, "endpointslices.discovery.k8s.io", &service.value);
        for (name, slice) in &wanted {
            match api.create(&slices, namespace, slice.clone(), false).await {
                Err(Failure {
                    reason: "AlreadyExists", ..
                }) => {
                    let change = |old: &Value| {
                        let mut new = old.clone();
                        for field in ["endpoints", "ports"] {
                            new[field] = slice[field].clone();
                        }
                        json::set(&mut new, "/metadata/labels", slice["metadata"]["labels"].clone());
                        Ok(new)
                    };
                    api.update(&slices, namespace, name, Part::Main, false, change).await?;
                }
                other => drop(other?),
            }
        }
        // Last, so that an endpoint that moves from one slice to another is never in none.
        for slice in existing.iter().filter(|slice| !wanted.contains_key(json::name(&slice.value))) {
            api.delete(&slices, namespace, json::name(&slice.value), &Deletion::default())
                .await?;
        }
        Ok(())
    }
}

fn selects(service: &Value, labels: &Value) -> bool {
    let mut selector = json::entries(service, "/spec/selector").peekable();
    selector.peek().is_some() && selector.all(|(key, value)| labels.get(key) == Some(value))
}

/// All slices of a service, by name.
fn desired(api: &Api, kind: &Kind, service: &Value) -> BTreeMap<String, Value> {
    let (pods, _) = api.store.list("pods", Some(json::namespace(service)));
    let pods: Vec<_> = pods
        .iter()
        .map(|pod| &pod.value)
        .filter(|pod| selects(service, json::at(pod, "/metadata/labels")))
        .filter(|pod| !["Succeeded", "Failed"].contains(&json::text(pod, "/status/phase")))
        .collect();
    let mut slices = BTreeMap::new();
    for family in json::list(service, "/spec/ipFamilies").iter().filter_map(Value::as_str) {
        let mut groups: BTreeMap<String, (Value, Vec<Value>)> = BTreeMap::new();
        for pod in &pods {
            let Some(endpoint) = endpoint(api, service, pod, family) else {
                continue;
            };
            let ports = ports(service, pod);
            groups
                .entry(ports.to_string())
                .or_insert_with(|| (ports, Vec::new()))
                .1
                .push(endpoint);
        }
        if groups.is_empty() {
            groups.insert(String::new(), (json!([]), Vec::new()));
        }
        for (id, (ports, endpoints)) in groups {
            // An empty service keeps one slice, named as if it had the ports it declares.
            for (index, chunk) in chunks(&endpoints).into_iter().enumerate() {
                let identity = format!("{}{family}{id}{index}", json::uid(service));
                let digest = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, identity.as_bytes())
                    .simple()
                    .to_string();
                let name = format!("{}-{}", json::name(service), &digest[..5]);
                slices.insert(name.clone(), slice(kind, service, &name, family, &ports, chunk));
            }
        }
    }
    slices
}

fn chunks(endpoints: &[Value]) -> Vec<&[Value]> {
    if endpoints.is_empty() {
        vec![&[]]
    } else {
        endpoints.chunks(CAPACITY).collect()
    }
}

fn slice(kind: &Kind, service: &Value, name: &str, family: &str, ports: &Value, endpoints: &[Value]) -> Value {
    let mut labels = json::at(service, "/metadata/labels").clone();
    json::set(&mut labels, "/kubernetes.io~1service-name", json::name(service));
    json::set(
        &mut labels,
        "/endpointslice.kubernetes.io~1managed-by",
        "endpointslice-controller.k8s.io",
    );
    if json::text(service, "/spec/clusterIP") == "None" {
        json::set(&mut labels, "/service.kubernetes.io~1headless", "");
    }
    json!({
        "metadata": { "name": name, "labels": labels, "ownerReferences": [reference(kind, service)] },
        "addressType": family, "endpoints": endpoints, "ports": ports,
    })
}

fn endpoint(api: &Api, service: &Value, pod: &Value, family: &str) -> Option<Value> {
    let listed = json::list(pod, "/status/podIPs").iter().map(|a| json::text(a, "/ip"));
    let addresses: BTreeSet<_> = listed.chain([json::text(pod, "/status/podIP")]).collect();
    let address = addresses
        .into_iter()
        .find(|a| !a.is_empty() && a.contains(':') == (family == "IPv6"))?;
    let (ready, terminating) = (pods::is_ready(pod), json::terminating(pod));
    let announced = json::flag(service, "/spec/publishNotReadyAddresses");
    let mut endpoint = json!({
        "addresses": [address],
        "conditions": { "ready": announced || (ready && !terminating), "serving": ready, "terminating": terminating },
        "targetRef": { "kind": "Pod", "namespace": json::namespace(pod), "name": json::name(pod), "uid": json::uid(pod) },
    });
    let node = json::text(pod, "/spec/nodeName");
    if !node.is_empty() {
        endpoint["nodeName"] = json!(node);
        let found = api.store.get("nodes", &key("", node));
        let zone = found.as_ref().map_or("", |node| json::text(&node.value, ZONE));
        if !zone.is_empty() {
            endpoint["zone"] = json!(zone);
        }
        if let Some(hints) = hints(json::text(service, "/spec/trafficDistribution"), zone, node).filter(|_| ready && !terminating) {
            endpoint["hints"] = hints;
        }
    }
    let hostname = json::text(pod, "/spec/hostname");
    if !hostname.is_empty() && json::text(pod, "/spec/subdomain") == json::name(service) {
        endpoint["hostname"] = json!(hostname);
    }
    Some(endpoint)
}

/// For whom an endpoint is meant, by how the Service wants its traffic distributed.
fn hints(distribution: &str, zone: &str, node: &str) -> Option<Value> {
    let zones = (!zone.is_empty()).then(|| json!([{ "name": zone }]));
    match distribution {
        "PreferClose" | "PreferSameZone" => zones.map(|zones| json!({ "forZones": zones })),
        "PreferSameNode" => {
            let mut hints = json!({ "forNodes": [{ "name": node }] });
            if let Some(zones) = zones {
                hints["forZones"] = zones;
            }
            Some(hints)
        }
        _ => None,
    }
}

/// The ports of a service as numbers of this pod; a name the pod does not have is left out.
fn ports(service: &Value, pod: &Value) -> Value {
    let number = |port: &Value| {
        let target = json::at(port, "/targetPort");
        let Some(name) = target.as_str() else { return target.as_i64() };
        let containers = json::list(pod, "/spec/containers")
            .iter()
            .chain(json::list(pod, "/spec/initContainers"));
        let mut declared = containers.flat_map(|c| json::list(c, "/ports"));
        let found = declared.find(|p| json::text(p, "/name") == name && json::text(p, "/protocol") == json::text(port, "/protocol"));
        found.and_then(|p| json::number(p, "/containerPort"))
    };
    let ports = json::list(service, "/spec/ports").iter().filter_map(|port| {
        let mut resolved = json!({ "name": json::text(port, "/name"), "protocol": json::text(port, "/protocol"), "port": number(port)? });
        let application = json::text(port, "/appProtocol");
        if !application.is_empty() {
            resolved["appProtocol"] = json!(application);
        }
        Some(resolved)
    });
    ports.collect()
}
