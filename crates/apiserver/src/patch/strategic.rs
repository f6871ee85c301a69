//! Strategic merge patch: a merge patch that merges lists of named things item by item, and obeys the directives
//! `$patch`, `$deleteFromPrimitiveList` and `$retainKeys`. `$setElementOrder` is accepted and ignored: order is kept, new
//! items go to the end.

use serde_json::{Map, Value};

use super::keys::{Merge, merge_of};
use crate::{
    json,
    kind::Kind,
    status::{Failure, Result},
};

/// Merges `patch` into `value`.
pub fn merge(kind: &Kind, value: &mut Value, patch: &Value) -> Result<()> {
    let Value::Object(patch) = patch else {
        return Err(Failure::bad_request("error decoding patch: a strategic merge patch is an object"));
    };
    merge_map(kind, value, patch, &mut Vec::new())
}

fn merge_map(kind: &Kind, value: &mut Value, patch: &Map<String, Value>, path: &mut Vec<String>) -> Result<()> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            let rest = patch.iter().filter(|(key, _)| *key != "$patch");
            *value = Value::Object(rest.map(|(k, v)| (k.clone(), v.clone())).collect());
            return Ok(());
        }
        Some("delete") => {
            *value = Value::Object(Map::new());
            return Ok(());
        }
        _ => {}
    }
    let map = json::object(value);
    if let Some(Value::Array(retained)) = patch.get("$retainKeys") {
        map.retain(|key, _| retained.iter().any(|r| r == key));
    }
    for (key, change) in patch {
        if let Some(name) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(list)), Value::Array(gone)) = (map.get_mut(name), change) {
                list.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if key.starts_with('$') {
            continue;
        }
        path.push(key.clone());
        match change {
            Value::Null => {
                map.remove(key);
            }
            Value::Object(change) => {
                let deleted = change.get("$patch").is_some_and(|p| p == "delete");
                if deleted {
                    map.remove(key);
                } else {
                    merge_map(kind, map.entry(key.clone()).or_insert(Value::Null), change, path)?;
                }
            }
            Value::Array(change) => {
                let slot = map.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
                merge_list(kind, slot, change, path)?;
            }
            other => {
                map.insert(key.clone(), other.clone());
            }
        }
        path.pop();
    }
    Ok(())
}

fn merge_list(kind: &Kind, value: &mut Value, patch: &[Value], path: &mut Vec<String>) -> Result<()> {
    let replace = patch.iter().any(|item| json::text(item, "/$patch") == "replace");
    let merge = merge_of(kind, path);
    if replace || merge == Merge::Atomic || !value.is_array() {
        let kept = patch.iter().filter(|item| item.get("$patch").is_none());
        *value = Value::Array(kept.map(strip).collect());
        return Ok(());
    }
    let Value::Array(list) = value else { return Ok(()) };
    let keys = match merge {
        Merge::Set => {
            let new: Vec<_> = patch.iter().filter(|item| !list.contains(item)).cloned().collect();
            list.extend(new);
            return Ok(());
        }
        Merge::Map(keys) => keys,
        Merge::Atomic => return Ok(()),
    };
    for item in patch {
        // The first key names the item; further ones tell apart items that share it, if the patch gives them.
        let same = |other: &Value| {
            keys.iter().enumerate().all(|(index, key)| match item.get(key) {
                Some(wanted) => other.get(key) == Some(wanted),
                None => index > 0,
            })
        };
        if keys.first().is_some_and(|key| item.get(key).is_none()) {
            let message = format!("map: {item} does not contain declared merge key: {}", keys[0]);
            return Err(Failure::bad_request(message));
        }
        let found = list.iter().position(same);
        if json::text(item, "/$patch") == "delete" {
            list.retain(|other| !same(other));
        } else if let (Some(index), Value::Object(change)) = (found, item) {
            merge_map(kind, &mut list[index], change, path)?;
        } else {
            list.push(strip(item));
        }
    }
    Ok(())
}

/// A new item without the directives inside it.
fn strip(item: &Value) -> Value {
    match item {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
            Value::Object(kept.map(|(k, v)| (k.clone(), strip(v))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(strip).collect()),
        other => other.clone(),
    }
}
