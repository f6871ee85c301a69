//! What the scheduler and the API server do: bind pods to nodes, and have the namespaces that objects are in.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Document, text};
use crate::Kind;

/// Binds pods that have no node to the nodes in turn; without any node there is `node1`.
pub fn bind(documents: &mut Vec<Document>) {
    let nodes = documents.iter().filter(|document| document.kind == Kind::Node);
    let mut names: Vec<String> = nodes.map(|node| text(&node.value, "/metadata/name").to_owned()).collect();
    if names.is_empty() {
        let addresses = json!([{ "type": "InternalIP", "address": "192.0.2.1" }]);
        let node = json!({ "metadata": { "name": "node1" }, "status": { "addresses": addresses } });
        documents.push(Document::new((Kind::Node, node)));
        names.push("node1".to_owned());
    }
    let mut turn = names.into_iter().cycle();
    let pods = documents.iter_mut().filter(|document| document.kind == Kind::Pod);
    let unbound = pods.filter(|pod| text(&pod.value, "/spec/nodeName").is_empty());
    for pod in unbound.filter(|pod| pod.value["spec"].is_null() || pod.value["spec"].is_object()) {
        pod.value["spec"]["nodeName"] = turn.next().into();
    }
}

/// Adds the namespaces of objects that no manifest defines, with no label but their name.
pub fn name_namespaces(documents: &mut Vec<Document>) {
    let is_in_one = |document: &&Document| matches!(document.kind, Kind::Pod | Kind::Port | Kind::Service | Kind::NetworkPolicy);
    let given = documents.iter().filter(|document| document.kind == Kind::Namespace);
    let given: BTreeSet<&str> = given.map(|document| text(&document.value, "/metadata/name")).collect();
    let mentioned = documents.iter().filter(is_in_one);
    let mentioned: BTreeSet<&str> = mentioned.map(|document| text(&document.value, "/metadata/namespace")).collect();
    let missing: Vec<Value> = mentioned
        .difference(&given)
        .map(|name| json!({ "metadata": { "name": name } }))
        .collect();
    documents.extend(missing.into_iter().map(|value| Document::new((Kind::Namespace, value))));
}
