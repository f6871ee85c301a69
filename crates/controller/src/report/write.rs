//! The writes of a report: one function each, called by `report` only. None of them retries, and none writes to another object that
//! has the name by now.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use netloom_kubernetes::Kind;
use netloom_network::{ObjectRef, Shows, annotations};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::resource;

/// Reason of a condition that is true from the first.
const IN_FORCE: &str = "InForce";

/// The kind of an object. Whatever rows and problems refer to is of one in the table.
pub fn kind(object: &ObjectRef) -> Kind {
    Kind::named(object.kind).unwrap_or(Kind::ClusterNetwork)
}

/// Writes what an object has to show: where people look, and where it is found again when the database is lost. Who may write a pod's
/// status may annotate it, and needs no right to change what it runs.
pub async fn show(client: &kube::Client, object: &ObjectRef, shows: &Shows) -> kube::Result<()> {
    let (parameters, objects) = (PatchParams::default(), api(client, object));
    let annotate = |name: &str, value: &str| json!({ "metadata": { "uid": object.uid, "annotations": { name: value } } });
    match shows {
        Shows::InForce => in_force(client, object).await,
        Shows::ExternalAddresses(addresses) => show_addresses(client, object, addresses).await,
        Shows::Subnets(subnets) => {
            let patch = json!({ "metadata": { "annotations": { annotations::SUBNETS: subnets } } });
            let written = objects.patch_metadata(&object.name, &parameters, &Patch::Merge(patch)).await;
            written.map(drop)
        }
        Shows::NetworkAddresses(addresses) => {
            let patch = annotate(annotations::NETWORK_ADDRESSES, addresses);
            objects
                .patch_status(&object.name, &parameters, &Patch::Merge(patch))
                .await
                .map(drop)
        }
        Shows::Port(status) => {
            let mut status = json!(status);
            let message = "an interface of its node may be plugged in as status.interfaceID";
            status["conditions"] = json!([condition(object, "True", IN_FORCE, message)]);
            let patch = json!({ "metadata": { "uid": object.uid }, "status": status });
            objects
                .patch_status(&object.name, &parameters, &Patch::Merge(patch))
                .await
                .map(drop)
        }
    }
}

fn condition(object: &ObjectRef, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind(object).resource().condition, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": Timestamp::now(),
    })
}

/// Sets our condition of an object.
pub async fn set_condition(client: &kube::Client, object: &ObjectRef, status: &str, reason: &str, message: &str) -> kube::Result<()> {
    let status = json!({ "conditions": [condition(object, status, reason, message)] });
    // A list of named things, of which we write one; custom resources know no such lists, and theirs is ours alone.
    let custom = kind(object).resource().definition.is_some();
    let patch = if custom { Patch::Merge } else { Patch::Strategic };
    change_status(client, object, status, patch).await
}

/// Says of an object of ours, or of a policy, that it is in force, unless something was said about it already.
pub async fn in_force(client: &kube::Client, object: &ObjectRef) -> kube::Result<()> {
    let current = api(client, object).get(&object.name).await?;
    if current.data.pointer("/status/conditions/0/type").is_some() {
        return Ok(());
    }
    let message = kind(object).resource().in_force.unwrap_or_default();
    set_condition(client, object, "True", IN_FORCE, message).await
}

/// Shows a service's external addresses in its status, and tells those who look at its Events.
async fn show_addresses(client: &kube::Client, service: &ObjectRef, addresses: &[IpAddr]) -> kube::Result<()> {
    let ingress: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip, "ipMode": "VIP" })).collect();
    let ingress = if ingress.is_empty() { Value::Null } else { Value::Array(ingress) };
    change_status(client, service, json!({ "loadBalancer": { "ingress": ingress } }), Patch::Merge).await?;
    if addresses.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let message = format!("reachable from outside at {}", list.join(" and "));
    event(client, service, "Normal", "AddressAssigned", &message).await
}

/// Makes an Event. The same about the same object has the same name, so a restarted controller does not tell it twice.
pub async fn event(client: &kube::Client, object: &ObjectRef, kind: &str, reason: &str, message: &str) -> kube::Result<()> {
    let namespace = if object.namespace.is_empty() {
        "default"
    } else {
        &object.namespace
    };
    let now = Time(Timestamp::now());
    let event = Event {
        metadata: ObjectMeta {
            name: Some(event_name(object, reason, message)),
            namespace: Some(namespace.to_owned()),
            ..Default::default()
        },
        involved_object: ObjectReference {
            api_version: Some(self::kind(object).api_version()),
            kind: Some(object.kind.to_owned()),
            namespace: (!object.namespace.is_empty()).then(|| object.namespace.clone()),
            name: Some(object.name.clone()),
            // Whoever lists the Events of a node asks for its name here.
            uid: Some(if object.kind == "Node" { &object.name } else { &object.uid }.clone()),
            ..Default::default()
        },
        type_: Some(kind.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        source: Some(EventSource {
            component: Some("netloom".to_owned()),
            ..Default::default()
        }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Default::default()
    };
    let events = Api::<Event>::namespaced(client.clone(), namespace);
    match events.create(&PostParams::default(), &event).await {
        // Told before, by this controller or the one before it.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => result.map(drop),
    }
}

fn event_name(object: &ObjectRef, reason: &str, message: &str) -> String {
    let told = format!("{} {reason} {message}", object.uid);
    // Object names are ASCII and may be as long as an Event's own name.
    let name = &object.name[..object.name.len().min(200)];
    format!("{name}.{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, told.as_bytes()).simple())
}

/// Changes the status of this very object: another may have its name by now.
async fn change_status(client: &kube::Client, object: &ObjectRef, status: Value, patch: fn(Value) -> Patch<Value>) -> kube::Result<()> {
    let mut change = json!({ "status": status });
    if !object.uid.is_empty() {
        change["metadata"] = json!({ "uid": object.uid });
    }
    let objects = api(client, object);
    objects
        .patch_status(&object.name, &PatchParams::default(), &patch(change))
        .await
        .map(drop)
}

/// Where an object is served.
fn api(client: &kube::Client, object: &ObjectRef) -> Api<DynamicObject> {
    let resource = resource(kind(object));
    if object.namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), &object.namespace, &resource)
    }
}
