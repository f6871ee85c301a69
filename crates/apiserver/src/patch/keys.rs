//! How lists merge: which fields of an item name it. One table serves strategic merge patch and server-side apply for the
//! built-in kinds; custom kinds say it in their schema. A list that is not named here is replaced as a whole.

use serde_json::Value;

use crate::{
    json,
    kind::{Kind, Source},
};

/// How two versions of a list combine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// The new list replaces the old.
    Atomic,
    /// A set of plain values.
    Set,
    /// Items are named by these fields, the first of which is enough for strategic merge patch.
    Map(Vec<String>),
}

/// Lists by field name and, where the name alone is ambiguous, by the field that holds the parent.
const LISTS: &[(&str, Option<&str>, &[&str])] = &[
    ("containers", None, &["name"]),
    ("initContainers", None, &["name"]),
    ("ephemeralContainers", None, &["name"]),
    ("volumes", None, &["name"]),
    ("env", None, &["name"]),
    ("volumeMounts", None, &["mountPath"]),
    ("volumeDevices", None, &["devicePath"]),
    ("imagePullSecrets", None, &["name"]),
    ("hostAliases", None, &["ip"]),
    ("topologySpreadConstraints", None, &["topologyKey", "whenUnsatisfiable"]),
    ("resourceClaims", None, &["name"]),
    ("conditions", Some("status"), &["type"]),
    ("addresses", Some("status"), &["type"]),
    ("podIPs", Some("status"), &["ip"]),
    ("hostIPs", Some("status"), &["ip"]),
    ("ownerReferences", Some("metadata"), &["uid"]),
    ("ports", Some("containers"), &["containerPort", "protocol"]),
    ("ports", Some("initContainers"), &["containerPort", "protocol"]),
    ("ports", Some("spec"), &["port", "protocol"]),
    ("secrets", None, &["name"]),
];

const SETS: &[(&str, &str)] = &[("finalizers", "metadata"), ("finalizers", "spec"), ("podCIDRs", "spec")];

/// How the list at `path` (names of fields, without indices) merges.
pub fn merge_of(kind: &Kind, path: &[String]) -> Merge {
    if let Source::Custom(custom) = &kind.source
        && path.first().is_none_or(|first| first != "metadata")
    {
        return custom_list(&custom.schema, path);
    }
    let Some(name) = path.last() else { return Merge::Atomic };
    let parent = path
        .len()
        .checked_sub(2)
        .and_then(|index| path.get(index))
        .map_or("", String::as_str);
    if SETS.contains(&(name.as_str(), parent)) {
        return Merge::Set;
    }
    let found = LISTS
        .iter()
        .find(|(list, inside, _)| list == name && inside.is_none_or(|inside| inside == parent));
    match found {
        Some((_, _, keys)) => Merge::Map(keys.iter().map(|&k| k.to_owned()).collect()),
        None => Merge::Atomic,
    }
}

/// Whether the map at `path` of a built-in kind is one value: selectors are.
pub fn atomic_map(kind: &Kind, path: &[String]) -> bool {
    let native = matches!(kind.source, Source::Native(_));
    native
        && path
            .last()
            .is_some_and(|name| name == "selector" || name.ends_with("Selector") || name.ends_with("KeyRef"))
}

fn custom_list(schema: &Value, path: &[String]) -> Merge {
    let schema = path.iter().fold(schema, |schema, name| {
        let schema = if json::text(schema, "/type") == "array" {
            json::at(schema, "/items")
        } else {
            schema
        };
        let property = schema.get("properties").and_then(|p| p.get(name));
        property.unwrap_or_else(|| json::at(schema, "/additionalProperties"))
    });
    let keys = json::list(schema, "/x-kubernetes-list-map-keys")
        .iter()
        .filter_map(|k| k.as_str().map(str::to_owned));
    match json::text(schema, "/x-kubernetes-list-type") {
        "map" => Merge::Map(keys.collect()),
        "set" => Merge::Set,
        _ => Merge::Atomic,
    }
}
