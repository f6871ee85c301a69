//! The cluster that is measured, as manifests: a hundred namespaces of ten teams with ten apps each, and policies that let apps into
//! each other. Ten times as many policies say more about the same apps, as policies of a real cluster do.

use anyhow::{Result, anyhow};
use netloom_kubernetes::manifest;
use netloom_network::{NetworkPolicy, Object, Planner, PolicyName};
use serde_json::{Value, json};

/// How many namespaces there are, whatever the size.
pub const NAMESPACES: usize = 100;
const APPS: usize = 10;
const TEAMS: usize = 10;
const PODS_PER_NODE: usize = 100;

/// Pods and policies of a cluster.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Pods.
    pub pods: usize,
    /// Policies.
    pub policies: usize,
}

impl Shape {
    /// Nodes, with a hundred pods on each.
    pub fn nodes(self) -> usize {
        self.pods / PODS_PER_NODE
    }

    /// A planner that knows everything but the policies, and has compiled nothing yet.
    pub fn without_policies(self) -> Result<Planner> {
        let mut planner = Planner::default();
        let cidrs = json!([{ "cidr": "10.0.0.0/8" }, { "cidr": "fd00:10::/40" }]);
        let network = json!({ "kind": "ClusterNetwork", "metadata": { "name": "default" }, "spec": { "clusterCIDRs": cidrs } });
        let nodes = (0..self.nodes()).map(node);
        let namespaces = (0..NAMESPACES).map(|number| namespace(number, number));
        let pods = (0..self.pods).map(|number| self.pod(number));
        for manifest in [network].into_iter().chain(nodes).chain(namespaces).chain(pods) {
            apply(&mut planner, &manifest)?;
        }
        Ok(planner)
    }

    /// A planner that knows everything, and has compiled nothing yet.
    pub fn planner(self) -> Result<Planner> {
        let mut planner = self.without_policies()?;
        for number in 0..self.policies {
            apply(&mut planner, &policy(number))?;
        }
        Ok(planner)
    }

    /// The policies alone.
    pub fn policies(self) -> Result<Vec<(PolicyName, NetworkPolicy)>> {
        let read = |number| manifest::read(&policy(number)).map_err(|why| anyhow!(why));
        let objects = (0..self.policies).map(read).collect::<Result<Vec<_>>>()?.concat();
        let policies = objects.into_iter().filter_map(|object| match object {
            Object::NetworkPolicy(name, policy) => Some((name, policy)),
            _ => None,
        });
        Ok(policies.collect())
    }

    /// A pod; numbers may go beyond those the cluster has.
    pub fn pod(self, number: usize) -> Value {
        let app = format!("app-{}", number / NAMESPACES % APPS);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{app}-5d4f8c7b9d-{number:07}"), "namespace": namespace_name(number % NAMESPACES),
                "labels": { "app": app, "pod-template-hash": "5d4f8c7b9d" },
            },
            "spec": { "nodeName": node_name(number % self.nodes()), "containers": [{ "name": "main", "image": "any" }] },
        })
    }
}

/// Gives a planner what a manifest says.
pub fn apply(planner: &mut Planner, manifest: &Value) -> Result<()> {
    for mut object in manifest::read(manifest).map_err(|why| anyhow!(why))? {
        if let Object::Pod(name, pod) = &mut object {
            // Addresses belong to a UID, which a real API server would give.
            pod.uid = name.to_string();
        }
        planner.apply(object);
    }
    Ok(())
}

/// Name of a node of which only the object exists.
pub fn node_name(number: usize) -> String {
    format!("fake{number}")
}

/// Name of a namespace.
pub fn namespace_name(number: usize) -> String {
    format!("namespace-{number}")
}

fn node(number: usize) -> Value {
    let address = format!("172.16.{}.{}", number / 250, number % 250);
    json!({
        "kind": "Node", "metadata": { "name": node_name(number) },
        "status": { "addresses": [{ "type": "InternalIP", "address": address }] },
    })
}

/// A namespace of a team.
pub fn namespace(number: usize, team: usize) -> Value {
    let labels = json!({ "team": format!("team-{}", team % TEAMS) });
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace_name(number), "labels": labels } })
}

/// A policy: of ten, one lets in another team, one closes what an app sends, one lets in the whole namespace, and the others
/// let in one app each.
pub fn policy(number: usize) -> Value {
    let (namespace, place) = (number % NAMESPACES, number / NAMESPACES);
    let (app, round) = (place % APPS, place / APPS);
    let app_is = |app: usize| json!({ "matchLabels": { "app": format!("app-{}", app % APPS) } });
    let ports = json!([{ "port": 8080 + round }]);
    let other = app_is(app + 1 + round);
    let rules = match app {
        0 => {
            let team = json!({ "matchLabels": { "team": format!("team-{}", (namespace + round) % TEAMS) } });
            json!({ "ingress": [{ "from": [{ "namespaceSelector": team, "podSelector": app_is(1) }], "ports": ports }] })
        }
        1 => json!({ "policyTypes": ["Egress"], "egress": [{ "to": [{ "podSelector": other }], "ports": ports }] }),
        2 => json!({ "ingress": [{ "from": [{ "podSelector": {} }], "ports": ports }] }),
        _ => json!({ "ingress": [{ "from": [{ "podSelector": other }], "ports": ports }] }),
    };
    let mut spec = rules;
    spec["podSelector"] = app_is(app);
    let metadata = json!({ "name": format!("policy-{place}"), "namespace": namespace_name(namespace) });
    json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec })
}
