//! The columns of the built-in kinds: for each kind its headings and a function from the object to its cells. The `Age`
//! cell is filled in by the caller.

use serde_json::{Value, json};

use super::{Column, age, column, wide};
use crate::{json, selector};

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

fn join<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn number(value: &Value, path: &str) -> Value {
    json!(json::number(value, path).unwrap_or(0).to_string())
}

fn labels(map: &Value) -> Value {
    let pairs: Vec<_> = json::entries(map, "")
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or("")))
        .collect();
    or_none(&pairs.join(","))
}

fn containers(object: &Value, path: &str) -> (Value, Value) {
    let containers = json::list(object, path);
    let names = join(containers.iter().map(|c| json::text(c, "/name")));
    (json!(names), json!(join(containers.iter().map(|c| json::text(c, "/image")))))
}

/// Columns.
pub const CONFIG_MAP: &[Column] = &[column("Data"), column("Age")];
/// Cells.
pub fn config_map(object: &Value) -> Vec<Value> {
    let count = json::entries(object, "/data").count() + json::entries(object, "/binaryData").count();
    vec![json!(count.to_string())]
}

/// Columns.
pub const SECRET: &[Column] = &[column("Type"), column("Data"), column("Age")];
/// Cells.
pub fn secret(object: &Value) -> Vec<Value> {
    vec![
        json!(json::text(object, "/type")),
        json!(json::entries(object, "/data").count().to_string()),
    ]
}

/// Columns.
pub const SERVICE_ACCOUNT: &[Column] = &[column("Secrets"), column("Age")];
/// Cells.
pub fn service_account(object: &Value) -> Vec<Value> {
    vec![json!(json::list(object, "/secrets").len().to_string())]
}

/// Columns.
pub const NAMESPACE: &[Column] = &[column("Status"), column("Age")];
/// Cells.
pub fn namespace(object: &Value) -> Vec<Value> {
    vec![json!(json::text(object, "/status/phase"))]
}

/// Columns.
pub const ENDPOINTS: &[Column] = &[column("Endpoints"), column("Age")];
/// Cells.
pub fn endpoints(object: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in json::list(object, "/subsets") {
        for address in json::list(subset, "/addresses") {
            let address = json::text(address, "/ip");
            let address = if address.contains(':') {
                format!("[{address}]")
            } else {
                address.to_owned()
            };
            let ports = json::list(subset, "/ports");
            all.extend(ports.iter().map(|p| format!("{address}:{}", json::number(p, "/port").unwrap_or(0))));
            if ports.is_empty() {
                all.push(address);
            }
        }
    }
    vec![or_none(&some(&all))]
}

/// The first three, and how many more there are.
fn some(all: &[String]) -> String {
    match all.len() {
        0..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    }
}

/// Columns.
pub const EVENT: &[Column] = &[
    column("Last Seen"),
    column("Type"),
    column("Reason"),
    column("Object"),
    wide("Subobject"),
    wide("Source"),
    column("Message"),
    wide("First Seen"),
    wide("Count"),
    wide("Name"),
];
/// Cells.
pub fn event(object: &Value) -> Vec<Value> {
    let seen = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/firstTimestamp"];
    let last = seen
        .iter()
        .find(|p| !json::text(object, p).is_empty())
        .unwrap_or(&"/metadata/creationTimestamp");
    let first = if json::text(object, "/firstTimestamp").is_empty() {
        "/eventTime"
    } else {
        "/firstTimestamp"
    };
    let component = json::text(object, "/source/component");
    let source = if component.is_empty() {
        json::text(object, "/reportingComponent")
    } else {
        component
    };
    let kind = json::text(object, "/involvedObject/kind").to_lowercase();
    vec![
        json!(age(object, last)),
        json!(json::text(object, "/type")),
        json!(json::text(object, "/reason")),
        json!(format!("{kind}/{}", json::text(object, "/involvedObject/name"))),
        json!(json::text(object, "/involvedObject/fieldPath")),
        json!(
            [source, json::text(object, "/source/host")]
                .iter()
                .filter(|s| !s.is_empty())
                .copied()
                .collect::<Vec<_>>()
                .join(", ")
        ),
        json!(json::text(object, "/message").trim()),
        json!(age(object, first)),
        json!(json::number(object, "/count").unwrap_or(1).to_string()),
        json!(json::name(object)),
    ]
}

/// Columns.
pub const NODE: &[Column] = &[
    column("Status"),
    column("Roles"),
    column("Age"),
    column("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];
/// Cells.
pub fn node(object: &Value) -> Vec<Value> {
    let ready = match json::condition(object, "Ready") {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    };
    let cordoned = if json::flag(object, "/spec/unschedulable") {
        ",SchedulingDisabled"
    } else {
        ""
    };
    let roles = json::entries(object, "/metadata/labels").filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/"));
    let address = |kind: &str| {
        let all = json::list(object, "/status/addresses");
        or_none(
            all.iter()
                .find(|a| json::text(a, "/type") == kind)
                .map_or("", |a| json::text(a, "/address")),
        )
    };
    let info = |field: &str| match json::text(object, &format!("/status/nodeInfo/{field}")) {
        "" => json!("<unknown>"),
        text => json!(text),
    };
    vec![
        json!(format!("{ready}{cordoned}")),
        or_none(&join(roles)),
        Value::Null,
        json!(json::text(object, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

/// Columns.
pub const POD: &[Column] = &[
    column("Ready"),
    column("Status"),
    column("Restarts"),
    column("Age"),
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];
/// Cells.
pub fn pod(object: &Value) -> Vec<Value> {
    let statuses = json::list(object, "/status/containerStatuses");
    let ready = statuses.iter().filter(|s| json::flag(s, "/ready")).count();
    let total = json::list(object, "/spec/containers").len();
    let restarts: i64 = statuses.iter().filter_map(|s| json::number(s, "/restartCount")).sum();
    let last = statuses
        .iter()
        .map(|s| json::text(s, "/lastState/terminated/finishedAt"))
        .max()
        .unwrap_or("");
    let restarts = match (restarts, last) {
        (0, _) | (_, "") => restarts.to_string(),
        (restarts, when) => format!("{restarts} ({} ago)", super::since(when)),
    };
    let address = json::list(object, "/status/podIPs").first().map_or("", |a| json::text(a, "/ip"));
    let address = if address.is_empty() {
        json::text(object, "/status/podIP")
    } else {
        address
    };
    let gates = json::list(object, "/spec/readinessGates");
    let passed = gates
        .iter()
        .filter(|g| json::condition(object, json::text(g, "/conditionType")) == "True")
        .count();
    vec![
        json!(format!("{ready}/{total}")),
        json!(pod_status(object)),
        json!(restarts),
        Value::Null,
        or_none(address),
        or_none(json::text(object, "/spec/nodeName")),
        or_none(json::text(object, "/status/nominatedNodeName")),
        if gates.is_empty() {
            json!("<none>")
        } else {
            json!(format!("{passed}/{}", gates.len()))
        },
    ]
}

/// The one word that says how a pod is: the most specific reason there is.
fn pod_status(pod: &Value) -> String {
    if json::terminating(pod) {
        return if json::text(pod, "/status/reason") == "NodeLost" {
            "Unknown"
        } else {
            "Terminating"
        }
        .into();
    }
    let mut word = json::text(pod, "/status/phase");
    if !json::text(pod, "/status/reason").is_empty() {
        word = json::text(pod, "/status/reason");
    }
    let initialising = json::list(pod, "/status/initContainerStatuses");
    for (index, status) in initialising.iter().enumerate() {
        let ended = json::at(status, "/state/terminated");
        let reason = json::text(status, "/state/waiting/reason");
        if json::number(ended, "/exitCode") == Some(0) {
            continue;
        }
        return match (ended.is_null(), reason) {
            (false, _) => format!("Init:{}", or(json::text(ended, "/reason"), "Error")),
            (true, "" | "PodInitializing") => format!("Init:{index}/{}", json::list(pod, "/spec/initContainers").len()),
            (true, reason) => format!("Init:{reason}"),
        };
    }
    for status in json::list(pod, "/status/containerStatuses") {
        let waiting = json::text(status, "/state/waiting/reason");
        let ended = json::at(status, "/state/terminated");
        if !waiting.is_empty() {
            word = waiting;
        } else if !ended.is_null() {
            let exit = if json::number(ended, "/exitCode") == Some(0) {
                "Completed"
            } else {
                "Error"
            };
            word = or(json::text(ended, "/reason"), exit);
        }
    }
    word.to_owned()
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// Columns.
pub const SERVICE: &[Column] = &[
    column("Type"),
    column("Cluster-IP"),
    column("External-IP"),
    column("Port(s)"),
    column("Age"),
    wide("Selector"),
];
/// Cells.
pub fn service(object: &Value) -> Vec<Value> {
    let ports: Vec<_> = json::list(object, "/spec/ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (json::number(port, "/port").unwrap_or(0), json::text(port, "/protocol"));
            match json::number(port, "/nodePort") {
                Some(node) => format!("{number}:{node}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        })
        .collect();
    let balancers = json::list(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|i| or(json::text(i, "/ip"), json::text(i, "/hostname")));
    let external = json::list(object, "/spec/externalIPs").iter().filter_map(Value::as_str);
    let mut shown = join(balancers.chain(external));
    match json::text(object, "/spec/type") {
        "ExternalName" => shown = json::text(object, "/spec/externalName").to_owned(),
        "LoadBalancer" if shown.is_empty() => shown = "<pending>".into(),
        _ => {}
    }
    vec![
        json!(json::text(object, "/spec/type")),
        or_none(json::text(object, "/spec/clusterIP")),
        or_none(&shown),
        or_none(&ports.join(",")),
        Value::Null,
        labels(json::at(object, "/spec/selector")),
    ]
}

/// Columns.
pub const CUSTOM_RESOURCE_DEFINITION: &[Column] = &[column("Created At")];
/// Cells.
pub fn custom_resource_definition(object: &Value) -> Vec<Value> {
    vec![json!(json::text(object, "/metadata/creationTimestamp"))]
}

/// Columns.
pub const DAEMON_SET: &[Column] = &[
    column("Desired"),
    column("Current"),
    column("Ready"),
    column("Up-to-date"),
    column("Available"),
    column("Node Selector"),
    column("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
/// Cells.
pub fn daemon_set(object: &Value) -> Vec<Value> {
    let (names, images) = containers(object, "/spec/template/spec/containers");
    vec![
        number(object, "/status/desiredNumberScheduled"),
        number(object, "/status/currentNumberScheduled"),
        number(object, "/status/numberReady"),
        number(object, "/status/updatedNumberScheduled"),
        number(object, "/status/numberAvailable"),
        labels(json::at(object, "/spec/template/spec/nodeSelector")),
        Value::Null,
        names,
        images,
        json!(selector::to_query(json::at(object, "/spec/selector"))),
    ]
}

/// Columns.
pub const DEPLOYMENT: &[Column] = &[
    column("Ready"),
    column("Up-to-date"),
    column("Available"),
    column("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
/// Cells.
pub fn deployment(object: &Value) -> Vec<Value> {
    let (names, images) = containers(object, "/spec/template/spec/containers");
    let ready = json::number(object, "/status/readyReplicas").unwrap_or(0);
    vec![
        json!(format!("{ready}/{}", json::number(object, "/spec/replicas").unwrap_or(0))),
        number(object, "/status/updatedReplicas"),
        number(object, "/status/availableReplicas"),
        Value::Null,
        names,
        images,
        json!(selector::to_query(json::at(object, "/spec/selector"))),
    ]
}

/// Columns.
pub const REPLICA_SET: &[Column] = &[
    column("Desired"),
    column("Current"),
    column("Ready"),
    column("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
/// Cells.
pub fn replica_set(object: &Value) -> Vec<Value> {
    let (names, images) = containers(object, "/spec/template/spec/containers");
    vec![
        number(object, "/spec/replicas"),
        number(object, "/status/replicas"),
        number(object, "/status/readyReplicas"),
        Value::Null,
        names,
        images,
        json!(selector::to_query(json::at(object, "/spec/selector"))),
    ]
}

/// Columns.
pub const LEASE: &[Column] = &[column("Holder"), column("Age")];
/// Cells.
pub fn lease(object: &Value) -> Vec<Value> {
    vec![json!(json::text(object, "/spec/holderIdentity"))]
}

/// Columns.
pub const ENDPOINT_SLICE: &[Column] = &[column("AddressType"), column("Ports"), column("Endpoints"), column("Age")];
/// Cells.
pub fn endpoint_slice(object: &Value) -> Vec<Value> {
    let ports: Vec<_> = json::list(object, "/ports")
        .iter()
        .map(|p| json::number(p, "/port").unwrap_or(0).to_string())
        .collect();
    let addresses: Vec<_> = json::list(object, "/endpoints")
        .iter()
        .flat_map(|e| json::list(e, "/addresses"))
        .filter_map(|a| a.as_str().map(str::to_owned))
        .collect();
    let unset = |text: String| if text.is_empty() { json!("<unset>") } else { json!(text) };
    vec![
        json!(json::text(object, "/addressType")),
        unset(some(&ports)),
        unset(some(&addresses)),
    ]
}

/// Columns.
pub const INGRESS: &[Column] = &[column("Class"), column("Hosts"), column("Address"), column("Ports"), column("Age")];
/// Cells.
pub fn ingress(object: &Value) -> Vec<Value> {
    let hosts: Vec<_> = json::list(object, "/spec/rules")
        .iter()
        .map(|r| json::text(r, "/host"))
        .filter(|h| !h.is_empty())
        .collect();
    let addresses = json::list(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|i| or(json::text(i, "/ip"), json::text(i, "/hostname")));
    let secure = !json::list(object, "/spec/tls").is_empty();
    vec![
        or_none(json::text(object, "/spec/ingressClassName")),
        json!(if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") }),
        json!(join(addresses)),
        json!(if secure { "80, 443" } else { "80" }),
    ]
}

/// Columns.
pub const INGRESS_CLASS: &[Column] = &[column("Controller"), column("Parameters"), column("Age")];
/// Cells.
pub fn ingress_class(object: &Value) -> Vec<Value> {
    let parameters = json::at(object, "/spec/parameters");
    let shown = match parameters.is_null() {
        true => String::new(),
        false => format!("{}/{}", json::text(parameters, "/kind"), json::text(parameters, "/name")),
    };
    vec![json!(json::text(object, "/spec/controller")), or_none(&shown)]
}

/// Columns.
pub const NETWORK_POLICY: &[Column] = &[column("Pod-Selector"), column("Age")];
/// Cells.
pub fn network_policy(object: &Value) -> Vec<Value> {
    vec![or_none(&selector::to_query(json::at(object, "/spec/podSelector")))]
}
