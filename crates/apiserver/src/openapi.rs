//! OpenAPI documents: the v3 document of each group, generated from the same types that objects pass through (so
//! `kubectl explain` describes what this server does), custom schemas included, and a v2 document without definitions for
//! clients that insist on one.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::{
    json,
    kind::{Kind, Source},
    native::Native,
};

const PREFIX: &str = "#/components/schemas/";

/// The index at `/openapi/v3`. The hash changes when the kinds of the group do, so that clients may cache.
pub fn index(kinds: &[std::sync::Arc<Kind>]) -> Value {
    let mut paths = Map::new();
    for kind in kinds {
        let path = group_path(&kind.group, &kind.version);
        let state: String = kinds
            .iter()
            .filter(|k| k.group == kind.group && k.version == kind.version)
            .map(|k| fingerprint(k))
            .collect();
        let hash = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, state.as_bytes())
            .simple()
            .to_string()
            .to_uppercase();
        paths.insert(
            path.clone(),
            json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}") }),
        );
    }
    json!({ "paths": paths })
}

fn group_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn fingerprint(kind: &Kind) -> String {
    match &kind.source {
        Source::Native(native) => native.kind.to_owned(),
        Source::Custom(custom) => format!("{}{}", kind.kind, custom.schema),
    }
}

/// The v3 document of one group and version.
pub fn document(kinds: &[std::sync::Arc<Kind>], group: &str, version: &str) -> Option<Value> {
    let served: Vec<_> = kinds.iter().filter(|k| k.group == group && k.version == version).collect();
    if served.is_empty() {
        return None;
    }
    let mut generator = SchemaSettings::openapi3().into_generator();
    let (mut paths, mut schemas, mut tagged) = (Map::new(), Map::new(), Vec::new());
    for kind in served {
        let name = match &kind.source {
            Source::Native(native) => {
                let schema = (native.model.schema)(&mut generator);
                referenced(schema.as_value()).unwrap_or_default()
            }
            Source::Custom(custom) => {
                let meta = generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>();
                let name = custom_name(kind);
                schemas.insert(name.clone(), custom_schema(&custom.schema, meta.as_value()));
                name
            }
        };
        add_paths(kind, &name, &mut paths);
        tagged.push((name, json!([{ "group": kind.group, "version": kind.version, "kind": kind.kind }])));
    }
    schemas.extend(generator.take_definitions(true));
    for (name, kinds) in tagged {
        if let Some(schema) = schemas.get_mut(&name) {
            json::object(schema).insert("x-kubernetes-group-version-kind".into(), kinds);
        }
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": crate::discovery::VERSION },
        "paths": paths,
        "components": { "schemas": schemas },
    }))
}

fn custom_name(kind: &Kind) -> String {
    let reversed: Vec<_> = kind.group.split('.').rev().collect();
    format!("{}.{}.{}", reversed.join("."), kind.version, kind.kind)
}

fn custom_schema(schema: &Value, metadata: &Value) -> Value {
    let mut schema = schema.clone();
    for field in ["apiVersion", "kind"] {
        json::default(&mut schema, &format!("/properties/{field}"), json!({ "type": "string" }));
    }
    json::set(
        &mut schema,
        "/properties/metadata",
        json!({ "allOf": [metadata], "description": "Standard object's metadata." }),
    );
    schema
}

fn add_paths(kind: &Kind, schema: &str, paths: &mut Map<String, Value>) {
    let reference = json!({ "$ref": format!("{PREFIX}{schema}") });
    let identity = json!({ "group": kind.group, "version": kind.version, "kind": kind.kind });
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let base = format!("/{}{scope}/{}", group_path(&kind.group, &kind.version), kind.plural);
    let query = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } });
    let answer = json!({ "200": { "description": "OK", "content": { "application/json": { "schema": reference } } } });
    let operation = |action: &str, parameters: &[&str]| {
        json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": identity, "responses": answer,
            "parameters": parameters.iter().map(|p| query(p)).collect::<Vec<_>>(),
        })
    };
    let write = ["dryRun", "fieldManager", "fieldValidation", "pretty"];
    paths.insert(
        base.clone(),
        json!({ "get": operation("list", &["labelSelector", "fieldSelector", "limit", "continue"]), "post": operation("post", &write) }),
    );
    paths.insert(
        format!("{base}/{{name}}"),
        json!({
            "get": operation("get", &["pretty"]),
            "put": operation("put", &write),
            "patch": operation("patch", &["dryRun", "fieldManager", "fieldValidation", "force", "pretty"]),
            "delete": operation("delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]),
        }),
    );
}

fn referenced(schema: &Value) -> Option<String> {
    let direct = schema.get("$ref").and_then(Value::as_str);
    let inside = json::list(schema, "/allOf")
        .first()
        .and_then(|s| s.get("$ref"))
        .and_then(Value::as_str);
    direct.or(inside)?.strip_prefix(PREFIX).map(str::to_owned)
}

/// The first field of `value` that has another type than the kind says, in words.
pub fn first_mismatch(native: &Native, value: &Value) -> Option<String> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let root = (native.model.schema)(&mut generator);
    let definitions = Value::Object(generator.take_definitions(true));
    mismatch(root.as_value(), &definitions, value, String::new())
}

fn mismatch(schema: &Value, definitions: &Value, value: &Value, path: String) -> Option<String> {
    if let Some(name) = referenced(schema) {
        return mismatch(definitions.get(&name)?, definitions, value, path);
    }
    let wanted = json::text(schema, "/type");
    let fits = match (wanted, value) {
        (_, Value::Null) | ("", _) => true,
        ("object", v) => v.is_object(),
        ("array", v) => v.is_array(),
        ("string", v) => v.is_string(),
        ("boolean", v) => v.is_boolean(),
        ("integer", v) => v.is_i64() || v.is_u64(),
        ("number", v) => v.is_number(),
        _ => true,
    };
    if !fits {
        let found = match value {
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            _ => "object",
        };
        return Some(format!("json: cannot unmarshal {found} into field {path} of type {wanted}"));
    }
    match value {
        Value::Object(map) => map.iter().find_map(|(key, value)| {
            let known = schema.get("properties").and_then(|p| p.get(key));
            let schema = known.or_else(|| schema.get("additionalProperties"))?;
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            mismatch(schema, definitions, value, path)
        }),
        Value::Array(list) => {
            let items = schema.get("items")?;
            list.iter()
                .enumerate()
                .find_map(|(index, value)| mismatch(items, definitions, value, format!("{path}[{index}]")))
        }
        _ => None,
    }
}

/// A v2 document without definitions, as JSON.
pub fn v2() -> Value {
    json!({ "swagger": "2.0", "info": { "title": "Kubernetes", "version": crate::discovery::VERSION }, "paths": {} })
}

/// The same in protobuf, the only form kubectl asks for: field 1 is `swagger`, field 2 `info` with title and version.
pub fn v2_protobuf() -> Vec<u8> {
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        // All content here is shorter than 128 bytes, so its length is one byte.
        let length = u8::try_from(content.len()).unwrap_or(0);
        [&[number << 3 | 2, length], content].concat()
    }
    let info = [field(1, b"Kubernetes"), field(2, crate::discovery::VERSION.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info)].concat()
}
