//! Reading and writing fields of objects kept as JSON. Controllers, columns and validation use these instead of typed
//! structs, because one object passes through all of them and is converted only once, when it enters. Paths are JSON
//! pointers; reading never fails, a missing field reads as empty.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// The value at `path`, or null.
pub fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    value.pointer(path).unwrap_or(&NULL)
}

/// The string at `path`, or "".
pub fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or("")
}

/// The integer at `path`.
pub fn number(value: &Value, path: &str) -> Option<i64> {
    at(value, path).as_i64()
}

/// The boolean at `path`, false when missing.
pub fn flag(value: &Value, path: &str) -> bool {
    at(value, path).as_bool().unwrap_or(false)
}

/// The items of the list at `path`, or none.
pub fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// The entries of the map at `path`, or none.
pub fn entries<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    at(value, path).as_object().into_iter().flatten()
}

/// Makes `value` an object if it is not one, and gives its map.
pub fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("the value was made an object above"),
    }
}

/// The member at `path`, created as null, with the objects on the way, if missing.
pub fn slot<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('/').skip(1).fold(value, |value, part| {
        let part = part.replace("~1", "/").replace("~0", "~");
        object(value).entry(part).or_insert(Value::Null)
    })
}

/// Sets the member at `path`, creating the objects on the way.
pub fn set(value: &mut Value, path: &str, new: impl Into<Value>) {
    *slot(value, path) = new.into();
}

/// Sets the member at `path` unless it is already there.
pub fn default(value: &mut Value, path: &str, new: impl Into<Value>) {
    let slot = slot(value, path);
    if slot.is_null() {
        *slot = new.into();
    }
}

/// Removes the member at `path` and gives what it was.
pub fn remove(value: &mut Value, path: &str) -> Option<Value> {
    let (parent, name) = path.rsplit_once('/')?;
    let name = name.replace("~1", "/").replace("~0", "~");
    value.pointer_mut(parent)?.as_object_mut()?.remove(&name)
}

/// The mutable items of the list at `path`, or none.
pub fn list_mut<'a>(value: &'a mut Value, path: &str) -> &'a mut [Value] {
    value
        .pointer_mut(path)
        .and_then(Value::as_array_mut)
        .map_or(&mut [], Vec::as_mut_slice)
}

/// `metadata.name`.
pub fn name(value: &Value) -> &str {
    text(value, "/metadata/name")
}

/// `metadata.namespace`, "" for cluster scoped objects.
pub fn namespace(value: &Value) -> &str {
    text(value, "/metadata/namespace")
}

/// `metadata.uid`.
pub fn uid(value: &Value) -> &str {
    text(value, "/metadata/uid")
}

/// Whether deletion of the object was asked for.
pub fn terminating(value: &Value) -> bool {
    !text(value, "/metadata/deletionTimestamp").is_empty()
}

/// The owner reference that controls the object.
pub fn controller(value: &Value) -> Option<&Value> {
    list(value, "/metadata/ownerReferences")
        .iter()
        .find(|owner| flag(owner, "/controller"))
}

/// The status ("True", "False", …) of a condition in `status.conditions`.
pub fn condition<'a>(value: &'a Value, kind: &str) -> &'a str {
    let conditions = list(value, "/status/conditions");
    conditions
        .iter()
        .find(|c| text(c, "/type") == kind)
        .map_or("", |c| text(c, "/status"))
}

/// Now, as Kubernetes writes time.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The `uid` of a reference.
pub fn uid_of(reference: &Value) -> &str {
    text(reference, "/uid")
}

/// Sets a condition in `status.conditions`; its transition time moves only when its status does.
pub fn set_condition(object: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let conditions = slot(object, "/status/conditions");
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    let Value::Array(list) = conditions else { return };
    let mut condition = serde_json::json!({ "type": kind, "status": status, "reason": reason, "message": message });
    let before = list.iter().find(|c| text(c, "/type") == kind);
    let since = before
        .filter(|c| text(c, "/status") == status)
        .map(|c| text(c, "/lastTransitionTime").to_owned());
    set(&mut condition, "/lastTransitionTime", since.unwrap_or_else(now));
    match list.iter_mut().find(|c| text(c, "/type") == kind) {
        Some(found) => *found = condition,
        None => list.push(condition),
    }
}
