//! The lines of docs/threat-model.md with real packets: a pod that may send any frame, a user of a namespace with what the API takes, and a
//! host outside. What counts is what the victim's interface received. Tests share one lab and have namespaces of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod installed;
mod link;
mod neighbours;
mod outside;
mod place;
mod services;
mod tunnels;

use std::net::IpAddr;
use std::sync::Arc;

use netloom_lab_fixtures::SharedLab;
use netloom_lab_fixtures::world::Checked;

static LAB: SharedLab = SharedLab::new("red-team", |spec| spec.nodes(2));

/// The lab with these objects in it, whose pods are ready and whose switches do what the controller wrote.
fn lab_with(manifest: &str) -> Arc<Checked> {
    let lab = LAB.get();
    apply(&lab, manifest);
    lab
}

fn apply(lab: &Checked, manifest: &str) {
    lab.apply(manifest).unwrap_or_else(|error| panic!("{error:#}"));
    netloom_lab_fixtures::world::wait_ready(lab);
    lab.control().run(&["ovn-nbctl", "--wait=hv", "--timeout=60", "sync"]).unwrap();
}

fn namespace(name: &str, annotations: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {name}, annotations: {{ {annotations} }} }}\n---\n")
}

/// A pod that answers on 8080/TCP and 9090/UDP, with a label that has its name.
fn pod(namespace: &str, name: &str, node: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, namespace: {namespace}, labels: {{ run: {name} }} }}\nspec:\n  nodeName: {node}\n  \
         terminationGracePeriodSeconds: 0\n  containers:\n    - name: echo\n      image: any\n      \
         ports: [{{ containerPort: 8080 }}, {{ containerPort: 9090, protocol: UDP }}]\n---\n"
    )
}

fn network(name: &str, subnets: &str) -> String {
    format!("apiVersion: netloom.io/v1alpha1\nkind: Network\nmetadata: {{ name: {name} }}\nspec: {{ subnets: [{subnets}] }}\n---\n")
}

fn field(lab: &Checked, namespace: &str, object: &str, path: &str) -> String {
    lab.kubectl(&["get", object, "-n", namespace, "-o", &format!("jsonpath={path}")])
        .unwrap()
}

/// Addresses of a pod as the API tells them, IPv4 first.
fn addresses(lab: &Checked, namespace: &str, pod: &str) -> [IpAddr; 2] {
    let told = field(lab, namespace, &format!("pod/{pod}"), "{.status.podIPs[*].ip}");
    let mut all: Vec<IpAddr> = told.split_whitespace().map(|ip| ip.parse().unwrap()).collect();
    all.sort();
    all.try_into().unwrap()
}
