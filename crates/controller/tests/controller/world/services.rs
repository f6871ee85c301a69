//! Services, their endpoints and pools of external addresses, as users and Kubernetes' own controllers make them.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use netloom_kubernetes::Kind;
use serde_json::{Value, json};

use super::kubernetes::create;
use super::{Kubernetes, within};

/// A ready endpoint: a pod and its address.
pub struct Endpoint<'a> {
    pub pod: &'a str,
    pub address: &'a str,
    pub node: &'a str,
}

impl Kubernetes {
    /// A service of one port, TCP 80, without selector; `spec` says the rest.
    pub async fn service(&self, namespace: &str, name: &str, mut spec: Value) {
        if spec.get("ports").is_none() {
            spec["ports"] = json!([{ "port": 80, "targetPort": 8080 }]);
        }
        create(&self.services(namespace), json!({ "metadata": { "name": name }, "spec": spec })).await;
    }

    /// A service that wants external addresses.
    pub async fn balancer(&self, name: &str) {
        self.service("default", name, json!({ "type": "LoadBalancer" })).await;
    }

    pub async fn change_service(&self, name: &str, patch: Value) {
        let patched = self
            .services("default")
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap();
    }

    pub async fn delete_service(&self, name: &str) {
        self.services("default").delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// A service as it is now.
    pub async fn look_at_service(&self, name: &str) -> Service {
        self.services("default").get(name).await.unwrap()
    }

    /// Waits until a service shows as many external addresses, and gives them.
    pub async fn external_addresses(&self, name: &str, count: usize) -> Vec<String> {
        self.external_addresses_in("default", name, count).await
    }

    pub async fn external_addresses_in(&self, namespace: &str, name: &str, count: usize) -> Vec<String> {
        let shown = |service: Option<&Service>| addresses(service).len() == count;
        let service = await_condition(self.services(namespace), name, shown);
        let service = within(&format!("{count} addresses of {name}"), service).await.unwrap();
        addresses(service.as_ref())
    }

    /// Writes external addresses into a service's status, as another controller would.
    pub async fn write_addresses(&self, name: &str, addresses: &[&str]) {
        let ingress: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
        let patch = Patch::Merge(json!({ "status": { "loadBalancer": { "ingress": ingress } } }));
        let patched = self.services("default").patch_status(name, &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    /// Waits until a service has our condition with this status and reason; gives its message.
    pub async fn service_condition(&self, namespace: &str, name: &str, status: &str, reason: &str) -> String {
        let api = self.services(namespace);
        self.condition(&api, name, "netloom.io/NetworkReady", status, reason).await
    }

    /// Makes the endpoints of a service's one slice these.
    pub async fn endpoints(&self, service: &str, endpoints: &[Endpoint<'_>]) {
        let list = endpoints.iter().map(|endpoint| {
            json!({
                "addresses": [endpoint.address], "conditions": { "ready": true }, "nodeName": endpoint.node,
                "targetRef": { "kind": "Pod", "namespace": "default", "name": endpoint.pod },
            })
        });
        let family = if endpoints.iter().any(|e| e.address.parse::<IpAddr>().unwrap().is_ipv6()) {
            "IPv6"
        } else {
            "IPv4"
        };
        let name = format!("{service}-1");
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": name, "labels": { "kubernetes.io/service-name": service } },
            "addressType": family, "ports": [{ "port": 8080, "protocol": "TCP" }], "endpoints": list.collect::<Vec<_>>(),
        });
        let api = self.slices();
        match api.get_opt(&name).await.unwrap() {
            None => create(&api, slice).await,
            Some(_) => drop(api.patch(&name, &PatchParams::default(), &Patch::Merge(slice)).await.unwrap()),
        }
    }

    /// A second slice of a service with an endpoint that says nothing but its address.
    pub async fn stray_endpoint(&self, service: &str, address: &str) {
        let slice = json!({
            "metadata": { "name": format!("{service}-stray"), "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4", "ports": [{ "port": 8080 }], "endpoints": [{ "addresses": [address] }],
        });
        create(&self.slices(), slice).await;
    }

    pub async fn no_stray_endpoint(&self, service: &str) {
        let name = format!("{service}-stray");
        self.slices().delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// A pool of these ranges for these namespaces; all of them if there are none.
    pub async fn pool(&self, name: &str, cidrs: &[&str], namespaces: &[&str]) {
        let pool = json!({
            "apiVersion": "netloom.io/v1alpha1", "kind": "ExternalPool", "metadata": { "name": name },
            "spec": { "cidrs": cidrs, "namespaces": namespaces },
        });
        create(&self.pools(), pool).await;
    }

    pub async fn change_pool(&self, name: &str, spec: Value) {
        self.try_change_pool(name, spec).await.unwrap();
    }

    pub async fn try_change_pool(&self, name: &str, spec: Value) -> kube::Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.pools().patch(name, &PatchParams::default(), &patch).await.map(drop)
    }

    pub async fn delete_pool(&self, name: &str) {
        self.pools().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a pool has the condition `Ready` with this status and reason; gives its message.
    pub async fn pool_condition(&self, name: &str, status: &str, reason: &str) -> String {
        self.condition(&self.pools(), name, "Ready", status, reason).await
    }

    /// Who translates the addresses of services from now on.
    pub async fn service_mode(&self, mode: &str) {
        let patch = Patch::Merge(json!({ "spec": { "services": { "mode": mode } } }));
        let patched = self.networks().patch("default", &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    pub async fn namespace(&self, name: &str) {
        create(&Api::<Namespace>::all(self.client.clone()), json!({ "metadata": { "name": name } })).await;
    }

    fn services(&self, namespace: &str) -> Api<Service> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn slices(&self) -> Api<EndpointSlice> {
        Api::default_namespaced(self.client.clone())
    }

    fn pools(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &netloom_controller::resource(Kind::ExternalPool))
    }
}

fn addresses(service: Option<&Service>) -> Vec<String> {
    let status = service.and_then(|service| service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref());
    status.into_iter().flatten().filter_map(|ingress| ingress.ip.clone()).collect()
}
