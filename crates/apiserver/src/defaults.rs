//! The defaults people notice when they read an object back. Called for every object that enters, new or changed; each
//! function fills only what is missing, so it may run any number of times.

use serde_json::{Value, json};

use crate::json::{self, default, list_mut};

/// Namespace: active, with the label that selectors use, kept by the namespace controller until it is empty.
pub fn namespace(namespace: &mut Value) {
    let name = json::name(namespace).to_owned();
    json::set(namespace, "/metadata/labels/kubernetes.io~1metadata.name", name);
    if !json::terminating(namespace) {
        default(namespace, "/spec/finalizers", json!(["kubernetes"]));
        default(namespace, "/status/phase", "Active");
    }
}

/// Pod.
pub fn pod(pod: &mut Value) {
    pod_spec(json::slot(pod, "/spec"));
    default(pod, "/spec/serviceAccountName", "default");
    let account = json::text(pod, "/spec/serviceAccountName").to_owned();
    default(pod, "/spec/serviceAccount", account);
    default(pod, "/spec/enableServiceLinks", true);
    default(pod, "/spec/preemptionPolicy", "PreemptLowerPriority");
    default(pod, "/spec/priority", 0);
    tolerate_broken_nodes(json::slot(pod, "/spec/tolerations"));
    default(pod, "/status/phase", "Pending");
    if json::at(pod, "/status/qosClass").is_null() {
        json::set(pod, "/status/qosClass", quality_of_service(pod));
    }
}

fn tolerate_broken_nodes(tolerations: &mut Value) {
    if !tolerations.is_array() {
        *tolerations = json!([]);
    }
    let Value::Array(list) = tolerations else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list.iter().any(|t| {
            let any = json::text(t, "/key").is_empty() && json::text(t, "/operator") == "Exists";
            let effect = json::text(t, "/effect");
            any || (json::text(t, "/key") == key && (effect.is_empty() || effect == "NoExecute"))
        });
        if !tolerated {
            list.push(json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }));
        }
    }
}

fn quality_of_service(pod: &Value) -> &'static str {
    let containers = json::list(pod, "/spec/containers");
    let given = |path: &str| containers.iter().any(|c| json::entries(c, path).next().is_some());
    let guaranteed = containers.iter().all(|c| {
        let (requests, limits) = (json::at(c, "/resources/requests"), json::at(c, "/resources/limits"));
        let both = ["cpu", "memory"].iter().all(|r| limits.get(r).is_some());
        both && (requests.is_null() || requests == limits)
    });
    match (given("/resources/requests") || given("/resources/limits"), guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// The part of a pod that templates share.
fn pod_spec(spec: &mut Value) {
    default(spec, "/restartPolicy", "Always");
    default(spec, "/dnsPolicy", "ClusterFirst");
    default(spec, "/terminationGracePeriodSeconds", 30);
    default(spec, "/securityContext", json!({}));
    default(spec, "/schedulerName", "default-scheduler");
    for list in ["/containers", "/initContainers"] {
        list_mut(spec, list).iter_mut().for_each(container);
    }
    for volume in list_mut(spec, "/volumes") {
        for source in ["/configMap", "/secret", "/projected", "/downwardAPI"] {
            if !json::at(volume, source).is_null() {
                default(volume, &format!("{source}/defaultMode"), 420);
            }
        }
    }
}

fn container(container: &mut Value) {
    let image = json::text(container, "/image").to_owned();
    let tag = image.rsplit('/').next().unwrap_or("");
    let latest = !tag.contains('@') && (!tag.contains(':') || tag.ends_with(":latest"));
    default(container, "/imagePullPolicy", if latest { "Always" } else { "IfNotPresent" });
    default(container, "/terminationMessagePath", "/dev/termination-log");
    default(container, "/terminationMessagePolicy", "File");
    default(container, "/resources", json!({}));
    for port in list_mut(container, "/ports") {
        default(port, "/protocol", "TCP");
    }
    for variable in list_mut(container, "/env") {
        if !json::at(variable, "/valueFrom/fieldRef").is_null() {
            default(variable, "/valueFrom/fieldRef/apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|p| p.is_object()) {
            default(probe, "/timeoutSeconds", 1);
            default(probe, "/periodSeconds", 10);
            default(probe, "/successThreshold", 1);
            default(probe, "/failureThreshold", 3);
            if !json::at(probe, "/httpGet").is_null() {
                default(probe, "/httpGet/path", "/");
                default(probe, "/httpGet/scheme", "HTTP");
            }
        }
    }
}

fn template(workload: &mut Value) {
    let spec = json::slot(workload, "/spec/template/spec");
    pod_spec(spec);
    if let Some(account) = json::at(spec, "/serviceAccountName").as_str().map(str::to_owned) {
        default(spec, "/serviceAccount", account);
    }
}

/// Deployment.
pub fn deployment(deployment: &mut Value) {
    template(deployment);
    default(deployment, "/spec/replicas", 1);
    default(deployment, "/spec/revisionHistoryLimit", 10);
    default(deployment, "/spec/progressDeadlineSeconds", 600);
    default(deployment, "/spec/strategy/type", "RollingUpdate");
    if json::text(deployment, "/spec/strategy/type") == "RollingUpdate" {
        default(deployment, "/spec/strategy/rollingUpdate/maxSurge", "25%");
        default(deployment, "/spec/strategy/rollingUpdate/maxUnavailable", "25%");
    }
}

/// ReplicaSet.
pub fn replica_set(set: &mut Value) {
    template(set);
    default(set, "/spec/replicas", 1);
    default(set, "/status/replicas", 0);
}

/// DaemonSet.
pub fn daemon_set(set: &mut Value) {
    template(set);
    default(set, "/spec/revisionHistoryLimit", 10);
    default(set, "/spec/updateStrategy/type", "RollingUpdate");
    if json::text(set, "/spec/updateStrategy/type") == "RollingUpdate" {
        default(set, "/spec/updateStrategy/rollingUpdate/maxSurge", 0);
        default(set, "/spec/updateStrategy/rollingUpdate/maxUnavailable", 1);
    }
    for count in [
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberMisscheduled",
        "numberReady",
    ] {
        default(set, &format!("/status/{count}"), 0);
    }
}

/// Service, except its addresses and node ports: those are allocated.
pub fn service(service: &mut Value) {
    default(service, "/spec/type", "ClusterIP");
    default(service, "/spec/sessionAffinity", "None");
    if json::text(service, "/spec/sessionAffinity") == "ClientIP" {
        default(service, "/spec/sessionAffinityConfig/clientIP/timeoutSeconds", 10800);
    } else {
        json::remove(service, "/spec/sessionAffinityConfig");
    }
    let kind = json::text(service, "/spec/type").to_owned();
    if kind != "ExternalName" {
        default(service, "/spec/internalTrafficPolicy", "Cluster");
    }
    if kind == "NodePort" || kind == "LoadBalancer" {
        default(service, "/spec/externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(service, "/spec/allocateLoadBalancerNodePorts", true);
    }
    let headless = json::text(service, "/spec/clusterIP") == "None";
    for port in list_mut(service, "/spec/ports") {
        default(port, "/protocol", "TCP");
        let number = json::at(port, "/port").clone();
        if !headless || json::at(port, "/targetPort").is_null() {
            default(port, "/targetPort", number);
        }
    }
    default(service, "/status/loadBalancer", json!({}));
}

/// Secret: `stringData` is write-only convenience for `data`.
pub fn secret(secret: &mut Value) {
    default(secret, "/type", "Opaque");
    let Some(Value::Object(plain)) = json::remove(secret, "/stringData") else {
        return;
    };
    for (key, value) in plain {
        let bytes = k8s_openapi::ByteString(value.as_str().unwrap_or("").as_bytes().to_vec());
        let encoded = serde_json::to_value(bytes).unwrap_or(Value::Null);
        json::object(json::slot(secret, "/data")).insert(key, encoded);
    }
}

/// NetworkPolicy: the policy types follow from what the policy has rules for.
pub fn network_policy(policy: &mut Value) {
    if json::at(policy, "/spec/policyTypes").is_null() {
        let egress = !json::at(policy, "/spec/egress").is_null();
        json::set(
            policy,
            "/spec/policyTypes",
            if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) },
        );
    }
    for path in ["/spec/ingress", "/spec/egress"] {
        for rule in list_mut(policy, path) {
            for port in list_mut(rule, "/ports") {
                default(port, "/protocol", "TCP");
            }
        }
    }
}
