//! Objects from files: manifests as users write them, for `netloom plan`, scenarios and tests. They are completed as a cluster would
//! complete them, and then read as everything else is. Workloads stand for the pods they would create.

mod placement;
mod service_addresses;

use netloom_network::Object;
use serde_json::{Map, Value, json};

use crate::Kind;
use crate::kind::DEFAULT;

/// Kinds that stand for pods, and their group.
const WORKLOADS: &[&str] = &["Deployment", "ReplicaSet", "StatefulSet"];
const WORKLOAD_GROUP: &str = "apps/";

/// An object that the network depends on, with the kind it is of.
struct Document {
    kind: Kind,
    value: Value,
}

/// Reads one manifest. Kinds the network does not depend on give nothing; a malformed one gives a sentence naming it.
pub fn read(manifest: &Value) -> Result<Vec<Object>, String> {
    let mut documents = Vec::new();
    unpack(manifest, &mut documents)?;
    read_all(&documents)
}

/// Reads all manifests of a cluster, and does what a cluster would before the network is asked: pods without a node are bound to the
/// nodes in turn (without any node there is `node1`), services get their cluster addresses, and namespaces that are only mentioned are
/// there.
pub fn cluster<'a>(manifests: impl IntoIterator<Item = &'a Value>) -> Result<Vec<Object>, String> {
    let mut documents = Vec::new();
    for manifest in manifests {
        unpack(manifest, &mut documents)?;
    }
    placement::bind(&mut documents);
    placement::name_namespaces(&mut documents);
    service_addresses::assign(&mut documents);
    read_all(&documents)
}

fn read_all(documents: &[Document]) -> Result<Vec<Object>, String> {
    let mut objects = Vec::new();
    for document in documents {
        objects.extend(document.read()?);
    }
    Ok(objects)
}

/// Takes lists and workloads apart, and leaves out what the network does not depend on.
fn unpack(manifest: &Value, documents: &mut Vec<Document>) -> Result<(), String> {
    let (kind, version) = (text(manifest, "/kind"), manifest["apiVersion"].as_str());
    if let (Some(of), Some(items)) = (kind.strip_suffix("List"), manifest.get("items")) {
        for item in items.as_array().into_iter().flatten() {
            unpack(&with_kind(item, of, version), documents)?;
        }
        return Ok(());
    }
    let is_workload = WORKLOADS.contains(&kind) && version.is_none_or(|version| version.starts_with(WORKLOAD_GROUP));
    let known = Kind::of(version, kind);
    let name = text(manifest, "/metadata/name");
    if name.is_empty() && (is_workload || known.is_some()) {
        return Err(format!("{kind}: metadata.name is missing"));
    }
    if is_workload {
        documents.extend(pods(manifest).map(Document::new));
    } else if known == Some(Kind::ClusterNetwork) && name != DEFAULT {
        return Err(format!(
            "{kind}/{name}: there is one cluster network and its name is \"{DEFAULT}\"; rename it"
        ));
    } else if let Some(kind) = known {
        let document = Document::new((kind, manifest.clone()));
        documents.extend(document.is_selected().then_some(document));
    }
    Ok(())
}

/// An item of a list, which need not say what it is: the list does.
fn with_kind(item: &Value, kind: &str, version: Option<&str>) -> Value {
    let mut item = item.clone();
    if item["kind"].is_null() && !kind.is_empty() && item.is_object() {
        item["kind"] = kind.into();
        item["apiVersion"] = version.into();
    }
    item
}

/// The pods a workload would create.
fn pods(workload: &Value) -> impl Iterator<Item = (Kind, Value)> {
    let replicas = workload.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    let (name, namespace) = (text(workload, "/metadata/name"), &workload["metadata"]["namespace"]);
    let template = &workload["spec"]["template"];
    (0..replicas).map(move |number| {
        let mut metadata = template["metadata"].as_object().cloned().unwrap_or_default();
        metadata.insert("name".to_owned(), format!("{name}-{number}").into());
        metadata.insert("namespace".to_owned(), namespace.clone());
        (Kind::Pod, json!({ "kind": "Pod", "metadata": metadata, "spec": template["spec"] }))
    })
}

impl Document {
    /// Completes an object as the API server and kubelets do: what is in a namespace is in `default` unless it says otherwise, and a node
    /// of which nothing is known is ready.
    fn new((kind, mut value): (Kind, Value)) -> Self {
        if kind.resource().namespaced && text(&value, "/metadata/namespace").is_empty() && value["metadata"].is_object() {
            value["metadata"]["namespace"] = "default".into();
        }
        match kind {
            Kind::Node => complete_node(&mut value),
            Kind::Service => service_addresses::complete(&mut value),
            _ => {}
        }
        Self { kind, value }
    }

    /// Whether it is among those the controller would ask for.
    fn is_selected(&self) -> bool {
        let labels = &self.value["metadata"]["labels"];
        self.kind.selects(|name| labels.get(name).is_some())
    }

    fn read(&self) -> Result<Option<Object>, String> {
        let read = self.kind.deserialize(&self.value);
        read.map(|read| read.object).map_err(|error| {
            let named = format!("{}/{}", self.kind.name(), text(&self.value, "/metadata/name"));
            match self.malformed_field() {
                Some(field) => format!("{named}: {field}: {error}"),
                None => format!("{named}: {error}"),
            }
        })
    }

    /// The field without which it could be read.
    fn malformed_field(&self) -> Option<&String> {
        let fields = self.value.as_object()?;
        fields.keys().find(|field| {
            let others: Map<_, _> = fields
                .iter()
                .filter(|(name, _)| name != field)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            self.kind.deserialize(Value::Object(others)).is_ok()
        })
    }
}

fn complete_node(node: &mut Value) {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.cloned().unwrap_or_default();
    if !conditions.iter().any(|condition| condition["type"] == "Ready") && (node["status"].is_null() || node["status"].is_object()) {
        conditions.push(json!({ "type": "Ready", "status": "True" }));
        node["status"]["conditions"] = conditions.into();
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
