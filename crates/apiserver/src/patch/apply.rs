//! Server-side apply. Each manager's entry in `managedFields` says which fields it applied last; a field it no longer
//! applies goes away unless someone else has it, and a field that someone else has cannot be changed without force.
//! Writers that do not apply are tracked only on objects that have an applier: elsewhere nobody would ask.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::keys::{Merge, atomic_map, merge_of};
use crate::{
    json,
    kind::Kind,
    status::{Failure, Result},
};

/// Who writes, and where.
#[derive(Debug, Clone)]
pub struct Writer {
    /// `fieldManager`.
    pub manager: String,
    /// "" or the subresource written through.
    pub subresource: String,
}

/// A path of elements as `fieldsV1` spells them: `f:name`, `k:{…}`, `v:…`.
type Path = Vec<String>;
type Fields = BTreeSet<Path>;

/// Applies `wanted` on top of `live` (null if there is no object yet).
pub fn apply(kind: &Kind, live: &Value, wanted: &Value, writer: &Writer, force: bool) -> Result<Value> {
    let fields = fields_of(kind, wanted);
    let mut entries = json::list(live, "/metadata/managedFields").to_vec();
    let own = |entry: &Value| json::text(entry, "/operation") == "Apply" && is_from(entry, writer);
    let before = entries.iter().find(|e| own(e)).map_or_else(Fields::new, owned);

    let mut conflicts = Vec::new();
    for entry in entries.iter_mut().filter(|e| !own(e)) {
        let mut theirs = owned(entry);
        let contested: Vec<_> = fields
            .iter()
            .filter(|p| theirs.contains(*p) && differ(live, wanted, p))
            .cloned()
            .collect();
        for path in contested {
            conflicts.push((json::text(entry, "/manager").to_owned(), display(&path)));
            theirs.remove(&path);
        }
        json::set(entry, "/fieldsV1", to_json(&theirs));
    }
    if !conflicts.is_empty() && !force {
        return Err(Failure::apply_conflict(&conflicts));
    }

    let mut new = if live.is_null() { json!({}) } else { live.clone() };
    merge(kind, &mut new, wanted, &mut Vec::new());
    let others: Fields = entries.iter().filter(|e| !own(e)).flat_map(owned).collect();
    for path in before
        .difference(&fields)
        .filter(|p| !others.iter().any(|other| other.starts_with(p)))
    {
        remove(&mut new, path);
    }
    entries.retain(|e| !own(e) && !owned(e).is_empty());
    entries.push(entry(kind, writer, "Apply", &fields));
    json::set(&mut new, "/metadata/managedFields", entries);
    Ok(new)
}

/// Records that a writer that does not apply changed `old` to `new`.
pub fn track(kind: &Kind, old: &Value, new: &mut Value, writer: &Writer) {
    let mut entries = json::list(old, "/metadata/managedFields").to_vec();
    if entries.is_empty() {
        json::remove(new, "/metadata/managedFields");
        return;
    }
    let (before, after) = (fields_of(kind, old), fields_of(kind, new));
    let changed: Fields = after
        .iter()
        .filter(|p| !before.contains(*p) || differ(old, new, p))
        .cloned()
        .collect();
    let gone: Fields = before.difference(&after).cloned().collect();
    let own = |entry: &Value| json::text(entry, "/operation") == "Update" && is_from(entry, writer);
    let mut mine = changed.clone();
    for entry in &mut entries {
        let mut fields = owned(entry);
        if own(entry) {
            mine.extend(fields.difference(&gone).cloned());
        }
        fields.retain(|path| !changed.contains(path) && !gone.contains(path));
        json::set(entry, "/fieldsV1", to_json(&fields));
    }
    entries.retain(|e| !own(e) && !owned(e).is_empty());
    if !mine.is_empty() {
        entries.push(entry(kind, writer, "Update", &mine));
    }
    json::set(new, "/metadata/managedFields", entries);
}

fn entry(kind: &Kind, writer: &Writer, operation: &str, fields: &Fields) -> Value {
    let mut entry = json!({
        "manager": writer.manager, "operation": operation, "apiVersion": kind.api_version(), "time": json::now(),
        "fieldsType": "FieldsV1", "fieldsV1": to_json(fields),
    });
    if !writer.subresource.is_empty() {
        entry["subresource"] = json!(writer.subresource);
    }
    entry
}

fn is_from(entry: &Value, writer: &Writer) -> bool {
    json::text(entry, "/manager") == writer.manager && json::text(entry, "/subresource") == writer.subresource
}

/// The fields an object says something about.
fn fields_of(kind: &Kind, object: &Value) -> Fields {
    let mut object = object.clone();
    for field in ["apiVersion", "kind"] {
        json::object(&mut object).remove(field);
    }
    let server = [
        "name",
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    ];
    for field in server {
        json::remove(&mut object, &format!("/metadata/{field}"));
    }
    let mut fields = Fields::new();
    for (key, value) in json::entries(&object, "") {
        if key != "metadata" || value.as_object().is_some_and(|m| !m.is_empty()) {
            collect(kind, value, &mut vec![key.clone()], &mut vec![format!("f:{key}")], &mut fields);
        }
    }
    fields
}

fn collect(kind: &Kind, value: &Value, names: &mut Vec<String>, path: &mut Path, fields: &mut Fields) {
    match value {
        Value::Object(map) if !map.is_empty() && !atomic_map(kind, names) => {
            for (key, value) in map {
                names.push(key.clone());
                path.push(format!("f:{key}"));
                collect(kind, value, names, path, fields);
                path.pop();
                names.pop();
            }
        }
        Value::Array(list) => match merge_of(kind, names) {
            Merge::Atomic => {
                fields.insert(path.clone());
            }
            Merge::Set => fields.extend(list.iter().map(|item| {
                let mut path = path.clone();
                path.push(format!("v:{item}"));
                path
            })),
            Merge::Map(keys) => {
                for item in list {
                    path.push(item_key(item, &keys));
                    fields.insert(path.clone());
                    collect(kind, item, names, path, fields);
                    path.pop();
                }
            }
        },
        _ => {
            fields.insert(path.clone());
        }
    }
}

/// `k:{"name":"x"}`; the protocol of a port is TCP unless said otherwise.
fn item_key(item: &Value, keys: &[String]) -> String {
    let mut named = serde_json::Map::new();
    for key in keys {
        let value = item.get(key).cloned();
        let value = value.or_else(|| (key == "protocol").then(|| json!("TCP")));
        named.extend(value.map(|value| (key.clone(), value)));
    }
    format!("k:{}", Value::Object(named))
}

fn is_item(item: &Value, element: &str) -> bool {
    if let Some(value) = element.strip_prefix("v:") {
        return serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item);
    }
    let key: Value = element
        .strip_prefix("k:")
        .and_then(|k| serde_json::from_str(k).ok())
        .unwrap_or(Value::Null);
    let tcp = json!("TCP");
    key.is_object()
        && json::entries(&key, "").all(|(name, wanted)| match item.get(name) {
            Some(value) => value == wanted,
            None => name == "protocol" && *wanted == tcp,
        })
}

fn find<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, element| match element.strip_prefix("f:") {
        Some(name) => value.get(name),
        None => value.as_array()?.iter().find(|item| is_item(item, element)),
    })
}

fn differ(a: &Value, b: &Value, path: &[String]) -> bool {
    // An item of a named list is the sum of its fields, which are compared one by one.
    let item = path.last().is_some_and(|element| element.starts_with("k:"));
    !item && find(a, path) != find(b, path)
}

fn remove(value: &mut Value, path: &[String]) {
    let Some((element, rest)) = path.split_first() else { return };
    match (element.strip_prefix("f:"), rest.is_empty()) {
        (Some(name), true) => {
            if let Some(map) = value.as_object_mut() {
                map.remove(name);
            }
        }
        (Some(name), false) => {
            let Some(child) = value.get_mut(name) else { return };
            remove(child, rest);
            let empty = child.as_object().is_some_and(|m| m.is_empty()) || child.as_array().is_some_and(Vec::is_empty);
            if empty && let Some(map) = value.as_object_mut() {
                map.remove(name);
            }
        }
        (None, last) => {
            let Some(list) = value.as_array_mut() else { return };
            if last {
                list.retain(|item| !is_item(item, element));
            } else if let Some(item) = list.iter_mut().find(|item| is_item(item, element)) {
                remove(item, rest);
            }
        }
    }
}

fn merge(kind: &Kind, live: &mut Value, wanted: &Value, names: &mut Vec<String>) {
    match (wanted, merge_of(kind, names)) {
        (Value::Object(wanted), _) if !atomic_map(kind, names) => {
            let map = json::object(live);
            for (key, value) in wanted {
                names.push(key.clone());
                merge(kind, map.entry(key.clone()).or_insert(Value::Null), value, names);
                names.pop();
            }
        }
        (Value::Array(wanted), Merge::Set) if live.is_array() => {
            if let Value::Array(list) = live {
                let new: Vec<_> = wanted.iter().filter(|item| !list.contains(item)).cloned().collect();
                list.extend(new);
            }
        }
        (Value::Array(wanted), Merge::Map(keys)) if live.is_array() => {
            let Value::Array(list) = live else { return };
            for item in wanted {
                let key = item_key(item, &keys);
                match list.iter_mut().find(|other| is_item(other, &key)) {
                    Some(found) => merge(kind, found, item, names),
                    None => list.push(item.clone()),
                }
            }
        }
        (wanted, _) => *live = wanted.clone(),
    }
}

/// The fields in an entry of `managedFields`.
fn owned(entry: &Value) -> Fields {
    fn walk(tree: &Value, path: &mut Path, fields: &mut Fields) {
        let Some(map) = tree.as_object() else { return };
        if map.is_empty() || map.contains_key(".") {
            fields.insert(path.clone());
        }
        for (element, below) in map.iter().filter(|(element, _)| *element != ".") {
            path.push(element.clone());
            walk(below, path, fields);
            path.pop();
        }
    }
    let mut fields = Fields::new();
    for (element, below) in json::entries(entry, "/fieldsV1") {
        walk(below, &mut vec![element.clone()], &mut fields);
    }
    fields
}

fn to_json(fields: &Fields) -> Value {
    let mut tree = json!({});
    for path in fields {
        let node = path.iter().fold(&mut tree, |node, element| {
            json::object(node).entry(element.clone()).or_insert_with(|| json!({}))
        });
        if path.last().is_some_and(|element| element.starts_with("k:")) {
            json::object(node).insert(".".into(), json!({}));
        }
    }
    tree
}

/// A path as people write it: `.spec.containers[name="web"].image`.
fn display(path: &[String]) -> String {
    path.iter().fold(String::new(), |text, element| {
        if let Some(name) = element.strip_prefix("f:") {
            return format!("{text}.{name}");
        }
        if let Some(value) = element.strip_prefix("v:") {
            return format!("{text}[={value}]");
        }
        let key: Value = element
            .strip_prefix("k:")
            .and_then(|k| serde_json::from_str(k).ok())
            .unwrap_or(Value::Null);
        let pairs: Vec<_> = json::entries(&key, "").map(|(k, v)| format!("{k}={v}")).collect();
        format!("{text}[{}]", pairs.join(","))
    })
}
