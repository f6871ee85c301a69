//! What is wrong with a built-in object, field by field. Types were checked before, so these functions look at meaning:
//! names, required fields, fields that must not change. They return causes and never stop at the first.

mod service;

pub use service::service;

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::{Value, json};

use crate::{json, kind::Kind, selector, status::Cause};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name'), with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of at most 63 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const POD_UPDATE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Rules of `metadata` that hold for every kind.
pub fn metadata(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = json::name(object);
    // Names of these become DNS labels.
    let label = kind.is("services") || kind.is("namespaces");
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if label && !is_label(name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), LABEL));
    } else if !label && !is_subdomain(name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), SUBDOMAIN));
    }
    causes.extend(labels("metadata.labels", json::at(object, "/metadata/labels")));
    for (key, _) in json::entries(object, "/metadata/annotations") {
        if !is_qualified(key) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), QUALIFIED));
        }
    }
    causes
}

fn labels(field: &str, labels: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in json::entries(labels, "") {
        if !is_qualified(key) {
            causes.push(Cause::invalid(field, &json!(key), QUALIFIED));
        }
        if !is_label_value(value.as_str().unwrap_or("")) {
            causes.push(Cause::invalid(field, value, LABEL_VALUE));
        }
    }
    causes
}

/// Pod.
pub fn pod(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = pod_spec("spec", json::at(new, "/spec"));
    if let Some(old) = old
        && fixed_part(old) != fixed_part(new)
    {
        causes.push(Cause::forbidden("spec", POD_UPDATE));
    }
    causes
}

/// A pod's spec without what may change after creation.
fn fixed_part(pod: &Value) -> Value {
    let mut spec = json::at(pod, "/spec").clone();
    for list in ["/containers", "/initContainers"] {
        for container in json::list_mut(&mut spec, list) {
            json::remove(container, "/image");
            // Derived from the image when the object was made.
            json::remove(container, "/imagePullPolicy");
        }
    }
    for field in [
        "/activeDeadlineSeconds",
        "/tolerations",
        "/terminationGracePeriodSeconds",
        "/schedulingGates",
        "/ephemeralContainers",
    ] {
        json::remove(&mut spec, field);
    }
    spec
}

fn pod_spec(path: &str, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut names = BTreeSet::new();
    if json::list(spec, "/containers").is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in json::list(spec, &format!("/{list}")).iter().enumerate() {
            let path = format!("{path}.{list}[{index}]");
            let name = json::text(container, "/name");
            if name.is_empty() {
                causes.push(Cause::required(format!("{path}.name"), ""));
            } else if !is_label(name) {
                causes.push(Cause::invalid(format!("{path}.name"), &json!(name), LABEL));
            } else if !names.insert(name) {
                causes.push(Cause::duplicate(format!("{path}.name"), &json!(name)));
            }
            for (index, port) in json::list(container, "/ports").iter().enumerate() {
                let field = format!("{path}.ports[{index}].containerPort");
                causes.extend(port_number(field, json::at(port, "/containerPort")));
            }
        }
    }
    let policy = json::at(spec, "/restartPolicy");
    causes.extend(one_of(format!("{path}.restartPolicy"), policy, &["Always", "OnFailure", "Never"]));
    causes
}

/// Deployment, ReplicaSet and DaemonSet.
pub fn workload(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let selector = json::at(new, "/spec/selector");
    let empty = ["/matchLabels", "/matchExpressions"].iter().all(|p| match json::at(selector, p) {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    });
    let labels = json::at(new, "/spec/template/metadata/labels");
    if empty {
        causes.push(Cause::required("spec.selector", ""));
    } else if !selector::selects(selector, labels) {
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, why));
    }
    if let Some(old) = old
        && json::at(old, "/spec/selector") != selector
    {
        causes.push(Cause::invalid("spec.selector", selector, "field is immutable"));
    }
    if json::number(new, "/spec/replicas").is_some_and(|n| n < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.replicas", json::at(new, "/spec/replicas"), why));
    }
    causes.extend(self::labels("spec.template.labels", labels));
    causes.extend(pod_spec("spec.template.spec", json::at(new, "/spec/template/spec")));
    let policy = json::at(new, "/spec/template/spec/restartPolicy");
    if policy != "Always" {
        causes.extend(one_of("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
    causes
}

/// EndpointSlice.
pub fn endpoint_slice(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let family = json::at(new, "/addressType");
    causes.extend(one_of("addressType", family, &["FQDN", "IPv4", "IPv6"]));
    if let Some(old) = old
        && json::at(old, "/addressType") != family
    {
        causes.push(Cause::invalid("addressType", family, "field is immutable"));
    }
    for (index, endpoint) in json::list(new, "/endpoints").iter().enumerate() {
        let field = format!("endpoints[{index}].addresses");
        let addresses = json::list(endpoint, "/addresses");
        if addresses.is_empty() {
            causes.push(Cause::required(field.clone(), "must contain at least 1 address"));
        }
        if family != "FQDN" {
            causes.extend(addresses.iter().flat_map(|a| address_of(field.clone(), a)));
        }
    }
    causes
}

/// Ingress.
pub fn ingress(new: &Value, _old: Option<&Value>) -> Vec<Cause> {
    let (rules, backend) = (json::list(new, "/spec/rules"), json::at(new, "/spec/defaultBackend"));
    let mut causes = Vec::new();
    if rules.is_empty() && backend.is_null() {
        let why = "either `defaultBackend` or `rules` must be specified";
        causes.push(Cause::invalid("spec", json::at(new, "/spec"), why));
    }
    for (rule_index, rule) in rules.iter().enumerate() {
        for (index, path) in json::list(rule, "/http/paths").iter().enumerate() {
            let field = format!("spec.rules[{rule_index}].http.paths[{index}]");
            let kind = json::at(path, "/pathType");
            if kind.is_null() || kind == "" {
                causes.push(Cause::required(format!("{field}.pathType"), "pathType must be specified"));
            }
            let given = json::text(path, "/path");
            if kind != "ImplementationSpecific" && !given.starts_with('/') {
                causes.push(Cause::invalid(format!("{field}.path"), &json!(given), "must be an absolute path"));
            }
        }
    }
    causes
}

/// NetworkPolicy.
pub fn network_policy(new: &Value, _old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, kind) in json::list(new, "/spec/policyTypes").iter().enumerate() {
        causes.extend(one_of(format!("spec.policyTypes[{index}]"), kind, &["Egress", "Ingress"]));
    }
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (rule_index, rule) in json::list(new, &format!("/spec/{direction}")).iter().enumerate() {
            let rule_path = format!("spec.{direction}[{rule_index}]");
            for (index, peer) in json::list(rule, &format!("/{peers}")).iter().enumerate() {
                causes.extend(policy_peer(&format!("{rule_path}.{peers}[{index}]"), peer));
            }
            for (index, port) in json::list(rule, "/ports").iter().enumerate() {
                let path = format!("{rule_path}.ports[{index}]");
                let protocol = json::at(port, "/protocol");
                causes.extend(one_of(format!("{path}.protocol"), protocol, &["SCTP", "TCP", "UDP"]));
                let number = json::at(port, "/port");
                if number.is_number() {
                    causes.extend(port_number(format!("{path}.port"), number));
                }
                if let Some(end) = json::number(port, "/endPort")
                    && number.as_i64().is_none_or(|start| end < start)
                {
                    let why = "must be greater than or equal to `port`";
                    causes.push(Cause::invalid(format!("{path}.endPort"), &json!(end), why));
                }
            }
        }
    }
    causes
}

fn policy_peer(path: &str, peer: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let block = json::at(peer, "/ipBlock");
    let selectors = ["/podSelector", "/namespaceSelector"].iter().any(|p| !json::at(peer, p).is_null());
    if block.is_null() && !selectors {
        causes.push(Cause::required(path, "must specify a peer"));
    }
    if !block.is_null() {
        if selectors {
            causes.push(Cause::forbidden(path, "may not specify both ipBlock and another peer"));
        }
        let cidr = json::at(block, "/cidr");
        let exceptions = json::list(block, "/except").iter().map(|e| (format!("{path}.ipBlock.except"), e));
        for (field, value) in std::iter::once((format!("{path}.ipBlock.cidr"), cidr)).chain(exceptions) {
            if value.as_str().is_none_or(|text| text.parse::<ipnet::IpNet>().is_err()) {
                causes.push(Cause::invalid(
                    field,
                    value,
                    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ));
            }
        }
        let net = |value: &Value| value.as_str().and_then(|text| text.parse::<ipnet::IpNet>().ok());
        for (index, except) in json::list(block, "/except").iter().enumerate() {
            if let (Some(whole), Some(part)) = (net(cidr), net(except))
                && (!whole.contains(&part) || whole.prefix_len() == part.prefix_len())
            {
                let field = format!("{path}.ipBlock.except[{index}]");
                causes.push(Cause::invalid(field, except, "must be a strict subset of `cidr`"));
            }
        }
    }
    causes
}

fn one_of(field: impl Into<String>, value: &Value, allowed: &[&str]) -> Option<Cause> {
    let known = value.is_null() || value.as_str().is_some_and(|v| allowed.contains(&v));
    let allowed: Vec<_> = allowed.iter().map(|a| format!("\"{a}\"")).collect();
    (!known).then(|| Cause::unsupported(field, value, &allowed))
}

fn port_number(field: String, value: &Value) -> Option<Cause> {
    match value.as_i64() {
        None | Some(0) => Some(Cause::required(field, "")),
        Some(1..=65535) => None,
        Some(_) => Some(Cause::invalid(field, value, "must be between 1 and 65535, inclusive")),
    }
}

fn address_of(field: String, value: &Value) -> Option<Cause> {
    let valid = value.as_str().is_some_and(|text| text.parse::<IpAddr>().is_ok());
    (!valid).then(|| Cause::invalid(field, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
}

/// RFC 1123 label.
pub fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.len() <= 63 && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// RFC 1123 subdomain.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text
            .split('.')
            .all(|part| is_label(part) || (part.len() > 63 && is_label(&part[part.len() - 63..])))
}

fn is_label_value(text: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.is_empty()
        || (text.len() <= 63 && alphanumeric(text.chars().next()) && alphanumeric(text.chars().last()) && text.chars().all(inner))
}

fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(&prefix.to_lowercase()) && !name.is_empty() && is_label_value(name),
        None => !text.is_empty() && is_label_value(text),
    }
}
