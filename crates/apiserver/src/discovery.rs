//! What this server serves, for clients that ask first: groups, versions and resources, in the old form (a document per
//! group) and in the aggregated one (everything at once). Computed from the registry on each request.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::kind::Kind;

/// The version this server says it is.
pub const VERSION: &str = "v1.32.0-netloom";

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// `/version`.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": "32", "gitVersion": VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// `/api`.
pub fn core_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

/// `/apis`.
pub fn groups(kinds: &[Arc<Kind>]) -> Value {
    let groups: Vec<_> = by_group(kinds)
        .into_keys()
        .filter(|g| !g.is_empty())
        .map(|g| group_value(kinds, g))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/G`.
pub fn group(kinds: &[Arc<Kind>], name: &str) -> Option<Value> {
    by_group(kinds).contains_key(name).then(|| {
        let mut group = group_value(kinds, name);
        group["kind"] = json!("APIGroup");
        group["apiVersion"] = json!("v1");
        group
    })
}

fn group_value(kinds: &[Arc<Kind>], name: &str) -> Value {
    let versions: Vec<_> = by_group(kinds)
        .remove(name)
        .into_iter()
        .flatten()
        .map(|(version, _)| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
        .collect();
    json!({ "name": name, "versions": versions, "preferredVersion": versions.first() })
}

/// `/api/v1` and `/apis/G/V`.
pub fn resources(kinds: &[Arc<Kind>], group: &str, version: &str) -> Option<Value> {
    let served: Vec<_> = kinds.iter().filter(|k| k.group == group && k.version == version).collect();
    let first = served.first()?;
    let resources: Vec<Value> = served
        .iter()
        .flat_map(|kind| {
            let mut all = vec![json!({
                "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
                "verbs": VERBS, "shortNames": kind.short_names, "categories": kind.categories,
            })];
            all.extend(kind.subresources.iter().map(|subresource| {
                let (answer, verbs) = describe(kind, subresource);
                let mut value = json!({
                    "name": format!("{}/{subresource}", kind.plural), "singularName": "",
                    "namespaced": kind.namespaced, "kind": answer, "verbs": verbs,
                });
                if subresource == "scale" {
                    value["group"] = json!("autoscaling");
                    value["version"] = json!("v1");
                }
                value
            }));
            all
        })
        .collect();
    Some(json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": first.api_version(), "resources": resources }))
}

fn describe<'a>(kind: &'a Kind, subresource: &str) -> (&'a str, &'static [&'static str]) {
    match subresource {
        "scale" => ("Scale", &["get", "patch", "update"]),
        "binding" => ("Binding", &["create"]),
        "exec" => ("PodExecOptions", &["create", "get"]),
        "log" => (&kind.kind, &["get"]),
        "finalize" => (&kind.kind, &["update"]),
        _ => (&kind.kind, &["get", "patch", "update"]),
    }
}

/// Aggregated discovery of the core group (at `/api`) or of all others (at `/apis`).
pub fn aggregated(kinds: &[Arc<Kind>], core: bool) -> Value {
    let groups = by_group(kinds).into_iter().filter(|(group, _)| group.is_empty() == core);
    let items: Vec<_> = groups
        .map(|(group, versions)| {
            let versions: Vec<_> = versions
                .into_iter()
                .map(|(version, kinds)| {
                    let resources: Vec<_> = kinds.iter().map(|kind| aggregated_resource(kind)).collect();
                    json!({ "version": version, "resources": resources, "freshness": "Current" })
                })
                .collect();
            json!({ "metadata": { "name": group, "creationTimestamp": null }, "versions": versions })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let identity = |name: &str| json!({ "group": kind.group, "version": kind.version, "kind": name });
    let subresources: Vec<_> = kind
        .subresources
        .iter()
        .map(|subresource| {
            let (answer, verbs) = describe(kind, subresource);
            let response = match subresource.as_str() {
                "scale" => json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" }),
                _ => identity(answer),
            };
            json!({ "subresource": subresource, "responseKind": response, "verbs": verbs })
        })
        .collect();
    json!({
        "resource": kind.plural, "singularResource": kind.singular, "responseKind": identity(&kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" }, "verbs": VERBS,
        "shortNames": kind.short_names, "categories": kind.categories, "subresources": subresources,
    })
}

/// Groups, their versions and the kinds of each.
type Groups<'a> = BTreeMap<&'a str, Vec<(&'a str, Vec<&'a Arc<Kind>>)>>;

/// Kinds by group and version; the newest version of a group comes first.
fn by_group(kinds: &[Arc<Kind>]) -> Groups<'_> {
    let mut groups = Groups::new();
    for kind in kinds {
        let versions = groups.entry(&kind.group).or_default();
        match versions.iter_mut().find(|(version, _)| *version == kind.version) {
            Some((_, kinds)) => kinds.push(kind),
            None => versions.push((&kind.version, vec![kind])),
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|(version, _)| std::cmp::Reverse(priority(version)));
    }
    groups
}

/// `v2` before `v1` before `v1beta2` before `v1alpha1`.
fn priority(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse().unwrap_or(0);
    let text = version.trim_start_matches('v');
    if let Some((major, minor)) = text.split_once("beta") {
        return (1, number(major), number(minor));
    }
    if let Some((major, minor)) = text.split_once("alpha") {
        return (0, number(major), number(minor));
    }
    (2, number(text), 0)
}
